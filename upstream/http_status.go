package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// refused handles every status but 200.
func (x *exchange) refused(resp *http.Response, body io.Reader, length int64) (Response, error) {
	b, err := x.refusalBody(resp, body, length)
	if err != nil {
		return Response{}, err
	}
	obj, match := x.errorIn(b)
	if e := x.denied(resp, b); e != nil {
		return Response{}, e
	}
	if e := x.sessionLost(resp, b, match); e != nil {
		return Response{}, e
	}
	if code := rpcCode(obj); obj != nil && (x.s.era == Modern && x.ofThisHop(code) || !match) {
		x.headersDiffer(code)
		e := x.describe(resp, b)
		e.code, e.again = code, code == wire.CodeUnsupportedVersion && offersModern(obj)
		return Response{}, x.failStatus(resp, e)
	}
	if match {
		m, _ := wire.ParseServer(b, wire.Limits{})
		return Response{Error: obj, Flags: m.Flags, Era: x.s.era}, nil
	}
	return Response{}, x.failStatus(resp, x.describe(resp, b))
}

// refusalBody reads all of a JSON body, since it may be the answer, and else
// what is needed to show it.
func (x *exchange) refusalBody(resp *http.Response, body io.Reader, length int64) ([]byte, error) {
	if mediaType(resp.Header) != "application/json" {
		return bodyHead(body), nil
	}
	b, err := readBody(body, length, x.c.limit)
	if err := x.readError(err); err != nil && x.isVerdict(err) {
		return nil, err
	}
	return b, nil
}

// errorIn finds the JSON-RPC error object in a body; match is true when it
// answers our request.
func (x *exchange) errorIn(b []byte) (obj []byte, match bool) {
	m, err := wire.ParseServer(b, wire.Limits{})
	if err != nil || wire.Kindof(m.Err) != '{' {
		return nil, false
	}
	return m.Err, bytes.Equal(m.ID, x.rawID())
}

// denied handles the statuses that mean the same with any body.
func (x *exchange) denied(resp *http.Response, body []byte) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		e := x.describe(resp, body)
		if how := resp.Header.Get("WWW-Authenticate"); how != "" {
			e.text += "; it asks for " + x.c.text(how, snippet)
		}
		e.text += x.c.loginHint()
		return x.fail(Unauthorized, e)
	case http.StatusTooManyRequests:
		return x.failStatus(resp, x.describe(resp, body))
	}
	return nil
}

// loginHint says what to do about credentials that are refused.
func (c *httpConn) loginHint() string {
	switch {
	case c.tokens != nil:
		return ""
	case c.sends:
		return ": look at the headers that are set for it"
	}
	return ": set auth: oauth, or a header"
}

func (x *exchange) failStatus(resp *http.Response, cause *statusError) *Error {
	e := x.fail(kindOfStatus(resp.StatusCode), cause)
	if e.Kind == Unreachable && mayHaveRun(resp.StatusCode, x.call) {
		e.Kind = Uncertain
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	if resp.StatusCode == http.StatusAccepted {
		e.Err = fmt.Errorf("took the request for a notification: %w", cause)
	}
	return e
}

// mayHaveRun reports whether a call that was answered with a failure of the server,
// or of what stands in front of it, may have run. 503 says that it was not taken on.
func mayHaveRun(status int, c *Call) bool {
	switch c.Method {
	case "tools/call", "tasks/result", "tasks/update", "prompts/get", "resources/read", "completion/complete":
		return status != http.StatusServiceUnavailable
	}
	return false
}

func kindOfStatus(status int) Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status >= 500, status == http.StatusRequestTimeout:
		return Unreachable
	}
	return Protocol
}

// retryAfter reads seconds or a date; zero when there is neither.
func retryAfter(v string, now time.Time) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 31)
	if err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if errors.Is(err, strconv.ErrRange) {
		return maxRetryAfter
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// sessionLost recognises a server that no longer knows our session: by 404, as
// the protocol has it, or by 400 with a text that says so. A 404 that answers
// the request itself is something else, unless it speaks of the session too.
func (x *exchange) sessionLost(resp *http.Response, body []byte, match bool) error {
	if x.s.id == "" {
		return nil
	}
	names := bytes.Contains(bytes.ToLower(body[:min(len(body), maxSnippet)]), []byte("session"))
	switch {
	case resp.StatusCode == http.StatusNotFound && (!match || names):
	case resp.StatusCode == http.StatusBadRequest && names:
	default:
		return nil
	}
	text := "the server has lost the session: " + x.describe(resp, body).text
	return x.fail(Protocol, &lostSession{unseen: resp.StatusCode == http.StatusNotFound, text: text})
}

// answered reports whether err is about something that the server said.
func answered(err error) bool {
	var s *statusError
	return errors.As(err, &s)
}

// refusedLogin reports whether the server does not know who we are: 401. With 403
// it does, and refuses this call.
func refusedLogin(err error) bool {
	if l := (*LoginError)(nil); errors.As(err, &l) {
		return !l.Once
	}
	var s *statusError
	return errors.As(err, &s) && s.status == http.StatusUnauthorized
}
