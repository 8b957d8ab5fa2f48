package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// withToken is what a client with a configured header does.
type withToken struct{ next http.RoundTripper }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return w.next.RoundTrip(r)
}

// TestSDKClient connects the SDK's client at every version and does with it
// what agents do.
func TestSDKClient(t *testing.T) {
	for _, version := range append([]string{versionModern}, legacyVersions...) {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
				switch c.Method {
				case "prompts/get":
					return result(`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`), nil
				case "resources/read":
					return result(`{"contents":[{"uri":"file:///a.txt","text":"text"}]}`), nil
				case "completion/complete":
					return result(`{"completion":{"values":["v"]}}`), nil
				}
				c.Notify("notifications/progress", []byte(`{"progressToken":"tok","progress":1}`))
				return result(`{"content":[{"type":"text","text":"done"}]}`), nil
			}
			progress, changed := make(chan float64, 1), make(chan bool, 10)
			client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
				ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { changed <- true },
			})
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint: w.srv.URL + "/mcp", HTTPClient: &http.Client{Transport: withToken{transport}},
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			exercise(t, s)
			if p := <-progress; p != 1 {
				t.Errorf("progress %v", p)
			}
			w.build("default", "", more("another"), 0)
			<-changed
			if got := s.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("negotiated %s", got)
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if n := w.front.Stats().Sessions; n != 0 {
				t.Errorf("%d sessions left", n)
			}
		})
	}
}

func exercise(t *testing.T, s *mcp.ClientSession) {
	t.Helper()
	n := 0
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil || tool.Name == "" {
			t.Fatalf("tools: %v %+v", err, tool)
		}
		n++
	}
	if n != 11 {
		t.Errorf("%d tools, want 3 and 8 utilities", n)
	}
	p := &mcp.CallToolParams{Name: "mcp_files_slow", Arguments: map[string]any{"a": 1}}
	p.SetProgressToken("tok")
	if r, err := s.CallTool(t.Context(), p); err != nil || r.Content[0].(*mcp.TextContent).Text != "done" {
		t.Errorf("call: %v %+v", err, r)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "nope"}); err == nil || !strings.Contains(err.Error(), "Unknown tool") {
		t.Errorf("unknown tool: %v", err)
	}
	if r, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "mcp_files_greet"}); err != nil || len(r.Messages) != 1 {
		t.Errorf("prompt: %v", err)
	}
	if r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///a.txt"}); err != nil || r.Contents[0].Text != "text" {
		t.Errorf("read: %v", err)
	}
	if r, err := s.ListResourceTemplates(t.Context(), nil); err != nil || len(r.ResourceTemplates) != 1 {
		t.Errorf("templates: %v", err)
	}
	if r, err := s.Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "mcp_files_greet"},
		Argument: mcp.CompleteParamsArgument{Name: "who", Value: "x"},
	}); err != nil || len(r.Completion.Values) != 1 {
		t.Errorf("complete: %v", err)
	}
}

// TestLikeHermes walks through what Hermes Agent does with an endpoint, in its
// order. The numbers are those of its needs: 1 preflight, 2 first POST, 3 ping,
// 4 lists, 5 sizes, 6 silence (TestHeartbeat), 7 unknown session, 8 a server
// that is down, 9 list changes (TestDebounce), 12 and 13 names.
func TestLikeHermes(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ListWait = func(context.Context, string, upstream.Viewer) {} })
	for _, m := range []string{"HEAD", "GET"} { // 1
		if r := w.send(m, "/mcp", ""); r.status != 405 {
			t.Errorf("1: %s: %d", m, r.status)
		}
	}
	r := w.post(initialize, "MCP-Protocol-Version", "2025-11-25") // 2
	id := r.header.Get("Mcp-Session-Id")
	if r.status != 200 || id == "" {
		t.Fatalf("2: %d %s", r.status, r.body)
	}
	modernOnly := w.post(modernBody("1", "initialize", `{"protocolVersion":"2025-11-25"}`), modernHeader("initialize", "")...)
	if c := code(modernOnly.body); c != -32601 && c != -32022 {
		t.Errorf("2: a modern initialize: %s", modernOnly.body)
	}
	sid := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid...)

	w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) { // 8
		return upstream.Response{}, &upstream.Error{Server: "files", Kind: upstream.Unreachable, Err: io.EOF, RetryAfter: 10 * time.Second}
	}
	start := time.Now()
	down := w.post(fmt.Sprintf(callSlow, 1), sid...)
	for _, want := range []string{`"isError":true`, `server \"files\"`, "Retry after 10s", "MCPS-UNREACHABLE"} {
		if !strings.Contains(down.body, want) {
			t.Errorf("8: %s lacks %s", down.body, want)
		}
	}
	if p := w.post(pingBody, sid...); p.status != 200 || time.Since(start) > 30*time.Second { // 3
		t.Errorf("3: ping with every server down: %d", p.status)
	}
	list := w.modern("2", "tools/list", "", "{}") // 4
	if !strings.Contains(list.body, `"ttlMs":60000`) || strings.Contains(list.body, "readOnlyHint") {
		t.Errorf("4: %s", list.body)
	}
	for _, name := range []string{"mcp_files_read_file", "mcp_github_create_issue"} { // 12, 13
		if !strings.Contains(list.body, `"name":"`+name+`"`) {
			t.Errorf("13: no %s", name)
		}
	}
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) { // 5
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 10<<20) + `"}]}`), nil
	}
	if r := w.post(fmt.Sprintf(callSlow, 3), sid...); len(r.body) >= 10<<20 || !strings.Contains(r.body, "MCPS-TOO-LARGE") {
		t.Errorf("5: %d bytes", len(r.body))
	}
	w.front.sessions.end(w.front.sessions.find(id, callerOf(w), mustView(w))) // 7: a restart
	if r := w.post(pingBody, sid...); r.status != 404 || !strings.Contains(strings.ToLower(r.body), "session not found") {
		t.Errorf("7: %d %s", r.status, r.body)
	}
}

// TestStatelessConnectionsAreLanes: without a session, serial servers take one
// call at a time per connection.
func TestStatelessConnectionsAreLanes(t *testing.T) {
	seen := map[any]bool{}
	srv := Server(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen[laneOf(r)] = true }))
	bubbleServer(t, srv, func(l *pipeListener) {
		for range 2 {
			c := l.dial()
			br := bufio.NewReader(c)
			for range 3 {
				io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
			}
			c.Close()
		}
	})
	if len(seen) != 2 {
		t.Errorf("%d lanes for 2 connections", len(seen))
	}
}

func bubbleServer(t *testing.T, srv *http.Server, f func(l *pipeListener)) {
	t.Helper()
	l := newPipeListener()
	done := make(chan struct{})
	go func() { srv.Serve(l); close(done) }()
	f(l)
	srv.Close()
	<-done
}
