package upstream

import (
	"context"
	"errors"
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

// errNoRoom is why the rest of an answer is not read.
var errNoRoom = errors.New("no room for the answer came free in time")

// A roomReader takes room as bytes come, twice as much each time, up to what one
// message can have. The server waits meanwhile.
type roomReader struct {
	r         io.Reader
	ctx       context.Context // of the one call that reads
	b         *byteBudget
	got, held int64
	most      int64
}

func (r *roomReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.got += int64(n)
	if r.got <= max(r.held, small) || r.held >= r.most {
		return n, err
	}
	want := r.most
	for size := int64(4 * small); size < r.most; size *= 2 {
		if size >= r.got {
			want = size
			break
		}
	}
	if !r.b.acquire(r.ctx, want-r.held) {
		return n, errNoRoom
	}
	r.held = want
	return n, err
}

func (r *roomReader) release() {
	if r != nil {
		r.b.give(r.held)
		r.held = 0
	}
}
