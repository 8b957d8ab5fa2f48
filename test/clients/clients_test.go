//go:build npm

package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func TestMain(m *testing.M) { os.Exit(mcptest.Run(m)) }

// demo runs the embedded demo servers.
func demo(t *testing.T) *mcptest.Sidecar {
	t.Helper()
	return mcptest.StartServe(t, "--demo", "--insecure-no-auth")
}

// demoTools asks the endpoint itself, so that clients are compared with the wire.
func demoTools(t *testing.T, s *mcptest.Sidecar) []string {
	t.Helper()
	a := &mcptest.Agent{URL: s.URL}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	tools, err := a.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tools["mcp_demo_echo"] == nil || len(tools) < 5 {
		t.Fatalf("the demo lists %v", slices.Sorted(maps.Keys(tools)))
	}
	return slices.Sorted(maps.Keys(tools))
}

func sameNames(t *testing.T, want, got []string) {
	t.Helper()
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
}

// TestGoSDK is go-sdk's client at every version of the protocol.
func TestGoSDK(t *testing.T) {
	s := demo(t)
	want := demoTools(t, s)
	for _, v := range append([]string{mcptest.Modern}, mcptest.LegacyVersions...) {
		t.Run(v, func(t *testing.T) {
			progress := make(chan float64, 100)
			c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
			})
			cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.URL}, &mcp.ClientSessionOptions{ProtocolVersion: v})
			if err != nil {
				t.Fatal(err)
			}
			defer cs.Close()
			if got := cs.InitializeResult().ProtocolVersion; got != v {
				t.Errorf("agreed on %s, want %s", got, v)
			}
			sameNames(t, want, sdkTools(t, cs))
			sdkCalls(t, cs)
			sdkProgress(t, cs, progress)
		})
	}
}

func sdkTools(t *testing.T, cs *mcp.ClientSession) []string {
	t.Helper()
	var names []string
	for tool, err := range cs.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func sdkCalls(t *testing.T, cs *mcp.ClientSession) {
	t.Helper()
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "mcp_demo_echo", Arguments: map[string]any{"text": "grüße"}})
	if err != nil || r.Content[0].(*mcp.TextContent).Text != "grüße" {
		t.Errorf("echo: %v %v", r, err)
	}
	if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "mcp_demo_nothing"}); err == nil {
		t.Error("an unknown tool answers")
	}
	res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://about"})
	if err != nil || res.Contents[0].Text == "" {
		t.Errorf("resource: %v %v", res, err)
	}
	p, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "mcp_demo_greet", Arguments: map[string]string{"name": "Ada"}})
	if err != nil || !strings.Contains(p.Messages[0].Content.(*mcp.TextContent).Text, "Ada") {
		t.Errorf("prompt: %v %v", p, err)
	}
}

func sdkProgress(t *testing.T, cs *mcp.ClientSession, progress <-chan float64) {
	t.Helper()
	p := &mcp.CallToolParams{Name: "mcp_demo_slow", Arguments: map[string]any{"milliseconds": 300}}
	p.SetProgressToken("mine")
	if _, err := cs.CallTool(t.Context(), p); err != nil {
		t.Errorf("slow: %v", err)
	}
	last := 0.0
	for n := len(progress); n > 0; n-- {
		v := <-progress
		if v <= last {
			t.Errorf("progress went from %v to %v", last, v)
		}
		last = v
	}
	if last == 0 {
		t.Error("no progress came while slow ran")
	}
}

// node runs a script with Node.js 22 in a home of its own.
func node(t *testing.T, home, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	p := mcptest.Program{
		Path: mcptest.Node(t), Args: args, Dir: home, Stdin: stdin,
		Env: []string{"HOME=" + home, "PATH=" + filepath.Dir(mcptest.Node(t)) + ":" + os.Getenv("PATH"), "NO_COLOR=1"},
	}
	return p.Run(t)
}

// TestInspector is the Inspector's command line.
func TestInspector(t *testing.T) {
	s := demo(t)
	want := demoTools(t, s)
	cli := mcptest.Module(t, "test/node", "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	run := func(args ...string) []byte {
		t.Helper()
		out, errs, err := node(t, t.TempDir(), "", append([]string{cli, "--cli", s.URL, "--transport", "http"}, args...)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, errs)
		}
		return []byte(out)
	}
	sameNames(t, want, names(run("--method", "tools/list")))
	called := run("--method", "tools/call", "--tool-name", "mcp_demo_echo", "--tool-arg", "text=hi")
	if got := mcptest.Text(mcptest.Elements(mcptest.Member(called, "content"))[0], "text"); got != "hi" {
		t.Errorf("echo: %s", called)
	}
	read := run("--method", "resources/read", "--uri", "demo://about")
	if !strings.Contains(string(read), "demo server") {
		t.Errorf("resource: %s", read)
	}
}

// names are the tools of a tools/list result.
func names(result []byte) []string {
	var out []string
	for _, tool := range mcptest.Elements(mcptest.Member(result, "tools")) {
		out = append(out, mcptest.Text(tool, "name"))
	}
	return out
}

// TestMCPRemote is mcp-remote, through which stdio-only clients come.
func TestMCPRemote(t *testing.T) {
	s := demo(t)
	want := demoTools(t, s)
	script := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"mcp_demo_echo","arguments":{"text":"hi"}}}`,
	}, "\n") + "\n"
	got := converse(t, script, 3, mcptest.Module(t, "test/node", "mcp-remote/dist/proxy.js"), s.URL, "--allow-http", "--transport", "http-only")
	sameNames(t, want, names(got["2"].Result))
	if text := mcptest.Text(mcptest.Elements(mcptest.Member(got["3"].Result, "content"))[0], "text"); text != "hi" {
		t.Errorf("echo: %s", got["3"].Result)
	}
}

// answers reads messages, one a line, by id.
func answers(out string) map[string]mcptest.Message {
	all := map[string]mcptest.Message{}
	for line := range strings.SplitSeq(out, "\n") {
		if m := mcptest.Parse([]byte(line)); m.ID != nil && m.Method == "" {
			all[string(m.ID)] = m
		}
	}
	return all
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(b)
}
