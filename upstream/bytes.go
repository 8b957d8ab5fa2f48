package upstream

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// A byteBudget bounds what the messages of one server take of memory at once.
type byteBudget struct {
	server string
	most   int64
	sem    *semaphore.Weighted
	wait   time.Duration
}

func newByteBudget(server string, s *Settings) *byteBudget {
	_, wait := s.queue()
	n := s.inFlight()
	return &byteBudget{server: server, most: n, sem: semaphore.NewWeighted(n), wait: wait}
}

// small messages are not counted one by one: their number is bounded.
const small = 64 << 10

// take waits for room for n more bytes and returns what it took.
func (b *byteBudget) take(ctx context.Context, n int64) (int64, error) {
	if b == nil || n <= small {
		return 0, nil
	}
	n = min(n, b.most)
	if b.sem.TryAcquire(n) {
		return n, nil
	}
	wctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	if b.sem.Acquire(wctx, n) == nil {
		return n, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return 0, &Error{Server: b.server, Kind: Busy, RetryAfter: b.wait,
		Err: fmt.Errorf("no room for %d more bytes came free within %v (max_in_flight_bytes is %d)", n, b.wait, b.most)}
}

// give gives back what take took.
func (b *byteBudget) give(n int64) {
	if b != nil && n > 0 {
		b.sem.Release(n)
	}
}
