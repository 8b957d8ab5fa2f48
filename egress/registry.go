package egress

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A registry knows all that the children's proxy has open, so that it can end it
// and wait for it.
type registry struct {
	mu    sync.Mutex
	conns map[*conn]struct{}
	ended bool
	none  sync.WaitGroup // connections and handlers; grows under mu and before ended only
}

// add reports whether c may live; if not, it has been closed.
func (r *registry) add(c *conn, most int) bool {
	c.reg = r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || c.child != nil && c.child.gone || len(r.conns) >= most {
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

// own notes whose client a connection is, and reports whether that child is
// still there.
func (r *registry) own(c *conn, ch *child) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.child = ch
	return !ch.gone
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
	child  *child        // guarded by reg.mu once it is registered
	active *atomic.Int64 // when bytes last went by; both ends of a tunnel share it
	once   sync.Once
	done   func() // may be nil
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
		if l.open.add(c, maxClients) {
			return c, nil
		}
	}
}
