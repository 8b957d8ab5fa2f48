package egress

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

const (
	screenWait = time.Minute // how long a name stays unknown
	maxUnknown = 1024
)

// A screener resolves names that a proxy will resolve again. Behind many proxies
// no outer name resolves and the look-up takes its full time, so that a failure
// is remembered for a while.
type screener struct {
	lookup func(ctx context.Context, name string) ([]netip.Addr, error)

	mu      sync.Mutex
	unknown map[string]time.Time
}

// addrs are the name's addresses, or none if it cannot be resolved here.
func (s *screener) addrs(ctx context.Context, name string) []netip.Addr {
	if s.isUnknown(name) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	ips, err := s.lookup(limited, name)
	if err != nil {
		if ctx.Err() == nil {
			s.forget(name)
		}
		return nil
	}
	for i := range ips {
		ips[i] = plainAddr(ips[i])
	}
	return ips
}

func (s *screener) isUnknown(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.unknown[name]
	return ok && time.Since(since) < screenWait
}

func (s *screener) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown == nil || len(s.unknown) >= maxUnknown {
		s.unknown = map[string]time.Time{}
	}
	s.unknown[name] = time.Now()
}
