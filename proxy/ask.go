package proxy

import (
	"context"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// asked are the questions that wait for the answers of one legacy agent. The
// zero value is empty.
type asked struct {
	mu sync.Mutex
}

// answer brings a response of the agent to the question it answers.
func (a *asked) answer(m *wire.Message) {}

// answers are the kinds of questions of a server that somebody can answer on
// behalf of x.
func (x *exchange) answers(server string) policy.Answers { return 0 }

// offered are the capabilities that a modern server is told of.
func (x *exchange) offered(server string) []byte { return nil }

// ask answers a question of a server about the call of x.
func (x *exchange) ask(ctx context.Context, q upstream.Question) ([]byte, *wire.Error) {
	return nil, &wire.Error{Code: wire.CodeMethodNotFound, Message: "nobody can answer this"}
}
