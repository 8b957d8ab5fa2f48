package field

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// listWait is that of the test of isolation, and its limit allows a second more.
const listWait = 2 * time.Second

// oneHangs is one of five servers that does not answer its handshake for long.
func oneHangs(t *testing.T) {
	const late = 9 * time.Second
	hang := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a")}, Delays: map[string]time.Duration{"initialize": late}}
	entries, names := []string{at("hang", hang.Start(t))}, []string{}
	for _, n := range []string{"s1", "s2", "s3", "s4"} {
		entries = append(entries, at(n, (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
		names = append(names, "mcp_"+n+"_a")
	}
	config := newDir(t).write(t, "c.yaml", "list_wait: "+listWait.String()+"\nmcp_servers:\n"+strings.Join(entries, ""), 0o600)
	s := mcptest.LaunchServe(t, "--config", config, "--insecure-no-auth")
	a := open(t, s.URL, mcptest.Legacy)
	heard := changes(t, a)
	if d := fastest(2, func() { lists(t, a, names...) }); d > listWait+time.Second {
		t.Errorf("the other servers' list took %v", d)
	}
	for _, n := range names {
		if d := fastest(2, func() { works(t, a, n) }); d > time.Second {
			t.Errorf("%s took %v", n, d)
		}
	}
	// The four may be told of too, when they were slower than this test.
	for n := 0; n != 5; n = len(tools(t, a)) {
		select {
		case <-heard:
		case <-time.After(patience):
			t.Fatal("nobody told of the late server")
		}
	}
	works(t, a, "mcp_hang_a")
}

// fastest is the shortest of n times: machines that run tests are busy.
func fastest(n int, f func()) time.Duration {
	best := time.Hour
	for range n {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}
