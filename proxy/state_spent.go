package proxy

import (
	"sync"
	"time"
)

const (
	// maxSpent bounds the states that are remembered as used. One caller has as
	// many as it leaves free at most, so that the next one finds room.
	maxSpent = 64 << 10
	// spentSweep is how often expired ones are looked for at most.
	spentSweep = 10 * time.Second
)

// A spent is the states that came back, until they expire. None is forgotten
// earlier: when it is full, it takes no more. The zero value is empty.
type spent struct {
	mu    sync.Mutex
	m     map[nonce]use
	has   map[string]int // by caller
	swept time.Time
}

type use struct {
	caller  string
	expires int64 // unix nanoseconds
}

// was reports whether a state was used.
func (s *spent) was(n nonce) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.m[n]
	return ok
}

// add uses a state. Of all who use the same one, first is true for one only;
// room is false when it could not be remembered.
func (s *spent) add(n nonce, caller string, expires int64) (first, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, used := s.m[n]; used {
		return false, true
	}
	s.sweep(time.Now())
	if s.has[caller] >= maxSpent-len(s.m) {
		return false, false
	}
	if s.m == nil {
		s.m, s.has = map[nonce]use{}, map[string]int{}
	}
	s.m[n] = use{caller, expires}
	s.has[caller]++
	return true, true
}

// of returns how many states of a caller are remembered.
func (s *spent) of(caller string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has[caller]
}

// sweep drops what has expired: it is refused for that.
func (s *spent) sweep(now time.Time) {
	if now.Sub(s.swept) < spentSweep {
		return
	}
	s.swept = now
	for n, u := range s.m {
		if u.expires <= now.UnixNano() {
			delete(s.m, n)
			if s.has[u.caller]--; s.has[u.caller] == 0 {
				delete(s.has, u.caller)
			}
		}
	}
}
