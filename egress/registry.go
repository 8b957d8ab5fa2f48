package egress

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxChildConns bounds what one child has open at once, to the proxy and beyond.
	maxChildConns = 256
	// maxClients bounds the connections of all children to the proxy; beyond it
	// each still gets as many as assured says, so that many cannot shut one out.
	maxClients = 4096
	assured    = 16
	// maxStrangers bounds the connections that have not said whose they are.
	maxStrangers = 256
	// strangerTime is how long they have to say so.
	strangerTime = 5 * time.Second
)

var (
	errCrowded = fmt.Errorf("this process has %d connections to the children's proxy open, and gets no more", maxChildConns)
	errFull    = errors.New("the children's proxy has too many connections open")
	errForeign = errors.New("this connection belongs to another process")
)

// A registry knows all that the children's proxy has open, so that it can bound
// it, end it and wait for it.
type registry struct {
	patience time.Duration // strangers have it

	mu        sync.Mutex
	conns     map[*conn]struct{}
	strangers list.List // of *conn: nobody's yet, the oldest first
	owned     int       // connections from children
	ended     bool
	none      sync.WaitGroup // connections and handlers; grows under mu and before ended only
}

// admit takes in a connection of which nobody knows whose it is, and reports
// whether it may live; if not, it has been closed. Where there are too many, the
// oldest goes: a newcomer with credentials always gets in.
func (r *registry) admit(c *conn) bool {
	if !r.add(c) {
		return false
	}
	for _, old := range r.enlist(c) {
		old.kill()
	}
	return true
}

// enlist makes c a stranger, and returns those that have to go for it.
func (r *registry) enlist(c *conn) (oldest []*conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := r.conns[c]; !open {
		return nil // the end has come
	}
	c.place = r.strangers.PushBack(c)
	c.overdue = time.AfterFunc(r.patience, c.expire)
	for r.strangers.Len() > maxStrangers {
		old := r.strangers.Front().Value.(*conn)
		old.known()
		oldest = append(oldest, old)
	}
	return oldest
}

// known takes c from the strangers, and reports whether it was one. It is called
// under mu.
func (c *conn) known() bool {
	if c.place == nil {
		return false
	}
	c.reg.strangers.Remove(c.place)
	c.place = nil
	c.overdue.Stop()
	return true
}

// expire ends a connection that is still a stranger.
func (c *conn) expire() {
	c.reg.mu.Lock()
	stranger := c.known()
	c.reg.mu.Unlock()
	if stranger {
		c.kill()
	}
}

// add reports whether c may live; if not, it has been closed.
func (r *registry) add(c *conn) bool {
	c.reg = r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || c.child != nil && c.child.gone {
		c.Conn.Close()
		return false
	}
	if r.conns == nil {
		r.conns = map[*conn]struct{}{}
	}
	r.conns[c] = struct{}{}
	r.none.Add(1)
	return true
}

func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.known()
	if c.counted {
		c.child.clients--
		r.owned--
	}
	delete(r.conns, c)
	r.none.Done()
}

// enter lets a handler begin; leave must follow if it does.
func (r *registry) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	r.none.Add(1)
	return true
}

func (r *registry) leave() { r.none.Done() }

// own makes a connection that of the child whose credentials came on it, which
// counts it from then on. If it may not, of is whom that concerns.
func (r *registry) own(c *conn, ch *child) (of *child, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ch.gone:
		return ch, errEnded
	case c.child == ch:
		return ch, nil
	case c.child != nil:
		return c.child, errForeign
	case c.place == nil: // it is being closed
		return ch, errEnded
	case ch.clients >= maxChildConns:
		return ch, errCrowded
	case r.owned >= maxClients && ch.clients >= assured:
		return ch, errFull
	}
	c.known()
	c.child, c.counted = ch, true
	ch.clients++
	r.owned++
	return ch, nil
}

// closeOf ends what a child has open, and lets nothing more of it begin.
func (r *registry) closeOf(ch *child) {
	r.mu.Lock()
	ch.gone = true
	r.mu.Unlock()
	r.closeIf(func(c *conn) bool { return c.child == ch })
}

func (r *registry) closeIdle(since time.Time) {
	r.closeIf(func(c *conn) bool { return c.active.Load() < since.UnixNano() })
}

func (r *registry) closeIf(want func(*conn) bool) {
	var chosen []*conn
	r.mu.Lock()
	for c := range r.conns {
		if want(c) {
			chosen = append(chosen, c)
		}
	}
	r.mu.Unlock()
	for _, c := range chosen {
		c.kill()
	}
}

// end closes everything and returns when it is closed.
func (r *registry) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.closeIf(func(*conn) bool { return true })
	r.none.Wait()
}

// A conn is one connection from a child or for one.
type conn struct {
	net.Conn
	reg    *registry
	active *atomic.Int64 // when bytes last went by; both ends of a tunnel share it
	once   sync.Once
	done   func() // may be nil

	// Guarded by reg.mu once it is registered.
	child   *child
	counted bool          // among what comes from child
	place   *list.Element // among the strangers; nil if it is none
	overdue *time.Timer
}

func newActive() *atomic.Int64 {
	a := new(atomic.Int64)
	a.Store(time.Now().UnixNano())
	return a
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.touch(n)
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.touch(n)
	return n, err
}

func (c *conn) touch(n int) {
	if n > 0 {
		c.active.Store(time.Now().UnixNano())
	}
}

// Close may be called more than once.
func (c *conn) Close() (err error) {
	c.once.Do(func() {
		err = c.Conn.Close()
		if c.done != nil {
			c.done()
		}
		c.reg.remove(c)
	})
	return err
}

// kill closes without a farewell, which would wait for a peer that reads.
func (c *conn) kill() {
	if inner, ok := c.Conn.(interface{ NetConn() net.Conn }); ok {
		inner.NetConn().Close()
	}
	c.Close()
}

// CloseWrite ends one direction, if the connection can.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

// CloseRead ends the other, if the connection can.
func (c *conn) CloseRead() error {
	if r, ok := c.Conn.(interface{ CloseRead() error }); ok {
		return r.CloseRead()
	}
	return nil
}

// A listener registers what it accepts.
type listener struct {
	net.Listener
	open *registry
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, active: newActive()}
		if l.open.admit(c) {
			return c, nil
		}
	}
}
