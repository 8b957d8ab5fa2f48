//go:build npm

package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestAskedClient is the official TypeScript client in both generations, one for
// each era. It answers what servers ask, over both transports: the demo's question,
// and those of server-everything.
func TestAskedClient(t *testing.T) {
	server := mcptest.Module(t, "test/node", "@modelcontextprotocol/server-everything/dist/index.js")
	config := filepath.Join(t.TempDir(), "c.yaml")
	y := fmt.Sprintf("ops_listen: off\nmcp_servers:\n  demo: {command: %s, args: [demo-server]}\n  everything: {command: %s, args: [%s], connect_timeout: 120s}\n",
		jsonOf(mcptest.Binary(t)), jsonOf(mcptest.Node(t)), jsonOf(server))
	if err := os.WriteFile(config, []byte(y), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := mcptest.Root()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(root, "test/node/asked.mjs")
	s := mcptest.StartServe(t, "--config", config, "--insecure-no-auth")
	for _, client := range []string{"v1", "v2"} {
		t.Run(client+"/http", func(t *testing.T) { asked(t, script, client, "http", s.URL) })
		t.Run(client+"/stdio", func(t *testing.T) {
			asked(t, script, client, "stdio", mcptest.Binary(t), "serve", "--stdio", "--config", config)
		})
	}
}

// asked runs the client and holds what it was asked, and what came of it.
func asked(t *testing.T, script, client string, how ...string) {
	t.Helper()
	exchanges := []struct{ call, question, answer string }{
		{`{"name":"mcp_demo_ask","arguments":{"question":"Who?"}}`, "[demo] Who?", "The answer is: Ada"},
		{`{"name":"mcp_everything_trigger_sampling_request","arguments":{"prompt":"hi"}}`, "context: hi", "said by the client"},
		{`{"name":"mcp_everything_trigger_elicitation_request","arguments":{}}`, "[everything] Please provide", "- Name: Ada"},
		{`{"name":"mcp_everything_trigger_url_elicitation","arguments":{"url":"https://example.com/x"}}`, "[everything] Please open the link", "User completed"},
		{`{"name":"mcp_everything_get_roots_list","arguments":{}}`, "", "file:///home/ada/client"},
	}
	var calls []string
	for _, e := range exchanges {
		calls = append(calls, e.call)
	}
	out, errs, err := node(t, t.TempDir(), "", append([]string{script, client, "[" + strings.Join(calls, ",") + "]"}, how...)...)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	if got := mcptest.Text([]byte(out), "version"); client == "v2" && got != mcptest.Modern {
		t.Errorf("agreed on %q, want %q", got, mcptest.Modern)
	}
	answers, questions := mcptest.Elements(mcptest.Member([]byte(out), "answers")), mcptest.Elements(mcptest.Member([]byte(out), "asked"))
	for i, e := range exchanges {
		if i >= len(answers) || !strings.Contains(string(answers[i]), e.answer) {
			t.Errorf("%s: no %q in %s", e.call, e.answer, answers)
		}
		if e.question != "" && (i >= len(questions) || !strings.Contains(string(questions[i]), e.question)) {
			t.Errorf("%s: no %q among %s", e.call, e.question, questions)
		}
	}
	if tools := string(mcptest.Member([]byte(out), "tools")); !slices.Contains(strings.Split(tools, `"`), "mcp_everything_trigger_sampling_request") {
		t.Errorf("not listed for who can answer: %s", tools)
	}
}
