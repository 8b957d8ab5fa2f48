package proxy

import (
	"fmt"
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// maxFollowed bounds the resources of one server that all agents are told of. One
// caller has as many as it leaves free at most, so that the next one finds room.
const maxFollowed = 1000

// A crowd is who is told, or about to be, of the resources of one server: how many
// watchers of which caller by URI.
type crowd struct {
	of  map[string]map[string]int // by caller, then by URI
	has map[string]int            // callers, by URI
}

// reserve takes room for w to be told of r. It is given back by release, or when w
// is no longer told.
func (s *subscribers) reserve(w *watcher, r resource) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, caller := s.crowds[r.server], w.known[1]
	if c == nil {
		c = &crowd{of: map[string]map[string]int{}, has: map[string]int{}}
	}
	own := c.of[caller]
	if own[r.uri] == 0 && c.has[r.uri] == 0 && len(own) >= maxFollowed-len(c.has) {
		return crowdedOut(r.server, len(c.has), len(own))
	}
	if own == nil {
		own = map[string]int{}
		c.of[caller] = own
	}
	if own[r.uri]++; own[r.uri] == 1 {
		c.has[r.uri]++
	}
	if s.crowds == nil {
		s.crowds = map[string]*crowd{}
	}
	s.crowds[r.server] = c
	return nil
}

// crowdedOut refuses a caller that has own of all resources that are followed.
func crowdedOut(server string, all, own int) *wire.Error {
	who, then := fmt.Sprintf("%d of its resources by this caller", own), "unsubscribe from some"
	if own == 0 {
		who, then = fmt.Sprintf("%d of its resources by other callers", all), "try again later"
	}
	return &wire.Error{Code: wire.CodeInternal,
		Message: fmt.Sprintf("server %s: subscribed to are %s, which is the most now; %s", strconv.QuoteToASCII(server), who, then)}
}

// release gives back what reserve took.
func (s *subscribers) release(w *watcher, r resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vacate(w, r)
}

// vacate is release; s.mu is held.
func (s *subscribers) vacate(w *watcher, r resource) {
	c, caller := s.crowds[r.server], w.known[1]
	if c == nil || c.of[caller][r.uri] == 0 {
		return
	}
	own := c.of[caller]
	if own[r.uri]--; own[r.uri] > 0 {
		return
	}
	if delete(own, r.uri); len(own) == 0 {
		delete(c.of, caller)
	}
	if c.has[r.uri]--; c.has[r.uri] == 0 {
		delete(c.has, r.uri)
	}
	if len(c.has) == 0 {
		delete(s.crowds, r.server)
	}
}
