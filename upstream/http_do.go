package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
)

// Do sends one request and waits for its answer. If the server has lost our
// session, it is opened again, once; the call follows if that can do no harm: a
// 404 says that the server refused it unseen.
func (c *httpConn) Do(ctx context.Context, call *Call) (Response, error) {
	s := c.session.Load()
	resp, err := c.once(ctx, call, s)
	var lost *lostSession
	if !errors.As(err, &lost) {
		return resp, err
	}
	if rerr := c.renew(ctx, s, call.Method, err); rerr != nil {
		if lost.unseen {
			rerr = notSent(rerr)
		}
		return resp, rerr
	}
	if !lost.unseen && !call.Safe {
		return resp, err
	}
	return c.once(ctx, call, c.session.Load())
}

func (c *httpConn) once(ctx context.Context, call *Call, s *session) (Response, error) {
	if err := s.unfit(call); err != nil {
		return Response{}, c.fail(call.Method, TooLarge, err)
	}
	x := exchange{c: c, call: call, s: s}
	if call.Ask != nil && s.early != nil {
		x.first = s.early.claim(ctx.Done())
		if x.first {
			defer s.early.pass()
		} else if err := ctx.Err(); err != nil {
			return Response{}, x.fail(kindOfEnd(err), fmt.Errorf("no answer in time: %w", err))
		}
	}
	resp, err := x.run(ctx, c.settings.callTimeout(call))
	s.proof.add(err, time.Now())
	return resp, err
}

// An exchange is one request and its reply, used once.
type exchange struct {
	c    *httpConn
	call *Call
	s    *session
	id   int64
	// status and head are the reply's; zero until one came.
	status int
	head   http.Header

	// reached counts the connections that the request was given to: from the
	// first on the server may have seen it. wrote counts those that have done with it.
	reached int32
	wrote   atomic.Int32

	trace    httptrace.ClientTrace
	idText   [20]byte
	progress progressGate
	junk     int // events that were not JSON-RPC
	// body is what the answer is read from, and is closed in the end.
	body io.ReadCloser
	// room is what the reply takes among others; nil when nobody counts.
	room *roomReader
	// asks are the server's questions about the call; nil when it answers none.
	asks *openQuestions
	// first is true for the first call of the session that can be asked about.
	first bool
	// resumes counts how often the reply's stream was opened again, and waits how
	// often while a question was open.
	resumes, waits int
	// open is set while the reply's stream may go on behind the answer.
	open bool
}

func (x *exchange) run(ctx context.Context, limit time.Duration) (Response, error) {
	rctx, cancel := x.begin(ctx, limit)
	defer x.finish()
	if x.first {
		x.hearEarly(rctx)
	}
	box := scratch.Get().(*[]byte)
	body := x.request((*box)[:0])
	defer x.recycle(box, body)
	x.trace.GotConn, x.trace.WroteRequest = x.connected, x.written
	resp, err := x.c.send(httptrace.WithClientTrace(rctx, &x.trace), http.MethodPost, body, x.header())
	if err != nil {
		err = x.lost(ctx, rctx, limit, err)
		cancel()
		return Response{}, err
	}
	x.status, x.head = resp.StatusCode, resp.Header
	x.body = resp.Body
	out, err := x.reply(rctx, resp)
	if err != nil && !x.isVerdict(err) {
		err = x.lost(ctx, rctx, limit, err)
	}
	if x.open && err == nil {
		body := x.body
		x.c.background(x.c.asides, func() { x.c.drain(body, cancel) }, func() { _ = body.Close(); cancel() })
		return out, nil
	}
	_ = x.body.Close()
	cancel()
	return out, err
}

func (x *exchange) request(buf []byte) []byte {
	x.id = x.c.ids.Add(1)
	return appendRequest(buf, x.id, x.call, x.c.metaOf(x.s))
}

func (x *exchange) connected(httptrace.GotConnInfo) { x.reached++ }

func (x *exchange) written(httptrace.WroteRequestInfo) { x.wrote.Add(1) }

// recycle keeps the request's buffer, unless a connection may still read it: an
// answer can come before the request was written.
func (x *exchange) recycle(box *[]byte, body []byte) {
	if x.wrote.Load() == x.reached {
		keepScratch(box, body)
	}
}

// isVerdict reports whether err was already told apart from a lost connection.
func (x *exchange) isVerdict(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// scope returns the context of one request: a child of the connection's root
// that ends with ctx, without its values.
func (c *httpConn) scope(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	var rctx context.Context
	var cancel context.CancelFunc
	if limit > 0 {
		rctx, cancel = context.WithTimeout(c.root(), limit)
	} else {
		rctx, cancel = context.WithCancel(c.root())
	}
	unlink := context.AfterFunc(ctx, cancel)
	return rctx, func() { unlink(); cancel() }
}

// lost says why there is no answer.
func (x *exchange) lost(ctx, rctx context.Context, limit time.Duration, err error) error {
	var redirected *redirectError
	var denied *tokenError
	switch {
	case ctx.Err() != nil:
		x.abandon("the caller cancelled")
		return x.fail(kindOfEnd(ctx.Err()), x.late("in time", ctx.Err()))
	case x.c.root().Err() != nil:
		return x.fail(Closed, errClosed)
	case x.asks.excessive():
		x.abandon("too many questions")
		return x.fail(Protocol, errTooMany)
	case rctx.Err() != nil && x.reached == 0 && x.c.route.Proxied():
		return x.fail(Proxy, x.late(withinLimit(limit, x.call), nil))
	case rctx.Err() != nil && x.reached == 0:
		return x.fail(Unreachable, x.late(withinLimit(limit, x.call), nil))
	case rctx.Err() != nil:
		x.abandon("timeout")
		return x.fail(Timeout, x.late(withinLimit(limit, x.call), nil))
	case errors.As(err, &denied):
		return x.fail(denied.kind(), denied)
	case errors.As(err, &redirected): // nothing was done
		e := x.fail(Config, redirected)
		e.Unsent = true
		return e
	case isProxys(err):
		return x.fail(Proxy, x.c.netText(err))
	case x.reached == 0:
		return x.fail(Unreachable, x.c.netText(err))
	}
	return x.fail(Uncertain, fmt.Errorf("connection lost before the answer: %w", x.c.netText(err)))
}

// A lateError is an answer, or a connection to send the request over, that did not
// come in time.
type lateError struct {
	unsent bool
	via    string // the proxy on the way; empty without
	limit  string
	err    error // may be nil
}

func (e *lateError) Error() string {
	text := "no answer " + e.limit
	if e.unsent {
		text = "no connection" + e.via + " " + e.limit
	}
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *lateError) Unwrap() error { return e.err }

func (x *exchange) late(limit string, err error) error {
	e := &lateError{unsent: x.reached == 0, limit: limit, err: err}
	if x.c.route.Proxied() {
		e.via = " through proxy " + x.c.route.String()
	}
	return e
}

// unsent reports whether time ran out before there was a connection to send over.
func unsent(err error) bool {
	var e *lateError
	return errors.As(err, &e) && e.unsent
}

// isProxys reports whether a proxy on the way failed, and not the server.
func isProxys(err error) bool {
	var p *egress.ProxyError
	return errors.As(err, &p)
}

// kindOfEnd is no kind at all for a cancellation: that is not the server's fault.
func kindOfEnd(err error) Kind {
	if errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	return 0
}

// abandon tells a legacy server that nobody waits any more. A modern one sees
// that from the end of the request.
func (x *exchange) abandon(reason string) {
	if x.asks != nil {
		x.c.askers.abandoned(x.call.who, time.Now())
	}
	if x.reached > 0 && x.s.era == Legacy && x.call.Method != "initialize" {
		x.c.sendCancel(x.s, x.id, reason)
	}
}

func (x *exchange) fail(k Kind, err error) *Error { return x.c.fail(x.call.Method, k, err) }

// rawID is the id of the request as it stands in messages.
func (x *exchange) rawID() []byte { return strconv.AppendInt(x.idText[:0], x.id, 10) }

// metaOf is the fixed part of _meta for requests of a session.
func (c *httpConn) metaOf(s *session) []byte {
	if s.era == Modern {
		return c.meta
	}
	return nil
}
