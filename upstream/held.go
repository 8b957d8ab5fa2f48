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

	calls atomic.Int64
	last  atomic.Int64 // when a call ended last, in Unix nanoseconds
	// retired connections take no more calls.
	retired  atomic.Bool
	recycled atomic.Pointer[string] // the setting that ended it; nil while none did
	dead     atomic.Pointer[error]  // why we gave it up; nil while we have not
	born     time.Time
	left     chan struct{} // closed by the pulse when another takes over
	lift     func()        // ends what its child may reach; nil when nothing fences it
}

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
	for end := time.Now().Add(longest); h.calls.Load() > 0 && time.Now().Before(end); {
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
	h.calls.Add(1)
	if h.retired.Load() {
		h.calls.Add(-1)
		return false
	}
	return true
}

func (h *held) end() {
	h.last.Store(time.Now().UnixNano())
	h.calls.Add(-1)
}

// retire keeps new calls away if none is on it, or if that cannot wait any longer:
// then those that are go on. It reports whether it did.
func (h *held) retire(urgent bool) bool {
	h.retired.Store(true)
	if h.calls.Load() == 0 || urgent {
		return true
	}
	h.retired.Store(false)
	return false
}

// lost is why the connection is no more.
func (h *held) lost() error {
	if err := h.dead.Load(); err != nil {
		return *err
	}
	return h.Err()
}
