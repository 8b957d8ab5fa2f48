package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// runApart is the life of an owner beside discovery's: it connects when a call
// wants it, and ends when no call came for a while, when its session is over or
// when all ends. It never shows in the server's state: its failures are those
// of the calls that meet them.
func (o *owner) runApart(all context.Context) error {
	ctx, cancel := context.WithCancel(all)
	defer cancel()
	defer func() { o.depart(all.Err() != nil) }()
	if !o.arrive(cancel) {
		return nil
	}
	b := newBackoff(o.srv.settings.lifecycle())
	for o.wanted(ctx) {
		c, err := o.connectApart(ctx)
		if err == nil {
			if o.serveApart(ctx, c); o.proven.Swap(false) {
				b.reset()
			}
			if over(c.left) {
				o.lost(nil)
				continue
			}
			err = o.lost(c.lost())
		}
		if ctx.Err() == nil {
			o.rest(ctx, err, b.next(err), b.tries > 1)
		}
	}
	return nil
}

// arrive lets others end the owner; false when they did so already.
func (o *owner) arrive(stop func()) bool {
	o.srv.mu.Lock()
	defer o.srv.mu.Unlock()
	o.use.stop = stop
	return !o.use.leaving
}

var errEnded = errors.New("the connection was ended, since its session is over or no call came for long")

// depart makes room for another owner of the route.
func (o *owner) depart(stopping bool) {
	o.srv.mu.Lock()
	o.use.leaving = true
	delete(o.srv.apart, o.route)
	if o.use.again && !stopping {
		o.srv.openApart(o.route).caller.Store(o.caller.Load())
	}
	for who, at := range o.srv.last {
		if at == o {
			delete(o.srv.last, who)
		}
	}
	o.srv.serveQueue()
	o.srv.mu.Unlock()
	why := errEnded
	if stopping {
		why = errStopping
	}
	o.end(&Error{Server: o.srv.name, Kind: Closed, Err: why})
	o.srv.lookedAsking(o)
}

// wanted waits for a call; false when the owner ends instead.
func (o *owner) wanted(ctx context.Context) bool {
	t := time.NewTimer(o.srv.idleEnd())
	defer t.Stop()
	for {
		select {
		case <-o.wake:
			return ctx.Err() == nil
		case <-t.C:
			if o.retire() {
				return false
			}
			t.Reset(o.srv.idleEnd())
		case <-ctx.Done():
			return false
		}
	}
}

// retire ends the owner if no call came for a while.
func (o *owner) retire() bool {
	s := o.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if o.use.calls > 0 || now.Before(o.use.until) || now.Sub(o.use.last) < s.idleEnd() && !s.aged(o, now) {
		return false
	}
	s.dismiss(o)
	return true
}

// idleEnd is how long an owner beside discovery's stays without a call.
func (s *server) idleEnd() time.Duration {
	if l := s.settings.lifecycle(); s.settings.local() && l.IdleTimeout > 0 {
		return min(l.IdleTimeout, idleEnd)
	}
	return idleEnd
}

// aged reports whether the process of an owner has had its time.
func (s *server) aged(o *owner, now time.Time) bool {
	l, h := s.settings.lifecycle(), o.conn.Load()
	return s.settings.local() && l.MaxLifetime > 0 && h != nil && now.Sub(h.born) >= l.MaxLifetime
}

// connectApart makes one attempt: resolve, start or dial, handshake.
func (o *owner) connectApart(life context.Context) (*held, error) {
	ctx, cancel := o.connectWithin(life)
	defer cancel()
	start := time.Now()
	c, err := o.dial(ctx)
	if err == nil && o.translates() && sessionless(c) {
		c.Close()
		err = &Error{Server: o.srv.name, Op: "initialize", Kind: Protocol, Err: errors.New("no session")}
	}
	if err != nil {
		err = o.explain(ctx, err)
		if o.translates() && KindOf(err) == Protocol {
			if !o.srv.oneEra.Swap(true) {
				o.srv.changed() // its lists are the shared ones from now on
			}
			err = &Error{Server: o.srv.name, Op: "connect", Kind: Protocol, Err: fmt.Errorf("%w: %w", errOneEra, err)}
		}
		o.end(err)
		o.srv.lookedAsking(o)
		return nil, err
	}
	o.settle(ctx, c)
	o.mirror(life, ctx, c)
	h := o.open(c)
	o.sendLogLevel(ctx)
	o.srv.set.opt.Log.Debug("connection beside the shared one", "server", o.srv.name,
		"asking", o.route.mode == Asking, "pid", c.Info().PID, "dur", time.Since(start).Round(time.Millisecond))
	return h, nil
}

// translates reports whether the server would rather be asked in the newer era,
// and the connection is there for agents of the older one.
func (o *owner) translates() bool {
	e := o.srv.era.Load()
	return e != nil && *e == Modern && o.route.mode == Asking
}

// sessionless reports whether a server over HTTP agreed to the older era without
// opening a session. Those that speak both so, as go-sdk's stateless handler does,
// answer calls but cannot ask.
func sessionless(c conn) bool {
	h, ok := c.(*httpConn)
	return ok && h.session.Load().id == ""
}

// settleWait is for servers that do not answer ping.
const settleWait = 2 * time.Second

// settle keeps what a process asks upon its handshake from the first call. It would
// take one agent's answer for all who share it: server-filesystem, for one,
// replaces the folders that it was started with by the first agent's roots. An
// answer to ping shows that such questions have come, and were declined.
func (o *owner) settle(ctx context.Context, c conn) {
	if o.route.mode == Asking && o.route.isolation == "" && o.srv.settings.local() {
		c.Do(ctx, &Call{Method: "ping", Safe: true, Timeout: settleWait})
	}
}

// serveApart stays until the connection dies, idles or ctx ends.
func (o *owner) serveApart(ctx context.Context, c *held) {
	defer o.finish(ctx, c)
	defer o.conn.CompareAndSwap(c, nil)
	defer o.unmirror()
	defer o.unread()
	defer o.keepPulse(ctx, c)()
	o.readDue(ctx, c)
	tick := time.NewTicker(o.srv.idleEnd() / 5)
	defer tick.Stop()
	o.watch(ctx, c, func() bool { return !o.retire() }, tick.C)
}

// rest keeps a connection that fails again and again from being made for each
// call: until its time has come, they fail with the reason.
func (o *owner) rest(ctx context.Context, err error, d time.Duration, slow bool) {
	o.srv.set.opt.Log.Warn("connection beside the shared one is down", "server", o.srv.name,
		"asking", o.route.mode == Asking, "err", err)
	if slow {
		d = min(d, restMost)
		o.hush(time.Now().Add(d))
		sleep(ctx, nil, d)
	}
}
