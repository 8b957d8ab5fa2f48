package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// connKey is where a request's context holds what stands for its connection.
type connKey struct{}

type connection struct{ conn net.Conn }

// Server returns an http.Server for handler with the bounds that a listener
// for agents needs. The times of bodies and answers are set per request.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:                      handler,
		ReadHeaderTimeout:            5 * time.Second,
		IdleTimeout:                  2 * time.Minute,
		MaxHeaderBytes:               32 << 10,
		DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, &connection{c})
		},
	}
}

// laneOf returns what stands for the connection of r.
func laneOf(r *http.Request) any {
	if c := r.Context().Value(connKey{}); c != nil {
		return c
	}
	return r.RemoteAddr
}

// LimitListener returns a listener that has at most limits.connections open at
// once; further ones wait in the backlog.
func LimitListener(l net.Listener, limits Limits) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, limits.connections()), done: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots chan struct{}
	done  chan struct{} // closed by Close
	once  sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotConn{Conn: c, release: func() { <-l.slots }}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type slotConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
