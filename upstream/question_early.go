package upstream

import (
	"bytes"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// earlyAsk is how long the first call waits for a question, earlyAnswer how
	// long for its answer.
	earlyAsk    = 250 * time.Millisecond
	earlyAnswer = 5 * time.Second
	// earlyHold is how long a question waits for the first call.
	earlyHold    = 5 * time.Second
	mostEarly    = 4        // questions that wait for it
	largestEarly = 64 << 10 // bytes of the parameters of one
)

// An early is the time between a handshake and the first call that can be asked
// about, on a connection that one agent has alone. Servers ask for its roots then,
// server-filesystem for one: the call answers that, and is sent afterwards. nil is
// for connections that have no such time.
type early struct {
	mu    sync.Mutex
	stage earlyStage
	held  []heldQuestion
	over  chan struct{} // closed when stage becomes passed
	timer *time.Timer
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
	e.timer = time.AfterFunc(earlyHold, e.expire)
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

// hear waits for what the server asks now, and for the answer. It returns sooner
// when done or dead is closed, and true when the call expired.
func (e *early) hear(q *openQuestions, expired <-chan time.Time, done, dead <-chan struct{}) bool {
	t := time.NewTimer(earlyAsk)
	defer t.Stop()
	for asked := false; ; {
		select {
		case <-q.news:
			if q.quiet() {
				return false
			}
			if !asked {
				asked = true
				t.Reset(earlyAnswer)
			}
		case <-t.C:
			return false
		case <-expired:
			return true
		case <-done:
			return false
		case <-dead:
			return false
		}
	}
}

// expire is for calls that come late: they wait for nothing.
func (e *early) expire() {
	e.mu.Lock()
	late := e.stage == waiting
	e.mu.Unlock()
	if late {
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
