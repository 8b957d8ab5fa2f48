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
	// largeBody is the size of the larger buffers that are kept.
	largeBody = 256 << 10
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

// Two sizes of buffers are kept for messages; larger ones are made as needed.
var (
	smalls = sync.Pool{New: func() any { b := make([]byte, 0, smallBody); return &b }}
	larges = sync.Pool{New: func() any { b := make([]byte, 0, largeBody); return &b }}
)

// borrow returns an empty buffer of at least n bytes.
func borrow(n int) *[]byte {
	switch {
	case n <= smallBody:
		return smalls.Get().(*[]byte)
	case n <= largeBody:
		return larges.Get().(*[]byte)
	}
	b := make([]byte, 0, n)
	return &b
}

// giveBack takes back what borrow gave. Nothing may point into it any more.
func giveBack(p *[]byte) {
	switch cap(*p) {
	case smallBody:
		smalls.Put(p)
	case largeBody:
		larges.Put(p)
	}
}

// A body is one message from an agent and the room that it takes.
type body struct {
	b      []byte
	buf    *[]byte // what b lies in
	held   int64
	budget *budget
}

// free gives the room back; the bytes must not be used afterwards.
func (m *body) free() {
	giveBack(m.buf)
	m.budget.sem.Release(m.held)
	*m = body{}
}

// grow takes room for n bytes in all, before it takes the memory.
func (m *body) grow(ctx context.Context, n int) error {
	if err := m.budget.take(ctx, int64(n)-m.held); err != nil {
		return err
	}
	m.held = int64(n)
	next := borrow(n)
	m.b = append((*next)[:0:n], m.b...)
	giveBack(m.buf)
	m.buf = next
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
	p := borrow(int(first))
	m = body{b: (*p)[:0:first], buf: p, held: first, budget: b}
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
			if err := m.grow(r.Context(), nextSize(len(m.b), r.ContentLength, limit)); err != nil {
				return err
			}
		}
	}
}

// nextSize is how large a full buffer becomes: twice as large, or what the
// announced length needs, but no more than the limit lets a message be.
func nextSize(n int, announced int64, limit int) int {
	if announced >= int64(n) {
		return int(announced) + 1
	}
	return min(2*n, limit+1)
}
