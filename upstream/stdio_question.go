package upstream

import "github.com/mcp-sidecar/mcp-sidecar/wire"

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
	p, several := c.answerer()
	switch {
	case several:
		c.post(wire.AppendError(nil, m.ID, wire.CodeInternal, whichCall, nil))
	case p != nil && ofAnotherTask(m.Params, p.call):
		c.post(wire.AppendError(nil, m.ID, wire.CodeInternal, whichTask, nil))
	case p == nil || c.modern.Load(): // a modern server asks in its answer
		c.post(wire.AppendError(nil, m.ID, wire.CodeMethodNotFound, nothingHere, nil))
	default:
		p.asks.start(p.call, c.server, m, c.post)
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pending {
		if p.asks.withdraw(id) {
			return
		}
	}
}
