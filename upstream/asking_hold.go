package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A hold is one call's use of an owner, and of a place among max_concurrency
// calls. While a question is open it has no such place, and its process counts
// as parked.
type hold struct {
	srv       *server
	o         *owner
	exclusive bool
	who       string
	answer    func(ctx context.Context, q Question) ([]byte, *wire.Error)

	mu    sync.Mutex
	visit visit
	open  int // questions
	over  bool
}

// do sends the call.
func (h *hold) do(ctx context.Context, c *Call) (Response, error) {
	var err error
	if h.visit, err = h.srv.admit(ctx, h.o, c); err != nil {
		return Response{}, err
	}
	r, sent, err := h.send(ctx, c)
	h.end(sent, err)
	return r, err
}

// send returns whether there was a connection too.
func (h *hold) send(ctx context.Context, c *Call) (Response, bool, error) {
	if c.Ask != nil {
		h.answer = c.Ask
		d := *c
		d.Ask, d.who = nil, h.who
		if h.exclusive || h.o.route.mode == Asking && !h.srv.settings.local() {
			d.Ask = h.ask
		}
		c = &d
	}
	if c.Via != "" {
		r, err := h.o.doThere(ctx, c)
		return r, true, err
	}
	r, sent, err := h.o.do(ctx, c)
	h.srv.houses(h.o, c, &r)
	return r, sent, err
}

func (h *hold) end(sent bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.visit.end(h.o, sent, err)
}

// ask puts a question to the call's agent.
func (h *hold) ask(ctx context.Context, q Question) ([]byte, *wire.Error) {
	h.begin()
	defer h.resume(ctx)
	return h.answer(ctx, q)
}

func (h *hold) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open++
	if h.over || h.open > 1 {
		return
	}
	h.visit.answered()
	if h.visit.placed {
		h.visit.placed = false
		h.srv.leave()
	}
	if h.exclusive {
		h.srv.park(h.o, true)
	}
}

// resume takes a place again after the last open question. When none comes free
// in time the call goes on without: the server has its answer coming.
func (h *hold) resume(ctx context.Context) {
	if !h.unpark() || h.srv.enter(ctx) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.open > 0 || h.visit.placed {
		h.srv.leave()
		return
	}
	h.visit.placed = true
}

func (h *hold) unpark() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	if h.over || h.open > 0 {
		return false
	}
	if h.exclusive {
		h.srv.park(h.o, false)
	}
	return true
}

// longestTask is how long a process is kept for a task that nobody asks about.
const longestTask = time.Hour

// maxTaskAnswer bounds the answers, in bytes, that are looked at for a task.
const maxTaskAnswer = 64 << 10

// houses keeps a process for as long as the task lives in it that the answer to a
// call tells of.
func (s *server) houses(o *owner, c *Call, r *Response) {
	if !s.settings.local() || c.Method != "tools/call" || len(r.Result) > maxTaskAnswer {
		return
	}
	task, ok := newTask(c, r)
	if !ok {
		return
	}
	life := longestTask
	for _, name := range []string{"ttl", "ttlMs"} {
		raw, _ := wire.Get(task, name)
		if ms, err := time.ParseDuration(string(raw) + "ms"); err == nil {
			life = min(max(ms, 0), life)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(life); until.After(o.use.until) {
		o.use.until = until
	}
}

// newTask returns the task that an answer is, in either era.
func newTask(c *Call, r *Response) (task []byte, ok bool) {
	if r.Era == Modern {
		kind, _ := wire.Get(r.Result, "resultType")
		return r.Result, string(kind) == `"task"`
	}
	if _, asked := wire.Get(c.Params, "task"); !asked {
		return nil, false
	}
	task, ok = wire.Get(r.Result, "task")
	return task, ok && wire.Kindof(task) == '{'
}

// houses reports whether a task may live in the process.
func (o *owner) houses(now time.Time) bool {
	o.srv.mu.Lock()
	defer o.srv.mu.Unlock()
	return now.Before(o.use.until)
}
