//go:build npm

package oauth

import (
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestKilled: a process that is killed while it refreshes leaves a login that works,
// or one that has to be repeated. The provider is slow to answer, so that some of the
// kills hit between its answer and the disk.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "")
	w.login(t)
	w.p.do(t, "slow=50&at=/token")
	const kills = 10
	lost := 0
	for i := range kills + 1 {
		s, a := w.serve(t)
		if text, code := call(t, a, "locked"); code != "" {
			wantsLogin(t, text, code)
			lost++
			w.login(t)
			waitFor(t, "the new login to be taken up", pickup, func() bool {
				_, code := call(t, a, "locked")
				return code == ""
			})
		}
		if i < kills {
			w.kill(t, s, a, i%2 == 0)
		}
		w.kept(t)
		if strings.Contains(s.Log(), "damaged") {
			t.Errorf("something is damaged:\n%s", s.Log())
		}
	}
	if n := w.p.seen(t).Reused; lost > n {
		t.Errorf("%d logins were asked for, but only %d refresh tokens were lost", lost, n)
	}
	t.Logf("%d of %d kills cost the login", lost, kills)
}

// kill kills a process under calls: right after the provider was asked for a token,
// or at any time.
func (w *world) kill(t *testing.T, s *mcptest.Sidecar, a *mcptest.Agent, asked bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			a.Call(ctx, "mcp_locked_echo", "{}")
		}
	}()
	wait := rand.N(1200 * time.Millisecond)
	if asked {
		before := w.p.seen(t).Asked
		waitFor(t, "a refresh", patience, func() bool { return w.p.seen(t).Asked > before })
		wait = rand.N(60 * time.Millisecond)
	}
	time.Sleep(wait)
	syscall.Kill(s.PID, syscall.SIGKILL)
	cancel()
	<-done
}
