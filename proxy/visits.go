package proxy

import (
	"slices"
	"sync"
)

const (
	// maxVisits bounds the GET streams that one session has open, standing ones and
	// resumed ones, and maxCallerVisits those of one caller. The newest wins: there
	// are agents that do not notice that they lost the one before.
	maxVisits       = 4
	maxCallerVisits = 64
)

// visits are the open GET streams of all sessions. The zero value is empty.
type visits struct {
	mu sync.Mutex
	m  map[string][]*visit // by caller, the oldest first
}

// enter adds a visit, and ends the oldest ones that are over the bounds.
func (t *visits) enter(v *visit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = map[string][]*visit{}
	}
	caller := v.s.caller.ID
	all := append(t.m[caller], v)
	first, n := -1, 0
	for i, one := range all {
		if one.s == v.s {
			if n++; first < 0 {
				first = i
			}
		}
	}
	switch {
	case n > maxVisits:
		all = evict(all, first)
	case len(all) > maxCallerVisits:
		all = evict(all, 0)
	}
	t.m[caller] = all
}

func evict(all []*visit, i int) []*visit {
	all[i].r.evict(all[i].rd)
	return slices.Delete(all, i, i+1)
}

// exit removes a visit; one that was evicted is not there any more.
func (t *visits) exit(v *visit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	caller := v.s.caller.ID
	all := t.m[caller]
	if i := slices.Index(all, v); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if t.m[caller] = all; len(all) == 0 {
		delete(t.m, caller)
	}
}
