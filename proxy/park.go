package proxy

import (
	"context"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// park carries a call of a modern agent that can answer questions.
func (x *exchange) park(ctx context.Context, server string, c *upstream.Call) (outcome, error) {
	resp, err := x.do(ctx, server, c)
	return outcome{Response: resp}, err
}

// resume carries on with the call that the agent's requestState names.
func (x *exchange) resume(ctx context.Context, server string, c *upstream.Call) (outcome, error) {
	return outcome{}, badParams("no question is open for this requestState")
}
