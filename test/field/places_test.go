package field

import (
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestFirstCallerLeavesRoom has one of two callers hold all it can of a server's
// processes with open questions. The other finds a place, though it never came before.
func TestFirstCallerLeavesRoom(t *testing.T) {
	d := newDir(t)
	tokens := []string{"first-token-0123456789", "second-token-0123456789"}
	file := d.write(t, "token", strings.Join(tokens, "\n")+"\n", 0o600)
	config := d.write(t, "c.yaml", "list_wait: 30s\nmcp_servers:\n"+stdio(t, "s", curious(mcptest.LegacyVersions...)), 0o600)
	s := mcptest.StartServe(t, "--config", config, "--token-file", file)
	greedy := &mcptest.Agent{URL: s.URL + "/s", Version: mcptest.Modern, Capabilities: ableToAnswer, Token: tokens[0]}
	for i, want := range []string{"input_required", "input_required", "MCPS-BUSY"} {
		r, err := greedy.Do(t.Context(), "tools/call", `"name":"ask","arguments":{}`)
		if err != nil || !strings.Contains(string(r.Raw), want) {
			t.Fatalf("call %d: %v %.600s, want %s", i, err, r.Raw, want)
		}
	}
	other := &mcptest.Agent{URL: s.URL + "/s", Version: mcptest.Modern, Capabilities: ableToAnswer, Token: tokens[1], Answer: answers}
	if r := throughQuestions(t, other, "ask", `{}`); r.Result == nil || r.IsToolError() {
		t.Errorf("the other caller got %.600s", r.Raw)
	}
}
