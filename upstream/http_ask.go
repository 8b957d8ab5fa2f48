package upstream

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// mostWaiting is how many calls of one connection may wait for an agent beyond
	// max_concurrency: while they wait they hold no slot, but their stream is open.
	mostWaiting = 128
	// replyTime bounds the posting of an answer to a question.
	replyTime = 10 * time.Second
)

// Refusals of questions on the standing stream.
const (
	severalCalls = "several calls are in flight and the question does not say which it is about; isolation: per_session helps"
	calledOff    = "another call was given up just now and the question may be about it; isolation: per_session helps"
	manyWaiting  = "too many calls wait for an answer"
)

// askers are the calls in flight that can answer questions. A question on a call's
// own stream belongs to that call; the table serves the standing stream, on which
// TypeScript servers ask when they do not say which request it is about.
type askers struct {
	mu    sync.Mutex
	calls map[*exchange]struct{}
	// gaveUp is when an agent last gave up a call that the server may still ask
	// about; the oldest are forgotten.
	gaveUp map[string]time.Time
}

// stillAsks is how long after that a question is not taken for another agent's.
const (
	stillAsks  = time.Minute
	mostGaveUp = 1000
)

// abandoned notes that who gave up a call.
func (a *askers) abandoned(who string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gaveUp == nil {
		a.gaveUp = map[string]time.Time{}
	}
	if len(a.gaveUp) >= mostGaveUp {
		maps.DeleteFunc(a.gaveUp, func(_ string, at time.Time) bool { return now.Sub(at) > stillAsks })
	}
	if len(a.gaveUp) >= mostGaveUp {
		who = "" // somebody: nobody is above doubt
	}
	a.gaveUp[who] = now
}

// doubtful reports whether another agent than who gave up a call just now.
func (a *askers) doubtful(who string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, at := range a.gaveUp {
		if other != who && now.Sub(at) < stillAsks {
			return true
		}
	}
	return false
}

func (a *askers) add(x *exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = make(map[*exchange]struct{})
	}
	a.calls[x] = struct{}{}
}

func (a *askers) remove(x *exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, x)
}

func (a *askers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// of returns a call of a session, and how many there are.
func (a *askers) of(s *session) (one *exchange, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for x := range a.calls {
		if x.s == s {
			one = x
			n++
		}
	}
	return one, n
}

// withdraw ends the question with an id, whichever call of the session it is
// about: the server's ids are unique within a session.
func (a *askers) withdraw(s *session, id []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.early.withdraw(id) {
		return
	}
	for x := range a.calls {
		if x.s == s && x.asks.withdraw(id) {
			return
		}
	}
}

// begin returns the context of the request. For a call that a legacy server may
// ask about, the time-out is one that rests while a question is open.
func (x *exchange) begin(ctx context.Context, bound time.Duration) (context.Context, context.CancelFunc) {
	if x.call.Ask == nil || x.s.era != Legacy {
		return x.c.scope(ctx, bound)
	}
	rctx, cancel := x.c.scope(ctx, 0)
	l := &limit{}
	x.asks = newQuestions(x.call, l, x.c.env.logger(), x.c.spawn)
	x.asks.enough = cancel
	if x.first {
		x.asks.tell = func(msg []byte) { x.c.deliverNow(x.s, msg) }
	}
	l.begin(bound, cancel)
	x.c.askers.add(x)
	return rctx, func() { l.stop(); cancel() }
}

// hearEarly lets the first call answer what the server asks upon its handshake.
func (x *exchange) hearEarly(ctx context.Context) {
	for _, h := range x.s.early.take() {
		x.ask(h.msg)
	}
	if answersRoots(x.call) {
		e := earlyWait{asks: x.asks, done: ctx.Done(), ping: x.ping}
		e.hear()
	}
	x.s.early.pass()
}

// ping returns with the server's answer, whatever it is.
func (x *exchange) ping(ctx context.Context) {
	p := exchange{c: x.c, s: x.s, call: &Call{Method: "ping"}}
	_, _ = p.run(ctx, earlyTaken)
}

// finish ends what is open about the call.
func (x *exchange) finish() {
	x.room.release()
	if x.asks != nil {
		x.c.askers.remove(x)
		x.asks.end()
	}
}

// question answers a request of the server. The modern era has none; a call
// without Ask answers ping and declines the rest.
func (x *exchange) question(m *wire.Message) {
	switch {
	case x.s.era == Modern || x.s.version == "" || len(m.ID) > maxQuestionID:
		x.noise()
	case m.Method == "ping":
		x.c.decline(x.s, m)
	case x.asks == nil && x.c.env.declares(capabilityFor(m.Method)):
		x.c.refuse(x.s, m, wire.CodeMethodNotFound, errNobodyAnswers.Error())
	case x.asks == nil:
		x.c.decline(x.s, m)
	default:
		x.ask(m)
	}
}

// ask may be called by any goroutine that reads a stream; it does not wait.
func (x *exchange) ask(m *wire.Message) {
	if x.c.askers.count() > mostWaiting+x.c.settings.maxConcurrency() {
		x.c.refuse(x.s, m, wire.CodeInternal, manyWaiting)
		return
	}
	x.asks.start(x.call, x.c.server, m, func(msg []byte) { x.c.deliver(x.s, msg) })
}

// asked handles a question on the standing stream of a session.
func (c *httpConn) asked(s *session, m *wire.Message) {
	if m.Method == "ping" {
		c.decline(s, m)
		return
	}
	if s.early.hold(m, func(m *wire.Message) { c.decline(s, m) }) {
		return
	}
	switch x, n := c.askers.of(s); {
	case n == 0:
		c.decline(s, m)
	case n == 1 && c.askers.doubtful(x.call.who, time.Now()):
		c.refuse(s, m, wire.CodeInternal, calledOff)
	case n == 1 && ofAnotherTask(m.Params, x.call):
		c.refuse(s, m, wire.CodeInternal, whichTask)
	case n == 1:
		x.ask(m)
	default:
		c.refuse(s, m, wire.CodeInternal, severalCalls)
	}
}

// decline answers ping, and says to any other question that it reaches nobody.
func (c *httpConn) decline(s *session, m *wire.Message) {
	if m.Method == "ping" {
		c.aside(s, wire.AppendResult(nil, m.ID, []byte(`{}`)))
		return
	}
	c.refuse(s, m, wire.CodeMethodNotFound, c.env.decline(c.server, c.settings, m.Method, &c.told))
}

func (c *httpConn) refuse(s *session, m *wire.Message, code int, text string) {
	c.aside(s, wire.AppendError(nil, m.ID, code, text, nil))
}

// deliver posts what the server waits for: an answer to a question, or word that
// a call was cancelled. It has places of its own, since asides may be dropped. A
// server that meanwhile lost the session has no use for it.
func (c *httpConn) deliver(s *session, msg []byte) {
	c.background(c.replies, func() { c.deliverNow(s, msg) }, func() { c.env.noised(1) })
}

// deliverNow returns when the server has taken the message, or did not.
func (c *httpConn) deliverNow(s *session, msg []byte) {
	ctx, cancel := context.WithTimeout(c.root(), replyTime)
	defer cancel()
	status, err := c.post(ctx, s, msg)
	switch {
	case err != nil:
		c.env.logger().Debug("answer not delivered", "server", c.server, "err", c.netText(err))
	case status >= http.StatusBadRequest:
		c.env.logger().Debug("answer refused", "server", c.server, "status", status)
	}
}

// spawn runs f in a goroutine that Close waits for, unless it was called.
func (c *httpConn) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Add(1)
		go c.runSpawned(f)
	}
}

func (c *httpConn) runSpawned(f func()) {
	defer c.work.Done()
	f()
}
