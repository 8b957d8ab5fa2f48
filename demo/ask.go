package demo

import (
	"context"
	"errors"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type askArgs struct {
	Question string `json:"question,omitempty" jsonschema:"what to ask the person at the agent; their name when it is left out"`
}

// maxQuestion bounds the text that a person is shown.
const maxQuestion = 1000

// askKey names the demo's only question.
const askKey = "answer"

// ask has the person at the agent answer a question. In the older era of the
// protocol the server sends a request for that, in the newer one the agent
// repeats its call.
func ask(ctx context.Context, r *mcp.CallToolRequest, a askArgs) (*mcp.CallToolResult, any, error) {
	if got, ok := r.Params.InputResponses[askKey].(*mcp.ElicitResult); ok && got != nil {
		return text(said(got)), nil, nil
	}
	if !canAsk(r) {
		return failed("This agent cannot be asked anything: it did not declare the elicitation capability."), nil, nil
	}
	q := question(a)
	if r.ProtocolVersion() >= stateless {
		return &mcp.CallToolResult{Content: []mcp.Content{}, InputRequests: mcp.InputRequestMap{askKey: q}}, nil, nil
	}
	// The SDK would do this too, and make an error of the protocol of what goes wrong.
	got, err := r.Session.Elicit(ctx, q)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return failed("The question was not answered: " + err.Error()), nil, nil
	}
	return text(said(got)), nil, nil
}

// stateless is the first version in which a call that asks is repeated.
const stateless = "2026-07-28"

// question is what the person is shown. No answer is required: an agent may let a
// form through that is empty, and that is told apart below.
func question(a askArgs) *mcp.ElicitParams {
	q := a.Question
	if q == "" {
		q = "What is your name?"
	}
	if len(q) > maxQuestion {
		q = strings.ToValidUTF8(q[:maxQuestion], "")
	}
	return &mcp.ElicitParams{Message: q, RequestedSchema: &jsonschema.Schema{
		Type:       "object",
		Properties: map[string]*jsonschema.Schema{"answer": {Type: "string", Title: "Answer"}},
	}}
}

func failed(why string) *mcp.CallToolResult {
	out := text(why)
	out.IsError = true
	return out
}

func canAsk(r *mcp.CallToolRequest) bool {
	c := r.ClientCapabilities()
	return c != nil && c.Elicitation != nil
}

func said(r *mcp.ElicitResult) string {
	switch r.Action {
	case "accept":
		if answer, _ := r.Content["answer"].(string); answer != "" {
			return "The answer is: " + answer
		}
		return "The person accepted, but gave no answer."
	case "decline":
		return "The person declined to answer."
	}
	return "The person closed the question."
}
