package demo

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The bounds of the slow tool.
const (
	maxSlow      = time.Minute
	slowSteps    = 10
	shortestStep = 20 * time.Millisecond
)

func stdioServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "demo", Title: "Demo server", Version: version}, &mcp.ServerOptions{
		Instructions: "Small tools to try a connection with: echo and add answer at once, slow takes its time and reports progress, ask asks the person at the agent.",
	})
	mcp.AddTool(s, &mcp.Tool{
		Name: "echo", Title: "Echo",
		Description: "Returns the text it was given, unchanged. Use it to see that calls arrive.",
		Annotations: harmless(),
	}, echo)
	mcp.AddTool(s, &mcp.Tool{
		Name: "add", Title: "Add two numbers",
		Description: "Returns the sum of two numbers, as text and as structured content.",
		Annotations: harmless(),
	}, add)
	mcp.AddTool(s, &mcp.Tool{
		Name: "slow", Title: "Take a while",
		Description: "Waits for the given number of milliseconds (at most 60000) and reports progress meanwhile. Use it to try time-outs, progress and cancellation.",
		Annotations: harmless(),
	}, slow)
	mcp.AddTool(s, &mcp.Tool{
		Name: "ask", Title: "Ask the person",
		Description: "Asks the person at the agent a question by a form (elicitation, no sampling and no roots) and returns the answer. Use it to see that questions of servers arrive, whichever versions of the protocol agent and server speak.",
		Annotations: harmless(),
	}, ask)
	addResource(s)
	addPrompt(s)
	return s
}

// harmless marks tools that change nothing and reach nothing.
func harmless() *mcp.ToolAnnotations {
	no := false
	return &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
}

type echoArgs struct {
	Text string `json:"text" jsonschema:"the text to return"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
	return text(a.Text), nil, nil
}

type addArgs struct {
	A float64 `json:"a" jsonschema:"the first number"`
	B float64 `json:"b" jsonschema:"the second number"`
}

type sum struct {
	Sum float64 `json:"sum" jsonschema:"the first number plus the second"`
}

func add(_ context.Context, _ *mcp.CallToolRequest, a addArgs) (*mcp.CallToolResult, sum, error) {
	n := a.A + a.B
	if math.IsInf(n, 0) {
		return nil, sum{}, fmt.Errorf("the sum of %g and %g is too large", a.A, a.B)
	}
	return text(fmt.Sprintf("%g + %g = %g", a.A, a.B, n)), sum{Sum: n}, nil
}

type slowArgs struct {
	Milliseconds int `json:"milliseconds" jsonschema:"how long to wait, from 0 to 60000"`
}

func slow(ctx context.Context, r *mcp.CallToolRequest, a slowArgs) (*mcp.CallToolResult, any, error) {
	d := time.Duration(a.Milliseconds) * time.Millisecond
	if a.Milliseconds < 0 || a.Milliseconds > int(maxSlow/time.Millisecond) {
		return nil, nil, fmt.Errorf("milliseconds is %d: it must be from 0 to %d", a.Milliseconds, maxSlow/time.Millisecond)
	}
	if err := wait(ctx, r, d); err != nil {
		return nil, nil, err
	}
	return text(fmt.Sprintf("waited %d ms", a.Milliseconds)), nil, nil
}

// wait sleeps for d in steps and tells the caller after each, if it asked.
func wait(ctx context.Context, r *mcp.CallToolRequest, d time.Duration) error {
	step := max(d/slowSteps, shortestStep)
	for done := time.Duration(0); done < d; {
		step = min(step, d-done)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step):
		}
		done += step
		progress(ctx, r, done, d)
	}
	return nil
}

// progress is best effort: a caller that went away ends the call by itself.
func progress(ctx context.Context, r *mcp.CallToolRequest, done, total time.Duration) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return
	}
	_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token,
		Progress:      float64(done.Milliseconds()),
		Total:         float64(total.Milliseconds()),
		Message:       fmt.Sprintf("%d of %d ms", done.Milliseconds(), total.Milliseconds()),
	})
}

const aboutURI = "demo://about"

func addResource(s *mcp.Server) {
	s.AddResource(&mcp.Resource{
		URI: aboutURI, Name: "about", Title: "About this server", MIMEType: "text/plain",
		Description: "What the demo server is for.",
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
			URI: aboutURI, MIMEType: "text/plain",
			Text: "This is the demo server of mcp-sidecar. Call echo to see that it answers.",
		}}}, nil
	})
}

func addPrompt(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{
		Name: "greet", Title: "Greet somebody",
		Description: "Asks the model for a greeting.",
		Arguments:   []*mcp.PromptArgument{{Name: "name", Description: "Who is greeted.", Required: true}},
	}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{
			Role:    "user",
			Content: &mcp.TextContent{Text: "Greet " + r.Params.Arguments["name"] + " in one short sentence."},
		}}}, nil
	})
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
