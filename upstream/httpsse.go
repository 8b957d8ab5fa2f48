package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// endpointWait is how long a stream may be open before it names the endpoint,
// which the protocol wants to be first.
const endpointWait = 10 * time.Second

// An sseLink carries the messages of a lineConn over HTTP+SSE, the transport of
// 2024-11-05: each of ours is a POST of its own, and all of the server's come as
// events of one stream. Like over a pipe a question does not say which call it is
// about, and the end of the stream is the end of the connection.
type sseLink struct {
	h      *httpConn // for its requests; it has no session
	c      *lineConn
	header http.Header // of a POST
	body   io.ReadCloser
	lines  *sseLines
	at     *url.URL // where the stream is

	named  chan endpointNamed // of one
	second bool               // an endpoint was named; the reader's
	open   atomic.Bool        // messages can be sent
	unlink func() bool        // lets the stream outlive the handshake
}

// endpointNamed is what the stream said of where messages go.
type endpointNamed struct {
	to  *url.URL
	err error
}

// dialSSE opens the stream of the server at r.URL and performs the handshake. ctx
// bounds the handshake only.
func dialSSE(ctx context.Context, r *Resolved, e env) (conn, error) {
	if r.Protocol == ModernOnly {
		return nil, &Error{Server: r.Server, Kind: Config, Err: errors.New(sseIsLegacy)}
	}
	ctx, cancel := context.WithTimeout(ctx, r.Settings.connectTimeout())
	defer cancel()
	l := &sseLink{h: newHTTPConn(r, e), named: make(chan endpointNamed, 1)}
	if err := l.openStream(ctx); err != nil {
		l.h.Close()
		return nil, handshakeError(r.Server, err)
	}
	c := &lineConn{
		server: r.Server, settings: r.Settings, e: e, scrub: r.scrub,
		io: sseIO{l.lines}, link: l, stop: l.close, why: l.why, early: newEarly(&e),
	}
	l.c = c
	c.start()
	err := l.awaitEndpoint(ctx)
	if err == nil {
		err = c.handshake(ctx, LegacyOnly, nil)
	}
	if err == nil && !l.unlink() {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, handshakeError(r.Server, err)
	}
	return c, nil
}

const sseIsLegacy = `transport "sse" belongs to the versions of MCP before 2026-07-28, and protocol allows none of them`

// sseIO reads from a link. Messages are sent through the link itself.
type sseIO struct{ io.Reader }

func (sseIO) Write([]byte) (int, error)        { return 0, os.ErrInvalid }
func (sseIO) SetWriteDeadline(time.Time) error { return os.ErrInvalid }

// openStream sends the GET.
func (l *sseLink) openStream(ctx context.Context) error {
	sctx, cancel := context.WithCancel(l.h.root())
	l.unlink = context.AfterFunc(ctx, cancel)
	s := session{base: l.h.header}
	l.header = s.base
	resp, err := l.h.send(sctx, http.MethodGet, nil, s.streamHeader(nil))
	if err != nil {
		return l.unopened(ctx, err)
	}
	body, err := l.stream(resp)
	if err != nil {
		_ = resp.Body.Close()
		return err
	}
	l.body, l.at = resp.Body, resp.Request.URL
	l.lines = &sseLines{r: body, most: streamFactor * l.h.limit, endpoint: l.endpoint, noise: l.h.env.noised}
	return nil
}

func (l *sseLink) unopened(ctx context.Context, err error) error {
	var to *redirectError
	switch {
	case ctx.Err() != nil:
		return l.h.fail(openSSE, kindOfEnd(ctx.Err()), ctx.Err())
	case errors.As(err, &to):
		return l.h.fail(openSSE, Protocol, to)
	case isProxys(err):
		return l.h.fail(openSSE, Proxy, l.h.netText(err))
	}
	return l.h.fail(openSSE, Unreachable, l.h.netText(err))
}

// openSSE is what the GET is called in errors.
const openSSE = "open event stream"

// stream checks the answer to the GET.
func (l *sseLink) stream(resp *http.Response) (io.Reader, error) {
	body, _, err := decoded(resp)
	if err != nil {
		return nil, l.h.fail(openSSE, Protocol, fmt.Errorf("answered %d: %w", resp.StatusCode, l.h.netText(err)))
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, l.refused(openSSE, resp, body)
	case mediaType(resp.Header) != "text/event-stream":
		x := exchange{c: l.h}
		return nil, l.h.fail(openSSE, Protocol, x.describe(resp, bodyHead(body)))
	}
	return body, nil
}

// refused words a status that means no, of a request for op.
func (l *sseLink) refused(op string, resp *http.Response, body io.Reader) error {
	x := exchange{c: l.h, call: &Call{Method: op}}
	head := bodyHead(body)
	if err := x.denied(resp, head); err != nil {
		return err
	}
	return x.failStatus(resp, x.describe(resp, head))
}

// awaitEndpoint waits until the stream says where messages go.
func (l *sseLink) awaitEndpoint(ctx context.Context) error {
	t := time.NewTimer(endpointWait)
	defer t.Stop()
	select {
	case n := <-l.named:
		if n.err != nil {
			return l.h.fail(openSSE, Protocol, n.err)
		}
		l.h.endpoint.Store(n.to)
		l.open.Store(true)
		return nil
	case <-t.C:
		return l.h.fail(openSSE, Protocol, fmt.Errorf("the stream names no endpoint within %v: no HTTP+SSE server?", endpointWait))
	case <-l.c.dead:
		return l.c.err
	case <-ctx.Done():
		return l.h.fail(openSSE, kindOfEnd(ctx.Err()), ctx.Err())
	}
}

// endpoint takes an endpoint event. Only the first counts: what follows would send
// our messages elsewhere in the middle of a session.
func (l *sseLink) endpoint(data []byte) {
	if l.second {
		l.h.env.noised(1)
		return
	}
	l.second = true
	to, err := l.messagesAt(string(data))
	l.named <- endpointNamed{to, err}
}

// messagesAt resolves an endpoint. It must be of the stream's own origin: all that
// we send goes there, credentials too.
func (l *sseLink) messagesAt(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" || len(raw) > maxLocation {
		return nil, fmt.Errorf("the stream names an endpoint of %d bytes, not 1 to %d", len(raw), maxLocation)
	}
	to, err := l.at.Parse(raw)
	if err != nil || to.Host == "" {
		return nil, errors.New("the stream names an endpoint that is no URL: " + strconv.Quote(l.h.text(raw, snippet)))
	}
	if origin(to) != origin(l.at) {
		return nil, fmt.Errorf("the stream names an endpoint of another origin, %s, which is refused: it must be at %s",
			l.h.text(bareURL(to), snippet), l.h.text(origin(l.at), snippet))
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return to, nil
}

// why words the end of the stream.
func (l *sseLink) why(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the server ended the event stream")
	case errors.Is(err, errStreamSize):
		return fmt.Errorf("the event stream went on for %d times max_message_bytes (%d) without an event", streamFactor, l.h.limit)
	}
	return fmt.Errorf("the event stream broke: %w", l.h.netText(err))
}

// close ends the stream and all requests, and waits for them.
func (l *sseLink) close() {
	l.h.stop()
	_ = l.body.Close()
	l.h.Close()
}
