package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

var errBusy = errors.New("the server has too many connections open")

// A child is the account of one process.
type child struct {
	server string
	pass   string
	fence  *fence
	rules  *Server
	owner  *Children
	count  *counter
	used   atomic.Int32
	plain  *http.Transport // for what comes without CONNECT
	dial   DialFunc        // ends with the child
	stop   context.CancelFunc

	// Guarded by the registry's mu.
	gone    bool
	clients int // connections from the process
}

// newChild is called under mu.
func (c *Children) newChild(server, pass string, f *fence, rules *Server) *child {
	if c.counts[server] == nil {
		c.counts[server] = &counter{}
	}
	life, stop := context.WithCancel(context.Background())
	ch := &child{server: server, pass: pass, fence: f, rules: rules, owner: c, count: c.counts[server], stop: stop}
	ch.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		return c.dial(ctx, network, addr)
	}
	ch.plain = ch.newTransport()
	return ch
}

// close ends everything of the child.
func (c *child) close() {
	c.stop()
	c.owner.open.closeOf(c)
}

// take counts one more connection, if there may be one.
func (c *child) take() bool {
	if c.used.Add(1) <= maxChildConns {
		return true
	}
	c.used.Add(-1)
	return false
}

func (c *child) give() { c.used.Add(-1) }

// tunnel connects a child to a target of CONNECT.
func (c *child) tunnel(ctx context.Context, t childTarget, client *conn) (net.Conn, error) {
	if !c.take() {
		return nil, errBusy
	}
	raw, err := c.reach(ctx, t)
	if err != nil {
		c.give()
		return nil, err
	}
	conn := &conn{Conn: raw, child: c, active: client.active, done: c.give}
	if !c.owner.open.add(conn) {
		c.give()
		return nil, errEnded
	}
	return conn, nil
}

func (c *child) reach(ctx context.Context, t childTarget) (net.Conn, error) {
	w, err := c.way(ctx, t)
	if err != nil {
		return nil, err
	}
	return w.connect(ctx, c.dial, net.JoinHostPort(t.host(), t.on), true)
}

// wayKey is where a request carries the way that was decided for it.
type wayKey struct{}

// newTransport returns the transport for plain requests. It has no mind of its
// own: each request says how it goes, and the environment says nothing.
func (c *child) newTransport() *http.Transport {
	t := &http.Transport{
		Proxy:                  viaHop,
		DialContext:            c.dialPlain,
		DisableCompression:     true,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    8,
		MaxConnsPerHost:        maxChildConns,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

func (c *child) dialPlain(ctx context.Context, _, addr string) (net.Conn, error) {
	w, ok := ctx.Value(wayKey{}).(way)
	if !ok {
		return nil, errors.New("no way was decided")
	}
	var raw net.Conn
	var err error
	if host, _, _ := net.SplitHostPort(addr); host == hopHost {
		raw, err = w.hop.reach(ctx, c.dial)
	} else {
		raw, err = w.connect(ctx, c.dial, addr, false)
	}
	if err != nil {
		return nil, err
	}
	conn := &conn{Conn: raw, child: c, active: newActive()}
	if !c.owner.open.add(conn) {
		return nil, errEnded
	}
	return conn, nil
}
