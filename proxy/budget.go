package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
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
	// maxReserve bounds the part of the budget that small messages have.
	maxReserve = 32 << 20
)

var (
	errNoRoom  = errors.New("too many bytes of other requests are in flight")
	errTooLong = errors.New("message is longer than limits.request_bytes")
)

// A budget bounds the bytes of all messages from agents held at once. Small
// messages have a part of their own, so that large ones do not keep ordinary
// calls out.
type budget struct{ small, large *pool }

// newBudget shares out n bytes; largest is that of one message.
func newBudget(n, largest int) *budget {
	reserve := min(n/8, maxReserve)
	return &budget{
		small: newPool(int64(reserve), smallBody),
		large: newPool(int64(n-reserve), int64(largest)+1),
	}
}

// A room is the bytes that one message takes of a budget.
type room struct {
	budget *budget
	caller string
	large  bool  // never small: it was announced as large
	pool   *pool // nil while nothing is taken
	n      int64
}

// widen takes room for n bytes in all, waiting a bounded time.
func (r *room) widen(ctx context.Context, n int64) error {
	p := r.budget.small
	if n > smallBody || r.large {
		p = r.budget.large
	}
	n = min(n, p.max) // one message may have it all
	had := int64(0)
	if p == r.pool {
		had = r.n
	}
	if err := p.take(ctx, r.caller, n-had); err != nil {
		return err
	}
	if p != r.pool {
		r.release()
	}
	r.pool, r.n = p, n
	return nil
}

// release gives all room back.
func (r *room) release() {
	if r.pool != nil {
		r.pool.release(r.caller, r.n)
		r.pool, r.n = nil, 0
	}
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
	b   []byte
	buf *[]byte // what b lies in
	room
}

// free gives the room back, once; the bytes must not be used afterwards.
func (m *body) free() {
	if m.buf == nil {
		return
	}
	giveBack(m.buf)
	m.release()
	*m = body{}
}

// grow takes room for n bytes in all, before it takes the memory.
func (m *body) grow(ctx context.Context, n int) error {
	if err := m.widen(ctx, int64(n)); err != nil {
		return err
	}
	next := borrow(n)
	m.b = append((*next)[:0:n], m.b...)
	giveBack(m.buf)
	m.buf = next
	return nil
}

// read reads the body of r, which a caller sent, within limit. Room is taken as bytes come, so that
// an announced length alone holds nothing. On an error nothing is held.
func (b *budget) read(in *inbound, limit int) (m body, err error) {
	r := in.r
	if r.ContentLength > int64(limit) {
		return m, errTooLong
	}
	first := int64(min(smallBody, limit+1))
	if n := r.ContentLength; n >= 0 && n < first {
		first = n + 1
	}
	m.room = room{budget: b, caller: in.caller.ID, large: r.ContentLength > smallBody}
	if err := m.widen(r.Context(), first); err != nil {
		return body{}, err
	}
	m.buf = borrow(int(first))
	m.b = (*m.buf)[:0:first]
	in.rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	err = m.fill(r, limit)
	if err == nil {
		err = in.rc.SetReadDeadline(time.Time{})
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
