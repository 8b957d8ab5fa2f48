package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A modern task asks for input in what tasks/get returns, and gets it by
// tasks/update. The same questions come back with every poll until they are
// answered, but count once towards what the server may ask.

// Limits of what is remembered of such questions. Of one that is forgotten, only
// its count is wrong.
const (
	maxRecalled      = 512
	maxRecalledBytes = 1 << 20
)

// A recalled is a question of a task that was screened.
type recalled struct {
	asked  [sha256.Size]byte // digest of what the server sent
	method string
	params []byte // as the agent gets them
	began  time.Time
	// hidden is true when the agent does not get it, answered when it has.
	hidden, answered bool
}

// recall is the questions of all tasks, the oldest first. The zero value is empty.
type recall struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*recalled
	order [][sha256.Size]byte
	bytes int
}

// inputKey names the question of a task.
func inputKey(t task, key string) [sha256.Size]byte {
	return sha256.Sum256([]byte(t.server + "\x00" + t.via + "\x00" + t.id + "\x00" + key))
}

func (r *recall) find(k [sha256.Size]byte) (q recalled, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.known[k]; p != nil {
		return *p, true
	}
	return q, false
}

func (r *recall) put(k [sha256.Size]byte, q recalled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(k)
	if len(q.params) > maxRecalledBytes {
		return
	}
	for len(r.order) >= maxRecalled || len(r.order) > 0 && r.bytes+len(q.params) > maxRecalledBytes {
		r.forget(r.order[0])
	}
	if r.known == nil {
		r.known = map[[sha256.Size]byte]*recalled{}
	}
	r.known[k], r.order, r.bytes = &q, append(r.order, k), r.bytes+len(q.params)
}

// forget drops a question; r.mu is held.
func (r *recall) forget(k [sha256.Size]byte) {
	q := r.known[k]
	if q == nil {
		return
	}
	i := slices.Index(r.order, k)
	r.order = slices.Delete(r.order, i, i+1)
	r.bytes -= len(q.params)
	delete(r.known, k)
}

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
			refusal = cannot(t.server, clip(one.q.Method, 64)+": "+werr.Message)
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
	if q, ok := x.f.recall.find(k); ok && q.asked == asked {
		if in.q.Params = q.params; q.hidden {
			in.result = emptyObject
		}
		return nil, nil
	}
	if err := x.screen(ctx, in); err != nil {
		in.result = emptyObject // it stays open: what is over a rate is asked later
		return nil, err
	}
	x.f.recall.put(k, recalled{asked: asked, method: in.q.Method, params: bytes.Clone(in.q.Params), began: time.Now(), hidden: in.result != nil})
	return in.result, nil
}

// answerTask gives a server answers that are not the agent's.
func (x *exchange) answerTask(ctx context.Context, t task, responses []byte) {
	params := wire.AppendQuote([]byte(`{"taskId":`), t.id)
	params = append(append(append(params, `,"inputResponses":`...), responses...), '}')
	_, err := x.do(ctx, t.server, &upstream.Call{Method: "tasks/update", Name: t.id, Params: params, Via: t.via})
	if err != nil {
		x.f.opt.Log.Info("call failed", "server", t.server, "op", "tasks/update", "caller", x.caller.ID, "err", err)
	}
}

// reviewInputs holds the agent's answers in tasks/update against the questions.
// Servers ignore answers to what they did not ask, so those may pass.
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
	k := inputKey(t, key)
	q, ok := x.f.recall.find(k)
	a := x.f.asker(t.server)
	switch {
	case !ok || q.answered || a == nil:
		return val, nil
	case q.hidden:
		return nil, badResponse(key, "was not asked for")
	}
	if why := malformed(q.method, val); why != "" {
		return nil, badResponse(key, why)
	}
	out, err := x.judge(a, about{t.server, q.method, q.began}, q.params, val, byAgent)
	if err != nil {
		return nil, badResponse(key, "cannot be used: "+err.Message)
	}
	q.answered = true
	x.f.recall.put(k, q)
	return out, nil
}
