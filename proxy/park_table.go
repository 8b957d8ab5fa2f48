package proxy

import (
	"fmt"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// parkedBytes bounds what all calls hold that may outlive the requests of their
// agents.
const parkedBytes = 64 << 20

// A parking holds the calls that wait for the next request of their agent, and
// what all calls take that may come to wait. The zero value has no places.
type parking struct {
	total, each int   // places: limits.parked and limits.parked_per_caller
	room        int64 // bytes; one caller has half of it at most

	mu      sync.Mutex
	waiting map[nonce]*parked // by the state that their agent was given
	callers map[string]*tenant
	places  int
	bytes   int64
	closed  bool

	parked, expired int64 // since the start
}

// A tenant is what one caller takes.
type tenant struct {
	places int
	bytes  int64
}

// hold takes room for n bytes; false means that there is none.
func (g *parking) hold(caller string, n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tenant(caller)
	defer g.vacate(caller)
	if g.bytes+n > g.room || t.bytes+n > g.room/2 {
		return false
	}
	t.bytes += n
	g.bytes += n
	return true
}

// place takes one of the places for calls that have asked something.
func (g *parking) place(caller string) *wire.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tenant(caller)
	switch {
	case g.places >= g.total:
		g.vacate(caller)
		return overLimit("limits.parked", g.total)
	case t.places >= g.each:
		return overLimit("limits.parked_per_caller", g.each)
	}
	t.places++
	g.places++
	g.parked++
	return nil
}

func overLimit(key string, n int) *wire.Error {
	return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("too many calls wait for answers of agents: %s is %d", key, n)}
}

// leave gives n bytes and some places back.
func (g *parking) leave(caller string, n int64, places int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tenant(caller)
	t.bytes -= n
	t.places -= places
	g.bytes -= n
	g.places -= places
	g.vacate(caller)
}

// tenant returns what a caller takes; g.mu is held.
func (g *parking) tenant(caller string) *tenant {
	t := g.callers[caller]
	if t == nil {
		if g.callers == nil {
			g.callers = map[string]*tenant{}
		}
		t = new(tenant)
		g.callers[caller] = t
	}
	return t
}

// vacate forgets a caller that takes nothing; g.mu is held.
func (g *parking) vacate(caller string) {
	if t := g.callers[caller]; t != nil && *t == (tenant{}) {
		delete(g.callers, caller)
	}
}

// put lets a call wait for the request that brings n; false means that none is
// waited for any more.
func (g *parking) put(n nonce, p *parked) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if g.waiting == nil {
		g.waiting = map[nonce]*parked{}
	}
	g.waiting[n] = p
	return true
}

// look returns the call that waits for n; nil when none does.
func (g *parking) look(n nonce) *parked {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting[n]
}

// take is look for the one who goes on with the call, or ends it.
func (g *parking) take(n nonce) *parked {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.waiting[n]
	delete(g.waiting, n)
	return p
}

// expire ends the call that waits for n in vain.
func (g *parking) expire(n nonce) {
	if p := g.take(n); p != nil {
		g.mu.Lock()
		g.expired++
		g.mu.Unlock()
		p.drop("no answer came in time")
	}
}

// unheard ends the call that waits for n, which its agent never got.
func (g *parking) unheard(n nonce) {
	if p := g.take(n); p != nil {
		p.drop("the agent hung up before it was asked")
	}
}

// close ends all calls that wait, and lets none wait from now on.
func (g *parking) close() {
	g.mu.Lock()
	g.closed = true
	left := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	for _, p := range left {
		p.drop("mcp-sidecar stops")
	}
}

// stats returns how many calls have asked something and are not over; how many
// have asked something since the start; and how many of those expired.
func (g *parking) stats() (now int, all, expired int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.places, g.parked, g.expired
}
