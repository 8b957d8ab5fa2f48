package upstream

import (
	"context"
	"sync/atomic"
	"time"
)

// held is a connection in use: the name by which later calls find it again, and
// the calls that are on it.
type held struct {
	conn
	via string

	state    atomic.Int64           // the calls on it, and whether it takes no more
	last     atomic.Int64           // when a call ended last, in Unix nanoseconds
	recycled atomic.Pointer[string] // the setting that ended it; nil while none did
	dead     atomic.Pointer[error]  // why we gave it up; nil while we have not
	born     time.Time
	left     chan struct{} // closed by retire: another takes over
	lift     func()        // ends what its child may reach; nil when nothing fences it
}

// retiredBit of state is set when the connection takes no more calls.
const retiredBit = 1 << 40

// calls are those on it now.
func (h *held) calls() int64 { return h.state.Load() &^ retiredBit }

func (h *held) retired() bool { return h.state.Load()&retiredBit != 0 }

func newHeld(c conn, via string, lift func()) *held {
	return &held{conn: c, via: via, born: time.Now(), left: make(chan struct{}), lift: lift}
}

// finish ends the connection. One that another took over from ends when its last
// call did, or at the latest after longest.
func (h *held) finish(ctx context.Context, longest time.Duration) {
	defer func() {
		h.Close()
		if h.lift != nil {
			h.lift()
		}
	}()
	if !over(h.left) {
		return
	}
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for end := time.Now().Add(longest); h.calls() > 0 && time.Now().Before(end); {
		select {
		case <-t.C:
		case <-h.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// begin counts a call in; false when it has to go elsewhere.
func (h *held) begin() bool {
	for {
		n := h.state.Load()
		if n&retiredBit != 0 {
			return false
		}
		if h.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *held) end() {
	h.last.Store(time.Now().UnixNano())
	h.state.Add(-1)
}

// retire keeps new calls away if none is on it, or if that cannot wait any longer:
// then those that are go on. setting is the one that wants it, nil if none does. It
// reports whether it did, to the first who asks.
func (h *held) retire(urgent bool, setting *string) bool {
	if urgent {
		if h.state.Or(retiredBit)&retiredBit != 0 {
			return false
		}
	} else if !h.state.CompareAndSwap(0, retiredBit) {
		return false
	}
	h.recycled.Store(setting)
	close(h.left)
	return true
}

// lost is why the connection is no more.
func (h *held) lost() error {
	if err := h.dead.Load(); err != nil {
		return *err
	}
	return h.Err()
}
