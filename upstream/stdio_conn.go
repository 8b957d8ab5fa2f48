package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// waitingNotes and waitingBytes bound what a call's caller may lag behind its
	// notifications.
	waitingNotes = 256
	waitingBytes = 1 << 20
	// largestNote bounds one notification that is handed on: nobody can show more.
	largestNote = 1 << 20
)

// A lineIO carries newline-delimited messages both ways.
type lineIO interface {
	io.ReadWriter
	SetWriteDeadline(time.Time) error
}

// A lineConn speaks MCP over lines, with a process or with code in this one.
type lineConn struct {
	server   string
	settings *Settings
	e        env
	io       lineIO
	link     *sseLink // sends messages if not nil, and io is only read from
	scrub    func(string) string
	// why turns the end of reading into the reason that callers see.
	why func(error) error
	// stop ends what is behind io and returns when it is gone. It may be called
	// more than once, also at the same time.
	stop func()

	info   Info   // fixed once the handshake is over, like meta
	meta   []byte // what each request's _meta holds
	modern atomic.Bool

	writing chan struct{} // holds one item while somebody writes
	outbox  chan posted   // lines that may wait, for send
	loops   sync.WaitGroup

	mu      sync.Mutex
	last    int64
	pending map[int64]*pending
	debts   debts
	listens map[int64]*lineListen // see stdio_subscribe.go

	dead chan struct{} // closed by fail
	once sync.Once
	err  error // why; set before dead is closed

	early *early       // nil when nothing is asked upon the handshake, as by code of our own
	told  atomic.Bool  // somebody was told that the server asks outside of calls
	shown atomic.Int32 // noise lines that were logged
}

// A pending is a request that waits for its answer.
type pending struct {
	id     int64
	answer chan answer  // of one; whoever takes it out of the table sends
	notes  chan note    // nil when the caller does not listen
	behind atomic.Int64 // bytes that wait in notes
	token  []byte       // the caller's progress token
	gate   progressGate
	// release, if set, lets go of what still sends the request. It does not block.
	release func()
	call    *Call          // with asks
	asks    *openQuestions // nil when the call answers no questions
	list    bool           // its answer may be nested deep
	own     bool           // it is of the program itself, and says nothing to an agent
}

type answer struct {
	msg wire.Message
	err error // in place of a message: what kept it away
}

type note struct {
	method string
	params []byte
}

// start begins to read and write. The connection must be closed.
func (c *lineConn) start() {
	c.writing = make(chan struct{}, 1)
	c.outbox = make(chan posted, 64)
	c.pending = make(map[int64]*pending)
	c.dead = make(chan struct{})
	c.loops.Go(c.receive)
	c.loops.Go(c.send)
}

func (c *lineConn) Info() *Info           { return &c.info }
func (c *lineConn) Done() <-chan struct{} { return c.dead }

// Err is nil while the connection lives.
func (c *lineConn) Err() error {
	select {
	case <-c.dead:
		return c.err
	default:
		return nil
	}
}

// Close ends the connection and what is behind it.
func (c *lineConn) Close() {
	c.fail(&Error{Server: c.server, Kind: Closed, Err: errors.New("the connection was closed")})
	c.stop()
	c.loops.Wait()
}

// fail declares the connection dead; only the first reason counts.
func (c *lineConn) fail(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.dead)
	})
}

// Do sends a call and waits for its answer. Notifications reach the caller from
// this goroutine, so they cannot come late and cannot hold up the reader.
func (c *lineConn) Do(ctx context.Context, call *Call) (Response, error) {
	w := c.waitFor(ctx, call)
	defer w.limit.stop()
	if call.Ask != nil && c.early != nil {
		w.first = c.early.claim(ctx.Done())
		if w.first {
			defer c.early.pass()
		} else if err := ctx.Err(); err != nil {
			return Response{}, c.failed(w, call, 0, false, err)
		}
	}
	p, err := c.register(call, w)
	if err != nil {
		return Response{}, err
	}
	defer p.asks.end() // last: a question finds no call that was forgotten
	defer c.over(p)
	if w.first {
		if err := c.hearEarly(w, p); err != nil {
			return Response{}, c.failed(w, call, p.id, false, err)
		}
	}
	buf := takeBuffer()
	*buf = appendRequest(*buf, p.id, call, c.meta)
	sent, err := c.request(w, p, call.Method, buf)
	if err != nil {
		return Response{}, c.failed(w, call, p.id, sent, err)
	}
	return c.await(w, p, call)
}

// ownMethod reports whether a request is no agent's.
func ownMethod(method string) bool {
	return listed(method) || method == "ping" || method == "logging/setLevel"
}

// register puts a call into the table under a new id.
func (c *lineConn) register(call *Call, w *wait) (*pending, error) {
	p := &pending{answer: make(chan answer, 1), list: listed(call.Method), own: ownMethod(call.Method)}
	if call.Ask != nil {
		p.call, p.asks = call, newQuestions(call, &w.limit, c.e.logger(), c.loops.Go)
		p.asks.enough = func() { c.enough(call, p.id) }
		if w.first {
			p.asks.tell = c.postNow
		}
	}
	if call.Notify != nil {
		p.notes = make(chan note, waitingNotes)
		p.token = append(p.token, call.ProgressToken...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, &Error{Server: c.server, Op: call.Method, Kind: Unreachable, Err: bareReason(err)}
	}
	c.last++
	p.id = c.last
	c.pending[p.id] = p
	return p, nil
}

// take removes a call from the table; nil when it is not there.
func (c *lineConn) take(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	delete(c.pending, id)
	return p
}

func (c *lineConn) forget(id int64) { c.take(id) }

// over ends a request, whatever became of it.
func (c *lineConn) over(p *pending) {
	c.take(p.id)
	if p.release != nil {
		p.release()
	}
}

// request sends p's request, which is in buf, and takes buf over.
func (c *lineConn) request(w *wait, p *pending, method string, buf *[]byte) (sent bool, err error) {
	if c.link == nil {
		return c.write(w, buf)
	}
	c.link.request(p, method, *buf)
	return true, nil
}

// await waits for the answer, the caller, the clock or the end.
func (c *lineConn) await(w *wait, p *pending, call *Call) (Response, error) {
	for {
		select {
		case n := <-p.notes:
			p.hand(call, n)
		case a := <-p.answer:
			return c.response(p, call, a)
		case <-w.ctx.Done():
			return Response{}, c.failed(w, call, p.id, true, w.ctx.Err())
		case <-w.expired:
			return Response{}, c.failed(w, call, p.id, true, errExpired)
		case <-c.dead:
			select {
			case a := <-p.answer: // it came with the last words
				return c.response(p, call, a)
			default:
			}
			return Response{}, c.failed(w, call, p.id, true, c.err)
		}
	}
}

// response hands over what is left of the notifications, then the answer.
func (c *lineConn) response(p *pending, call *Call, a answer) (Response, error) {
	for len(p.notes) > 0 {
		p.hand(call, <-p.notes)
	}
	if a.err != nil {
		return Response{}, withOp(a.err, call.Method)
	}
	r := Response{Flags: a.msg.Flags, Era: c.info.Era}
	switch {
	case wire.Kindof(a.msg.Err) == '{':
		r.Error = a.msg.Err
	case a.msg.Result != nil:
		r.Result = a.msg.Result
	default:
		return Response{}, &Error{Server: c.server, Op: call.Method, Kind: Protocol,
			Err: errors.New("the answer holds neither a result nor an error object")}
	}
	return r, nil
}

// hand brings a notification that waited to the caller.
func (p *pending) hand(call *Call, n note) {
	p.behind.Add(-int64(len(n.params)))
	call.Notify(n.method, n.params)
}

// A wait is what ends a call besides its answer.
type wait struct {
	ctx     context.Context
	limit   limit
	expired <-chan time.Time // nil when there is no limit
	first   bool             // of the calls that can be asked about
}

func (c *lineConn) waitFor(ctx context.Context, call *Call) *wait {
	w := &wait{ctx: ctx}
	w.limit.begin(c.settings.callTimeout(call), nil)
	w.expired = w.limit.expired()
	return w
}

// errExpired stands for the call's own limit.
var errExpired = errors.New("expired")

// failed says what became of a call that got no answer, and tells the server to
// stop working on it.
func (c *lineConn) failed(w *wait, call *Call, id int64, sent bool, err error) error {
	e := &Error{Server: c.server, Op: call.Method, Kind: Timeout}
	switch {
	case errors.Is(err, errExpired):
		e.Err = errors.New("no answer " + withinLimit(w.limit.whole, call))
		c.cancel(call, id, sent, "timeout")
	case err == context.DeadlineExceeded:
		e.Err = fmt.Errorf("no answer in time: %w", err)
		c.cancel(call, id, sent, "timeout")
	case err == context.Canceled:
		c.cancel(call, id, sent, "cancelled by the client")
		return err
	case KindOf(err) == Closed:
		e.Kind, e.Err = Closed, bareReason(err)
	case sent:
		e.Kind, e.Err = Uncertain, bareReason(err)
	default:
		e.Kind, e.Err = Unreachable, bareReason(err)
	}
	return e
}

// cancel tells the server, without waiting, that nobody wants the answer.
func (c *lineConn) cancel(call *Call, id int64, sent bool, reason string) {
	if !sent {
		return
	}
	c.post(wire.AppendNotification(nil, cancelledNote,
		fmt.Appendf(nil, `{"requestId":%d,"reason":%q}`, id, reason)))
	c.owe(call, id)
}

// bareReason unwraps an Error, so that server and operation are not named twice.
func bareReason(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func withOp(err error, op string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Op = op
	return &c
}
