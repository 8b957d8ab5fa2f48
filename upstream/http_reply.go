package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	snippet       = 200     // bytes of a foreign body in an error
	maxSnippet    = 4 << 10 // read for it
	maxRetryAfter = time.Hour
)

// A statusError is a reply whose HTTP status or content type is the news.
type statusError struct {
	status int
	text   string
	// code is that of a JSON-RPC error in the body; zero if there was none.
	code int
	// again says that the server refused the version of the request, and names
	// the same one as what it speaks.
	again bool
	// sse says that the server answered as one of HTTP+SSE.
	sse bool
}

func (e *statusError) Error() string { return e.text }

// A lostSession is a reply that says that our session is unknown.
type lostSession struct {
	// unseen is true when the server refused the request without looking at it.
	unseen bool
	text   string
}

func (e *lostSession) Error() string { return e.text }

// reply turns an HTTP response into the answer.
func (x *exchange) reply(ctx context.Context, resp *http.Response) (Response, error) {
	body, length, err := decoded(resp)
	if err != nil {
		return Response{}, x.fail(Protocol, fmt.Errorf("answered %d: %w", resp.StatusCode, x.c.netText(err)))
	}
	if resp.StatusCode != http.StatusOK {
		return x.refused(resp, body, length)
	}
	body = x.within(ctx, body, length)
	switch mediaType(resp.Header) {
	case "application/json":
		return x.whole(body, length)
	case "text/event-stream":
		return x.stream(ctx, body)
	}
	return Response{}, x.fail(Protocol, x.describe(resp, bodyHead(body)))
}

// within has the reply take room among those of other calls.
func (x *exchange) within(ctx context.Context, body io.Reader, length int64) io.Reader {
	b := x.c.env.answers
	if b == nil || length >= 0 && length <= roomFree {
		return body
	}
	x.room = &roomReader{r: body, ctx: ctx, b: b, most: min(int64(x.c.limit), b.most)}
	if length > 0 {
		x.room.most = min(x.room.most, length)
	}
	return x.room
}

func mediaType(h http.Header) string {
	v := h.Get("Content-Type")
	if v == "application/json" {
		return v
	}
	v, _, _ = strings.Cut(v, ";")
	return strings.ToLower(strings.TrimSpace(v))
}

// whole handles a reply that is one JSON text.
func (x *exchange) whole(body io.Reader, length int64) (Response, error) {
	b, err := readBody(body, length, x.c.limit)
	if err != nil {
		return Response{}, x.readError(err)
	}
	parts, batch := [][]byte{b}, false
	if b = bytes.TrimLeft(b, " \t\r\n"); len(b) > 0 && b[0] == '[' {
		parts, batch = wire.Batch(b) // allowed in 2025-03-26
	}
	for _, part := range parts {
		out, done, err := x.message(part)
		if done || err != nil {
			return out, err
		}
	}
	if x.junk > 0 && !batch {
		text := fmt.Sprintf("answered %d bytes that are no JSON-RPC message: %q", len(b), x.c.text(string(b[:min(len(b), maxSnippet)]), snippet))
		return Response{}, x.fail(Protocol, &statusError{status: http.StatusOK, text: text})
	}
	return Response{}, x.fail(Protocol, errors.New("answered without an answer to the request"))
}

// message handles one message of the reply; done is true for the answer itself.
func (x *exchange) message(b []byte) (out Response, done bool, err error) {
	m, err := wire.ParseServer(b, wire.Limits{Deeper: listed(x.call.Method)})
	if err != nil {
		x.noise()
		return out, false, nil
	}
	switch m.Kind() {
	case wire.Response:
		out, err = x.answer(&m)
		return out, err == nil, err
	case wire.Request:
		x.question(&m)
	case wire.Notification:
		x.notice(&m)
	default:
		x.noise()
	}
	return out, false, nil
}

func (x *exchange) noise() {
	x.junk++
	x.c.env.noised(1)
}

// answer checks that the response is ours. One with another id would never be
// followed by ours, so nobody waits for that.
func (x *exchange) answer(m *wire.Message) (Response, error) {
	if !bytes.Equal(m.ID, x.rawID()) {
		text := fmt.Errorf("answered id %s, not %d", x.c.text(orNull(m.ID[:min(len(m.ID), maxText)]), 40), x.id)
		if m.Err != nil {
			text = fmt.Errorf("%w: %s", text, x.c.text(rpcText(m.Err), snippet))
		}
		return Response{}, x.fail(Protocol, text)
	}
	out := Response{Result: m.Result, Flags: m.Flags, Era: x.s.era}
	if m.Err != nil {
		if wire.Kindof(m.Err) != '{' {
			return out, x.fail(Protocol, errors.New("answered an error that is no object"))
		}
		if code := rpcCode(m.Err); x.s.era == Modern && x.ofThisHop(code) {
			x.headersDiffer(code)
			return out, x.fail(Protocol, x.refusal(http.StatusOK, code, m.Err))
		}
		out.Result, out.Error = nil, m.Err
	}
	return out, nil
}

func orNull(id []byte) string {
	if id == nil {
		return "null"
	}
	return string(id)
}

// ofThisHop is true for errors that speak about the request as we framed it. They
// would mislead the agent, which framed another one. That a capability is missing
// is for the agent to know, but in the handshake it is about us.
func (x *exchange) ofThisHop(code int) bool {
	switch code {
	case wire.CodeHeaderMismatch, wire.CodeUnsupportedVersion:
		return true
	case wire.CodeMissingCapability:
		return x.call.Method == "server/discover"
	}
	return false
}

func (x *exchange) refusal(status, code int, obj []byte) *statusError {
	text := fmt.Sprintf("refused our request with error %d: %s", code, x.c.text(rpcText(obj), snippet))
	return &statusError{status: status, text: text, code: code, again: code == wire.CodeUnsupportedVersion && offersModern(obj)}
}

// readError tells a limit of ours from a cut connection, which run explains.
func (x *exchange) readError(err error) error {
	var coding *codingError
	switch {
	case errors.As(err, &coding):
		return x.fail(Protocol, fmt.Errorf("the answer cannot be read: %w", x.c.netText(coding)))
	case errors.Is(err, errBodySize), errors.Is(err, errEventSize):
		return x.fail(TooLarge, fmt.Errorf("the answer is over max_message_bytes (%d)", x.c.limit))
	case errors.Is(err, errStreamSize):
		return x.fail(TooLarge, fmt.Errorf("the answer's stream is over %d times max_message_bytes (%d)", streamFactor, x.c.limit))
	case errors.Is(err, errBarren):
		return x.fail(TooLarge, fmt.Errorf("the answer's stream has more than %d bytes of comments without an event", x.barren()))
	}
	return err
}

// offersModern reports whether an error about versions names ours.
func offersModern(obj []byte) bool {
	data, _ := wire.Get(obj, "data")
	supported, _ := wire.Get(data, "supported")
	return holds(supported, VersionModern)
}

func rpcCode(obj []byte) int {
	raw, _ := wire.Get(obj, "code")
	n, _ := strconv.Atoi(string(raw))
	return n
}

func rpcText(obj []byte) string {
	raw, _ := wire.Get(obj, "message")
	s, _ := wire.Unquote(raw)
	return s
}

// bodyHead reads enough of a body to show it.
func bodyHead(body io.Reader) []byte {
	b, _ := io.ReadAll(io.LimitReader(body, maxSnippet))
	return b
}

// describe says what came instead of an answer.
func (x *exchange) describe(resp *http.Response, body []byte) *statusError {
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		kind = "no content type"
	}
	text := fmt.Sprintf("answered %d %s (%s)", resp.StatusCode, http.StatusText(resp.StatusCode), x.c.text(kind, 80))
	if shown := x.c.text(string(body[:min(len(body), maxText)]), snippet); shown != "" {
		text += ": " + strconv.Quote(shown)
	}
	if at := resp.Request; at != nil && at.URL.Scheme == "http" && x.c.route.Proxied() {
		text += fmt.Sprintf(" through proxy %s, whose own answer it may be", x.c.route)
	}
	return &statusError{status: resp.StatusCode, text: text}
}
