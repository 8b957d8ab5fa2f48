package upstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	openPerCall   = 16      // questions of one call that may be open at once
	mostQuestions = 1000    // of one call in all
	largestAsk    = 1 << 20 // bytes of a question's parameters
	longestAskID  = 1 << 10 // bytes of a question's id, which its answer repeats
	cancelledNote = "notifications/cancelled"
)

// openQuestions are what a server asked about one call and waits to hear. The
// methods may be called on nil, which is a call that answers no questions.
type openQuestions struct {
	// limit is the call's own time-out, which rests while a question is open.
	limit *limit
	// spawn runs f in a goroutine that the connection waits for when it closes.
	spawn func(f func())
	// log gets what must not happen. It must be set.
	log *slog.Logger
	// enough ends the call, since the server asked too often. It must not block,
	// and may be called again. It must be set.
	enough func()
	// tell, if set, is used in place of a question's reply when the answer took its
	// time, and returns when the server has it, or as good as that.
	tell func(msg []byte)
	// news says that busy has changed.
	news chan struct{}

	mu    sync.Mutex
	table map[string]*question // by raw id
	asked int                  // questions in all
	busy  int                  // questions that are not answered yet
	over  bool

	tooMany bool
}

// A question is one that is open.
type question struct {
	call   *Call
	id     []byte
	asked  Question
	reply  func(msg []byte)
	cancel context.CancelFunc
}

// newQuestions returns nil for a call that answers none.
func newQuestions(call *Call, l *limit, log *slog.Logger, spawn func(func())) *openQuestions {
	if call.Ask == nil {
		return nil
	}
	return &openQuestions{limit: l, log: log, spawn: spawn, news: make(chan struct{}, 1)}
}

// whichTask is the answer to a question about a task that nobody waits for.
const whichTask = "the question is about a task whose result nobody waits for now"

// relatedTask is the key in _meta under which 2025-11-25 names a message's task.
const relatedTask = "io.modelcontextprotocol/related-task"

// ofAnotherTask reports whether a question names a task, and c does not wait for
// that one's result.
func ofAnotherTask(params []byte, c *Call) bool {
	meta, _ := wire.Get(params, "_meta")
	task, ok := wire.Get(meta, relatedTask)
	if !ok {
		return false
	}
	raw, _ := wire.Get(task, "taskId")
	asked, _ := wire.Unquote(raw)
	raw, _ = wire.Get(c.Params, "taskId")
	waited, _ := wire.Unquote(raw)
	return c.Method != "tasks/result" || asked != waited
}

// start asks the call about a request of the server, without waiting. reply gets
// the message that answers it, once, unless the server withdraws the question; it
// may be called from here and must not block. An id that is open already is a
// repetition, which gets no answer of its own.
func (q *openQuestions) start(call *Call, server string, m *wire.Message, reply func(msg []byte)) {
	if len(m.ID) > longestAskID {
		return // an answer could not name it
	}
	if !namesQuestion(m.ID) {
		reply(wire.AppendError(nil, []byte("null"), wire.CodeInvalidRequest, "the question's id is neither a string nor an integer", nil))
		return
	}
	if code, why := unfitQuestion(m); why != "" {
		reply(wire.AppendError(nil, m.ID, code, why, nil))
		return
	}
	o := &question{call: call, id: bytes.Clone(m.ID), reply: reply,
		asked: Question{Server: server, Method: m.Method, Params: bytes.Clone(m.Params), Flags: m.Flags}}
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	fresh, err := q.admit(o)
	switch {
	case err != nil:
		cancel()
		reply(wire.AppendError(nil, m.ID, wire.CodeInternal, err.Error(), nil))
		if err == errTooMany {
			q.enough()
		}
	case fresh:
		q.spawn(func() { q.answer(ctx, o) })
	default:
		cancel()
	}
}

// namesQuestion reports whether an id is one that MCP allows: any other may come
// back in another form, or stand for none.
func namesQuestion(id []byte) bool {
	switch wire.Kindof(id) {
	case '"':
		return true
	case '0':
		_, err := strconv.ParseInt(string(id), 10, 64)
		return err == nil
	}
	return false
}

func unfitQuestion(m *wire.Message) (code int, why string) {
	switch {
	case len(m.Params) > largestAsk:
		return wire.CodeInternal, fmt.Sprintf("the question is over %d bytes", largestAsk)
	case m.Params != nil && wire.Kindof(m.Params) != '{':
		return wire.CodeInvalidParams, "the question's params are not an object"
	}
	return 0, ""
}

// admit opens a question; fresh is false when its id is open already.
func (q *openQuestions) admit(o *question) (fresh bool, err error) {
	if q == nil {
		return false, errNobodyAnswers
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch _, open := q.table[string(o.id)]; {
	case q.over:
		return false, errCallOver
	case open:
		return false, nil
	case q.asked >= mostQuestions:
		q.tooMany = true
		return false, errTooMany
	}
	q.asked++
	if len(q.table) >= openPerCall {
		return false, fmt.Errorf("%d questions about one call are open already", openPerCall)
	}
	if q.table == nil {
		q.table = make(map[string]*question)
	}
	if len(q.table) == 0 {
		q.limit.rest()
	}
	q.table[string(o.id)] = o
	q.changed(1)
	return true, nil
}

// answer waits for the agent and tells the server what it said.
func (q *openQuestions) answer(ctx context.Context, o *question) {
	defer q.answered()
	defer o.cancel()
	result, fault := q.ask(ctx, o)
	reply := o.reply
	if q.tell != nil {
		reply = q.tell
	}
	withdrawn, over := q.close(o)
	switch {
	case withdrawn: // the protocol wants no answer then
	case over:
		reply(wire.AppendError(nil, o.id, wire.CodeInternal, errCallOver.Error(), nil))
	case fault != nil:
		reply(wire.AppendError(nil, o.id, fault.Code, fault.Message, fault.Data))
	default:
		reply(wire.AppendResult(nil, o.id, result))
	}
}

// ask survives a panic of the answering side: the process serves others too.
func (q *openQuestions) ask(ctx context.Context, o *question) (result []byte, fault *wire.Error) {
	defer func() {
		if p := recover(); p != nil {
			q.log.Error("answering a question panicked", "server", o.asked.Server, "err", p, "stack", string(debug.Stack()))
			result, fault = nil, &wire.Error{Code: wire.CodeInternal, Message: "the question could not be answered"}
		}
	}()
	result, fault = o.call.Ask(ctx, o.asked)
	if result == nil && fault == nil {
		fault = &wire.Error{Code: wire.CodeInternal, Message: "nobody answered the question"}
	}
	return result, fault
}

// close takes a question out of the table. It was withdrawn when it is not there.
func (q *openQuestions) close(o *question) (withdrawn, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	withdrawn = !q.remove(o)
	return withdrawn, q.over
}

// remove lets the call's time-out go on after the last question.
func (q *openQuestions) remove(o *question) bool {
	if q.table[string(o.id)] != o {
		return false
	}
	delete(q.table, string(o.id))
	if len(q.table) == 0 && !q.over {
		q.limit.goOn()
	}
	return true
}

// withdraw ends the question that the server cancelled, and reports whether there
// was one of that id.
func (q *openQuestions) withdraw(id []byte) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.table[string(id)]
	if o == nil {
		return false
	}
	q.remove(o)
	o.cancel()
	return true
}

// end says that the call is over: what is still open gets an error for an answer,
// and so does what comes later. It waits for nobody.
func (q *openQuestions) end() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	for _, o := range q.table {
		o.cancel()
	}
}

// changed counts a question in or out. The lock is held.
func (q *openQuestions) changed(n int) {
	q.busy += n
	select {
	case q.news <- struct{}{}:
	default:
	}
}

func (q *openQuestions) answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed(-1)
}

// quiet reports whether all that was asked is answered.
func (q *openQuestions) quiet() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy == 0
}

// excessive reports whether the server asked too often.
func (q *openQuestions) excessive() bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tooMany
}

// open counts the questions that wait.
func (q *openQuestions) open() int {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.table)
}

// cancelledID is the raw id that a notifications/cancelled names; nil when none.
func cancelledID(params []byte) []byte {
	id, _ := wire.Get(params, "requestId")
	return id
}
