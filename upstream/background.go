package upstream

import (
	"context"
	"sync"
)

// background is short work of a Set that no owner's loop should wait for. It is
// waited for at the end.
type background struct {
	mu   sync.Mutex
	ctx  context.Context // nil before begin and after end: nothing is taken on
	work sync.WaitGroup
}

func (b *background) begin(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ctx = ctx
}

// end waits for what was taken on; its context has ended.
func (b *background) end() {
	b.mu.Lock()
	b.ctx = nil
	b.mu.Unlock()
	b.work.Wait()
}

// background runs f until it returns, with a context that ends with the Set. It
// returns false when that has ended already.
func (s *Set) background(f func(ctx context.Context)) bool {
	b := &s.aside
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil || b.ctx.Err() != nil {
		return false
	}
	ctx := b.ctx
	b.work.Go(func() { f(ctx) })
	return true
}
