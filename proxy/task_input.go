package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A modern task asks for input in what tasks/get returns, and gets it by
// tasks/update. The same questions come back with every poll until they are
// answered, but count once towards what the server may ask.

// taskInputs screens the questions in a task's state, takes out those that the
// agent does not get, and has the server told what they are answered with.
func (x *exchange) taskInputs(ctx context.Context, t task, r *upstream.Response) error {
	from, to, ok := wire.Find(r.Result, "inputRequests")
	if !ok || wire.Kindof(r.Result[from:to]) != '{' || isEmpty(r.Result[from:to]) {
		return nil
	}
	in, err := readAsking(t.server, r)
	if err != nil {
		return err
	}
	var ours []byte
	var refusal error
	for _, one := range in.list {
		if x.cleanText(one.key) != one.key {
			return protocolFault(t.server, "a question under a name with hidden characters")
		}
		answer, werr := x.taskInput(ctx, t, one)
		if werr != nil {
			refusal = one.cannot(werr)
		}
		if answer != nil {
			ours = appendMember(ours, one.key, answer)
		}
	}
	shown := in.shown()
	r.Result = wire.Splice(nil, r.Result, wire.Edit{From: from, To: to, With: shown})
	if ours != nil {
		x.answerTask(ctx, t, closed(ours))
	} else if isEmpty(shown) && refusal != nil {
		return refusal // else the agent would poll for nothing
	}
	return ctx.Err()
}

// taskInput screens one question, which has a result afterwards if the agent does
// not get it. It returns the answer that the server is owed in place of the
// agent's, if that is known only now.
func (x *exchange) taskInput(ctx context.Context, t task, in *inquiry) (answer []byte, err *wire.Error) {
	k := inputKey(t, in.key)
	asked := sha256.Sum256(append([]byte(in.q.Method+"\x00"), in.q.Params...))
	q, ok := x.f.recall.find(k)
	if ok && q.asked == asked {
		return nil, x.askedAgain(k, q, in)
	}
	if err := x.screen(ctx, in); err != nil {
		in.result = emptyObject // it stays open: what is over a rate is asked later
		return nil, err
	}
	x.f.recall.put(k, recalled{caller: x.caller.ID, asked: asked, method: in.q.Method, params: bytes.Clone(in.q.Params), began: time.Now(), hidden: in.result != nil})
	return in.result, nil
}

// askedAgain shows a question like the last time. It counts no more.
func (x *exchange) askedAgain(k digest, q recalled, in *inquiry) *wire.Error {
	if q.hidden {
		in.result = emptyObject
		return nil
	}
	if q.thin {
		to := x.hearer()
		to.Again = true
		v, err := x.f.asker(in.q.Server).Screen(time.Now(), in.q.Method, in.q.Params, in.q.Flags, to)
		if err != nil {
			in.result = emptyObject
			return err
		}
		q.params, q.thin = bytes.Clone(v.Params), false
		x.f.recall.put(k, q)
	}
	in.q.Params = q.params
	return nil
}

// answerTask gives a server answers that are not the agent's.
func (x *exchange) answerTask(ctx context.Context, t task, responses []byte) {
	params := wire.AppendQuote([]byte(`{"taskId":`), t.id)
	params = append(append(append(params, `,"inputResponses":`...), responses...), '}')
	_, err := x.do(ctx, t.server, &upstream.Call{Method: "tasks/update", Name: t.id, Params: params, Via: t.via})
	if err != nil {
		x.f.opt.Log.Info("call failed", "server", t.server, "op", "tasks/update", "caller", x.caller.ID, "code", troubleOf(err).code, "err", err)
	}
}

// reviewInputs holds the agent's answers in tasks/update against the questions.
func (x *exchange) reviewInputs(t task) *wire.Error {
	from, _, ok := wire.Find(x.params.raw, "inputResponses")
	if !ok || wire.Kindof(x.params.responses) != '{' {
		return badParams("tasks/update lacks the object inputResponses")
	}
	var edits []wire.Edit
	var werr *wire.Error
	wire.Each(x.params.responses, func(key, val []byte) bool {
		k := string(key)
		var out []byte
		if out, werr = x.reviewInput(t, k, val); werr == nil && !bytes.Equal(out, val) {
			a, b, _ := wire.Find(x.params.responses, k)
			edits = append(edits, wire.Edit{From: from + a, To: from + b, With: out})
		}
		return werr == nil
	})
	if werr == nil && edits != nil {
		x.params = readParams(wire.Splice(nil, x.params.raw, edits...))
	}
	return werr
}

func (x *exchange) reviewInput(t task, key string, val []byte) ([]byte, *wire.Error) {
	a := x.f.asker(t.server)
	if a == nil {
		return val, nil
	}
	k := inputKey(t, key)
	q, ok := x.f.recall.find(k)
	if !ok {
		q.method = answerTo(val)
	}
	if q.hidden || !ok && q.method != "" && a.Offers()&kindsOf(q.method) == 0 {
		return nil, badResponse(key, "was not asked for")
	}
	if why := malformed(q.method, val); why != "" {
		return nil, badResponse(key, why)
	}
	switch {
	case q.method == "":
		return val, nil // servers ignore answers to what they did not ask
	case ok && !x.f.recall.answer(k):
		if err := x.oncemore(a, q); err != nil {
			return nil, badResponse(key, "was given before, and cannot be used once more: "+err.Message)
		}
	}
	out, err := x.judge(a, about{t.server, q.method, q.began}, q.params, val, byAgent)
	if err != nil {
		return nil, badResponse(key, "cannot be used: "+err.Message)
	}
	return out, nil
}

// oncemore counts the question of an answer that follows another one: whoever asks
// the same twice asks two things.
func (x *exchange) oncemore(a *policy.Asker, q recalled) *wire.Error {
	if q.thin {
		return badParams("get the task's state first")
	}
	_, err := a.Screen(time.Now(), q.method, q.params, wire.NonASCII|wire.Escapes, policy.Audience{Caller: x.caller.ID})
	return err
}

// answerTo is the method of the question that an answer is to, by its form; empty
// if that is none. It is for answers to questions that are not known, or no more.
func answerTo(val []byte) (method string) {
	wire.Each(val, func(key, _ []byte) bool {
		switch strings.ToLower(string(key)) {
		case "action":
			method = methodElicit
		case "role":
			method = methodSampling
		case "roots":
			method = methodRoots
		}
		return method == ""
	})
	return method
}

// kindsOf are those that a method asks for.
func kindsOf(method string) policy.Answers {
	switch method {
	case methodElicit:
		return policy.AnswerForm | policy.AnswerURL
	case methodSampling:
		return policy.AnswerSampling
	}
	return policy.AnswerRoots
}
