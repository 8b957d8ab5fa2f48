package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// budgetWait bounds how long a newcomer waits for room.
	budgetWait = 5 * time.Second
	// bodyTimeout bounds the arrival of one message.
	bodyTimeout = 30 * time.Second
	// smallBody is what a pooled buffer holds, and what is taken at first.
	smallBody = 64 << 10
)

var (
	errNoRoom  = errors.New("too many bytes of other requests are in flight")
	errTooLong = errors.New("message is longer than limits.request_bytes")
)

// A budget bounds the bytes of all messages from agents held at once.
type budget struct {
	sem *semaphore.Weighted
	max int64
}

func newBudget(n int) *budget {
	return &budget{sem: semaphore.NewWeighted(int64(n)), max: int64(n)}
}

// take reserves n bytes, waiting a bounded time.
func (b *budget) take(ctx context.Context, n int64) error {
	if b.sem.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, budgetWait)
	defer cancel()
	if n > b.max || b.sem.Acquire(ctx, n) != nil {
		return errNoRoom
	}
	return nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, smallBody); return &b }}

// A body is one message from an agent and the room that it takes.
type body struct {
	b      []byte
	pooled *[]byte
	held   int64
	budget *budget
}

// free gives the room back; the bytes must not be used afterwards.
func (m *body) free() {
	if m.pooled != nil {
		buffers.Put(m.pooled)
	}
	m.budget.sem.Release(m.held)
	*m = body{}
}

// grow takes room for as many bytes again, before the buffer does.
func (m *body) grow(ctx context.Context, limit int) error {
	more := int64(min(cap(m.b), limit+1-cap(m.b)))
	if err := m.budget.take(ctx, more); err != nil {
		return err
	}
	m.held += more
	next := make([]byte, len(m.b), int64(cap(m.b))+more)
	copy(next, m.b)
	m.b = next
	return nil
}

// read reads the body of r within limit. Room is taken as bytes come, so that
// an announced length alone holds nothing. On an error nothing is held.
func (b *budget) read(r *http.Request, rc *http.ResponseController, limit int) (m body, err error) {
	if r.ContentLength > int64(limit) {
		return m, errTooLong
	}
	first := int64(min(smallBody, limit+1))
	if n := r.ContentLength; n >= 0 && n < first {
		first = n + 1
	}
	if err := b.take(r.Context(), first); err != nil {
		return m, err
	}
	p := buffers.Get().(*[]byte)
	m = body{b: (*p)[:0:first], pooled: p, held: first, budget: b}
	rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	err = m.fill(r, limit)
	if err == nil {
		err = rc.SetReadDeadline(time.Time{})
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		m.free()
		return body{}, err
	}
	return m, nil
}

func (m *body) fill(r *http.Request, limit int) error {
	for {
		n, err := r.Body.Read(m.b[len(m.b):cap(m.b)])
		m.b = m.b[:len(m.b)+n]
		if len(m.b) > limit {
			return errTooLong
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(m.b) == cap(m.b) {
			if err := m.grow(r.Context(), limit); err != nil {
				return err
			}
		}
	}
}
