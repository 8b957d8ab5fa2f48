package upstream

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// gateHold is how long one start may keep its slot: a server that hangs in its
// handshake must not delay the others.
const gateHold = 5 * time.Second

// A spawnGate bounds how many processes start at once.
type spawnGate struct{ slots chan struct{} }

// newSpawnGate makes a gate for twice as many starts as there are CPUs: starting an
// interpreter keeps about half a CPU busy.
func newSpawnGate() *spawnGate { return gateOf(2 * runtime.GOMAXPROCS(0)) }

func gateOf(n int) *spawnGate { return &spawnGate{slots: make(chan struct{}, n)} }

// enter waits for a slot. leave hands it on, may be called twice, and happens by
// itself after gateHold. A nil gate is open.
func (g *spawnGate) enter(ctx context.Context) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release := sync.OnceFunc(func() { <-g.slots })
	timer := time.AfterFunc(gateHold, release)
	return func() { timer.Stop(); release() }, nil
}
