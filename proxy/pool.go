package proxy

import (
	"context"
	"slices"
	"sync"
)

// A pool is bytes that callers share. No caller holds more than its share, so
// that the others always find room.
type pool struct {
	max, share int64

	mu    sync.Mutex
	free  int64
	held  map[string]int64 // by caller
	queue []*waiter        // who waits, the first first
}

type waiter struct {
	caller string
	n      int64
	ready  chan struct{} // closed when n bytes are the caller's
}

// newPool makes a pool of n bytes. A share is half of it, but at least one
// message of the largest size.
func newPool(n, largest int64) *pool {
	share := max(n/2, min(largest, n))
	return &pool{max: n, share: share, free: n, held: map[string]int64{}}
}

// take makes n bytes the caller's, waiting a bounded time.
func (p *pool) take(ctx context.Context, caller string, n int64) error {
	w := p.ask(caller, n)
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, budgetWait)
	defer cancel()
	return p.await(ctx, w)
}

// await waits as long as ctx lasts.
func (p *pool) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return p.giveUp(w)
	}
}

// ask takes the bytes at once and returns nil, or queues for them.
func (p *pool) ask(caller string, n int64) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free >= n && p.within(caller, n) && !slices.ContainsFunc(p.queue, p.lacksRoom) {
		p.give(caller, n)
		return nil
	}
	w := &waiter{caller: caller, n: n, ready: make(chan struct{})}
	p.queue = append(p.queue, w)
	return w
}

func (p *pool) within(caller string, n int64) bool { return p.held[caller]+n <= p.share }

// lacksRoom tells who waits for others from who waits for itself.
func (p *pool) lacksRoom(w *waiter) bool { return p.within(w.caller, w.n) }

func (p *pool) give(caller string, n int64) {
	p.free -= n
	p.held[caller] += n
}

// giveUp leaves the queue. What was given at the same moment is kept.
func (p *pool) giveUp(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.queue, w)
	if i < 0 {
		return nil
	}
	p.queue = slices.Delete(p.queue, i, i+1)
	p.serve()
	return errNoRoom
}

// release gives n bytes of a caller back.
func (p *pool) release(caller string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	if p.held[caller] -= n; p.held[caller] == 0 {
		delete(p.held, caller)
	}
	p.serve()
}

// serve gives to those who wait, in order; who is over its share is passed by.
func (p *pool) serve() {
	for i := 0; i < len(p.queue); {
		w := p.queue[i]
		switch {
		case !p.within(w.caller, w.n):
			i++
		case p.free < w.n:
			return
		default:
			p.give(w.caller, w.n)
			close(w.ready)
			p.queue = slices.Delete(p.queue, i, i+1)
		}
	}
}
