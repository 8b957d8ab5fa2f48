package upstream

import (
	"fmt"
	"time"
)

const (
	seenFor  = time.Hour // a caller counts so long after it came
	seenMost = 1000      // callers that are remembered
)

// callers are those that came lately, and when each last did.
type callers map[string]time.Time

func (c *callers) note(caller string, now time.Time) {
	if *c == nil {
		*c = callers{}
	}
	if _, ok := (*c)[caller]; !ok && len(*c) >= seenMost {
		for old, at := range *c {
			if now.Sub(at) > seenFor || len(*c) >= seenMost {
				delete(*c, old)
			}
		}
	}
	(*c)[caller] = now
}

// several reports whether more than one caller came lately.
func (c callers) several(now time.Time) bool {
	n := 0
	for caller, at := range c {
		if now.Sub(at) > seenFor {
			delete(c, caller)
			continue
		}
		if n++; n > 1 {
			return true
		}
	}
	return false
}

// several reports whether more than one caller came lately, or can come at any
// time: then none may have everything, so that the next one finds a place.
func (s *server) several(now time.Time) bool {
	can := s.set.opt.SeveralCallers
	return s.seen.several(now) || can != nil && can()
}

// share is how many of n one caller may have: all of them while it is alone.
func (s *server) share(n int) int {
	if !s.several(time.Now()) {
		return n
	}
	return max(1, n*3/4)
}

// manyWait reports whether a caller's call must not wait, because too many do.
func (s *server) manyWait(caller string) bool {
	if len(s.queue) >= waitingMost {
		return true
	}
	n, most := 0, s.share(waitingMost)
	if len(s.queue) < most {
		return false
	}
	for _, q := range s.queue {
		if q.need.caller == caller {
			n++
		}
	}
	return n >= most
}

// makeRoom reports whether there may be one more connection of an agent's, or a
// caller's, own. If not, it ends the one that was idle for longest, or says why
// none will.
func (s *server) makeRoom(caller string) (bool, error) {
	l := s.look(caller)
	greedy := l.share < s.isolated() && l.has[caller] >= l.share
	switch {
	case greedy && l.ours == nil:
		return false, s.busy(fmt.Sprintf("this caller's agents have %d connections of their own, which is the most for one caller%s", l.has[caller], s.andThen()))
	case greedy:
		s.dismiss(l.ours)
		return false, nil
	case l.count < s.isolated():
		return true, nil
	case l.leaving > 0:
		return false, nil
	case l.idle == nil:
		return false, s.busy(fmt.Sprintf("%d agents have connections of their own, which is the most%s", l.count, s.andThen()))
	}
	s.dismiss(l.idle)
	return false, nil
}

// andThen says what bounds agents' own connections, and when one ends.
func (s *server) andThen() string {
	limit := ""
	if s.settings.local() {
		limit = " (max_processes)"
	}
	return fmt.Sprintf("%s; idle ones end after %v", limit, idleEnd)
}

// own is what there is of agents' own connections.
type own struct {
	share, count, leaving int
	has                   map[string]int // of each caller
	idle, ours            *owner         // the ones that may make room: any, and one of the caller's
}

// look counts. A connection may make room when it was idle for a while, or at once
// if its caller has more than its share, from when it was alone.
func (s *server) look(caller string) own {
	l := own{share: s.share(s.isolated()), has: map[string]int{}}
	for _, o := range s.apart {
		switch {
		case o.route.isolation == "" && o.route.caller == "":
			continue
		case o.use.leaving:
			l.leaving++
		case o.caller.Load() != nil:
			l.has[*o.caller.Load()]++
		}
		l.count++
	}
	now := time.Now()
	for _, o := range s.apart {
		c := o.caller.Load()
		if o.route.isolation == "" && o.route.caller == "" || c == nil || o.use.leaving || o.use.calls > 0 {
			continue
		}
		if long := now.Sub(o.use.last) >= evictAfter; !long && l.has[*c] <= l.share {
			continue
		}
		l.idle = older(l.idle, o)
		if *c == caller {
			l.ours = older(l.ours, o)
		}
	}
	return l
}
