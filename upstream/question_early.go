package upstream

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// earlyAsk is how long the first call waits for a question. For the answer it
	// waits as long as that may take.
	earlyAsk = 250 * time.Millisecond
	// earlyTaken is how long the server has to show that it took the answer, and
	// earlyApply how long it is left alone meanwhile: servers look at folders before
	// they use them, and answer other requests in between.
	earlyTaken = 2 * time.Second
	earlyApply = 100 * time.Millisecond
	// earlyIdle is how long the first call may come and still wait for a question,
	// and earlyHold how long a question waits for it: servers give up after a minute.
	earlyIdle    = 5 * time.Second
	earlyHold    = 50 * time.Second
	mostEarly    = 4        // questions that wait for it
	largestEarly = 64 << 10 // bytes of the parameters of one
)

// An early is the time between a handshake and the first call that can be asked
// about, on a connection that one agent has alone. Servers ask for its roots then,
// server-filesystem for one: the call answers that, and is sent afterwards. nil is
// for connections that have no such time.
type early struct {
	mu     sync.Mutex
	stage  earlyStage
	held   []heldQuestion
	over   chan struct{} // closed when stage becomes passed
	timer  *time.Timer
	longer bool // the timer runs for what is held
}

type earlyStage uint8

const (
	shaking earlyStage = iota // the handshake is not over
	waiting                   // for the first call
	claimed                   // by the first call, which is about to take what is held
	taken
	passed
)

// A heldQuestion waits for a call that answers it.
type heldQuestion struct {
	msg    *wire.Message
	refuse func(m *wire.Message)
}

// newEarly returns nil where nothing is to be waited for.
func newEarly(e *env) *early {
	if !e.own || !e.declares("roots") {
		return nil
	}
	return &early{over: make(chan struct{})}
}

// begin is called before the server learns that the handshake is over.
func (e *early) begin() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stage = waiting
	e.timer = time.AfterFunc(earlyIdle, e.expire)
}

// hold keeps a question for the first call; false if that is not to be. refuse
// answers it when no call came, and must not block.
func (e *early) hold(m *wire.Message, refuse func(m *wire.Message)) bool {
	if e == nil || m.Method != "roots/list" || len(m.Params) > largestEarly {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stage != waiting && e.stage != claimed || len(e.held) >= mostEarly {
		return false
	}
	e.held = append(e.held, heldQuestion{refuse: refuse, msg: &wire.Message{
		ID: bytes.Clone(m.ID), Method: m.Method, Params: bytes.Clone(m.Params), Flags: m.Flags}})
	return true
}

// withdraw forgets a question that is held, and reports whether there was one.
func (e *early) withdraw(id []byte) bool {
	if e == nil || id == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.held {
		if bytes.Equal(e.held[i].msg.ID, id) {
			e.held = append(e.held[:i], e.held[i+1:]...)
			return true
		}
	}
	return false
}

// claim reports whether a call is the first. If another is that, claim waits until
// it is under way, or done is closed: a question could be about either.
func (e *early) claim(done <-chan struct{}) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	stage := e.stage
	if stage == waiting {
		e.stage = claimed
	}
	e.mu.Unlock()
	if stage == claimed || stage == taken {
		select {
		case <-e.over:
		case <-done:
		}
	}
	return stage == waiting
}

// take hands what is held to the first call, which must be where questions find
// it: from here on they go there.
func (e *early) take() []heldQuestion {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := e.held
	e.stage, e.held = taken, nil
	return held
}

// An earlyWait is what the first call waits for.
type earlyWait struct {
	asks *openQuestions
	// expired is the call's own time-out; nil when done tells that too.
	expired    <-chan time.Time
	done, dead <-chan struct{} // nil never ends the wait
	// ping asks the server for a sign of life and returns with its answer, or with ctx.
	ping func(ctx context.Context)
}

// hear waits for what the server asks now, for the answer, and until the server
// shows that it has taken it: what is sent before could still run by what it was
// started with. It returns sooner when done or dead is closed, and true when the
// call expired.
func (w *earlyWait) hear() (expired bool) {
	t := time.NewTimer(earlyAsk)
	defer t.Stop()
	for {
		select {
		case <-w.asks.news:
			if w.asks.quiet() {
				return w.settle()
			}
			t.Stop()
		case <-t.C:
			return false
		case <-w.expired:
			return true
		case <-w.done:
			return false
		case <-w.dead:
			return false
		}
	}
}

// settle leaves the server alone for a moment between two signs of life.
func (w *earlyWait) settle() (expired bool) {
	ctx, cancel := context.WithTimeout(context.Background(), earlyTaken)
	defer cancel()
	taken := make(chan struct{})
	go w.taken(ctx, taken)
	defer func() { cancel(); <-taken }()
	select {
	case <-taken:
	case <-w.expired:
		return true
	case <-w.done:
	case <-w.dead:
	}
	return false
}

func (w *earlyWait) taken(ctx context.Context, taken chan<- struct{}) {
	defer close(taken)
	w.ping(ctx)
	t := time.NewTimer(earlyApply)
	defer t.Stop()
	select {
	case <-t.C:
		w.ping(ctx)
	case <-ctx.Done():
	}
}

// answersRoots reports whether the agent of a call can say what its roots are.
func answersRoots(c *Call) bool {
	_, ok := wire.Get(c.Capabilities, "roots")
	return ok
}

// expire is for calls that come late: they wait for nothing, unless a question
// does.
func (e *early) expire() {
	e.mu.Lock()
	late := e.stage == waiting
	more := late && len(e.held) > 0 && !e.longer
	if more {
		e.longer = true
		e.timer.Reset(earlyHold - earlyIdle)
	}
	e.mu.Unlock()
	if late && !more {
		e.pass()
	}
}

// pass ends the wait. It may be called again.
func (e *early) pass() {
	e.mu.Lock()
	if e.stage == passed {
		e.mu.Unlock()
		return
	}
	held := e.held
	e.stage, e.held = passed, nil
	close(e.over)
	e.mu.Unlock()
	e.timer.Stop()
	for _, h := range held {
		h.refuse(h.msg)
	}
}
