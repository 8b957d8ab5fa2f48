package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// ownToken asks for progress in the name of a caller that wants none.
var ownToken = []byte("0")

// errNoProgress is the cause with which a progressWait ends its call.
var errNoProgress = errors.New("no progress")

// A progressWait ends a call of which nothing is heard for progress_timeout. Each
// notification about the call begins the wait anew, and while the call asks
// something it rests. The call's own time-out goes on all the while.
type progressWait struct {
	limit time.Duration
	timer *time.Timer

	mu    sync.Mutex
	asked int // questions that are open
}

// patient reports whether a call is waited for by its progress.
func (s *Settings) patient(c *Call) bool {
	if s.ProgressTimeout <= 0 {
		return false
	}
	switch c.Method {
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return true
	}
	return false
}

// doPatiently sends a call over a connection and waits as long as there is progress.
func (o *owner) doPatiently(ctx context.Context, cn conn, c *Call) (Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &progressWait{limit: o.srv.settings.ProgressTimeout}
	w.timer = time.AfterFunc(w.limit, func() { cancel(errNoProgress) })
	defer w.timer.Stop()
	r, err := cn.Do(ctx, w.watch(c))
	if err != nil && context.Cause(ctx) == errNoProgress && KindOf(err) != Uncertain {
		err = &Error{Server: o.srv.name, Op: c.Method, Kind: Timeout, Err: fmt.Errorf("no progress within %v (progress_timeout)", w.limit)}
	}
	return r, err
}

// watch returns the call with what its connection says of it being heard.
func (w *progressWait) watch(c *Call) *Call {
	d := *c
	if c.ProgressToken == nil {
		d.ProgressToken = ownToken
	}
	d.Notify = func(method string, params []byte) {
		w.heard()
		if c.Notify != nil && (method != progressMethod || c.ProgressToken != nil) {
			c.Notify(method, params)
		}
	}
	if c.Ask != nil {
		d.Ask = func(ctx context.Context, q Question) ([]byte, *wire.Error) {
			w.rest()
			defer w.goOn()
			return c.Ask(ctx, q)
		}
	}
	return &d
}

func (w *progressWait) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked == 0 && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

func (w *progressWait) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.timer.Stop()
}

func (w *progressWait) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked--; w.asked == 0 {
		w.timer.Reset(w.limit)
	}
}
