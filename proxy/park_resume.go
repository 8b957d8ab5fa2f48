package proxy

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// resume carries on with the call that the agent's requestState names. A state
// that is refused costs no server anything.
func (x *exchange) resume(ctx context.Context, server string, c *upstream.Call) (outcome, error) {
	for _, member := range []*[]byte{&x.params.state, &x.params.responses} {
		if wire.Kindof(*member) == 'n' {
			*member = nil // there are agents that write what they do not have
		}
	}
	switch {
	case x.params.state == nil && x.params.responses == nil:
		return x.carry(ctx, server, c)
	case !x.modern:
		return outcome{}, errStateEra
	case x.params.state == nil:
		return outcome{}, errStateMissing
	}
	s, err := x.open()
	if err != nil {
		return outcome{}, err
	}
	if r := x.params.responses; r != nil && wire.Kindof(r) != '{' {
		return outcome{}, badParams("inputResponses is not an object")
	}
	if s.server != server {
		return outcome{}, errStateUnknown // the name has another owner since
	}
	switch s.kind {
	case stateParked:
		return x.resumeParked(ctx, server, c, s)
	case stateServer:
		return x.resumeServer(ctx, server, c, s)
	case stateURL:
		return x.resumeURL(ctx, server, c, s)
	}
	return outcome{}, errStateForm
}

// resumeParked goes on with a call that waits.
func (x *exchange) resumeParked(ctx context.Context, server string, c *upstream.Call, s *state) (outcome, error) {
	p := x.f.parking.look(s.nonce)
	if p == nil {
		return outcome{}, errStateUnknown
	}
	if err := p.check(x.params.responses); err != nil {
		return outcome{}, err
	}
	// Where there is no room to remember it by, taking it is enough.
	if first, room := x.f.spent.add(s.nonce, x.caller.ID, s.expires); room && !first {
		return outcome{}, errStateUsed
	}
	if x.f.parking.take(s.nonce) == nil {
		return outcome{}, errStateUnknown
	}
	p.attach(x, x.params.responses)
	o, err := p.await(ctx, x)
	return x.through(ctx, server, c, o, err)
}

// spend uses a state whose call is made anew.
func (x *exchange) spend(s *state) *wire.Error {
	first, room := x.f.spent.add(s.nonce, x.caller.ID, s.expires)
	switch {
	case !room:
		return x.manyRetried()
	case !first:
		return errStateUsed
	}
	return nil
}

// manyRetried refuses a retry that could not be remembered.
func (x *exchange) manyRetried() *wire.Error {
	who, n := "all callers", ""
	if own := x.f.spent.of(x.caller.ID); own > 0 {
		who, n = "this caller", fmt.Sprintf(" (%d)", own)
	}
	return badParams(fmt.Sprintf("too many calls of %s were retried%s within %s (limits.parked_time); wait and try again", who, n, x.f.opt.Limits.parkedTime()))
}

// badResponse refuses one of inputResponses.
func badResponse(key, why string) *wire.Error {
	return badParams("inputResponses: the answer to " + clip(key, 64) + " " + why)
}

// malformed says what is wrong with the answer to a question; empty if nothing.
func malformed(method string, raw []byte) string {
	if wire.Kindof(raw) != '{' {
		return "is not an object"
	}
	switch method {
	case methodElicit:
		action, _ := wire.Get(raw, "action")
		switch s, ok := wire.Unquote(action); {
		case !ok:
			return "has no action, which is accept, decline or cancel"
		case s != "accept" && s != "decline" && s != "cancel":
			return "has the action " + strconv.QuoteToASCII(clip(s, 32)) + ", which is none of accept, decline, cancel"
		}
	case methodSampling:
		content, _ := wire.Get(raw, "content")
		if k := wire.Kindof(content); k != '{' && k != '[' {
			return "has no content"
		}
	case methodRoots:
		if roots, _ := wire.Get(raw, "roots"); wire.Kindof(roots) != '[' {
			return "has no list of roots"
		}
	}
	return ""
}

const methodRoots = "roots/list"
