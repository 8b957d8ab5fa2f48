package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
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
	x.safe = c.Safe
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

const (
	// maxRounds bounds how often a server may ask during one call.
	maxRounds = 100
	// maxInputs bounds the questions of one round.
	maxInputs = 16
	// maxPause bounds the wait before a call is repeated for a server that wants
	// just that.
	maxPause = 2 * time.Second
)

// rounds puts the questions in a modern server's result to a legacy agent, and
// repeats the call with the answers, until the server is done.
func (x *exchange) rounds(ctx context.Context, server string, c *upstream.Call, r upstream.Response) (outcome, error) {
	if !mayAsk(c.Method) {
		return outcome{Response: r}, nil
	}
	params := c.Params
	defer func() { c.Params = params }()
	for n := 1; asksFor(&r); n++ {
		if n > maxRounds {
			return outcome{}, cannot(server, fmt.Sprintf("more than %d rounds of questions", maxRounds))
		}
		more, err := x.round(ctx, server, n, &r)
		if err != nil {
			return outcome{}, err
		}
		c.Params = withMembers(params, more)
		if r, err = x.do(ctx, server, c); err != nil {
			return outcome{}, err
		}
	}
	return outcome{Response: r}, nil
}

// withMembers puts members, each with its comma, into parameters that may be nil.
func withMembers(params []byte, members string) []byte {
	if params == nil {
		params = emptyObject
	}
	return withFront(params, members)
}

// round returns the members to repeat a call with after its result r, which is
// the n-th that asks.
func (x *exchange) round(ctx context.Context, server string, n int, r *upstream.Response) (string, error) {
	in, err := readAsking(server, r)
	if err != nil {
		return "", err
	}
	if len(in.list) == 0 {
		return stateMember(in.state), pause(ctx, n)
	}
	responses, err := x.inputs(ctx, server, &in)
	if err != nil {
		return "", err
	}
	return `"inputResponses":` + string(responses) + `,` + stateMember(in.state), nil
}

// stateMember is a requestState as it came, with its comma; empty when there is
// none.
func stateMember(state []byte) string {
	if state == nil {
		return ""
	}
	return `"requestState":` + string(state) + `,`
}

// pause waits a little longer each time.
func pause(ctx context.Context, n int) error {
	t := time.NewTimer(min(time.Duration(n)*100*time.Millisecond, maxPause))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A gathering is the questions of one round while they are answered.
type gathering struct {
	x      *exchange
	cancel context.CancelFunc
	all    sync.WaitGroup
	once   sync.Once
	err    error // the first failure; to be read after all
}

// inputs has all questions of a round answered at the same time, and returns the
// answers under the keys of the questions.
func (x *exchange) inputs(ctx context.Context, server string, in *asking) ([]byte, error) {
	each, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &gathering{x: x, cancel: cancel}
	for _, one := range in.list {
		g.all.Add(1)
		go g.ask(each, one)
	}
	g.all.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case g.err != nil:
		return nil, g.err
	}
	return g.answers(server, in)
}

// answers puts the answers in the places of the questions.
func (g *gathering) answers(server string, in *asking) ([]byte, error) {
	edits, size := make([]wire.Edit, 0, len(in.list)), 0
	for _, one := range in.list {
		from, to, _ := wire.Find(in.requests, one.key)
		edits = append(edits, wire.Edit{From: from, To: to, With: one.result})
		size += len(one.result)
	}
	if max := g.x.f.opt.Limits.request(); size > max {
		return nil, cannot(server, fmt.Sprintf("the answers of one round are longer than %d bytes", max))
	}
	return wire.Splice(nil, in.requests, edits...), nil
}

// ask has one question answered. Without an answer that the server could use,
// the call fails, and the other questions of the round are withdrawn.
func (g *gathering) ask(ctx context.Context, in *inquiry) {
	defer g.all.Done()
	result, why, err := g.settle(ctx, &in.q)
	switch {
	case err == nil:
		in.result = result
	case in.q.Method == methodElicit && why != unable:
		in.result = noElicitation(why)
	default:
		g.fail(in.cannot(err))
	}
}

// settle survives a panic, which would end the process here.
func (g *gathering) settle(ctx context.Context, q *upstream.Question) (result []byte, why cause, err *wire.Error) {
	defer func() {
		if p := recover(); p != nil {
			result, why, err = nil, unable, g.x.panickedOver(p, q)
		}
	}()
	return g.x.settle(ctx, q, g.x.legacyAgent(q.Server))
}

func (g *gathering) fail(err error) {
	g.once.Do(func() { g.err = err })
	g.cancel()
}

// noElicitation is what a server hears in place of an answer of a user.
func noElicitation(c cause) []byte {
	if c == refused {
		return []byte(`{"action":"decline"}`)
	}
	return []byte(`{"action":"cancel"}`)
}

// An unanswered error says why a call ends that asked something.
type unanswered struct{ why string }

func (u *unanswered) Error() string { return u.why }

// cannot fails a call because a question has no answer; why is told to the agent.
func cannot(server, why string) error {
	return &upstream.Error{Server: server, Op: "input_required", Err: &unanswered{why}}
}

func protocolFault(server, what string) error {
	return &upstream.Error{Server: server, Op: "input_required", Kind: upstream.Protocol, Err: errors.New(what)}
}
