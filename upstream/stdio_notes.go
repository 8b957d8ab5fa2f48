package upstream

import (
	"bytes"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// notified brings a notification to the call that it belongs to, else to the Set.
// One that is too large to be of use is dropped.
func (c *lineConn) notified(m *wire.Message) {
	if len(m.Raw) > largestNote {
		c.e.noised(1)
		return
	}
	if c.listenHeard(m) {
		return
	}
	switch m.Method {
	case progressMethod:
		c.progressed(m.Params)
	case logMethod:
		if p := c.onlyListener(); p != nil {
			c.tell(p, note{m.Method, bytes.Clone(m.Params)}) // without its line, which may hold much else
			return
		}
		c.e.notified(m.Method, m.Params)
	case cancelledNote:
		c.withdrawn(cancelledID(m.Params)) // of use to nobody else
	default:
		c.e.notified(m.Method, m.Params)
	}
}

// onlyListener is the call that a log message belongs to, as far as one can
// tell: over stdio messages do not say, so it must be the only one of an agent in flight.
func (c *lineConn) onlyListener() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var only *pending
	for _, p := range c.pending {
		switch {
		case p.own:
		case only != nil:
			return nil
		default:
			only = p
		}
	}
	if only == nil || only.notes == nil {
		return nil
	}
	return only
}

func (c *lineConn) progressed(params []byte) {
	raw, _ := wire.Get(params, "progressToken")
	id, _ := ourID(raw)
	c.mu.Lock()
	p := c.pending[id]
	c.mu.Unlock()
	if p == nil || p.notes == nil {
		c.e.noised(1)
		return
	}
	out, ok := p.gate.pass(params, id, p.token)
	if !ok {
		c.e.noised(1)
		return
	}
	c.tell(p, note{progressMethod, out})
}

// tell never waits: a caller that does not keep up loses notifications, not the
// other callers their answers.
func (c *lineConn) tell(p *pending, n note) {
	size := int64(len(n.params))
	if held := p.behind.Add(size); held == size || held <= waitingBytes {
		select {
		case p.notes <- n:
			return
		default:
		}
	}
	p.behind.Add(-size)
	c.e.noised(1)
}
