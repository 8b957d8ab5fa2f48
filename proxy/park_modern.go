package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// maxSettled bounds the rounds in a row in which the agent is not asked.
const maxSettled = 10

// through takes a call on from the outcome that it has: while its server asks, it
// is paused for the agent, or made again with what we answer ourselves. c is the
// call without answers.
func (x *exchange) through(ctx context.Context, server string, c *upstream.Call, o outcome, err error) (outcome, error) {
	for n := 1; err == nil && !o.paused; n++ {
		switch {
		case wantsURLs(&o.Response) && x.answers(server)&policy.AnswerURL != 0:
			return x.askURLs(ctx, server, &o.Response)
		case !asksFor(&o.Response):
			return o, nil
		case n > maxSettled:
			return outcome{}, cannot(server, fmt.Sprintf("%d times in a row it asked only what it may not", maxSettled))
		}
		var members string
		o, members, err = x.passOn(ctx, server, &o.Response)
		if err != nil || o.paused {
			return o, err
		}
		next := *c
		next.Params = withMembers(c.Params, members)
		o, err = x.detached(ctx, server, &next)
	}
	return o, err
}

// passOn gives the questions in a modern server's result to a modern agent. If we
// answer them all, there is no outcome yet, and the call is to be repeated with
// the members.
func (x *exchange) passOn(ctx context.Context, server string, r *upstream.Response) (o outcome, members string, err error) {
	in, err := readAsking(server, r)
	if err != nil {
		return outcome{}, "", err
	}
	open := 0
	for _, one := range in.list {
		if e := x.screen(ctx, one); ctx.Err() != nil {
			return outcome{}, "", ctx.Err()
		} else if e != nil {
			return outcome{}, "", one.cannot(e)
		}
		if one.result == nil {
			open++
		}
	}
	if len(in.list) > 0 && open == 0 {
		return outcome{}, in.settled().members(nil), nil
	}
	o, err = x.envelope(server, in, r)
	return o, "", err
}

// An asking is a modern server's result that asks for input.
type asking struct {
	requests []byte // nil when absent
	state    []byte // raw, as it came; nil when absent
	list     []*inquiry
}

// An inquiry is one question of it.
type inquiry struct {
	key    string
	q      upstream.Question
	at     int    // where its parameters begin in requests
	size   int    // and how long they are; zero when it has none
	result []byte // the answer, if the agent is not asked
}

// cannot fails a call because of one question.
func (in *inquiry) cannot(e *wire.Error) error {
	if in.q.Method == "" {
		return cannot(in.q.Server, "what it asks for under "+strconv.QuoteToASCII(clip(in.key, 64))+" is no question: it has no method")
	}
	return cannot(in.q.Server, clip(in.q.Method, 64)+": "+e.Message)
}

func readAsking(server string, r *upstream.Response) (a asking, err error) {
	a.state, a.requests = present(r.Result, "requestState"), present(r.Result, "inputRequests")
	switch {
	case a.requests != nil && wire.Kindof(a.requests) != '{',
		a.state != nil && wire.Kindof(a.state) != '"',
		a.state == nil && (a.requests == nil || isEmpty(a.requests)):
		return a, protocolFault(server, "a result that asks for input without saying which")
	}
	end := 0
	wire.Each(a.requests, func(key, val []byte) bool {
		from, to, ok := wire.Find(a.requests, string(key))
		switch {
		case !ok || from < end:
			err = protocolFault(server, "two questions under one key")
		case len(a.list) == maxInputs:
			err = cannot(server, fmt.Sprintf("more than %d questions at once", maxInputs))
		default:
			a.list = append(a.list, readInquiry(server, key, val, from, r.Flags))
			end = to
		}
		return err == nil
	})
	return a, err
}

// present returns a member; nil when it is absent, or null.
func present(obj []byte, name string) []byte {
	v, ok := wire.Get(obj, name)
	if !ok || wire.Kindof(v) == 'n' {
		return nil
	}
	return v
}

// readInquiry reads the question that begins at from.
func readInquiry(server string, key, val []byte, from int, flags wire.Flags) *inquiry {
	in := &inquiry{key: string(key), q: upstream.Question{Server: server, Flags: flags}}
	method, _ := wire.Get(val, "method")
	in.q.Method, _ = wire.Unquote(method)
	if i, j, ok := wire.Find(val, "params"); ok && wire.Kindof(val[i:j]) != 'n' {
		in.q.Params, in.at, in.size = val[i:j], from+i, j-i
	}
	return in
}

// lacksTools reports whether a sampling request brings tools that the agent has
// no use for.
func lacksTools(can policy.Answers, params []byte) bool {
	_, brings := wire.Get(params, "tools")
	return brings && can&policy.AnswerSamplingTools == 0
}

// screen decides on a question before the agent sees it. It has a result then if
// the agent does not see it at all. After an error the call cannot go on.
func (x *exchange) screen(ctx context.Context, in *inquiry) (err *wire.Error) {
	a := x.f.asker(in.q.Server)
	can := x.caps().answers
	if a == nil || in.q.Method == methodSampling && (can&policy.AnswerSampling == 0 || x.f.samples(a) && lacksTools(can, in.q.Params)) {
		in.result, _, err = x.settle(ctx, &in.q, nil)
		return err
	}
	what := about{in.q.Server, in.q.Method, time.Now()}
	v, err := a.Screen(what.began, in.q.Method, in.q.Params, in.q.Flags, x.hearer())
	if lack := v.Kind &^ can; err == nil && lack != 0 {
		a.Failed(in.q.Method)
		x.logAsked(a, what, wasNot, x.reasonFor(unable, lacking(lack))...)
		return lacking(lack)
	}
	if err == nil {
		in.q.Params = v.Params
		x.logAsked(a, what, wasPut)
		return nil
	}
	x.logAsked(a, what, wasRefused, x.reasonFor(refused, err)...)
	if in.q.Method == methodElicit {
		in.result = noElicitation(refused)
		return nil
	}
	return err
}

// envelope is the server's own result, but for its requestState, which goes
// inside ours, and for the questions that the agent does not get or gets in other
// words.
func (x *exchange) envelope(server string, in asking, r *upstream.Response) (outcome, error) {
	for _, one := range in.list {
		if x.cleanText(one.key) != one.key {
			return outcome{}, protocolFault(server, "a question under a name with hidden characters")
		}
	}
	body, err := in.settled().seal(server)
	if err != nil {
		return outcome{}, err
	}
	token := wire.AppendQuote(nil, x.f.seal(x.newState(stateServer, server, body)))
	out := r.Result
	if from, to, ok := wire.Find(out, "inputRequests"); ok && in.requests != nil {
		out = wire.Splice(nil, out, wire.Edit{From: from, To: to, With: in.shown()})
	}
	if from, to, ok := wire.Find(out, "requestState"); ok {
		out = wire.Splice(nil, out, wire.Edit{From: from, To: to, With: token})
	} else {
		out = withFront(out, `"requestState":`+string(token)+`,`)
	}
	if n := len(out); n > x.f.opt.Limits.answer() {
		return outcome{}, tooLong(server, fmt.Sprintf("%d bytes, limits.answer_bytes is %d", n, x.f.opt.Limits.answer()))
	}
	return outcome{Response: upstream.Response{Result: x.f.clean(out, r.Flags)}, paused: true}, nil
}

func tooLong(server, what string) error {
	return &upstream.Error{Server: server, Op: "input_required", Kind: upstream.TooLarge, Err: errors.New(what)}
}

// shown are the requests that the agent gets.
func (a *asking) shown() []byte {
	var edits []wire.Edit
	var gone []string
	for _, in := range a.list {
		switch {
		case in.result != nil:
			gone = append(gone, in.key)
		case in.size > 0 && !bytes.Equal(a.requests[in.at:in.at+in.size], in.q.Params):
			edits = append(edits, wire.Edit{From: in.at, To: in.at + in.size, With: in.q.Params})
		}
	}
	return without(wire.Splice(nil, a.requests, edits...), gone...)
}

// settled is what the retry needs to know.
func (a *asking) settled() *serverState {
	s := &serverState{state: a.state}
	for _, in := range a.list {
		if in.result != nil {
			s.ours = append(s.ours, keyed{key: in.key, raw: in.result})
		} else {
			s.asked = append(s.asked, keyed{in.key, in.q.Method, in.q.Params})
		}
	}
	return s
}
