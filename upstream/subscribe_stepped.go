package upstream

import (
	"context"
	"slices"
	"sync"
)

// stepped holds the resources that the last step was about.
type stepped struct {
	mu   sync.Mutex
	uris []string      // sorted
	next chan struct{} // closed with the next step; nil when nobody waits
}

func (s *stepped) set(uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uris = uris
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// has reports whether a resource is among them, and if not, when to look again.
func (s *stepped) has(uri string) (ok bool, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok = slices.BinarySearch(s.uris, uri); ok {
		return true, nil
	}
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return false, s.next
}

func (s *stepped) wait(ctx context.Context, uri string) {
	for {
		ok, next := s.has(uri)
		if ok {
			return
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}
