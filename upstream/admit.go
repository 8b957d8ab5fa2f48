package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A visit is one call's way through what a server can bear: its breaker, its
// places, and its bytes.
type visit struct {
	s     *server
	pass  *pass
	bytes int64
	began time.Time
	// placed is whether it holds one of max_concurrency places.
	placed bool
}

// admit lets a call in, or says why not.
func (s *server) admit(ctx context.Context, o *owner, c *Call) (visit, error) {
	v := visit{s: s, began: time.Now()}
	if err := s.pausing(v.began); err != nil {
		return v, err
	}
	var err error
	if s.judges(o) {
		if v.pass, err = s.breaker.allow(o.probed); err != nil {
			return v, err
		}
	}
	if err = s.enter(ctx); err == nil {
		v.placed = true
		v.bytes, err = s.bytes.take(ctx, int64(len(c.Params)))
	}
	if err != nil {
		v.leave()
		v.pass.report(errNeither)
	}
	return v, err
}

// judges reports whether the breaker is about an owner's connection. Processes that
// agents have apart are not the server that the others meet: who ends his own ends
// nobody else's. Without a connection the supervisor has the say: a call wakes it.
func (s *server) judges(o *owner) bool {
	return (o == s.plain || !s.settings.local()) && o.current() != nil
}

// answered is called when the server said something about the call.
func (v *visit) answered() { v.pass.report(nil) }

// end lets the call out, and the breaker know how it ended. Whether there is a
// connection at all is the supervisor's to say, not the breaker's.
func (v *visit) end(o *owner, sent bool, err error) {
	v.leave()
	s := v.s
	s.rests(err)
	switch {
	case v.pass == nil:
		return
	case !sent:
		v.pass.report(errNeither)
		return
	}
	if KindOf(err) == Timeout {
		if !s.set.background(func(context.Context) { s.timedOut(v.pass, o, v.began, err) }) {
			v.pass.report(errNeither)
		}
		return
	}
	v.pass.report(s.anew(v.began, verdict(err)))
	if err != nil || !s.breaker.closed() {
		s.noteBreaker()
	}
}

// anew lets one end of a connection, or one moment of trouble, count once, however
// many calls were under way: those tell nothing new which began before it was told.
func (s *server) anew(began time.Time, err error) error {
	if err == nil || err == errNeither {
		return err
	}
	last := s.failed.Load()
	if last >= began.UnixNano() || !s.failed.CompareAndSwap(last, time.Now().UnixNano()) {
		return errNeither
	}
	return err
}

func (v *visit) leave() {
	if v.placed {
		v.placed = false
		v.s.leave()
	}
	v.s.bytes.give(v.bytes)
	v.bytes = 0
}

// Bounds of the pause that a server asks for with 429 or Retry-After.
const (
	leastQuiet = time.Second
	mostQuiet  = 5 * time.Minute
)

// pausing says that the server asked us to wait, if so.
func (s *server) pausing(now time.Time) error {
	until := s.restUntil.Load()
	if until == 0 {
		return nil
	}
	left := time.Unix(0, until).Sub(now)
	if left <= 0 {
		s.restUntil.CompareAndSwap(until, 0)
		return nil
	}
	return &Error{Server: s.name, Kind: RateLimited, RetryAfter: max(left, time.Second),
		Err: fmt.Errorf("asked for a pause, of which %v are left", left.Round(100*time.Millisecond))}
}

// rests notes that a server asked for a pause: 429 always does, others by
// Retry-After.
func (s *server) rests(err error) {
	var e *Error
	if err == nil || !errors.As(err, &e) || e.Kind != RateLimited && (e.Kind != Unreachable || e.RetryAfter == 0) {
		return
	}
	until := time.Now().Add(min(max(e.RetryAfter, leastQuiet), mostQuiet)).UnixNano()
	if old := s.restUntil.Load(); until > old {
		s.restUntil.CompareAndSwap(old, until)
	}
}
