//go:build npm

package servers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A server is one real server and what is asked of it.
type server struct {
	name    string
	script  string // below node_modules
	args    []string
	env     map[string]string
	dir     string
	command string
	// tools is how many it has at least; the direct probe says the exact number.
	tools int
	calls []call
	asks  []ask
}

// A call is one tool call that gives the same bytes every time.
type call struct {
	tool, args string
	// holds is part of the result's text.
	holds string
}

// An ask is a request of another method; key is the member that holds the
// entries of a list.
type ask struct{ method, members, key string }

// all returns the servers; work is a directory that they may write to.
func all(t *testing.T, work string) []*server {
	t.Helper()
	files := filepath.Join(work, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "first line\nGrüße, 日本語\n"
	if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	memory := filepath.Join(work, "memory.json")
	if err := os.WriteFile(memory, []byte(`{"type":"entity","name":"Ada","entityType":"person","observations":["wrote notes"]}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	list := []*server{
		{name: "everything", script: "@modelcontextprotocol/server-everything/dist/index.js", tools: 10, calls: []call{
			{"echo", `{"message":"hello"}`, "Echo: hello"},
			{"get-sum", `{"a":2,"b":3}`, "5"},
			{"get-tiny-image", `{}`, ""},
			{"get-structured-content", `{"location":"Chicago"}`, ""},
			{"get-annotated-message", `{"messageType":"error","includeImage":true}`, "Error"},
			{"get-resource-links", `{"count":3}`, "resource"},
			{"echo", `{}`, "message"},
		}, asks: []ask{
			{"prompts/list", "", "prompts"},
			{"prompts/get", `"name":"args-prompt","arguments":{"city":"Köln"}`, ""},
			{"resources/list", "", "resources"},
			{"resources/templates/list", "", "resourceTemplates"},
			{"resources/read", `"uri":"demo://resource/static/document/architecture.md"`, ""},
			{"completion/complete", `"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"department","value":"E"}`, ""},
		}},
		{name: "filesystem", script: "@modelcontextprotocol/server-filesystem/dist/index.js", args: []string{files}, tools: 10, calls: []call{
			{"read_text_file", `{"path":` + jsonOf(filepath.Join(files, "a.txt")) + `}`, "Grüße"},
			{"list_directory", `{"path":` + jsonOf(files) + `}`, "a.txt"},
			{"list_allowed_directories", `{}`, files},
			{"read_text_file", `{"path":"/etc/hostname"}`, "denied"},
		}},
		{name: "memory", script: "@modelcontextprotocol/server-memory/dist/index.js", env: map[string]string{"MEMORY_FILE_PATH": memory}, tools: 9, calls: []call{
			{"read_graph", `{}`, "Ada"},
			{"search_nodes", `{"query":"notes"}`, "Ada"},
			{"open_nodes", `{"names":["nobody"]}`, ""},
		}},
		{name: "sequential-thinking", script: "@modelcontextprotocol/server-sequential-thinking/dist/index.js", tools: 1, calls: []call{
			{"sequentialthinking", `{"thought":"one","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`, "thoughtNumber"},
		}},
		{name: "playwright", script: "@playwright/mcp/cli.js", args: []string{"--headless"}, tools: 20},
		{name: "github", script: "@modelcontextprotocol/server-github/dist/index.js", tools: 20},
		{name: "mongodb", script: "mongodb-mcp-server/dist/esm/index.js", args: []string{"--telemetry", "disabled"}, tools: 10},
		{name: "notion", script: "@notionhq/notion-mcp-server/bin/cli.mjs", env: map[string]string{"NOTION_TOKEN": "ntn_x"}, tools: 10},
		{name: "desktop-commander", script: "@wonderwhy-er/desktop-commander/dist/index.js", tools: 15},
		{name: "code-runner", script: "mcp-server-code-runner/dist/cli.js", tools: 1},
	}
	for _, s := range list {
		s.command, s.dir = mcptest.Node(t), work
		s.args = append([]string{mcptest.Module(t, "test/node", s.script)}, s.args...)
		if s.env == nil {
			s.env = map[string]string{}
		}
		s.env["HOME"] = work
	}
	return list
}
