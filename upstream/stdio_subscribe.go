package upstream

import (
	"bytes"
	"context"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// listenEnd is how long a server may take to end a listen that was cancelled.
const listenEnd = 500 * time.Millisecond

// A lineListen is a subscriptions/listen that is open. It is no call in flight:
// what belongs to the only call there is, is not in doubt because of it.
type lineListen struct {
	heard func(method string, params []byte)
	ended chan Response // of one; whoever takes the listen out of the table sends
}

// Listen keeps a subscriptions/listen open.
func (c *lineConn) Listen(ctx context.Context, params []byte, heard func(method string, params []byte)) error {
	l := &lineListen{heard: heard, ended: make(chan Response, 1)}
	id := c.enterListen(l)
	defer c.takeListen(id)
	buf := takeBuffer()
	*buf = appendRequest(*buf, id, &Call{Method: listenMethod, Params: params}, c.meta)
	sent, err := c.write(&wait{ctx: ctx}, buf)
	if err != nil {
		c.cancel(&Call{}, id, sent, "the connection ends")
		return err
	}
	select {
	case r := <-l.ended:
		return ofListen(r, nil)
	case <-c.dead:
		return c.err
	case <-ctx.Done():
		c.cancel(&Call{}, id, true, "no longer wanted")
	}
	if context.Cause(ctx) == errReplaced {
		t := time.NewTimer(listenEnd)
		defer t.Stop()
		select {
		case <-l.ended:
		case <-c.dead:
		case <-t.C:
		}
	}
	return ctx.Err()
}

func (c *lineConn) enterListen(l *lineListen) (id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	if c.listens == nil {
		c.listens = map[int64]*lineListen{}
	}
	c.listens[c.last] = l
	return c.last
}

// takeListen removes a listen from the table; nil when it is not there.
func (c *lineConn) takeListen(id int64) *lineListen {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listens[id]
	delete(c.listens, id)
	return l
}

func (c *lineConn) openListen(id int64) *lineListen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listens[id]
}

// listenEnded takes the answer to a listen, which ends it.
func (c *lineConn) listenEnded(m *wire.Message) bool {
	id, _ := ourID(m.ID)
	l := c.takeListen(id)
	if l == nil {
		return false
	}
	l.ended <- Response{Result: m.Result, Error: m.Err}
	return true
}

// listenHeard takes a notification that belongs to a listen. Over stdio it says
// so itself. A server may end a listen as we do, by cancelling it.
func (c *lineConn) listenHeard(m *wire.Message) bool {
	if m.Method == progressMethod || m.Method == logMethod {
		return false
	}
	if m.Method == cancelledNote {
		id, _ := ourID(cancelledID(m.Params))
		l := c.takeListen(id)
		if l != nil {
			l.ended <- Response{}
		}
		return l != nil
	}
	meta, _ := wire.Get(m.Params, "_meta")
	raw, ok := wire.Get(meta, metaSubscription)
	if !ok {
		return false
	}
	id, _ := ourID(raw)
	l := c.openListen(id)
	if l != nil {
		l.heard(m.Method, bytes.Clone(m.Params))
	}
	return l != nil
}
