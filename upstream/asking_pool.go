package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Times and bounds of owners beside discovery's.
const (
	loyalWait   = 100 * time.Millisecond // for the process that the agent used last
	idleEnd     = 5 * time.Minute        // without a call, the connection ends
	evictAfter  = 30 * time.Second       // without a call, it may make room for another agent's
	restMost    = 10 * time.Second       // a connection that fails again and again is tried so often
	waitingMost = 1000                   // calls that wait for such a connection
	rememberMax = 4096                   // agents whose last process is remembered
)

// use is how an owner beside discovery's is made use of. It belongs to the
// server's lock.
type use struct {
	stop    func() // ends the owner; nil before it runs
	leaving bool   // takes no more calls
	again   bool   // it leaves its place to another process of the same caller
	calls   int
	busy    bool   // an exclusive call is in it
	parked  bool   // which waits for its agent's answer
	who     string // whose exclusive call was the last
	last    time.Time
	until   time.Time // a task may live here as long
}

// idle reports whether nothing is lost when the owner ends.
func (u *use) idle(now time.Time) bool { return u.calls == 0 && !now.Before(u.until) }

// A debtor is a connection that tells of calls which were given up.
type debtor interface{ owing() (open, unread bool) }

// suits reports whether a question from the owner's process could only be about
// the call of w: one that another agent gave up may still be asked about, and
// one of the same agent until the server knows. Sessions of one caller, who has
// the process alone, are the same agent here: servers made with the TypeScript SDK
// never answer what was cancelled, and no other process would ever come free.
func (o *owner) suits(w *need) bool {
	c := o.current()
	if c == nil {
		return true
	}
	d, ok := c.conn.(debtor)
	if !ok {
		return true
	}
	open, unread := d.owing()
	return !open || !unread && (o.use.who == w.who || o.route.isolation != "")
}

// recheck looks whether calls that wait can go on.
func (s *server) recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serveQueue()
}

// A waiter is a call that waits for an owner.
type waiter struct {
	need *need
	got  chan grant // of one; whoever takes it out of the queue sends
}

type grant struct {
	o   *owner
	err error
}

// take finds or makes the owner that w asks for, waits for it if it must, and
// counts the call in. giveBack counts it out.
func (s *server) take(ctx context.Context, w *need) (*owner, error) {
	s.mu.Lock()
	s.seen.note(w.caller, time.Now())
	o, err := s.pick(w)
	if o != nil || err != nil || s.manyWait(w.caller) {
		s.mu.Unlock()
		if o == nil && err == nil {
			err = s.busy("too many calls wait for a connection")
		}
		return o, err
	}
	q := &waiter{need: w, got: make(chan grant, 1)}
	s.queue = append(s.queue, q)
	s.mu.Unlock()
	hurry := time.AfterFunc(loyalWait, func() { s.hurry(q) })
	defer hurry.Stop()
	t := time.NewTimer(slotWait)
	defer t.Stop()
	select {
	case g := <-q.got:
		return g.o, g.err
	case <-t.C:
		err = s.busy(fmt.Sprintf("no connection for calls with questions came free within %v (max_processes)", slotWait))
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.withdraw(q)
	return nil, err
}

// hurry lets a call that waits for its agent's last process have any other.
func (s *server) hurry(q *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.need.hurried = true
	s.serveQueue()
}

func (s *server) busy(text string) error {
	return &Error{Server: s.name, Kind: Busy, Err: errors.New(text), RetryAfter: slotWait}
}

// held is busy where nobody knows for how long.
func (s *server) held(text string) error {
	return &Error{Server: s.name, Kind: Busy, Err: errors.New(text)}
}

// withdraw takes a waiter back that waits no more, with what it was given.
func (s *server) withdraw(q *waiter) {
	s.mu.Lock()
	before := len(s.queue)
	s.queue = slices.DeleteFunc(s.queue, func(x *waiter) bool { return x == q })
	gone := len(s.queue) == before
	s.mu.Unlock()
	if !gone {
		return
	}
	if g := <-q.got; g.o != nil {
		s.giveBack(g.o, q.need.exclusive)
	}
}

func (s *server) giveBack(o *owner, exclusive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.use.calls--
	o.use.last = time.Now()
	if exclusive {
		o.use.busy, o.use.parked = false, false
	}
	s.serveQueue()
}

// park notes whether the exclusive call in o waits for its agent.
func (s *server) park(o *owner, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.use.parked = yes
	s.serveQueue()
}

// serveQueue gives what came free to those who waited longest, callers that have
// no process of the pool before those that do.
func (s *server) serveQueue() {
	if len(s.queue) == 0 {
		return
	}
	has := s.housed()
	s.serve(func(w *need) bool { return w.pooled && !has[w.house()] }, has)
	s.serve(func(w *need) bool { return !w.pooled || has[w.house()] }, has)
}

// serve gives what is free to the waiters that are due. Calls of one caller for one
// pool are alike: when one must wait, so must the rest.
func (s *server) serve(due func(*need) bool, has map[house]bool) {
	full := map[house]bool{}
	s.queue = slices.DeleteFunc(s.queue, func(q *waiter) bool {
		w := q.need
		if !due(w) || w.pooled && full[w.house()] {
			return false
		}
		o, err := s.pick(w)
		if o == nil && err == nil {
			full[w.house()] = w.pooled && !w.loyal
			return false
		}
		if o != nil {
			has[w.house()] = true
		}
		q.got <- grant{o, err}
		return true
	})
}

// pick finds or makes the owner for w, or says why there will be none. With
// neither, w must wait. Like everything below it needs the server's lock.
func (s *server) pick(w *need) (*owner, error) {
	switch {
	case w.fixed != nil:
		return s.pickFixed(w)
	case w.pooled:
		return s.pickPooled(w)
	}
	return s.pickOwn(w)
}

func (s *server) pickFixed(w *need) (*owner, error) {
	o := w.fixed
	switch {
	case s.apart[o.route] != o || o.use.leaving:
		return nil, s.gone()
	case w.exclusive && o.use.parked && o.route.isolation == "":
		return nil, s.held("the process of this task is held by a call that waits for its agent's answer, until that agent answers or the question times out (elicitation.timeout)")
	case w.exclusive && o.use.busy:
		return nil, nil
	}
	return s.lend(o, w), nil
}

// pickOwn is for connections of which there is one for each route.
func (s *server) pickOwn(w *need) (*owner, error) {
	if o := s.apart[w.route]; o != nil {
		if o.use.leaving || w.exclusive && (o.use.busy || !o.suits(w)) {
			return nil, nil
		}
		return s.lend(o, w), nil
	}
	if w.route.isolation != "" || w.route.caller != "" {
		if ok, err := s.makeRoom(w.caller); !ok {
			return nil, err
		}
	}
	return s.lend(s.openApart(w.route), w), nil
}

// lend counts a call in.
func (s *server) lend(o *owner, w *need) *owner {
	o.use.calls++
	if o.caller.Load() == nil {
		o.caller.Store(&w.caller)
	}
	if w.exclusive {
		o.use.busy, o.use.who = true, w.who
	}
	if w.pooled {
		s.remember(w.who, o)
	}
	return o
}

// remember notes where an agent was last. When it knows too many it forgets
// some one: that costs no more than another process.
func (s *server) remember(who string, o *owner) {
	if _, ok := s.last[who]; !ok && len(s.last) >= rememberMax {
		for old := range s.last {
			delete(s.last, old)
			break
		}
	}
	s.last[who] = o
}

// openApart makes an owner beside discovery's and has Run start it.
func (s *server) openApart(r route) *owner {
	o := newOwner(s, r)
	o.use.last = time.Now()
	s.apart[r] = o
	go o.enlist()
	return o
}

// dismiss ends an owner. Its route is taken until it is gone.
func (s *server) dismiss(o *owner) {
	o.use.leaving = true
	if o.use.stop != nil {
		o.use.stop()
	}
}

// EndSession ends the connections that only this session of an agent used.
func (s *Set) EndSession(id string) {
	for _, srv := range s.servers {
		srv.endSession(id)
	}
}

func (s *server) endSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, id)
	if s.settings.Isolation != "per_session" || id == "" {
		return
	}
	for r, o := range s.apart {
		if r.isolation == id {
			s.dismiss(o)
		}
	}
}
