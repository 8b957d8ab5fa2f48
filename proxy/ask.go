package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// An answerer takes one question to an agent and waits for its answer. When ctx
// ends it gives up, and the agent hears of it where it can; what it returns then
// is not looked at.
type answerer interface {
	// theirs is true when the error is the agent's own.
	put(ctx context.Context, method string, params []byte) (result []byte, theirs bool, err *wire.Error)
}

// A cause is why a question has no answer.
type cause uint8

const (
	refused  cause = iota + 1 // by the limits of the server
	unable                    // there is nobody who can
	failing                   // who was asked gave none that could be used
	late                      // the time for it was over
	left                      // the agent is gone
	ended                     // the call is over
	stopping                  // the sidecar is
	declined                  // the agent answered with an error
)

// causeOf tells why the one who was asked gave no answer.
func causeOf(theirs bool, err *wire.Error) cause {
	switch {
	case theirs:
		return declined
	case err == errAgentGone || err == errUnreached:
		return left
	case err == errStopping:
		return stopping
	case err == errCallOver:
		return ended
	}
	return failing
}

// asker is what a server may ask; nil when nothing.
func (f *Front) asker(server string) *policy.Asker {
	if f.opt.Askers == nil {
		return nil
	}
	return f.opt.Askers(server)
}

// samples reports whether an endpoint answers sampling requests of a server in
// place of agents that cannot.
func (f *Front) samples(a *policy.Asker) bool { return f.opt.Sampler != nil && a.HasEndpoint() }

// answers are the kinds of questions of a server that somebody can answer on
// behalf of x.
func (x *exchange) answers(server string) policy.Answers {
	can := policy.Answers(0)
	if x.reachable() {
		can = x.caps().answers
	}
	return x.f.answers(server, can)
}

// answers are those that somebody can answer where the agent can answer some.
func (f *Front) answers(server string, can policy.Answers) policy.Answers {
	a := f.asker(server)
	if a == nil {
		return 0
	}
	if f.samples(a) {
		can |= policy.AnswerSampling | policy.AnswerSamplingTools
	}
	if can == 0 {
		return 0
	}
	return can & a.Offers()
}

// reachable reports whether the agent can be asked while its request runs: by
// the answer to it in the modern era, before that on its stream.
func (x *exchange) reachable() bool {
	if x.modern {
		return true
	}
	if st, ok := x.out.(*stream); ok && st.forms&asEvents == 0 {
		return false
	}
	return x.sess != nil && x.out != nil
}

// offered are the capabilities that a modern server is told of: those that this
// agent declared, as far as the server may use them, and what an endpoint does in
// its place; nil when there are none.
func (x *exchange) offered(server string) []byte {
	if can := x.answers(server); can != 0 {
		return can.Capabilities()
	}
	return nil
}

// ask answers a question of a server about the call of a legacy agent.
func (x *exchange) ask(ctx context.Context, q upstream.Question) ([]byte, *wire.Error) {
	return x.consult(ctx, q, x.legacyAgent(q.Server))
}

// legacyAgent is the way to the agent of x; nil when it cannot be reached.
func (x *exchange) legacyAgent(server string) answerer {
	if x.modern || !x.reachable() {
		return nil
	}
	return legacyAgent{x, server}
}

// consult has a question of a server about the call of x answered: by the agent
// behind to, which is nil if it cannot be reached, or in its place. It screens
// the question, waits no longer than the server's limits say, and reviews the
// answer.
func (x *exchange) consult(ctx context.Context, q upstream.Question, to answerer) ([]byte, *wire.Error) {
	result, _, err := x.settle(ctx, &q, to)
	return result, err
}

// settle is consult, and tells why there is no answer.
func (x *exchange) settle(ctx context.Context, q *upstream.Question, to answerer) ([]byte, cause, *wire.Error) {
	a := x.f.asker(q.Server)
	if a == nil {
		return nil, unable, nobody("questions of this server are not answered")
	}
	what := about{q.Server, q.Method, time.Now()}
	v, err := a.Screen(what.began, q.Method, q.Params, q.Flags, x.hearer())
	if err != nil {
		x.logAsked(a, what, wasRefused, x.reasonFor(refused, err)...)
		return nil, refused, err
	}
	result, by, why, err := x.enquire(ctx, a, what, v, to)
	if err != nil {
		a.Failed(q.Method)
		x.logAsked(a, what, wasNot, x.reasonFor(why, err)...)
		return nil, why, err
	}
	result, err = x.judge(a, what, v.Params, result, by)
	return result, failing, err
}

// hearer is the agent of x, to whom a server's question goes.
func (x *exchange) hearer() policy.Audience {
	return policy.Audience{Caller: x.caller.ID, Named: x.view.Server == ""}
}

// The ones who answer, in a log.
const (
	byAgent    = "agent"
	byEndpoint = "endpoint"
)

// judge decides whether an answer can be used, and says so in the log. What the
// protocol keeps for one hop does not go with it.
func (x *exchange) judge(a *policy.Asker, q about, params, result []byte, by string) ([]byte, *wire.Error) {
	result, odd, err := a.Review(x.caller.ID, q.method, params, result)
	if odd != "" {
		x.logAsked(a, about{server: q.server, method: q.method}, wasOdd, "err", forLog(odd, maxLogged))
	}
	if err != nil {
		x.logAsked(a, q, wasUnusable, x.reasonFor(failing, err)...)
		return nil, err
	}
	x.logAsked(a, q, wasAnswered, "by", by)
	return withoutHop(q.method, result), nil
}

// enquire gets the answer of whoever can give one, in the time that there is.
func (x *exchange) enquire(ctx context.Context, a *policy.Asker, q about, v policy.Verdict, to answerer) (result []byte, by string, why cause, err *wire.Error) {
	endpoint, err := x.whoAnswers(a, v.Kind, to)
	if err != nil {
		return nil, "", unable, err
	}
	limit := a.Timeout(q.method)
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	theirs := false
	if by = byAgent; endpoint {
		by = byEndpoint
		result, err = x.sample(timed, q.server, v.Params)
	} else {
		x.logAsked(a, q, wasPut)
		result, theirs, err = to.put(timed, q.method, v.Params)
	}
	switch {
	case ctx.Err() != nil:
		return nil, by, ended, errCallOver
	case timed.Err() != nil && err != nil:
		return nil, by, late, &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("no answer to %s within %s", q.method, limit)}
	}
	return result, by, causeOf(theirs, err), err
}

// whoAnswers chooses the agent where it can, and else the endpoint. The error says
// what is missing.
func (x *exchange) whoAnswers(a *policy.Asker, kind policy.Answers, to answerer) (endpoint bool, err *wire.Error) {
	lack := kind &^ x.caps().answers
	switch {
	case lack == 0 && to != nil:
		return false, nil
	case kind&policy.AnswerSampling != 0 && x.f.samples(a):
		return true, nil
	case lack != 0:
		return false, lacking(lack)
	}
	return false, nobody("the agent cannot be asked on the connection of this call")
}

// sample has the endpoint answer.
func (x *exchange) sample(ctx context.Context, server string, params []byte) ([]byte, *wire.Error) {
	result, err := x.f.opt.Sampler.Sample(ctx, server, params)
	if err == nil {
		return result, nil
	}
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return nil, e
	}
	x.f.opt.Log.Warn("sampling endpoint failed", "server", server, "caller", x.caller.ID, "err", err)
	return nil, &wire.Error{Code: wire.CodeInternal, Message: "the sampling endpoint gave no answer"}
}

var errCallOver = &wire.Error{Code: wire.CodeInternal, Message: "the call is over"}

const (
	methodSampling = "sampling/createMessage"
	methodElicit   = "elicitation/create"
)

// nobody is what a server hears whose question no one can answer.
func nobody(text string) *wire.Error {
	return &wire.Error{Code: wire.CodeMethodNotFound, Message: text}
}

// lacking says which of the agent's capabilities a question takes. A mode of one
// that it has is a matter of the parameters.
func lacking(lack policy.Answers) *wire.Error {
	switch {
	case lack&policy.AnswerSampling != 0:
		return nobody("the agent did not declare sampling")
	case lack&policy.AnswerSamplingTools != 0:
		return badParams("the agent did not declare sampling with tools")
	case lack&policy.AnswerURL != 0:
		return badParams("the agent did not declare elicitation by URL")
	case lack&policy.AnswerForm != 0:
		return nobody("the agent did not declare elicitation")
	}
	return nobody("the agent did not declare roots")
}
