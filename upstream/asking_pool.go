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
	calls   int
	busy    bool   // an exclusive call is in it
	parked  bool   // which waits for its agent's answer
	who     string // whose exclusive call was the last
	last    time.Time
	until   time.Time // a task may live here as long
}

// free reports whether an exclusive call may have the owner.
func (u *use) free() bool { return !u.leaving && !u.busy }

// A debtor is a connection that tells of calls which were given up.
type debtor interface{ owing() (open, unread bool) }

// suits reports whether a question from the owner's process could only be about
// the call of w: one that another agent gave up may still be asked about, and
// one of the same agent until the server knows.
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
	return !open || o.use.who == w.who && !unread
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
	o, err := s.pick(w)
	if o != nil || err != nil || len(s.queue) >= waitingMost {
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
		err = s.busy(fmt.Sprintf("no connection for calls with questions came free within %v", slotWait))
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

// serveQueue gives what came free to those who waited longest. Calls for one
// pool are alike: when one must wait, so must the rest.
func (s *server) serveQueue() {
	var full route
	s.queue = slices.DeleteFunc(s.queue, func(q *waiter) bool {
		if q.need.pooled && q.need.route == full {
			return false
		}
		o, err := s.pick(q.need)
		if o == nil && err == nil {
			if q.need.pooled && !q.need.loyal {
				full = q.need.route
			}
			return false
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
		return nil, s.busy("the process of this task is held by a call that waits for its agent's answer")
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
	if w.route.isolation != "" {
		if ok, err := s.makeRoom(); !ok {
			return nil, err
		}
	}
	return s.lend(s.openApart(w.route), w), nil
}

// makeRoom reports whether there may be one more connection of an agent's own,
// and ends the one that was idle for longest if there may not.
func (s *server) makeRoom() (bool, error) {
	var count, leaving int
	var idle *owner
	for _, o := range s.apart {
		switch {
		case o.route.isolation == "":
			continue
		case o.use.leaving:
			leaving++
		case o.use.calls == 0 && (idle == nil || o.use.last.Before(idle.use.last)):
			idle = o
		}
		count++
	}
	switch {
	case count < s.isolated():
		return true, nil
	case leaving > 0:
		return false, nil
	case idle == nil || time.Since(idle.use.last) < evictAfter:
		return false, s.busy(fmt.Sprintf("%d agents have connections of their own, which is the most", count))
	}
	s.dismiss(idle)
	return false, nil
}

// pickPooled takes the agent's last process if that is free, else any that is,
// else a new one.
func (s *server) pickPooled(w *need) (*owner, error) {
	w.loyal = false
	if o := s.last[w.who]; o != nil && samePool(o.route, w.route) {
		if o.use.free() && o.suits(w) {
			return s.lend(o, w), nil
		}
		if w.loyal = s.loyal(o, w); w.loyal {
			return nil, nil
		}
	}
	var free, soiled *owner
	room, waiting := -1, false
	r := w.route
	for r.n = 0; r.n < s.pool(); r.n++ {
		switch o := s.apart[r]; {
		case o == nil && room < 0:
			room = r.n
		case o == nil || o.use.parked:
		case !o.use.free():
			waiting = true
		case !o.suits(w):
			if soiled == nil || o.use.last.Before(soiled.use.last) {
				soiled = o
			}
		case free == nil || free.current() == nil:
			free = o
		}
	}
	switch {
	case free != nil:
		return s.lend(free, w), nil
	case room >= 0:
		r.n = room
		return s.lend(s.openApart(r), w), nil
	case soiled != nil && !waiting:
		s.dismiss(soiled)
		waiting = true
	}
	if waiting {
		return nil, nil
	}
	return nil, s.busy(fmt.Sprintf("each of its %d processes for calls with questions is held by one that waits for its agent's answer (max_processes)", s.pool()))
}

// loyal says whether a call waits a moment for the process that its agent used
// last, whose state it may rely on: that may just be ending a call which the
// agent gave up. Where an agent calls in parallel, it does not rely on that.
func (s *server) loyal(o *owner, w *need) bool {
	return !w.hurried && !s.settings.SupportsParallelToolCalls && !o.use.leaving && !o.use.parked
}

func samePool(a, b route) bool {
	a.n, b.n = 0, 0
	return a == b
}

// lend counts a call in.
func (s *server) lend(o *owner, w *need) *owner {
	o.use.calls++
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
