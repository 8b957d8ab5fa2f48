package proxy

import (
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// smallAnswer is what an answer may take without being counted.
	smallAnswer = 64 << 10
	// readingTime is how long an agent has for an answer before it counts as slow.
	readingTime = 5 * time.Second
)

var errSlow = errors.New("the agent reads too slowly, and others need the room")

// An outbox bounds the bytes of large answers that agents have not read yet. Where
// they are too many, who holds the most loses what it has been reading the longest;
// an agent that reads in time loses nothing. The zero value has no bound.
type outbox struct {
	most int64 // 0: no bound

	mu     sync.Mutex
	held   int64
	byWhom map[string]int64
	open   []*outgoing // in the order in which they began
}

// An outgoing is an answer that is being written.
type outgoing struct {
	caller string
	n      int64
	began  time.Time
	cut    func() // makes the writer give up; must not block
	over   bool
}

// enter counts an answer in; the function that it returns counts it out.
func (o *outbox) enter(caller string, n int, cut func()) (leave func()) {
	if n <= smallAnswer || o.most == 0 {
		return func() {}
	}
	g := &outgoing{caller: caller, n: int64(n), began: time.Now(), cut: cut}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byWhom == nil {
		o.byWhom = map[string]int64{}
	}
	o.open = append(o.open, g)
	o.held += g.n
	o.byWhom[caller] += g.n
	for o.held > o.most && o.cutOne(g.began) {
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.drop(g)
	}
}

// cutOne ends one answer that is slow; false when none is.
func (o *outbox) cutOne(now time.Time) bool {
	var worst *outgoing
	for _, g := range o.open {
		if now.Sub(g.began) < readingTime {
			break
		}
		if worst == nil || o.byWhom[g.caller] > o.byWhom[worst.caller] {
			worst = g
		}
	}
	if worst == nil {
		return false
	}
	worst.cut()
	o.drop(worst)
	return true
}

func (o *outbox) drop(g *outgoing) {
	if g.over {
		return
	}
	g.over = true
	o.held -= g.n
	if o.byWhom[g.caller] -= g.n; o.byWhom[g.caller] == 0 {
		delete(o.byWhom, g.caller)
	}
	o.open = slices.DeleteFunc(o.open, func(other *outgoing) bool { return other == g })
}
