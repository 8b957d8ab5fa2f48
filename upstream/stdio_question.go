package upstream

import (
	"context"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// whichCall is the answer to a question that could be about several calls. A wrong
// guess would show one agent what concerns another.
const whichCall = "several calls are in flight and the question does not say which it is about"

// asked brings a request of the server to the call that answers questions, without
// waiting for the answer. Without such a call nothing was offered but ping.
func (c *lineConn) asked(m *wire.Message) {
	switch {
	case len(m.ID) > longestID:
		c.e.noised(1)
		return
	case m.Method == "ping":
		c.post(wire.AppendResult(nil, m.ID, []byte("{}")))
		return
	}
	if c.early.hold(m, c.decline) {
		return
	}
	p, several := c.answerer()
	switch {
	case several && c.link != nil:
		c.post(wire.AppendError(nil, m.ID, wire.CodeInternal, severalCalls, nil))
	case several:
		c.post(wire.AppendError(nil, m.ID, wire.CodeInternal, whichCall, nil))
	case p != nil && c.link != nil && c.doubtful(p.call.who):
		c.post(wire.AppendError(nil, m.ID, wire.CodeInternal, calledOff, nil))
	case p != nil && ofAnotherTask(m.Params, p.call):
		c.post(wire.AppendError(nil, m.ID, wire.CodeInternal, whichTask, nil))
	case p == nil || c.modern.Load(): // a modern server asks in its answer
		c.decline(m)
	default:
		p.asks.start(p.call, c.server, m, c.post)
	}
}

func (c *lineConn) decline(m *wire.Message) {
	c.post(wire.AppendError(nil, m.ID, wire.CodeMethodNotFound, c.e.decline(c.server, c.settings, m.Method, &c.told), nil))
}

// hearEarly lets the first call answer what the server asks upon its handshake.
func (c *lineConn) hearEarly(w *wait, p *pending) error {
	for _, h := range c.early.take() {
		p.asks.start(p.call, c.server, h.msg, c.post)
	}
	expired := false
	if answersRoots(p.call) {
		e := earlyWait{asks: p.asks, expired: w.expired, done: w.ctx.Done(), dead: c.dead, ping: c.ping}
		expired = e.hear()
	}
	c.early.pass()
	switch err := w.ctx.Err(); {
	case expired:
		return errExpired
	case err != nil:
		return err
	}
	return c.Err()
}

// ping returns with the server's answer, whatever it is.
func (c *lineConn) ping(ctx context.Context) {
	_, _ = c.Do(ctx, &Call{Method: "ping", Timeout: earlyTaken})
}

// enough ends a call that the server asked about too often.
func (c *lineConn) enough(call *Call, id int64) {
	if p := c.take(id); p != nil {
		p.answer <- answer{err: &Error{Server: c.server, Kind: Protocol, Err: errTooMany}}
		c.cancel(call, id, true, "too many questions")
	}
}

// answerer is the only call in flight that answers questions: over stdio they do
// not say which call they are about.
func (c *lineConn) answerer() (found *pending, several bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pending {
		if p.asks == nil {
			continue
		}
		if found != nil {
			return nil, true
		}
		found = p
	}
	return found, false
}

// withdrawn ends a question that the server no longer wants answered.
func (c *lineConn) withdrawn(id []byte) {
	if id == nil {
		return
	}
	if c.early.withdraw(id) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pending {
		if p.asks.withdraw(id) {
			return
		}
	}
}
