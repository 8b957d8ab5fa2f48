package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// provenCalls in a row, or one at the age of provenAfter, show that a session
	// is worth its handshake.
	provenCalls  = 20
	provenAfter  = time.Minute
	firstRenew   = time.Second
	longestRenew = time.Minute
)

// A proof gathers whether a session serves calls.
type proof struct {
	opened time.Time
	row    atomic.Int64 // calls answered since the last that said the session is lost
	given  atomic.Bool
}

// add counts a call's outcome.
func (p *proof) add(err error, now time.Time) {
	var lost *lostSession
	switch {
	case errors.As(err, &lost):
		p.row.Store(0)
	case err == nil && !p.given.Load():
		if p.row.Add(1) >= provenCalls || now.Sub(p.opened) >= provenAfter {
			p.given.Store(true)
		}
	}
}

// renewals keeps them apart: a server behind a balancer that does not know of
// sessions loses each new one at once, and would be asked for them without end.
type renewals struct {
	next  time.Time // not before
	pause time.Duration
}

// begin returns how long to wait before the next renewal; if zero, it may begin.
func (r *renewals) begin(now time.Time, proven bool) time.Duration {
	if proven {
		*r = renewals{}
	}
	if wait := r.next.Sub(now); wait > 0 {
		return wait
	}
	r.pause = min(max(2*r.pause, firstRenew), longestRenew)
	r.next = now.Add(r.pause)
	return 0
}

// renew opens a session in place of old, once for all calls that lost it. method
// is that of the call that did, and lost what came of it.
func (c *httpConn) renew(ctx context.Context, old *session, method string, lost error) error {
	select {
	case c.renewing <- struct{}{}:
	case <-ctx.Done():
		return c.fail("initialize", kindOfEnd(ctx.Err()), ctx.Err())
	}
	defer func() { <-c.renewing }()
	if c.session.Load() != old {
		return nil
	}
	if wait := c.renewals.begin(time.Now(), old.proof.given.Load()); wait > 0 {
		return c.tooOften(method, lost, wait)
	}
	x := exchange{c: c, s: c.newSession(Legacy, "", ""), call: &Call{Method: "initialize", Params: initializeParams(c.client, c.env.offers)}}
	_, s, err := c.openSession(ctx, &x)
	if err != nil {
		return err
	}
	c.session.Store(s)
	c.env.logger().Info("session opened again", "server", c.server)
	c.stopListening(old)
	c.startListening(s)
	c.awaitListening(ctx, s)
	if c.env.renewed != nil {
		c.env.renewed()
	}
	if !strings.HasSuffix(method, "/list") { // who reads a list reads it from the new session
		c.listsMayDiffer() // it may be another server by now
	}
	return nil
}

// tooOften is the error of a call that lost a session which was opened just now.
func (c *httpConn) tooOften(method string, lost error, wait time.Duration) error {
	var e *Error
	if errors.As(lost, &e) {
		lost = e.Err
	}
	return c.fail(method, Protocol, fmt.Errorf("%w; the last one was opened just before, the next follows in %s at the earliest",
		lost, wait.Round(100*time.Millisecond)))
}
