package sdk

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// childEnv tells a re-executed test binary to be a server of that name and era.
const childEnv = "SDK_SERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := newServer(name).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	os.Exit(mcptest.Run(m))
}

// servers are the names; they say the transport and the era.
var servers = []string{"http-legacy", "http-modern", "stdio-legacy", "stdio-modern"}

// newServer makes the server of all tests. It asks in the way of the newer era;
// the SDK turns that into requests where the peer is of the older one.
func newServer(name string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	if name == "stdio-legacy" {
		s.AddReceivingMiddleware(noDiscovery)
	}
	add := func(tool string, f mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: tool, InputSchema: &jsonschema.Schema{Type: "object"}}, f)
	}
	add("elicit", asks(&mcp.ElicitParams{Message: "Who?", RequestedSchema: &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}}, Required: []string{"name"},
	}}))
	user := []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Say it"}}}
	add("sample", asks(&mcp.CreateMessageParams{MaxTokens: 10, Messages: user}))
	add("sample-tools", asks(&mcp.CreateMessageWithToolsParams{
		MaxTokens: 10, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Look it up"}}}},
		Tools: []*mcp.Tool{{Name: "look", InputSchema: &jsonschema.Schema{Type: "object"}}},
	}))
	add("roots", asks(&mcp.ListRootsParams{}))
	add("steps", steps)
	add("chatty", chatty)
	add("hang-up", hangUp)
	uri := "sdk://" + name + "/thing"
	s.AddResource(&mcp.Resource{URI: uri, Name: "thing"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: "a thing"}}}, nil
	})
	add("touch", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return says("touched"), s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
	})
	var grown, cancelled atomic.Int64
	add("grow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add(fmt.Sprintf("grown-%d-%d", os.Getpid(), grown.Add(1)), chatty)
		return says("grown"), nil
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-ctx.Done():
			cancelled.Add(1)
			return nil, ctx.Err()
		case <-time.After(limit):
			return says("waited"), nil
		}
	})
	add("cancelled", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return says(fmt.Sprint(cancelled.Load())), nil
	})
	return s
}

// noDiscovery makes a server one of the older era, which does not know the method.
func noDiscovery(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "server/discover" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no such method"}
		}
		return next(ctx, method, req)
	}
}

func says(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// asks asks one question and says what was answered.
func asks(question mcp.InputRequest) mcp.ToolHandler {
	return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["q"]
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": question}}, nil
		}
		return says(answered(answer)), nil
	}
}

// answered words an answer of any kind.
func answered(answer mcp.InputResponse) string {
	switch a := answer.(type) {
	case *mcp.ElicitResult:
		return fmt.Sprintf("%s %v", a.Action, a.Content["name"])
	case *mcp.ListRootsResult:
		if len(a.Roots) != 1 {
			return fmt.Sprintf("%d roots", len(a.Roots))
		}
		return a.Roots[0].URI
	case *mcp.CreateMessageResult:
		return worded([]mcp.Content{a.Content})
	case *mcp.CreateMessageWithToolsResult:
		return worded(a.Content)
	}
	return fmt.Sprintf("%T", answer)
}

func worded(content []mcp.Content) (all string) {
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.TextContent:
			all += c.Text
		case *mcp.ToolUseContent:
			all += "use of " + c.Name + " " + fmt.Sprint(c.Input["q"])
		}
	}
	return all
}

func steps(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i := range 3 {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3})
		if err != nil {
			return nil, err
		}
	}
	return says("stepped"), nil
}

func chatty(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return says("told"), r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Logger: "sdk", Data: "heard"})
}

// hangUp ends the stream of its own call; the result waits for who asks again.
func hangUp(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if r.Extra != nil && r.Extra.CloseSSEStream != nil {
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
	}
	return says("asked again"), nil
}

// serveHTTP runs a server over Streamable HTTP: stateless for the newer era, with
// sessions whose streams can be resumed for the older.
func serveHTTP(t *testing.T, name string) (url string) {
	t.Helper()
	s := newServer(name)
	opts := &mcp.StreamableHTTPOptions{Stateless: name == "http-modern"}
	if !opts.Stateless {
		opts.EventStore = mcp.NewMemoryEventStore(nil)
	}
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h.URL
}
