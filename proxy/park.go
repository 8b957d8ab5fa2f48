package proxy

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// gatherTime is how long questions wait for others that come at the same time.
const gatherTime = 5 * time.Millisecond

// park carries a call of a modern agent that can answer questions.
func (x *exchange) park(ctx context.Context, server string, c *upstream.Call) (outcome, error) {
	o, err := x.detached(ctx, server, c)
	return x.through(ctx, server, c, o, err)
}

// detached carries a call that may outlive the request of x: while a server's
// question is open, the agent has its answer to that request already.
func (x *exchange) detached(ctx context.Context, server string, c *upstream.Call) (outcome, error) {
	n := int64(len(c.Params) + len(x.params.meta.raw))
	if !x.f.parking.hold(x.caller.ID, n) {
		c.Ask = crowded
		resp, err := x.do(ctx, server, c)
		return outcome{Response: resp}, err
	}
	p := &parked{x: x.alone(), server: server, news: make(chan struct{}, 1), done: make(chan struct{}), bytes: n}
	p.attach(x, nil)
	call := *c
	call.Params, call.Notify, call.Ask = bytes.Clone(c.Params), p.relay, p.ask
	own, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.run(own, server, &call)
	return p.await(ctx, x)
}

// alone returns an exchange for a call that may outlive the request of x: it has
// no bytes of it, and nobody hears it.
func (x *exchange) alone() exchange {
	own := exchange{f: x.f, view: x.view, caller: x.caller, modern: x.modern, lane: x.lane, tool: strings.Clone(clip(x.toolName(), maxLogged))}
	own.msg.Method = x.msg.Method
	if v := x.header[hTraceparent]; v != nil {
		own.header = http.Header{hTraceparent: v, hTracestate: x.header[hTracestate]}
	}
	if x.params.meta.raw != nil {
		own.params.meta.read(bytes.Clone(x.params.meta.raw))
	}
	return own
}

// crowded answers the questions of a call for which there was no room.
func crowded(context.Context, upstream.Question) ([]byte, *wire.Error) {
	return nil, overLimit("the bound in bytes", parkedBytes)
}

// A parked is a call that goes on in the background while its agent, which is
// asked by the answers to its requests, comes and goes.
type parked struct {
	x      exchange // of the call
	server string
	cancel context.CancelFunc
	news   chan struct{} // holds a token when a question has come
	done   chan struct{} // closed by run
	resp   upstream.Response
	err    error // both are set before done is closed

	mu     sync.Mutex
	at     *exchange      // the request that waits; nil when none does
	can    policy.Answers // what the agent can answer, by its last request
	open   []*question
	asked  int // questions so far
	bytes  int64
	places int
	over   bool // the server has answered
	gone   bool // nobody will ask for the answer
	timer  *time.Timer
}

// run carries the call, and survives its panic.
func (p *parked) run(ctx context.Context, server string, c *upstream.Call) {
	defer p.end()
	defer p.cancel()
	defer func() {
		if r := recover(); r != nil {
			p.x.panicked(r)
			p.err = &wire.Error{Code: wire.CodeInternal, Message: "internal error"}
		}
	}()
	p.resp, p.err = p.x.do(ctx, server, c)
}

// end notes that the call is over. What came for an agent that is away must fit.
func (p *parked) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.open = true, nil
	if p.at == nil && !p.gone && !p.grow(len(p.resp.Result)+len(p.resp.Error)) {
		p.resp, p.err = upstream.Response{}, p.lost()
	}
	close(p.done)
	if p.gone {
		p.release()
	}
}

// await waits until the server answers, or asks. When the agent hangs up before,
// the call ends.
func (p *parked) await(ctx context.Context, x *exchange) (outcome, error) {
	for {
		select {
		case <-p.done:
			p.leave()
			return outcome{Response: p.resp}, p.err
		case <-ctx.Done():
			p.cancel()
			<-p.done
			p.leave()
			return outcome{}, ctx.Err()
		case <-p.news:
			if o, ok := p.pause(ctx, x); ok {
				return o, nil
			}
		}
	}
}

// pause gives questions a moment to come together, and lets the request of x go
// with them. It does not while none is open.
func (p *parked) pause(ctx context.Context, x *exchange) (outcome, bool) {
	t := time.NewTimer(gatherTime)
	defer t.Stop()
	select {
	case <-t.C:
		if ctx.Err() == nil {
			return p.detach(x)
		}
	case <-p.done:
	case <-ctx.Done():
	}
	return outcome{}, false
}

// attach makes the request of x the one that waits, and hands on the answers that
// it brings.
func (p *parked) attach(x *exchange, responses []byte) {
	can := x.caps().answers
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.can = x, can
	if p.timer != nil {
		p.timer.Stop()
	}
	p.deliver(responses)
	if len(p.open) > 0 {
		p.poke()
	}
}

// detach answers the request of x with the open questions. From then on the call
// waits for the next one, a bounded time.
func (p *parked) detach(x *exchange) (outcome, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || len(p.open) == 0 {
		return outcome{}, false
	}
	s := x.newState(stateParked, p.server, nil)
	if !x.f.parking.put(s.nonce, p) {
		p.refuse(errStopping)
		return outcome{}, false
	}
	p.at, x.waits = nil, &s.nonce
	p.timer = time.AfterFunc(x.f.opt.Limits.parkedTime(), func() { x.f.parking.expire(s.nonce) })
	return paused(p.requests(), x.f.seal(s)), true
}

var errStopping = &wire.Error{Code: wire.CodeInternal, Message: "mcp-sidecar stops; nobody is asked any more"}

// paused is the outcome that asks an agent something.
func paused(requests []byte, state string) outcome {
	const head, next = `{"resultType":"input_required","inputRequests":`, `,"requestState":`
	out := make([]byte, 0, len(head)+len(requests)+len(next)+len(state)+8)
	out = append(append(out, head...), requests...)
	out = wire.AppendQuote(append(out, next...), state)
	return outcome{Response: upstream.Response{Result: append(out, '}')}, paused: true}
}

// drop gives the call up while nobody waits.
func (p *parked) drop(why string) {
	p.x.f.opt.Log.Info("parked call given up", "op", p.x.word(p.x.msg.Method), "caller", p.x.caller.ID, "err", why)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	p.gone = true
	if p.over {
		p.release()
		return
	}
	p.cancel()
}

// leave ends a call whose answer is taken, or not wanted.
func (p *parked) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

// release gives back what the call took; p.mu is held.
func (p *parked) release() {
	p.x.f.parking.leave(p.x.caller.ID, p.bytes, p.places)
	p.bytes, p.places = 0, 0
}

// grow takes room for n more bytes; p.mu is held.
func (p *parked) grow(n int) bool {
	ok := p.x.f.parking.hold(p.x.caller.ID, int64(n))
	if ok {
		p.bytes += int64(n)
	}
	return ok
}

// relay hands on what the server says about the call, to the request that waits,
// under its own token. While none does, it is lost.
func (p *parked) relay(method string, params []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil || p.at.out == nil {
		return
	}
	if token := p.at.params.meta.token; token != nil && method == "notifications/progress" {
		params = underToken(params, token)
	}
	p.at.relay(method, params)
}

// underToken puts another progress token into a notification.
func underToken(params, token []byte) []byte {
	from, to, ok := wire.Find(params, "progressToken")
	if !ok || bytes.Equal(params[from:to], token) {
		return params
	}
	return wire.Splice(nil, params, wire.Edit{From: from, To: to, With: token})
}
