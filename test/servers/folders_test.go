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

// TestFolders: server-filesystem asks for roots upon its handshake, and replaces
// the folders that it was configured with by the answer. A process that agents
// share must not be turned by the first of them; nor must the process of one
// session by another's.
func TestFolders(t *testing.T) {
	work := t.TempDir()
	for _, d := range []string{"given", "mine", "other"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var y strings.Builder
	y.WriteString("list_wait: 60s\nmcp_servers:\n")
	for _, mode := range []string{"shared", "per_session"} {
		fmt.Fprintf(&y, "  %s: {command: %s, args: [%s, %s], isolation: %s, connect_timeout: 120s}\n", mode, jsonOf(mcptest.Node(t)),
			jsonOf(mcptest.Module(t, "test/node", "@modelcontextprotocol/server-filesystem/dist/index.js")), jsonOf(filepath.Join(work, "given")), mode)
	}
	s := mcptest.StartSidecar(t, y.String())
	for _, mode := range []string{"shared", "per_session"} {
		for _, v := range []string{mcptest.Legacy, mcptest.Modern} {
			t.Run(mode+"/"+v, func(t *testing.T) {
				for _, root := range []string{"mine", "other"} {
					got := allowed(t, s.URL+"/"+mode, v, work, root)
					// Agents without sessions share the process of their caller.
					own := mode == "per_session" && (got == root || got == "mine" && v == mcptest.Modern)
					if got != "given" && !own {
						t.Errorf("the agent with the root %q works in %q", root, got)
					}
				}
			})
		}
	}
}

// allowed is where the server lets an agent work, after it could ask.
func allowed(t *testing.T, url, version, work, root string) (dir string) {
	t.Helper()
	a := &mcptest.Agent{URL: url, Version: version, Capabilities: `{"roots":{"listChanged":true}}`, Answer: func(string, []byte) string {
		return `"result":{"roots":[{"uri":` + jsonOf("file://"+filepath.Join(work, root)) + `,"name":"w"}]}`
	}}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, _, err := a.Converse(t.Context(), "tools/call", `"name":"list_allowed_directories","arguments":{}`)
		if err != nil || r.IsToolError() {
			t.Fatalf("%v %s", err, r.Raw)
		}
		dir = strings.TrimPrefix(r.Content(), "Allowed directories:\n"+work+"/")
	}
	return dir
}
