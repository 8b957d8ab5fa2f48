package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// versions are those in which the SDK's client can be asked everything.
var versions = []string{"2025-06-18", "2025-11-25", mcptest.Modern}

// limit bounds one step.
const limit = 20 * time.Second

// config has the four servers, those over HTTP running here.
func config(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var y strings.Builder
	y.WriteString("mcp_servers:\n")
	for _, name := range servers {
		how := fmt.Sprintf("command: %q, env: {%s: %q}", exe, childEnv, name)
		if strings.HasPrefix(name, "http") {
			how = fmt.Sprintf("url: %q", serveHTTP(t, name))
		}
		fmt.Fprintf(&y, "  %s: {%s, sampling: {expose_client_tools: true, max_rpm: 1000}}\n", name, how)
	}
	return y.String()
}

// An agent is go-sdk's client at one version, connected to the program.
type agent struct {
	*mcp.ClientSession
	version string
	prefix  string // of tool names
	heard   chan string
}

// connect makes a client that answers everything. With tools, it answers sampling
// by a call of a tool.
func connect(t *testing.T, version string, tools bool, transport mcp.Transport) *agent {
	t.Helper()
	a := &agent{version: version, heard: make(chan string, 1000)}
	opts := &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada, " + r.Params.Message}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			a.heard <- fmt.Sprintf("progress %v %v", r.Params.ProgressToken, r.Params.Progress)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			a.heard <- fmt.Sprintf("log %v", r.Params.Data)
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { a.heard <- "tools changed" },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			a.heard <- "updated " + r.Params.URI
		},
	}
	answer := "said in " + version
	if tools {
		opts.CreateMessageWithToolsHandler = func(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			use := &mcp.ToolUseContent{ID: "1", Name: r.Params.Tools[0].Name, Input: map[string]any{"q": answer}}
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", StopReason: "toolUse", Content: []mcp.Content{use}}, nil
		}
	} else {
		opts.CreateMessageHandler = func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: answer}}, nil
		}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, opts)
	c.AddRoots(&mcp.Root{URI: "file:///home/ada/" + version, Name: "w"})
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cs, err := c.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	if got := cs.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("agreed on %s, want %s", got, version)
	}
	a.ClientSession = cs
	return a
}

// call calls a tool and returns its text.
func (a *agent) call(t *testing.T, tool string, meta mcp.Meta) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: a.tool(tool), Meta: meta, Arguments: map[string]any{}})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	b, _ := json.Marshal(r)
	if len(r.Content) != 1 || r.IsError {
		t.Fatalf("%s: %s", tool, b)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

// tool is the name that the agent sees.
func (a *agent) tool(name string) string {
	if a.prefix == "" {
		return name
	}
	return a.prefix + mcptest.HermesName(name)
}

func (a *agent) says(t *testing.T, tool, want string) {
	t.Helper()
	if got := a.call(t, tool, nil); got != want {
		t.Errorf("%s: got %q, want %q", tool, got, want)
	}
}

// await waits for what a handler heard, and drops what comes before.
func (a *agent) await(t *testing.T, want string) {
	t.Helper()
	after := time.After(limit)
	for {
		select {
		case got := <-a.heard:
			if got == want {
				return
			}
		case <-after:
			t.Fatalf("waited in vain for %q", want)
		}
	}
}

// TestHTTPAgents connects to each server over Streamable HTTP.
func TestHTTPAgents(t *testing.T) {
	s := mcptest.StartSidecar(t, config(t))
	for _, server := range servers {
		t.Run(server, func(t *testing.T) {
			for _, v := range versions {
				t.Run(v, func(t *testing.T) {
					dial := func(tools bool) *agent {
						return connect(t, v, tools, &mcp.StreamableClientTransport{Endpoint: s.URL + "/" + server})
					}
					everything(t, server, "", dial)
				})
			}
		})
	}
}

// TestStdioAgents runs the program as their child, with all servers at once.
func TestStdioAgents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("ops_listen: off\n"+config(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			dial := func(tools bool) *agent {
				cmd := exec.Command(mcptest.Binary(t), "serve", "--stdio", "--config", file)
				return connect(t, v, tools, &mcp.CommandTransport{Command: cmd, TerminateDuration: limit})
			}
			plain, withTools := dial(false), dial(true)
			for _, server := range servers {
				t.Run(server, func(t *testing.T) {
					prefix := "mcp_" + mcptest.HermesName(server) + "_"
					everything(t, server, prefix, func(tools bool) *agent {
						a := plain
						if tools {
							a = withTools
						}
						a.prefix = prefix
						return a
					})
				})
			}
		})
	}
}

// everything tries what a server and a client can do with each other.
func everything(t *testing.T, server, prefix string, dial func(tools bool) *agent) {
	a := dial(false)
	message := "Who?"
	if prefix != "" {
		message = "[" + server + "] " + message
	}
	t.Run("elicitation", func(t *testing.T) { a.says(t, "elicit", "accept Ada, "+message) })
	t.Run("sampling", func(t *testing.T) { a.says(t, "sample", "said in "+a.version) })
	t.Run("sampling with tools", func(t *testing.T) {
		if a.version < "2025-11-25" {
			t.Skip("tools in sampling came with 2025-11-25")
		}
		dial(true).says(t, "sample-tools", "use of look said in "+a.version)
	})
	t.Run("roots", func(t *testing.T) { a.says(t, "roots", "file:///home/ada/"+a.version) })
	t.Run("progress", func(t *testing.T) {
		a.call(t, "steps", mcp.Meta{"progressToken": "mine"})
		for i := range 3 {
			a.await(t, fmt.Sprintf("progress mine %d", i+1))
		}
	})
	t.Run("log message", func(t *testing.T) { logs(t, a) })
	t.Run("cancel", func(t *testing.T) {
		if server == "http-modern" {
			t.Skip("go-sdk's stateless handler does not tell a tool that nobody waits, with nothing between either")
		}
		cancels(t, a)
	})
	t.Run("list_changed", func(t *testing.T) {
		grows(t, a)
	})
	t.Run("resource update", func(t *testing.T) { updates(t, a, "sdk://"+server+"/thing") })
	if server == "http-legacy" { // whose streams can be resumed
		t.Run("hung up", func(t *testing.T) { a.says(t, "hang-up", "asked again") })
	}
}

func logs(t *testing.T, a *agent) {
	meta := mcp.Meta{mcp.MetaKeyLogLevel: "info"}
	if a.version != mcptest.Modern {
		meta = nil
		if err := a.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Fatal(err)
		}
	}
	// The level reaches the server beside the calls.
	eventually(t, "a log message", func() bool {
		a.call(t, "chatty", meta)
		select {
		case got := <-a.heard:
			return got == "log heard"
		case <-time.After(200 * time.Millisecond):
			return false
		}
	})
}

// cancels gives a call up, which the server must hear of.
func cancels(t *testing.T, a *agent) {
	before := a.call(t, "cancelled", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: a.tool("wait"), Arguments: map[string]any{}}); err == nil {
		t.Fatalf("the call ended with %v", r)
	}
	eventually(t, "the cancellation", func() bool { return a.call(t, "cancelled", nil) != before })
}

func grows(t *testing.T, a *agent) {
	before := a.grown(t)
	a.says(t, "grow", "grown")
	a.await(t, "tools changed")
	eventually(t, "the new tool", func() bool {
		return slices.ContainsFunc(a.grown(t), func(name string) bool { return !slices.Contains(before, name) })
	})
}

// grown returns the tools that grow added, to the process whose lists agents see.
func (a *agent) grown(t *testing.T) []string {
	t.Helper()
	var names []string
	for tool, err := range a.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, a.tool("grown-")) })
}

func updates(t *testing.T, a *agent, uri string) {
	if err := a.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	// The subscription reaches the server beside the calls.
	eventually(t, "an update", func() bool {
		a.says(t, "touch", "touched")
		select {
		case got := <-a.heard:
			return got == "updated "+uri
		case <-time.After(200 * time.Millisecond):
			return false
		}
	})
	if err := a.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
		t.Error(err)
	}
	r, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil || r.Contents[0].Text != "a thing" {
		t.Errorf("read %v %v", r, err)
	}
}

// eventually polls what another process comes to know.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}
