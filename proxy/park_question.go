package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A question waits for an agent's answer in a retry.
type question struct {
	key, method string
	params      []byte
	bytes       int64        // that it takes
	answer      chan verdict // takes one value
}

// A verdict is the answer to a question, or why there is none.
type verdict struct {
	result []byte
	err    *wire.Error
}

// ask answers a question of the server about the call.
func (p *parked) ask(ctx context.Context, q upstream.Question) ([]byte, *wire.Error) {
	return p.x.consult(ctx, q, byRetry{p, len(q.Params)})
}

// byRetry is the way to the agent of a parked call. The server's own words wait
// with the question; where the agent gets others, there are two of it.
type byRetry struct {
	*parked
	sent int // bytes
}

// put asks the agent by the answer to the request that waits, or else to the next
// one, and waits for what a retry brings.
func (p byRetry) put(ctx context.Context, method string, params []byte) (result []byte, theirs bool, err *wire.Error) {
	q, err := p.enter(method, params, p.sent)
	if err != nil {
		return nil, false, err
	}
	select {
	case v := <-q.answer:
		return v.result, false, v.err
	case <-ctx.Done():
		p.withdraw(q)
		return nil, false, errWithdrawn
	}
}

// enter opens a question, of which sent bytes are held elsewhere.
func (p *parked) enter(method string, params []byte, sent int) (*question, *wire.Error) {
	if method == methodElicit {
		params = without(params, "elicitationId") // the modern era has none
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if lack := needs(method, params) &^ p.can; lack != 0 {
		return nil, lacking(lack)
	}
	if err := p.admit(params, sent); err != nil {
		return nil, err
	}
	p.asked++
	q := &question{key: "q" + strconv.Itoa(p.asked), method: method, params: params,
		bytes: int64(len(params) + sent), answer: make(chan verdict, 1)}
	p.open = append(p.open, q)
	p.poke()
	return q, nil
}

// needs is what an agent must be able to answer for a question. A retry may
// declare less than the request before it.
func needs(method string, params []byte) policy.Answers {
	switch method {
	case methodSampling:
		if _, tools := wire.Get(params, "tools"); tools {
			return policy.AnswerSampling | policy.AnswerSamplingTools
		}
		return policy.AnswerSampling
	case methodElicit:
		if mode, _ := wire.Get(params, "mode"); string(mode) == `"url"` {
			return policy.AnswerURL
		}
		return policy.AnswerForm
	case methodRoots:
		return policy.AnswerRoots
	}
	return 0
}

// admit takes what one more question costs; p.mu is held.
func (p *parked) admit(params []byte, sent int) *wire.Error {
	size := len(params)
	for _, q := range p.open {
		size += len(q.params)
	}
	switch {
	case p.over || p.gone:
		return errCallOver
	case len(p.open) >= maxInputs:
		return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("%d questions of this call are open, which is the limit", maxInputs)}
	case size > p.x.f.opt.Limits.answer()-maxFrame:
		return &wire.Error{Code: wire.CodeInternal, Message: "the question is longer than limits.answer_bytes"}
	}
	if p.places == 0 {
		if err := p.x.f.parking.place(p.x.caller.ID); err != nil {
			return err
		}
		p.places = 1
	}
	if !p.grow(len(params) + sent) {
		return overLimit("the bound in bytes", parkedBytes)
	}
	return nil
}

// maxFrame is room for what stands around questions.
const maxFrame = 8 << 10

// poke tells the request that waits that there are questions.
func (p *parked) poke() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// withdraw closes a question that its server does not ask any more.
func (p *parked) withdraw(q *question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut(q)
}

// shut takes a question off the open ones; false means that it was none of them.
// p.mu is held.
func (p *parked) shut(q *question) bool {
	i := slices.Index(p.open, q)
	if i < 0 {
		return false
	}
	p.open = slices.Delete(p.open, i, i+1)
	p.x.f.parking.leave(p.x.caller.ID, q.bytes, 0)
	p.bytes -= q.bytes
	return true
}

// refuse ends all open questions; p.mu is held.
func (p *parked) refuse(err *wire.Error) {
	for len(p.open) > 0 {
		q := p.open[0]
		p.shut(q)
		q.answer <- verdict{err: err}
	}
}

// requests writes the open questions as inputRequests; p.mu is held.
func (p *parked) requests() []byte {
	size := 0
	for _, q := range p.open {
		size += len(q.params) + len(q.method) + 64
	}
	out := append(make([]byte, 0, size+2), '{')
	for i, q := range p.open {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendQuote(out, q.key)
		out = appendInput(append(out, ':'), q.method, q.params)
	}
	return append(out, '}')
}

// appendInput appends one of inputRequests' values.
func appendInput(dst []byte, method string, params []byte) []byte {
	dst = wire.AppendQuote(append(dst, `{"method":`...), method)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// check looks at the answers to the open questions before anything is done with
// them.
func (p *parked) check(responses []byte) *wire.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.open {
		if r, ok := wire.Get(responses, q.key); ok {
			if why := malformed(q.method, r); why != "" {
				return badResponse(q.key, why)
			}
		}
	}
	return nil
}

// deliver hands the agent's answers to the questions. What is missing stays open;
// what was not asked is ignored. p.mu is held.
func (p *parked) deliver(responses []byte) {
	for _, q := range slices.Clone(p.open) {
		if r, ok := wire.Get(responses, q.key); ok {
			p.shut(q)
			q.answer <- verdict{result: bytes.Clone(r)}
		}
	}
}

// lost is why a call has no answer though the server gave one.
func (p *parked) lost() error {
	return &upstream.Error{Server: p.server, Op: "call", Kind: upstream.TooLarge,
		Err: errors.New("the answer came while nobody waited for it, and did not fit beside those of other calls")}
}
