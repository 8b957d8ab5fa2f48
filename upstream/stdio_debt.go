package upstream

import (
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// debtWait is how long a server has to show that it read of a cancellation.
	debtWait = 5 * time.Second
	// mostDebts bounds the calls that are remembered as given up.
	mostDebts = 1000
)

// debts are the calls that could be asked about and were given up: until the
// server answers them all the same, which it need not, a question may still be
// about one of them. The zero value is none. They belong to the connection's lock.
type debts struct {
	calls map[int64]*debt
	pings map[int64]*debt // by the id of a ping that follows the cancellation
}

type debt struct {
	who  string // the agent
	at   time.Time
	read bool // the server answered what was sent after the cancellation
}

// owe notes that a call was given up, and has the server show when it knows.
func (c *lineConn) owe(call *Call, id int64) {
	if call.Ask == nil {
		return
	}
	d := &debt{who: call.who, at: time.Now()}
	c.mu.Lock()
	if c.debts.calls == nil {
		c.debts.calls, c.debts.pings = map[int64]*debt{}, map[int64]*debt{}
	}
	full := len(c.debts.calls) >= mostDebts
	if !full {
		c.debts.calls[id] = d
	}
	c.last++
	ping := c.last
	c.debts.pings[ping] = d
	c.mu.Unlock()
	c.post(appendRequest(nil, ping, &Call{Method: "ping"}, nil))
	time.AfterFunc(debtWait, func() { c.forgetPing(ping) })
}

func (c *lineConn) forgetPing(id int64) {
	c.mu.Lock()
	delete(c.debts.pings, id)
	c.mu.Unlock()
	c.e.freed()
}

// paid takes the late answer to a call that was given up, or the answer to the
// ping after it; false if m is neither.
func (c *lineConn) paid(m *wire.Message) bool {
	id, ok := ourID(m.ID)
	if !ok {
		return false
	}
	c.mu.Lock()
	_, late := c.debts.calls[id]
	delete(c.debts.calls, id)
	d := c.debts.pings[id]
	if d != nil {
		d.read = true
		delete(c.debts.pings, id)
	}
	c.mu.Unlock()
	if late || d != nil {
		c.e.freed()
	}
	return late || d != nil
}

// owing reports whether the server may still ask about calls that were given
// up, and whether it may not even know that they were.
func (c *lineConn) owing() (open, unread bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.debts.calls {
		unread = unread || !d.read && time.Since(d.at) < debtWait
	}
	return len(c.debts.calls) > 0, unread
}

// doubtful reports whether a question may be about a call that another agent than
// who gave up just now. It is for connections on which calls are not alone: on the
// others none begins before that is settled.
func (c *lineConn) doubtful(who string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.debts.calls {
		if d.who != who && time.Since(d.at) < stillAsks {
			return true
		}
	}
	return false
}
