package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A cast is a legacy server of which every connection is a process of its own.
// Its tool waits until the test lets it go, or asks first.
type cast struct {
	modern bool   // speaks the modern era
	both   bool   // speaks both, by its word
	liar   string // but has this for initialize
	caps   string

	mu     sync.Mutex
	procs  []*actor
	refuse error
	plain  []string // tools that all see
	asking []string // and those that clients see that can be asked
}

// An actor is one process.
type actor struct {
	*script
	n      int
	offers string // what the client declared
	ended  chan struct{}
	gate   chan struct{} // lets one call go
	asked  atomic.Int64
	fault  atomic.Pointer[string] // that lists answer with
	grown  []string               // tools of this process alone; guarded by the cast
	cast   *cast
}

func (c *cast) serve(ctx context.Context, rw io.ReadWriteCloser) error {
	c.mu.Lock()
	a := &actor{n: len(c.procs), ended: make(chan struct{}), gate: make(chan struct{}), cast: c}
	a.script = &script{early: a.hello, answer: a.reply, caps: c.caps}
	err := c.refuse
	c.procs = append(c.procs, a)
	c.mu.Unlock()
	defer close(a.ended)
	if err != nil {
		return err
	}
	return a.script.serve(ctx, rw)
}

func (a *actor) hello(m *wire.Message) (result, fault string) {
	switch m.Method {
	case "server/discover":
		switch {
		case a.cast.modern:
			return `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`, ""
		case a.cast.both:
			return `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{},"logging":{}}}`, ""
		}
	case "initialize":
		if a.cast.liar != "" {
			return "", a.cast.liar
		}
		caps, _ := wire.Get(m.Params, "capabilities")
		a.offers = string(caps)
	}
	return "", ""
}

func (a *actor) reply(_ *script, m *wire.Message) (result, fault string) {
	switch m.Method {
	case "tools/list":
		if f := a.fault.Load(); f != nil {
			return "", *f
		}
		return a.tools(), ""
	case "tools/call":
		raw, _ := wire.Get(m.Params, "name")
		name, _ := wire.Unquote(raw)
		return a.call(name)
	case "tasks/get", "tasks/result":
		return fmt.Sprintf(`{"process":%d}`, a.n), ""
	case "resources/subscribe", "resources/unsubscribe":
		return "{}", ""
	}
	return "", ""
}

func (a *actor) tools() string {
	a.cast.mu.Lock()
	defer a.cast.mu.Unlock()
	names := slices.Clone(a.cast.plain)
	if a.offers != "" && a.offers != "{}" {
		names = append(names, a.cast.asking...)
	}
	names = append(names, a.grown...)
	for i, n := range names {
		names[i] = fmt.Sprintf(`{"name":%q}`, n)
	}
	return `{"tools":[` + strings.Join(names, ",") + `]}`
}

// call runs the tool: quick answers, wait waits for the gate, ask asks and then
// waits for the gate, late waits before that too, task begins a task, die ends the process.
func (a *actor) call(name string) (result, fault string) {
	switch name {
	case "wait":
		a.wait()
	case "ask":
		a.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"?"}}`, a.asked.Add(1)))
		a.wait()
	case "late":
		a.wait()
		a.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"?"}}`, a.asked.Add(1)))
		a.wait()
	case "task":
		return fmt.Sprintf(`{"process":%d,"task":{"taskId":"1","ttl":1200000}}`, a.n), ""
	case "die":
		a.close()
		return "", "never"
	}
	return fmt.Sprintf(`{"process":%d}`, a.n), ""
}

func (a *actor) wait() {
	select {
	case <-a.gate:
	case <-a.ended:
	}
}

func (c *cast) all() []*actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.procs)
}

// alive returns the numbers of the processes that run.
func (c *cast) alive() (out []int) {
	for _, a := range c.all() {
		select {
		case <-a.ended:
		default:
			out = append(out, a.n)
		}
	}
	return out
}

// A stage runs a Set over one cast.
type stage struct {
	*setWorld
	cast    *cast
	changes atomic.Int64
}

func newStage(t *testing.T, c *cast, edit func(*Settings)) *stage {
	t.Helper()
	st := &stage{cast: c}
	s := &Settings{Builtin: "a"}
	if edit != nil {
		edit(s)
	}
	set, err := NewSet([]Server{{Name: "a", Settings: s}}, Options{
		Builtins: map[string]Builtin{"a": c.serve}, OnChange: func(string) { st.changes.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	st.setWorld = &setWorld{Set: set, t: t, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		synctest.Wait()
		if a := c.alive(); len(a) > 0 {
			t.Errorf("processes %v are left", a)
		}
	})}
	set.AwaitFirst(t.Context(), time.Minute, "a")
	synctest.Wait()
	return st
}

// A turn is a call under way.
type turn struct {
	cancel context.CancelFunc
	done   chan struct{}
	r      Response
	err    error
	// ask holds the agent's answer back until it is closed.
	ask   chan struct{}
	asked atomic.Int64
}

// begin starts a call of a session of an agent that can fill in forms.
func (st *stage) begin(session, tool string) *turn {
	return st.beginCall(Target{Session: session, Caller: "c", Answers: policy.AnswerForm}, &Call{Method: "tools/call", Name: tool})
}

func (st *stage) beginCall(t Target, c *Call) *turn {
	ctx, cancel := context.WithCancel(st.t.Context())
	u := &turn{cancel: cancel, done: make(chan struct{}), ask: make(chan struct{})}
	t.Server = "a"
	if c.Params == nil {
		c.Params = fmt.Appendf(nil, `{"name":%q}`, c.Name)
	}
	c.Ask = func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
		u.asked.Add(1)
		select {
		case <-u.ask:
			return []byte(`{"action":"decline"}`), nil
		case <-ctx.Done():
			return nil, &wire.Error{Code: -1, Message: "gave up"}
		}
	}
	go func() {
		defer close(u.done)
		defer cancel()
		u.r, u.err = st.Do(ctx, t, c)
	}()
	synctest.Wait()
	return u
}

func (u *turn) over() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// in returns the number of the process that answered.
func (u *turn) in(t *testing.T) int {
	t.Helper()
	<-u.done
	var n int
	if u.err != nil {
		t.Fatalf("got %v", u.err)
	}
	raw, _ := wire.Get(u.r.Result, "process")
	if _, err := fmt.Sscan(string(raw), &n); err != nil {
		t.Fatalf("got %s", u.r.Result)
	}
	return n
}

func wantAlive(t *testing.T, c *cast, want ...int) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, c.alive()); diff != "" {
		t.Errorf("processes that run (-want +got):\n%s", diff)
	}
}

// What a call can be asked decides its process, and what that was told: a
// question must find the one agent whose call it is about.
func TestWhereACallGoes(t *testing.T) {
	off := false
	all := `{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}`
	for _, tc := range []struct {
		name   string
		edit   func(*Settings)
		target Target
		method string
		modern bool
		offers string // what its process was told
		procs  int
	}{
		{name: "an agent that answers nothing", procs: 1, offers: "{}"},
		{name: "one that answers", target: Target{Answers: policy.AnswerRoots}, procs: 2, offers: all},
		{name: "a method during which nothing is asked", target: Target{Answers: policy.AnswerRoots}, method: "tasks/get", procs: 1, offers: "{}"},
		{name: "nothing that the server may ask", target: Target{Answers: policy.AnswerRoots}, procs: 1, offers: "{}",
			edit: func(s *Settings) { s.Roots.Enabled = &off }},
		{name: "only what it may ask is declared", target: Target{Answers: policy.AnswerRoots | policy.AnswerForm}, procs: 2,
			offers: `{"sampling":{},"elicitation":{"form":{},"url":{}}}`, edit: func(s *Settings) { s.Roots.Enabled = &off }},
		{name: "one process in all", target: Target{Answers: policy.AnswerRoots}, procs: 1, offers: "{}",
			edit: func(s *Settings) { s.MaxProcesses = 1 }},
		{name: "a modern server", target: Target{Answers: policy.AnswerRoots}, modern: true, procs: 1},
		{name: "kept apart, not asked", target: Target{Session: "s"}, procs: 2, offers: "{}",
			edit: func(s *Settings) { s.Isolation = "per_session" }},
		{name: "kept apart, asked", target: Target{Session: "s", Answers: policy.AnswerForm}, procs: 2, offers: all,
			edit: func(s *Settings) { s.Isolation = "per_session" }},
		{name: "kept apart, any method", target: Target{Session: "s", Answers: policy.AnswerForm}, method: "tasks/get", procs: 2, offers: all,
			edit: func(s *Settings) { s.Isolation = "per_session" }},
		{name: "kept apart, modern", target: Target{Session: "s", Answers: policy.AnswerForm}, modern: true, procs: 2,
			edit: func(s *Settings) { s.Isolation = "per_session" }},
		{name: "nobody to keep apart", target: Target{}, procs: 1, offers: "{}", edit: func(s *Settings) { s.Isolation = "per_caller" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := &cast{modern: tc.modern}
				st := newStage(t, c, tc.edit)
				defer st.stop()
				if tc.method == "" {
					tc.method = "tools/call"
				}
				n := st.beginCall(tc.target, &Call{Method: tc.method, Name: "quick"}).in(t)
				if got := c.all(); len(got) != tc.procs || n != tc.procs-1 || got[n].offers != tc.offers {
					t.Errorf("process %d of %d was told %s; want the last of %d, told %s", n, len(got), got[n].offers, tc.procs, tc.offers)
				}
			})
		})
	}
}

// A call that comes before anything is known of the server waits for that.
func TestFirstCallWaitsForTheEra(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{refuse: errors.New("not yet")}
		st := newStage(t, c, nil)
		defer st.stop()
		if u := st.begin("s", "quick"); KindOf(u.err) != Unreachable {
			t.Errorf("got %v, want discovery's own failure", u.err)
		}
		c.mu.Lock()
		c.refuse = nil
		c.mu.Unlock()
		time.Sleep(3 * time.Second)
		st.begin("s", "quick").in(t)
	})
}

// A notification says whose process it came from.
func TestNotifyApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &cast{}
		st := newStage(t, c, func(s *Settings) { s.Isolation = "per_session" })
		defer st.stop()
		var got []Origin
		st.opt.OnNotify = func(from Origin, method string, _ []byte) { got = append(got, from) }
		st.begin("s1", "quick").in(t)
		for i := range 2 {
			c.all()[i].send(wire.AppendNotification(nil, "notifications/message", []byte(`{}`)))
			synctest.Wait()
		}
		if diff := cmp.Diff([]Origin{{Server: "a"}, {Server: "a", Isolation: "s1"}}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// After the end everything fails, at once and with the reason.
func TestApartAfterTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st := newStage(t, &cast{}, nil)
		running := st.begin("s1", "ask")
		st.stop()
		<-running.done
		late := st.begin("s2", "quick")
		<-late.done
		if KindOf(late.err) != Closed || running.err == nil {
			t.Errorf("got %v and %v", late.err, running.err)
		}
		if n := len(st.byName["a"].apart); n != 0 {
			t.Errorf("%d owners are left", n)
		}
	})
}
