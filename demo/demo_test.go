package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// connect runs serve on one end of a pipe and an SDK client on the other.
func connect(t *testing.T, version string, opts *mcp.ClientOptions, serve func(context.Context, io.ReadWriteCloser) error) *mcp.ClientSession {
	t.Helper()
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), far) }()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	cs, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: near, Writer: near}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cs.Close()
		near.Close()
		if err := <-served; err != nil {
			t.Errorf("server ended with %v", err)
		}
	})
	return cs
}

func stdio(ctx context.Context, rw io.ReadWriteCloser) error {
	defer rw.Close()
	return Stdio(ctx, rw, rw)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryVersion(t *testing.T) {
	for _, v := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		for name, serve := range map[string]func(context.Context, io.ReadWriteCloser) error{"stdio": stdio, "builtin": Builtin} {
			t.Run(name+"/"+v, func(t *testing.T) {
				cs := connect(t, v, nil, serve)
				got := []string{}
				for tool, err := range cs.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, tool.Name)
				}
				want := map[string][]string{"stdio": {"add", "ask", "echo", "slow"}, "builtin": {"time", "word_count"}}[name]
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestCalls(t *testing.T) {
	tests := []struct {
		tool  string
		args  map[string]any
		want  string
		fails bool
	}{
		{"echo", map[string]any{"text": "grüße\n"}, "grüße\n", false},
		{"add", map[string]any{"a": 2, "b": 0.5}, "2 + 0.5 = 2.5", false},
		{"add", map[string]any{"a": 1e308, "b": 1e308}, "the sum of 1e+308 and 1e+308 is too large", true},
		{"slow", map[string]any{"milliseconds": 1}, "waited 1 ms", false},
		{"slow", map[string]any{"milliseconds": 60001}, "milliseconds is 60001: it must be from 0 to 60000", true},
		{"slow", map[string]any{"milliseconds": -1}, "milliseconds is -1: it must be from 0 to 60000", true},
	}
	cs := connect(t, "", nil, stdio)
	for _, tt := range tests {
		check(t, cs, tt.tool, tt.args, tt.want, tt.fails)
	}
}

func check(t *testing.T, cs *mcp.ClientSession, tool string, args map[string]any, want string, fails bool) {
	t.Helper()
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Errorf("%s %v: %v", tool, args, err)
		return
	}
	got := r.Content[0].(*mcp.TextContent).Text
	if got != want || r.IsError != fails {
		t.Errorf("%s %v: got %q (isError %v), want %q (%v)", tool, args, got, r.IsError, want, fails)
	}
}

func TestBuiltinCalls(t *testing.T) {
	cs := connect(t, "", nil, Builtin)
	check(t, cs, "word_count", map[string]any{"text": "one two\nthree"}, "2 lines, 3 words, 13 characters", false)
	check(t, cs, "word_count", map[string]any{"text": ""}, "0 lines, 0 words, 0 characters", false)
	check(t, cs, "time", map[string]any{"zone": "Nowhere/Land"}, `zone "Nowhere/Land" is not known`, true)
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "time"})
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, r.Content[0].(*mcp.TextContent).Text)
	if err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("time answered %v (%v)", at, err)
	}
}

func TestSlowReportsProgress(t *testing.T) {
	got := make(chan float64, 100)
	opts := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		got <- r.Params.Progress
	}}
	cs := connect(t, "2025-11-25", opts, stdio)
	p := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"milliseconds": 60}}
	p.SetProgressToken("p1")
	if _, err := cs.CallTool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []float64{20, 40, 60} {
		if v := <-got; v != want {
			t.Errorf("progress got %v, want %v", v, want)
		}
	}
}

func TestResourceAndPrompt(t *testing.T) {
	cs := connect(t, "", nil, stdio)
	r, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: aboutURI})
	if err != nil || len(r.Contents) != 1 || r.Contents[0].Text == "" {
		t.Errorf("resource: %v %v", r, err)
	}
	p, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "Ada"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Messages[0].Content.(*mcp.TextContent).Text, "Greet Ada in one short sentence."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStops(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Builtin(ctx, far) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v, want nil after the context ended", err)
	}
}

func TestAsk(t *testing.T) {
	for _, v := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(v, func(t *testing.T) {
			asked := ""
			opts := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked = r.Params.Message
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "Ada"}}, nil
			}}
			cs := connect(t, v, opts, stdio)
			check(t, cs, "ask", map[string]any{"question": "Who?"}, "The answer is: Ada", false)
			if asked != "Who?" {
				t.Errorf("asked %q", asked)
			}
			check(t, cs, "ask", nil, "The answer is: Ada", false)
			if asked != "What is your name?" {
				t.Errorf("asked %q", asked)
			}
		})
	}
	cs := connect(t, "2025-11-25", nil, stdio)
	check(t, cs, "ask", nil, "This agent cannot be asked anything: it did not declare the elicitation capability.", true)
}

// TestAskNoAnswer holds that the model learns what became of a question in words,
// whatever the agent does.
func TestAskNoAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		result *mcp.ElicitResult
		err    error
		want   string
		fails  bool
	}{
		{"declined", &mcp.ElicitResult{Action: "decline"}, nil, "The person declined to answer.", false},
		{"cancelled", &mcp.ElicitResult{Action: "cancel"}, nil, "The person closed the question.", false},
		{"nothing filled in", &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil, "The person accepted, but gave no answer.", false},
		{"no content", &mcp.ElicitResult{Action: "accept"}, nil, "The person accepted, but gave no answer.", false},
	} {
		for _, v := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(tt.name+"/"+v, func(t *testing.T) {
				opts := &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return tt.result, tt.err }}
				check(t, connect(t, v, opts, stdio), "ask", nil, tt.want, tt.fails)
			})
		}
	}
	opts := &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return nil, errors.New("not today")
	}}
	check(t, connect(t, "2025-11-25", opts, stdio), "ask", nil, "The question was not answered: not today", true)
}

// TestAskContent holds that a result which asks has a list of content, as its schema wants.
func TestAskContent(t *testing.T) {
	r, _, err := ask(t.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: mcp.Meta{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
	}}}, askArgs{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(raw), `"inputRequests":`) || !strings.Contains(string(raw), `"content":[]`) {
		t.Errorf("got %s, %v", raw, err)
	}
}
