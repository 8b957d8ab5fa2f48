package proxy

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// doAsking carries a call during which the server may ask. All questions of the
// call are over when it returns.
func (x *exchange) doAsking(ctx context.Context, t upstream.Target, c *upstream.Call, own *turn) (upstream.Response, error) {
	d := &desk{x: x, turn: own, answer: c.Ask, open: map[*context.CancelFunc]struct{}{}}
	if d.answer == nil {
		d.answer = x.ask
	}
	defer func(was func(context.Context, upstream.Question) ([]byte, *wire.Error)) { c.Ask = was }(c.Ask)
	defer d.close()
	c.Ask = d.ask
	return x.f.opt.Upstreams.Do(ctx, t, c)
}

// A desk takes the questions of one call.
type desk struct {
	x      *exchange
	turn   *turn
	answer func(context.Context, upstream.Question) ([]byte, *wire.Error)

	mu     sync.Mutex
	open   map[*context.CancelFunc]struct{}
	closed bool
	asking sync.WaitGroup
}

// ask answers one question, and survives a panic: the goroutine is not ours.
// Meanwhile the call does not have its turn.
func (d *desk) ask(ctx context.Context, q upstream.Question) (result []byte, err *wire.Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !d.enter(&cancel) {
		return nil, errCallOver
	}
	defer d.leave(&cancel)
	d.turn.pause()
	defer d.turn.retake(ctx)
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, d.x.panickedOver(p, &q)
		}
	}()
	return d.answer(ctx, q)
}

// panickedOver fails the one question that a fault of ours hit.
func (x *exchange) panickedOver(p any, q *upstream.Question) *wire.Error {
	x.f.counts.panics.Add(1)
	x.f.opt.Log.Error("panic while answering a question", "server", q.Server, "op", x.word(q.Method),
		"caller", x.caller.ID, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
	return &wire.Error{Code: wire.CodeInternal, Message: "internal error"}
}

func (d *desk) enter(cancel *context.CancelFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.open[cancel] = struct{}{}
	d.asking.Add(1)
	return true
}

func (d *desk) leave(cancel *context.CancelFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, cancel)
	d.asking.Done()
}

// close ends the open questions and waits until nobody works on them.
func (d *desk) close() {
	d.mu.Lock()
	d.closed = true
	for cancel := range d.open {
		(*cancel)()
	}
	d.mu.Unlock()
	d.asking.Wait()
}

// A turn is the place of one call in its lane. It is given up while a question
// of the call is open, since people think slowly, and taken again before the
// server gets the answer to the last one. A nil turn is that of a server that
// takes any number of calls.
type turn struct {
	lanes *lanes
	key   laneKey
	lane  *lane
	again chan struct{} // holds a token while someone takes the turn again; nil until the first pause

	mu   sync.Mutex
	open int  // questions
	held bool // the token of the lane
}

// take waits for a turn; end must be called if err is nil.
func (l *lanes) take(ctx context.Context, k laneKey) (*turn, error) {
	e := l.join(k)
	if e == nil {
		return nil, tooMany(k.server)
	}
	select {
	case e.turn <- struct{}{}:
		return &turn{lanes: l, key: k, lane: e, held: true}, nil
	case <-ctx.Done():
		l.part(k, e)
		return nil, ctx.Err()
	}
}

// end gives the turn and the place up. No question may be open.
func (t *turn) end() {
	if t == nil {
		return
	}
	if t.held {
		<-t.lane.turn
	}
	t.lanes.part(t.key, t.lane)
}

// pause gives the turn up until retake; each question does both.
func (t *turn) pause() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.again == nil {
		t.again = make(chan struct{}, 1)
	}
	t.open++
	t.release()
}

// release frees the lane; t.mu is held.
func (t *turn) release() {
	if t.held {
		t.held = false
		<-t.lane.turn
	}
}

// retake ends a pause. With the last question that was open it waits for the
// turn, as long as ctx lasts.
func (t *turn) retake(ctx context.Context) {
	if t == nil || !t.closeOne() {
		return
	}
	select {
	case t.again <- struct{}{}:
		defer func() { <-t.again }()
	case <-ctx.Done():
		return
	}
	if !t.wanting() {
		return
	}
	select {
	case t.lane.turn <- struct{}{}:
		t.keep()
	case <-ctx.Done():
	}
}

// closeOne counts a question as answered and reports whether it was the last.
func (t *turn) closeOne() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	return t.open == 0
}

// wanting reports whether the turn is to be taken.
func (t *turn) wanting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open == 0 && !t.held
}

// keep holds the token just taken, unless a question has come meanwhile.
func (t *turn) keep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = true
	if t.open > 0 {
		t.release()
	}
}
