package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// current returns the live connection, or nil.
func (o *owner) current() *held {
	h := o.conn.Load()
	if h == nil || h.retired() {
		return nil
	}
	select {
	case <-h.Done():
		return nil
	default:
		return h
	}
}

// acquire returns the live connection, or waits for one attempt that all
// waiting calls share.
func (o *owner) acquire(ctx context.Context) (*held, error) {
	if c := o.current(); c != nil {
		return c, nil
	}
	o.mu.Lock()
	attempt, last, quiet := o.attempt, o.lastErr, o.quiet
	o.mu.Unlock()
	if last != nil && (time.Now().Before(quiet) || KindOf(last) == Closed) {
		return nil, notSent(last)
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
	wait := o.patience()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-attempt:
	case <-t.C:
		return nil, &Error{Server: o.srv.name, Op: "connect", Kind: Unreachable, Unsent: true, Err: fmt.Errorf("not connected within %v (lifecycle.wake_wait)", wait)}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := o.current(); c != nil {
		return c, nil
	}
	return nil, o.why()
}

// why says what ended the last attempt or the connection that it made.
func (o *owner) why() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lastErr != nil {
		return notSent(o.lastErr)
	}
	return &Error{Server: o.srv.name, Kind: Unreachable, Unsent: true, Err: errors.New("the connection ended at once")}
}

// notSent is the error of a call that got no connection, because of err: an answer
// that was lost then was not the call's.
func notSent(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Unsent = true
	if out.Kind == Uncertain {
		out.Kind = Unreachable
	}
	return &out
}

// do sends a call, and once more where that is safe. sent says whether there was a
// connection to send it over.
func (o *owner) do(ctx context.Context, c *Call) (r Response, sent bool, err error) {
	for try := 0; ; try++ {
		cn, err := o.acquire(ctx)
		if err != nil {
			return Response{}, sent, err
		}
		if !cn.begin() {
			try-- // it was retired just now; another is being made
			if err := ctx.Err(); err != nil {
				return Response{}, sent, err
			}
			continue
		}
		sent = true
		r, err = o.through(ctx, cn, c)
		if err == nil || try > 0 || !o.renew(cn, err) && !o.again(cn, c, err) {
			return r, sent, err
		}
	}
}

// through sends a call that was counted in over a connection.
func (o *owner) through(ctx context.Context, cn *held, c *Call) (Response, error) {
	defer cn.end()
	leave, err := o.single(ctx, c.Method)
	if err != nil {
		return Response{}, err
	}
	defer leave()
	do := cn.Do
	if o.srv.settings.patient(c) {
		do = func(ctx context.Context, c *Call) (Response, error) { return o.doPatiently(ctx, cn, c) }
	}
	r, err := do(ctx, c)
	r.Via = cn.via
	if dead := cn.dead.Load(); err != nil && dead != nil {
		err = o.deadUnder(err, *dead)
	}
	o.judge(cn, err)
	return r, err
}

// deadUnder is the error of a call whose connection we gave up: what became of it
// nobody knows, but why is known.
func (o *owner) deadUnder(err, dead error) error {
	k := KindOf(err)
	if k != Closed && k != Uncertain {
		return err
	}
	if e, ok := dead.(*Error); ok {
		dead = e.under()
	}
	return &Error{Server: o.srv.name, Kind: Uncertain, Err: dead}
}

// patience is how long a call waits for a connection. One that has to be started
// from nothing may take all the time that a start has.
func (o *owner) patience() time.Duration {
	l := o.srv.settings.lifecycle()
	switch o.srv.status.Load().State {
	case Lazy, Recycled, Connecting:
		return max(o.srv.settings.connectTimeout(), l.WakeWait)
	}
	return l.WakeWait
}

// single keeps tools of a server that bears one call at a time from anyone to
// that: of a process each, or of the one server there is behind a URL.
func (o *owner) single(ctx context.Context, method string) (leave func(), err error) {
	if o.srv.settings.Serialize != "process" || method != "tools/call" {
		return func() {}, nil
	}
	turn := o.turn
	if !o.srv.settings.local() {
		turn = o.srv.plain.turn
	}
	_, wait := o.srv.settings.queue()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-t.C:
		return nil, &Error{Server: o.srv.name, Kind: Busy, RetryAfter: wait,
			Err: fmt.Errorf("takes one call at a time (serialize), and the one before did not end within %v (queue_wait)", wait)}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// again says whether a failed call may be sent a second time: the connection
// is gone, and the call did not run or may run twice.
func (o *owner) again(cn *held, c *Call, err error) bool {
	select {
	case <-cn.Done():
	default:
		return false
	}
	k := KindOf(err)
	return k == Unreachable && !answered(err) || k == Uncertain && c.Safe
}

// judge lets a call's outcome show in the server's state. Only failures that
// speak of the server's health count; the caller's own cancel does not, nor
// what happens on a connection that is not discovery's, or is so no more.
func (o *owner) judge(cn *held, err error) {
	if err == nil {
		o.proven.Store(true)
		o.srv.heard.Store(time.Now().UnixNano())
	}
	if o.route != plainRoute || o.conn.Load() != cn {
		return
	}
	switch k := KindOf(err); {
	case err == nil:
		o.recovered(cn)
	case k == Unreachable || k == Uncertain || k == Proxy:
		o.srv.changeIf(func(st *Status) bool {
			if st.State != Ready {
				return false
			}
			st.State, st.Err = Degraded, err
			return true
		})
	case refusedLogin(err):
		o.loggedOut(cn, err)
	}
}

// recovered shows that a server answers again.
func (o *owner) recovered(cn *held) {
	unwell := func(st *Status) bool { return st.State == Degraded || st.State == NeedsLogin }
	if !unwell(o.srv.status.Load()) {
		return
	}
	changed := o.srv.changeIf(func(st *Status) bool {
		if !unwell(st) || !o.srv.breaker.closed() || o.conn.Load() != cn {
			return false
		}
		st.State, st.Err, st.RetryAt = Ready, nil, time.Time{}
		return true
	})
	if changed {
		o.askRelist()
	}
}

// loggedOut shows that a server refuses our login on a connection that is there.
// The pulse asks it again.
func (o *owner) loggedOut(cn *held, err error) {
	at := time.Now().Add(jitter(o.srv.settings.lifecycle().ProbeInterval))
	o.srv.changeIf(func(st *Status) bool {
		switch {
		case o.conn.Load() != cn:
			return false
		case st.State == NeedsLogin && time.Now().Before(st.RetryAt):
			return false
		case st.State != Ready && st.State != Degraded && st.State != NeedsLogin:
			return false
		}
		st.State, st.Err, st.RetryAt = NeedsLogin, err, at
		return true
	})
}

// renew makes way for a connection with other credentials, if the server refuses
// those of this one and the settings resolve to others by now.
func (o *owner) renew(cn *held, err error) bool {
	if !refusedLogin(err) || !cn.retired() && !o.differs(err) {
		return false
	}
	cn.retire(true, nil)
	o.conn.CompareAndSwap(cn, nil)
	return true
}
