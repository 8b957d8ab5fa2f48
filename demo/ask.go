package demo

import (
	"context"
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
// repeats its call: the SDK does the former with the same result.
func ask(_ context.Context, r *mcp.CallToolRequest, a askArgs) (*mcp.CallToolResult, any, error) {
	if got, ok := r.Params.InputResponses[askKey].(*mcp.ElicitResult); ok && got != nil {
		return text(said(got)), nil, nil
	}
	if !canAsk(r) {
		out := text("This agent cannot be asked anything: it did not declare the elicitation capability.")
		out.IsError = true
		return out, nil, nil
	}
	question := a.Question
	if question == "" {
		question = "What is your name?"
	}
	if len(question) > maxQuestion {
		question = strings.ToValidUTF8(question[:maxQuestion], "")
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{askKey: &mcp.ElicitParams{
		Message: question,
		RequestedSchema: &jsonschema.Schema{
			Type:       "object",
			Properties: map[string]*jsonschema.Schema{"answer": {Type: "string", Title: "Answer"}},
			Required:   []string{"answer"},
		},
	}}}, nil, nil
}

func canAsk(r *mcp.CallToolRequest) bool {
	c := r.ClientCapabilities()
	return c != nil && c.Elicitation != nil
}

func said(r *mcp.ElicitResult) string {
	switch r.Action {
	case "accept":
		answer, _ := r.Content["answer"].(string)
		return "The answer is: " + answer
	case "decline":
		return "The person declined to answer."
	}
	return "The person closed the question."
}
