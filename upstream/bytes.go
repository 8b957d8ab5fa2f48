package upstream

import (
	"context"
	"fmt"
	"io"
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
	if b.acquire(ctx, n) {
		return n, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return 0, &Error{Server: b.server, Kind: Busy, RetryAfter: b.wait,
		Err: fmt.Errorf("no room for %d more bytes came free within %v (max_in_flight_bytes is %d)", n, b.wait, b.most)}
}

func (b *byteBudget) acquire(ctx context.Context, n int64) bool {
	if b.sem.TryAcquire(n) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	return b.sem.Acquire(ctx, n) == nil
}

// give gives back what take took.
func (b *byteBudget) give(n int64) {
	if b != nil && n > 0 {
		b.sem.Release(n)
	}
}

// roomFree is what an answer takes without being counted: that many of as many calls
// as there may be are little.
const roomFree = 256 << 10

// A roomReader takes room for a whole message once an answer turns out to be large.
// It takes that at once, so that those which have room come to their end, however
// many wait for it; the server waits meanwhile, as long as the call may last.
type roomReader struct {
	r    io.Reader
	ctx  context.Context // of the one call that reads
	b    *byteBudget
	got  int64
	held int64
	most int64 // what one message can have
}

func (r *roomReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.got += int64(n)
	if r.got <= roomFree || r.held > 0 {
		return n, err
	}
	if gone := r.b.sem.Acquire(r.ctx, r.most); gone != nil {
		return n, gone
	}
	r.held = r.most
	return n, err
}

func (r *roomReader) release() {
	if r != nil {
		r.b.give(r.held)
		r.held = 0
	}
}
