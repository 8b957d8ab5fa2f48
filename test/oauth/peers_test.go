//go:build npm

package oauth

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestPeers: five processes share a login through twenty rotations. None uses a
// refresh token that another one used, which would end the login.
func TestPeers(t *testing.T) {
	t.Parallel()
	const processes, rotations = 5, 20
	w := newWorld(t, 1, "")
	w.login(t)
	w.p.do(t, "slow=200&at=/token") // so that all want a token before one has it
	var calls, failed atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range processes {
		_, a := w.serve(t)
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				calls.Add(1)
				r, err := a.Call(t.Context(), "mcp_locked_echo", `{"n":1}`)
				if err != nil || r.Result == nil || r.IsToolError() {
					failed.Add(1)
					t.Errorf("a call failed: %v %.400s", err, body(r))
					return
				}
			}
		})
	}
	before := w.p.seen(t).Refreshed
	waitFor(t, "twenty rotations", 50*time.Second, func() bool { return failed.Load() > 0 || w.p.seen(t).Refreshed-before >= rotations })
	close(stop)
	all.Wait()
	s := w.good(t)
	if s.Asked > s.Refreshed+1 {
		t.Errorf("the provider was asked %d times for %d tokens", s.Asked, s.Refreshed+1)
	}
	w.kept(t)
	t.Logf("%d calls, %d rotations", calls.Load(), s.Refreshed)
}

func body(r *mcptest.Reply) []byte {
	if r == nil {
		return nil
	}
	return r.Body
}
