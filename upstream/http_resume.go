package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// Numbers of a call whose stream ended before its answer.
const (
	maxResumes    = 100              // per call, not counting those while a question is open
	quickWaits    = 100              // those while one is, at the pace that the server names
	maxWaits      = 3600             // and in all; the others come a second apart
	maxLostInARow = 5                // attempts that led to no stream
	firstResume   = time.Second      // when the server named no time
	longestResume = 30 * time.Second // before an attempt
)

// resume goes on with a stream that ended before the answer. From 2025-11-25 on
// servers end streams on purpose, so as not to hold a connection for a slow call,
// and keep what follows the last event for whoever asks (SEP-1699); since
// 2025-03-26 a cut stream can be taken up again in the same way. The request
// itself is never sent again: it runs. False says that there is no more to read.
func (x *exchange) resume(ctx context.Context, r *eventReader) bool {
	if x.s.era != Legacy || x.s.version == "" || len(r.lastID) == 0 {
		return false
	}
	_ = x.body.Close()
	var after time.Duration
	for lost := 0; lost < maxLostInARow && x.resumes < maxResumes && x.waits < maxWaits; lost++ {
		pause := resumePause(r.retry, after, lost)
		if x.asks.open() == 0 {
			x.resumes++
		} else if x.waits++; x.waits > quickWaits {
			pause = max(pause, firstResume)
		}
		if !sleep(ctx, nil, pause) {
			return false
		}
		s, err := x.c.openStream(ctx, x.s, r.lastID)
		if err == nil {
			x.body = s.raw
			r.again(s.body)
			return true
		}
		if errors.Is(err, errNotOffered) || ctx.Err() != nil {
			return false
		}
		after = s.after
		x.c.env.logger().Debug("call's stream not opened again", "server", x.c.server, "err", x.c.netText(err))
	}
	return false
}

// resumePause is never shorter than what the server asked for, and grows while it
// cannot be reached.
func resumePause(retry, after time.Duration, lost int) time.Duration {
	if retry == 0 {
		retry = firstResume
	}
	if lost > 0 {
		retry = max(retry, firstResume<<(lost-1), after)
	}
	return min(retry, longestResume)
}

// errNotOffered is an answer that ends the asking for good: servers need not
// have streams to GET, and one that says no is not asked again.
var errNotOffered = errors.New("the server offers no such stream")

// A getStream is an event stream that a GET opened.
type getStream struct {
	raw  io.ReadCloser // to close
	body io.Reader     // to read
	// after is what a refusal says about the next attempt; zero when nothing.
	after time.Duration
}

// openStream opens a stream of a session: the standing one, or the one that holds
// the event lastID.
func (c *httpConn) openStream(ctx context.Context, s *session, lastID []byte) (getStream, error) {
	resp, err := c.send(ctx, http.MethodGet, nil, s.streamHeader(lastID))
	if err != nil {
		return getStream{}, err
	}
	body, err := c.streamBody(resp)
	if err != nil {
		_ = resp.Body.Close() // it may be a stream of another kind, without an end
		return getStream{after: retryAfter(resp.Header.Get("Retry-After"), time.Now())}, err
	}
	return getStream{raw: resp.Body, body: body}, nil
}

func (c *httpConn) streamBody(resp *http.Response) (io.Reader, error) {
	switch {
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return nil, fmt.Errorf("answered %d", resp.StatusCode)
	case resp.StatusCode != http.StatusOK || mediaType(resp.Header) != "text/event-stream":
		return nil, errNotOffered
	}
	body, _, err := decoded(resp)
	if err != nil {
		return nil, errNotOffered
	}
	return body, nil
}

func (s *session) streamHeader(lastID []byte) http.Header {
	h := maps.Clone(s.base)
	delete(h, "Content-Type")
	h["Accept"] = []string{"text/event-stream"}
	if len(lastID) > 0 {
		h["Last-Event-Id"] = []string{string(lastID)}
	}
	return h
}
