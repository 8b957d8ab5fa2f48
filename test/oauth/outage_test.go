//go:build npm

package oauth

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestOutage: a provider that is in trouble, or away, is no reason to log in. What
// started meanwhile works afterwards, too.
func TestOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "")
	w.login(t)
	_, a := w.serve(t)
	served(t, a, "locked")
	agents := []*mcptest.Agent{a}
	for _, c := range []struct {
		name       string
		begin, end func()
	}{
		{"503", func() { w.p.do(t, "fail=503") }, func() { w.p.do(t, "fail=0") }},
		{"429 for tokens", func() { w.p.do(t, "fail=429&at=/token") }, func() { w.p.do(t, "fail=0") }},
		{"gone", w.p.kill, func() { w.p.start(t) }},
	} {
		c.begin()
		if len(agents) == 1 {
			_, late := w.serve(t)
			agents = append(agents, late)
		}
		codes := failures(t, agents, time.Duration(w.p.life)*time.Second+2*time.Second)
		if len(codes) == 0 {
			t.Errorf("%s: no call failed: that was no outage", c.name)
		}
		if slices.Contains(codes, "UNAUTHORIZED") {
			t.Errorf("%s: a login was asked for", c.name)
		}
		t.Logf("%s: %v", c.name, codes)
		c.end()
		for _, a := range agents {
			waitFor(t, "calls after "+c.name, patience, func() bool {
				text, code := call(t, a, "locked")
				if strings.Contains(text, "mcp-sidecar login") {
					t.Fatalf("after %s: %s", c.name, text)
				}
				return code == ""
			})
		}
	}
	w.good(t)
}

// failures calls for a while, and returns the codes of failures.
func failures(t *testing.T, agents []*mcptest.Agent, d time.Duration) (codes []string) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, a := range agents {
			text, code := call(t, a, "locked")
			if code != "" && !slices.Contains(codes, code) {
				codes = append(codes, code)
			}
			if strings.Contains(text, "mcp-sidecar login") {
				t.Fatalf("a login is asked for: %s", text)
			}
			served(t, a, "free")
		}
	}
	return codes
}
