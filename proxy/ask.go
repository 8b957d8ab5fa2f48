package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// An answerer takes one question to an agent and waits for its answer. When ctx
// ends it gives up, and the agent hears of it where it can; what it returns then
// is not looked at.
type answerer interface {
	put(ctx context.Context, method string, params []byte) (result []byte, err *wire.Error)
}

// A cause is why a question has no answer.
type cause uint8

const (
	refused cause = iota + 1 // by the limits of the server
	unable                   // there is nobody who can
	failing                  // who was asked gave none
)

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
	a := x.f.asker(server)
	if a == nil {
		return 0
	}
	can := policy.Answers(0)
	if x.reachable() {
		can = x.caps().answers
	}
	if x.f.samples(a) {
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
	began := time.Now()
	v, err := a.Screen(began, q.Method, q.Params, q.Flags, x.view.Server == "")
	if err != nil {
		x.logAsked(a, q, began, "question refused", err)
		return nil, refused, err
	}
	result, why, err := x.enquire(ctx, a, q, v, to)
	if err != nil {
		a.Failed(q.Method)
		x.logAsked(a, q, began, "question not answered", err)
		return nil, why, err
	}
	result, odd, err := a.Review(q.Method, v.Params, result)
	if odd != "" {
		x.f.opt.Log.Warn("odd answer to a question", "server", q.Server, "op", q.Method, "caller", x.caller.ID, "err", odd)
	}
	if err != nil {
		x.logAsked(a, q, began, "answer refused", err)
		return nil, failing, err
	}
	x.logAsked(a, q, began, "question answered", nil)
	return result, 0, nil
}

// enquire gets the answer of whoever can give one, in the time that there is.
func (x *exchange) enquire(ctx context.Context, a *policy.Asker, q *upstream.Question, v policy.Verdict, to answerer) ([]byte, cause, *wire.Error) {
	byEndpoint, err := x.whoAnswers(a, v.Kind, to)
	if err != nil {
		return nil, unable, err
	}
	limit := a.Timeout(q.Method)
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var result []byte
	if byEndpoint {
		result, err = x.sample(timed, q.Server, v.Params)
	} else {
		result, err = to.put(timed, q.Method, v.Params)
	}
	switch {
	case ctx.Err() != nil:
		return nil, failing, errCallOver
	case timed.Err() != nil && err != nil:
		return nil, failing, &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("no answer to %s within %s", q.Method, limit)}
	}
	return result, failing, err
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

// logAsked logs what became of a question, never what it says.
func (x *exchange) logAsked(a *policy.Asker, q *upstream.Question, began time.Time, what string, err *wire.Error) {
	level := slog.LevelInfo
	if q.Method == methodSampling {
		level = a.LogLevel()
	}
	if !x.f.opt.Log.Enabled(context.Background(), level) {
		return
	}
	facts := []any{"server", q.Server, "op", clip(q.Method, 64), "caller", x.caller.ID, "dur", time.Since(began)}
	if err != nil {
		facts = append(facts, "code", err.Code)
	}
	x.f.opt.Log.Log(context.Background(), level, what, facts...)
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
