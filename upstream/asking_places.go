package upstream

import (
	"fmt"
	"time"
)

// A process of a pool belongs to the caller that it was first lent to: what a
// server says after its answer, a question too, may be about any call before, and
// must not reach another caller's agent.

// of reports whether the owner is a caller's.
func (o *owner) of(caller string) bool {
	c := o.caller.Load()
	return c != nil && *c == caller
}

// apartFor is who alone hears what is said on the connection outside of calls;
// empty when all do.
func (o *owner) apartFor() string {
	if o.route.isolation != "" || o.route.mode == Plain {
		return o.route.isolation
	}
	if c := o.caller.Load(); c != nil {
		return *c
	}
	return o.route.caller
}

// A house is what one caller has of one pool.
type house struct {
	pool   route
	caller string
}

func (w *need) house() house { return house{poolOf(w.route), w.caller} }

func poolOf(r route) route {
	r.n = 0
	return r
}

// housed says who has a process.
func (s *server) housed() map[house]bool {
	has := map[house]bool{}
	for r, o := range s.apart {
		if c := o.caller.Load(); c != nil && !o.use.leaving {
			has[house{poolOf(r), *c}] = true
		}
	}
	return has
}

// places is a pool as one call sees it.
type places struct {
	room         int    // the first that is empty; -1 when none is
	spare        *owner // nobody's yet
	free, soiled *owner // the caller's own: one for the call; one that does not suit it
	stale        *owner // the caller's own that was idle for longest
	idle         *owner // another caller's that was idle for longest
	own          int    // the caller's
	left         int    // those that are empty, nobody's, or hold an idle process of another caller
	leaving      int    // those whose process ends
	soon         int    // those that are left once calls of other callers end, or processes
	running      bool   // one of the caller's own comes free by itself
}

// places looks at the pool that w is for.
func (s *server) places(w *need) *places {
	p := &places{room: -1}
	r, now := w.route, time.Now()
	for r.n = 0; r.n < s.pool(); r.n++ {
		switch o := s.apart[r]; {
		case o == nil:
			p.left++
			if p.room < 0 {
				p.room = r.n
			}
		case o.use.leaving:
			p.leaves(o, w)
		case o.caller.Load() == nil:
			p.left++
			p.spare = better(p.spare, o)
		case o.of(w.caller):
			p.ours(o, w, now)
		default:
			p.theirs(o, now)
		}
	}
	return p
}

func (p *places) leaves(o *owner, w *need) {
	switch {
	case !o.use.again:
		p.leaving++
		p.soon++
	case o.of(w.caller):
		p.own++
		p.running = true
	default:
		p.soon++
	}
}

func (p *places) ours(o *owner, w *need, now time.Time) {
	p.own++
	if o.use.idle(now) {
		p.stale = older(p.stale, o)
	}
	switch {
	case o.use.parked:
	case o.use.busy:
		p.running = true
	case !o.suits(w):
		p.soiled = older(p.soiled, o)
	default:
		p.free = better(p.free, o)
	}
}

func (p *places) theirs(o *owner, now time.Time) {
	switch {
	case o.use.idle(now):
		p.left++
		p.idle = older(p.idle, o)
	case o.use.calls > 0 && !o.use.parked:
		p.soon++
	}
}

// older is the one that was idle for longer; a may be nil.
func older(a, b *owner) *owner {
	if a == nil || b.use.last.Before(a.use.last) {
		return b
	}
	return a
}

// better is a, unless only b is connected; a may be nil.
func better(a, b *owner) *owner {
	if a == nil || a.current() == nil {
		return b
	}
	return a
}

// pickPooled takes the agent's last process if that is free, else any that is its
// caller's and free, else a new one, for which another caller's may have to end.
func (s *server) pickPooled(w *need) (*owner, error) {
	p := s.places(w)
	several := s.several(time.Now())
	if several && p.own > 1 && p.own == s.pool() && p.stale != nil {
		s.dismiss(p.stale) // it came by all of them when it was alone
		p = s.places(w)
	}
	w.loyal = false
	if o := s.last[w.who]; o != nil && poolOf(o.route) == poolOf(w.route) && o.of(w.caller) && !o.use.leaving {
		if !o.use.busy && o.suits(w) {
			return s.lend(o, w), nil
		}
		if w.loyal = s.loyal(o, w); w.loyal {
			return nil, nil
		}
	}
	needs := 1
	if several && p.own > 0 {
		needs = 2 // the last place is for another caller
	}
	return s.place(w, p, needs)
}

// place gives a call one of the places. A caller that has no process may have one
// if any is left; needs says how many must be.
func (s *server) place(w *need, p *places, needs int) (*owner, error) {
	may := p.left >= needs
	switch {
	case p.free != nil:
		return s.lend(p.free, w), nil
	case may && p.spare != nil:
		return s.lend(p.spare, w), nil
	case may && p.room >= 0:
		r := w.route
		r.n = p.room
		return s.lend(s.openApart(r), w), nil
	case p.soiled != nil && !p.running && p.leaving == 0:
		p.soiled.use.again = true
		s.dismiss(p.soiled)
		return nil, nil
	case may && p.leaving == 0:
		s.dismiss(p.idle)
		return nil, nil
	case p.running, p.left+p.soon >= needs:
		return nil, nil
	}
	return nil, s.full(p, needs)
}

// full is the answer when no place is left, and none comes free by itself.
func (s *server) full(p *places, needs int) error {
	which := fmt.Sprintf("all %d processes for calls with questions are held by calls that wait for their agents' answers, or by tasks", s.pool())
	switch {
	case needs > 1:
		which = fmt.Sprintf("all processes for calls with questions that one caller may have beside others (it has %d of %d) are held"+
			" by calls that wait for their agents' answers, or by tasks", p.own, s.pool())
	case s.pool() == 1:
		which = "the one process for calls with questions is held by a call that waits for its agent's answer, or by a task"
	}
	return s.held(which + " (max_processes)")
}

// loyal says whether a call waits a moment for the process that its agent used
// last, whose state it may rely on: that may just be ending a call which the
// agent gave up. Where an agent calls in parallel, it does not rely on that.
func (s *server) loyal(o *owner, w *need) bool {
	return !w.hurried && !s.settings.SupportsParallelToolCalls && !o.use.parked
}
