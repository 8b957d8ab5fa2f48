package proxy

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// maxAsked bounds the questions that one session has open.
	maxAsked = 64
	// maxSaid bounds the answer of an agent, in bytes.
	maxSaid = 4 << 20
	// maxFailure bounds the error with which an agent answers, in bytes.
	maxFailure = 64 << 10
)

// asked are the questions that wait for the answers of one legacy agent. The
// zero value is empty.
type asked struct {
	mu   sync.Mutex
	last uint64
	open map[string]chan<- said // by idKey; each takes one value
	over bool
}

// said is what an agent answers. Nothing is set when its session has ended.
type said struct {
	result, failure []byte
	fault           *wire.Error // of an answer that cannot be taken
}

// begin enters a question and returns its id.
func (a *asked) begin() (id []byte, answer <-chan said, err *wire.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
		return nil, nil, errAgentGone
	case len(a.open) >= maxAsked:
		return nil, nil, &wire.Error{Code: wire.CodeInternal,
			Message: fmt.Sprintf("%d questions wait for this agent, which is the limit", maxAsked)}
	}
	if a.open == nil {
		a.open = map[string]chan<- said{}
	}
	a.last++
	id = append(strconv.AppendUint([]byte(`"q`), a.last, 10), '"')
	c := make(chan said, 1)
	a.open[idKey(id)] = c
	return id, c, nil
}

// forget removes a question; its answer is ignored from now on.
func (a *asked) forget(id []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, idKey(id))
}

// answer brings a response of the agent to the question it answers. The message
// is not kept.
func (a *asked) answer(m *wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := idKey(m.ID)
	if c, ok := a.open[key]; ok {
		delete(a.open, key)
		c <- newSaid(m)
	}
}

// newSaid copies what an agent answers, unless it is too long.
func newSaid(m *wire.Message) said {
	if len(m.Raw) > maxSaid {
		return said{fault: errLongAnswer}
	}
	return said{result: bytes.Clone(m.Result), failure: bytes.Clone(m.Err)}
}

// reject ends the question that a message answers which is no response.
func (a *asked) reject(id []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := idKey(id)
	if c, ok := a.open[key]; ok {
		delete(a.open, key)
		c <- said{fault: errBadAnswer}
	}
}

// rejectAnswer is reject for a message that could not be read, if it was meant as
// a response.
func (s *session) rejectAnswer(m *wire.Message, e *wire.Error) {
	if s != nil && m.Method == "" && e.ID != nil {
		s.asked.reject(e.ID)
	}
}

// end lets the open questions go unanswered, and all that come later.
func (a *asked) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for _, c := range a.open {
		c <- said{}
	}
	a.open = nil
}

var (
	errLongAnswer = &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("the agent's answer is longer than %d bytes", maxSaid)}
	errBadAnswer  = &wire.Error{Code: wire.CodeInternal, Message: "the agent's answer is not valid"}
	errUnreached  = &wire.Error{Code: wire.CodeInternal, Message: "the agent cannot be reached"}
	errWithdrawn  = &wire.Error{Code: wire.CodeInternal, Message: "the question was withdrawn"}
	errAgentGone  = &wire.Error{Code: wire.CodeInternal, Message: "the agent is gone"}
	errTooBig     = &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("the question is longer than %d bytes", waitingBytes)}
)

// A legacyAgent is asked by requests on the stream of its own call, and answers
// in its session.
type legacyAgent struct {
	x      *exchange
	server string // that asks
}

func (l legacyAgent) put(ctx context.Context, method string, params []byte) (result []byte, theirs bool, err *wire.Error) {
	if l.x.f.draining() {
		return nil, false, errStopping
	}
	if params, err = l.x.sess.phrase(method, params); err != nil {
		return nil, false, err
	}
	id, answer, err := l.x.sess.asked.begin()
	if err != nil {
		return nil, false, err
	}
	defer l.x.sess.asked.forget(id)
	l.expect(method, params)
	msg := wire.AppendRequest(nil, id, method, params)
	switch {
	case len(msg) > waitingBytes:
		return nil, false, errTooBig
	case !l.x.out.deliver(msg):
		return nil, false, errUnreached
	}
	s, err := l.await(ctx, answer)
	l.settle(id)
	if err != nil {
		l.withdraw(id)
		return nil, false, err
	}
	return s.verdict()
}

// awayTime is how long a question waits for an agent that has hung up, and may
// come back for the rest of the stream.
const awayTime = 30 * time.Second

// await waits for the answer as long as there is somebody to give it, and the
// sidecar does not stop.
func (l legacyAgent) await(ctx context.Context, answer <-chan said) (s said, err *wire.Error) {
	look := time.NewTimer(awayTime)
	defer look.Stop()
	for {
		select {
		case s := <-answer:
			return s, nil
		case <-ctx.Done():
			return s, errWithdrawn
		case <-l.x.f.closing:
			return s, errStopping
		case <-look.C:
			left := awayTime - l.away()
			if left <= 0 {
				return s, errAgentGone
			}
			look.Reset(left)
		}
	}
}

// away is how long nobody has read the stream that the question is on.
func (l legacyAgent) away() time.Duration {
	if st, ok := l.x.out.(*stream); ok {
		return st.away()
	}
	return 0
}

// settle notes that a question need not be kept for an agent that comes back.
func (l legacyAgent) settle(id []byte) {
	if st, ok := l.x.out.(*stream); ok {
		st.settle(id)
	}
}

// expect has the agent told when what it is asked to do at a URL is done.
func (l legacyAgent) expect(method string, params []byte) {
	raw, _ := wire.Get(params, "elicitationId")
	if id, ok := wire.Unquote(raw); ok && method == methodElicit {
		l.x.sess.expectsElicitation(l.server, id)
	}
}

// codeURLFirst is the error of a server of 2025-11-25 that wants its user to visit
// some URLs before the call.
const codeURLFirst = "-32042"

// expectVisits is expect for the URLs in an error.
func (x *exchange) expectVisits(server string, r *upstream.Response) {
	if r.Error == nil || x.modern || x.sess == nil || x.sess.version < versionModes {
		return
	}
	if code, _ := wire.Get(r.Error, "code"); string(code) != codeURLFirst {
		return
	}
	data, _ := wire.Get(r.Error, "data")
	visits, _ := wire.Get(data, "elicitations")
	n := 0
	wire.Elements(visits, func(v []byte) bool {
		legacyAgent{x, server}.expect(methodElicit, v)
		n++
		return n < maxInputs
	})
}

// withdraw tells the agent that nobody waits for its answer any more.
func (l legacyAgent) withdraw(id []byte) {
	params := append(append([]byte(`{"requestId":`), id...), `,"reason":"nobody waits for the answer any more"}`...)
	l.x.out.deliver(wire.AppendNotification(nil, "notifications/cancelled", params))
}

// verdict is the answer in the form that servers get it.
func (s *said) verdict() (result []byte, theirs bool, err *wire.Error) {
	switch {
	case s.fault != nil:
		return nil, false, s.fault
	case s.failure != nil:
		return nil, true, agentError(s.failure)
	case s.result == nil:
		return nil, false, errAgentGone
	case wire.Kindof(s.result) != '{':
		return nil, false, &wire.Error{Code: wire.CodeInternal, Message: "the agent's answer is not an object"}
	}
	return s.result, false, nil
}

// agentError reads the error object of an agent. One that is too long loses its
// data and the end of its text.
func agentError(obj []byte) *wire.Error {
	e := &wire.Error{Code: wire.CodeInternal, Message: "the agent gave no message"}
	wire.Each(obj, func(key, val []byte) bool {
		switch string(key) {
		case "code":
			if n, err := strconv.Atoi(string(val)); err == nil {
				e.Code = n
			}
		case "message":
			if s, ok := wire.Unquote(val); ok {
				e.Message = clip(s, maxFailure)
			}
		case "data":
			e.Data = val
		}
		return true
	})
	if len(obj) > maxFailure {
		e.Data = nil
	}
	return e
}
