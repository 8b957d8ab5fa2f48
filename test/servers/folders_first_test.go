//go:build npm

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestFoldersFirst: the roots of an agent hold for the first call of its session
// too, although server-filesystem asks for them only when it has begun to serve
// the folder that it was started with.
func TestFoldersFirst(t *testing.T) {
	const fresh = 10
	work := t.TempDir()
	for _, d := range []string{"given", "mine"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(work, "given", "outside.txt")
	if err := os.WriteFile(outside, []byte("not for agents with roots"), 0o644); err != nil {
		t.Fatal(err)
	}
	var y strings.Builder
	y.WriteString("list_wait: 60s\nmcp_servers:\n")
	for i := range 3 {
		fmt.Fprintf(&y, "  files%d: {command: %s, args: [%s, %s], isolation: per_session, connect_timeout: 120s}\n", i, jsonOf(mcptest.Node(t)),
			jsonOf(mcptest.Module(t, "test/node", "@modelcontextprotocol/server-filesystem/dist/index.js")), jsonOf(filepath.Join(work, "given")))
	}
	s := mcptest.StartSidecar(t, y.String())
	for i := range fresh {
		firstCall(t, s.URL+"/files0", mcptest.Legacy, work, outside, i)
	}
	for i := range 3 { // without a session the process is the caller's: one for each server
		firstCall(t, fmt.Sprintf("%s/files%d", s.URL, i), mcptest.Modern, work, outside, i)
	}
}

// firstCall reads what lies outside of the agent's root, which must fail.
func firstCall(t *testing.T, url, version, work, outside string, i int) {
	t.Helper()
	a := &mcptest.Agent{URL: url, Version: version, Capabilities: `{"roots":{}}`, Answer: func(string, []byte) string {
		return `"result":{"roots":[{"uri":` + jsonOf("file://"+filepath.Join(work, "mine")) + `,"name":"w"}]}`
	}}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, _, err := a.Converse(t.Context(), "tools/call", `"name":"read_text_file","arguments":{"path":`+jsonOf(outside)+`}`)
	if err != nil {
		t.Fatal(err)
	}
	if !r.IsToolError() || !strings.Contains(r.Content(), "outside allowed directories") {
		t.Errorf("%s, agent %d: the first call got %s", version, i, r.Content())
	}
}
