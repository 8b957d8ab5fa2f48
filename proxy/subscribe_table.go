package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// maxListens bounds the streams of subscriptions/listen that one caller has
	// open, and maxAllListens those of all callers.
	maxListens    = 64
	maxAllListens = 1000
)

// A resource is one of a server's resources, by the server's own URI.
type resource struct{ server, uri string }

// subscribers know who is told of which resource, and who listens. The zero
// value is empty.
type subscribers struct {
	mu      sync.RWMutex
	m       map[resource]map[*watcher]struct{}
	crowds  map[string]*crowd // by server
	listens map[string]int    // by caller
	all     int
}

// of returns who is told of r.
func (s *subscribers) of(r resource) []*watcher {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.m[r] == nil {
		return nil
	}
	return slices.Collect(maps.Keys(s.m[r]))
}

// has reports whether w is told of r.
func (s *subscribers) has(w *watcher, r resource) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := w.follows[r]
	return ok
}

// add enters that w is told of r. It is not added when it was there already, or
// when w is over.
func (s *subscribers) add(w *watcher, r resource) (added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := w.follows[r]; ok || w.left {
		return false, nil
	}
	if len(w.follows) >= maxSubscriptions {
		return false, errSubscriptions
	}
	if s.m == nil {
		s.m = map[resource]map[*watcher]struct{}{}
	}
	if s.m[r] == nil {
		s.m[r] = map[*watcher]struct{}{}
	}
	if w.follows == nil {
		w.follows = map[resource]struct{}{}
	}
	s.m[r][w], w.follows[r] = struct{}{}, struct{}{}
	return true, nil
}

var errSubscriptions = badParams(fmt.Sprintf("more than %d resources are subscribed to", maxSubscriptions))

// full reports whether w may be told of no more resources.
func (s *subscribers) full(w *watcher) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(w.follows) >= maxSubscriptions
}

// find returns the resources that w is told of under a URI: of more than one
// server, if the URI changed its owner.
func (s *subscribers) find(w *watcher, uri string) (out []resource) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for r := range w.follows {
		if r.uri == uri {
			out = append(out, r)
		}
	}
	return out
}

// remove ends what add began; false means that it was not there.
func (s *subscribers) remove(w *watcher, r resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := w.follows[r]; !ok {
		return false
	}
	s.drop(w, r)
	return true
}

func (s *subscribers) drop(w *watcher, r resource) {
	delete(w.follows, r)
	delete(s.m[r], w)
	if len(s.m[r]) == 0 {
		delete(s.m, r)
	}
	s.vacate(w, r)
}

// leave ends w and returns what it was told of.
func (s *subscribers) leave(w *watcher) []resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.left = true
	out := slices.Collect(maps.Keys(w.follows))
	for _, r := range out {
		s.drop(w, r)
	}
	return out
}

// enter counts one more listen of a caller; every success is paired with exit.
func (s *subscribers) enter(caller string) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.listens[caller] >= maxListens:
		return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("more than %d open subscriptions/listen of one caller", maxListens)}
	case s.all >= maxAllListens:
		return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("more than %d open subscriptions/listen of all callers", maxAllListens)}
	}
	if s.listens == nil {
		s.listens = map[string]int{}
	}
	s.listens[caller]++
	s.all++
	return nil
}

func (s *subscribers) exit(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.listens[caller]--; s.listens[caller] == 0 {
		delete(s.listens, caller)
	}
}

// follow has w told of a resource, from the server on.
func (f *Front) follow(ctx context.Context, w *watcher, r resource) error {
	switch {
	case f.subs.has(w, r):
		return nil
	case f.subs.full(w):
		return errSubscriptions
	}
	if err := f.subs.reserve(w, r); err != nil {
		return err
	}
	if err := f.opt.Subscriber.Subscribe(ctx, r.server, r.uri); err != nil {
		f.subs.release(w, r)
		return err
	}
	added, err := f.subs.add(w, r)
	if !added {
		f.subs.release(w, r)
		f.opt.Subscriber.Unsubscribe(r.server, r.uri)
	}
	return err
}

// tell notes an update for w, if it is told of the resource still.
func (s *subscribers) tell(w *watcher, u update) {
	s.mu.RLock() // not given back before the update waits, so that remove is later
	defer s.mu.RUnlock()
	if _, ok := w.follows[u.resource]; ok {
		w.updated(u)
	}
}

// unfollow ends what follow began, and drops what waits to be told of it.
func (f *Front) unfollow(w *watcher, r resource) {
	if f.subs.remove(w, r) {
		w.forget(r)
		f.opt.Subscriber.Unsubscribe(r.server, r.uri)
	}
}

// dismiss ends a watcher.
func (f *Front) dismiss(w *watcher) {
	w.view.unsubscribe(w)
	for _, r := range f.subs.leave(w) {
		f.opt.Subscriber.Unsubscribe(r.server, r.uri)
	}
}

// ended frees what a session held outside of the store.
func (f *Front) ended(s *session) {
	f.dismiss(&s.watcher)
	f.replays.drop(&s.replay)
	if f.opt.SessionEnded != nil {
		f.opt.SessionEnded(s.id)
	}
}
