package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

const (
	// postGrace is how long the reply to a POST may take behind the answer to its
	// request, so that the connection can be used again.
	postGrace = time.Second
	// postPatience is how long messages that nobody waits for keep their order: then
	// the next is sent, since servers may hold a POST until they have done with it.
	postPatience = time.Second
)

// request posts a request of p's without waiting. It is answered on the stream;
// the reply to the POST counts only if it says no.
func (l *sseLink) request(p *pending, method string, msg []byte) {
	ctx, cancel := context.WithCancel(l.h.root())
	p.release = func() { time.AfterFunc(postGrace, cancel) }
	l.h.spawn(func() {
		defer cancel()
		err := l.post(ctx, method, msg)
		if err == nil || ctx.Err() != nil {
			return
		}
		if q := l.c.take(p.id); q != nil {
			q.answer <- answer{err: err}
		}
		l.lost(err) // last: this call has an answer of its own
	})
}

// tell posts a message that has no answer, and waits for the reply as long as w
// does.
func (l *sseLink) tell(w *wait, msg []byte) (sent bool, err error) {
	if !l.open.Load() {
		l.h.env.noised(1)
		return false, nil
	}
	done := make(chan error, 1)
	l.h.background(l.h.replies, func() { done <- l.told(msg) }, func() {
		l.h.env.noised(1)
		done <- nil
	})
	select {
	case err := <-done:
		return true, err
	case <-w.expired:
		return true, nil
	case <-w.ctx.Done():
		return true, w.ctx.Err()
	case <-l.c.dead:
		return true, l.c.err
	}
}

// told returns an error only when the server cannot be reached: some refuse
// notifications and work all the same.
func (l *sseLink) told(msg []byte) error {
	ctx, cancel := context.WithTimeout(l.h.root(), replyTime)
	defer cancel()
	err := l.post(ctx, "notify", msg)
	if err != nil {
		l.h.env.logger().Debug("message not delivered", "server", l.h.server, "err", err)
	}
	if l.lost(err); answered(err) || ctx.Err() != nil {
		return nil
	}
	return err
}

// post sends one message. An error says whether the server may have seen it.
func (l *sseLink) post(ctx context.Context, method string, msg []byte) error {
	var reached atomic.Bool
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }}
	resp, err := l.h.send(httptrace.WithClientTrace(ctx, &trace), http.MethodPost, msg, l.header)
	if err != nil {
		return l.unsent(method, reached.Load(), err)
	}
	defer discard(resp.Body)
	if resp.StatusCode/100 == 2 {
		return nil // some say something in the body too, which is not for us
	}
	body, _, err := decoded(resp)
	if err != nil {
		body = http.NoBody
	}
	err = l.refused(method, resp, body)
	if method != "initialize" && forgotten(resp.StatusCode, err) {
		why := fmt.Errorf("the server has lost the session: %w", bareReason(err))
		return l.h.fail(method, Unreachable, &forgottenError{why}) // it has not run
	}
	return err
}

func (l *sseLink) unsent(method string, reached bool, err error) error {
	var to *redirectError
	switch {
	case errors.As(err, &to):
		return l.h.fail(method, Protocol, to)
	case isProxys(err):
		return l.h.fail(method, Proxy, l.h.netText(err))
	case reached:
		return l.h.fail(method, Uncertain, fmt.Errorf("connection lost before the server took the message: %w", l.h.netText(err)))
	}
	return l.h.fail(method, Unreachable, l.h.netText(err))
}

// forgotten reports whether a refusal says that the server does not know the
// stream any more: by its status, or by a 400 that speaks of the session.
func forgotten(status int, err error) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return true
	case http.StatusBadRequest:
		return bytes.Contains(bytes.ToLower([]byte(err.Error())), []byte("session"))
	}
	return false
}

// A forgottenError is a refusal that is about all of the connection.
type forgottenError struct{ error }

func (e *forgottenError) Unwrap() error { return e.error }

// lost ends the connection if err says that the server has forgotten it.
func (l *sseLink) lost(err error) {
	var f *forgottenError
	if errors.As(err, &f) {
		l.c.fail(&Error{Server: l.h.server, Kind: Unreachable, Err: f})
	}
}
