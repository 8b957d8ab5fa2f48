package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A script is a legacy server in this process whose answers are given.
type script struct {
	starts, lists, calls atomic.Int64
	fail                 atomic.Pointer[error] // refuses to start while set
	caps                 string                // of the handshake; tools if empty
	// early, if set, is asked before all else, also in the handshake.
	early func(m *wire.Message) (result, err string)
	// answer returns the response to a request after the handshake: a raw result,
	// or nothing to let the default answer.
	answer func(s *script, m *wire.Message) (result string, err string)

	mu  sync.Mutex
	out io.Writer
	rw  io.Closer
}

func (s *script) serve(ctx context.Context, rw io.ReadWriteCloser) error {
	s.starts.Add(1)
	if err := s.fail.Load(); err != nil {
		return *err
	}
	s.mu.Lock()
	s.out, s.rw = rw, rw
	s.mu.Unlock()
	in := bufio.NewReader(rw)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		m, err := wire.ParseServer(line, wire.Limits{})
		if err != nil || m.ID == nil {
			continue
		}
		go s.reply(rw, bytes.Clone(m.ID), m)
	}
}

func (s *script) reply(to io.Writer, id []byte, m wire.Message) {
	result, fault := s.respond(&m)
	switch {
	case fault == "never":
	case fault != "":
		s.sendTo(to, wire.AppendError(nil, id, wire.CodeMethodNotFound, fault, nil))
	default:
		s.sendTo(to, wire.AppendResult(nil, id, []byte(result)))
	}
}

// send writes on the connection that was made last.
func (s *script) send(msg []byte) {
	s.mu.Lock()
	to := s.out
	s.mu.Unlock()
	s.sendTo(to, msg)
}

func (s *script) sendTo(to io.Writer, msg []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Write(append(msg, '\n'))
}

func (s *script) respond(m *wire.Message) (result, fault string) {
	if s.early != nil {
		if result, fault = s.early(m); result != "" || fault != "" {
			return result, fault
		}
	}
	switch m.Method {
	case "server/discover":
		return "", "unknown method"
	case "initialize":
		caps := s.caps
		if caps == "" {
			caps = `{"tools":{"listChanged":true}}`
		}
		return `{"protocolVersion":"2025-11-25","capabilities":` + caps + `,"serverInfo":{"name":"script","version":"1"}}`, ""
	case "tools/list":
		s.lists.Add(1)
	case "tools/call":
		s.calls.Add(1)
	}
	if s.answer != nil {
		if result, fault = s.answer(s, m); result != "" || fault != "" {
			return result, fault
		}
	}
	switch m.Method {
	case "tools/list":
		return `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, ""
	case "tools/call":
		return `{"content":[]}`, ""
	}
	return "", "unknown method"
}

func (s *script) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rw.Close()
}

// A setWorld runs a Set over scripts inside a synctest bubble.
type setWorld struct {
	*Set
	t    *testing.T
	stop func()
}

func newSetWorld(t *testing.T, servers map[string]*script, opt Options, edit func(name string, s *Settings)) *setWorld {
	t.Helper()
	opt.Builtins = map[string]Builtin{}
	var specs []Server
	for _, name := range []string{"a", "b", "c"} {
		if s := servers[name]; s != nil {
			opt.Builtins[name] = s.serve
			set := &Settings{Builtin: name}
			if edit != nil {
				edit(name, set)
			}
			specs = append(specs, Server{Name: name, Settings: set})
		}
	}
	set, err := NewSet(specs, opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	w := &setWorld{Set: set, t: t}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

func (w *setWorld) call(server string) (Response, error) {
	return w.Do(context.Background(), Target{Server: server}, &Call{Method: "tools/call", Name: "t", Params: []byte(`{"name":"t"}`)})
}

func (w *setWorld) want(server string, state State) {
	w.t.Helper()
	synctest.Wait()
	if st, _ := w.Status(server); st.State != state {
		w.t.Errorf("%s is %s (%v), want %s", server, st.State, st.Err, state)
	}
}

func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// A dead server delays nobody and appears by itself later:
// NousResearch/hermes-agent#19559 and #57129.
func TestLateServerAppears(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := &script{}, &script{}
		refuse := errors.New("not yet")
		b.fail.Store(&refuse)
		var changes atomic.Int64
		w := newSetWorld(t, map[string]*script{"a": a, "b": b}, Options{OnChange: func(string) { changes.Add(1) }}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a", "b")
		w.want("a", Ready)
		w.want("b", Failed)
		if _, err := w.call("a"); err != nil {
			t.Error(err)
		}
		if st, _ := w.Status("b"); st.Err == nil || !strings.Contains(st.Err.Error(), "not yet") || st.RetryAt.IsZero() {
			t.Errorf("status %+v, want the cause and the next attempt", st)
		}
		b.fail.Store(nil)
		time.Sleep(2 * time.Second) // the first pause is one second and its jitter
		w.want("b", Ready)
		if w.Listing("b") == nil || changes.Load() < 3 {
			t.Errorf("listing %v, %d changes", w.Listing("b"), changes.Load())
		}
	})
}

// The pauses grow, then the server is parked and probed for ever, and it never comes
// to a spawn storm.
func TestBackoffIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		refuse := errors.New("down")
		a.fail.Store(&refuse)
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := a.starts.Load(); n < 4+9 || n > 4+16 {
			t.Errorf("%d starts in an hour, want four and about one in five minutes", n)
		}
	})
}

// Twenty calls that find a server down share one attempt; a storm of calls
// wakes it at most once a second.
func TestCallsShareOneAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		a.close()
		synctest.Wait()
		var wg sync.WaitGroup
		var failed atomic.Int64
		for range 20 {
			wg.Go(func() {
				if _, err := w.call("a"); err != nil {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		if n := a.starts.Load(); n != 2 || failed.Load() != 0 {
			t.Errorf("%d starts, %d calls failed; want 2 starts and no failure", n, failed.Load())
		}

		refuse := errors.New("down")
		a.fail.Store(&refuse)
		a.close()
		synctest.Wait()
		before := a.starts.Load()
		for range 1000 {
			if _, err := w.call("a"); KindOf(err) != Unreachable {
				t.Fatalf("got %v, want Unreachable", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := a.starts.Load() - before; n > 15 {
			t.Errorf("%d starts for a storm of 10 s", n)
		}
	})
}

// A burst of list_changed costs two lists at most: public report
// NousResearch/hermes-agent#115502.
func TestListChangedBurst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		w.want("a", Ready)
		for range 200 {
			a.send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := a.lists.Load(); n < 2 || n > 3 {
			t.Errorf("%d lists, want the first and one or two more", n)
		}
	})
}

// A server that never stops saying that its list changed is read ever less
// often; one that was quiet is heard at once again.
func TestListChangedForEver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		w.want("a", Ready)
		for range 1200 { // two minutes
			a.send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
			time.Sleep(100 * time.Millisecond)
		}
		if n := a.lists.Load(); n > 15 {
			t.Errorf("%d lists in two minutes", n)
		}
		time.Sleep(2 * time.Minute)
		before := a.lists.Load()
		a.send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
		time.Sleep(time.Second)
		if n := a.lists.Load() - before; n != 1 {
			t.Errorf("%d lists a second after a quiet time, want 1", n)
		}
	})
}

// A failed list later keeps the last good one; a server never lost its tools
// because of one bad moment: NousResearch/hermes-agent#88661.
func TestLastGoodListStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		good := w.Listing("a")
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/list" {
				return "", "broken"
			}
			return "", ""
		}
		a.send(wire.AppendNotification(nil, "notifications/tools/list_changed", nil))
		time.Sleep(time.Second)
		a.close()
		time.Sleep(3 * time.Second)
		w.want("a", Ready)
		if w.Listing("a") != good {
			t.Error("the last good listing is gone")
		}
	})
}

// At most once: a call that may have run is sent again only if it says that
// this is safe.
func TestAtMostOnce(t *testing.T) {
	for _, safe := range []bool{false, true} {
		t.Run(fmt.Sprintf("safe %v", safe), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := &script{}
				var died atomic.Bool
				a.answer = func(s *script, m *wire.Message) (string, string) {
					if m.Method == "tools/call" && !died.Swap(true) {
						s.close()
						return "", "never"
					}
					return "", ""
				}
				w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
				defer w.stop()
				w.AwaitFirst(t.Context(), time.Minute, "a")
				_, err := w.Do(t.Context(), Target{Server: "a"}, &Call{Method: "tools/call", Name: "t", Params: []byte(`{"name":"t"}`), Safe: safe})
				if safe && (err != nil || a.calls.Load() != 2) {
					t.Errorf("%v after %d calls, want an answer after 2", err, a.calls.Load())
				}
				if !safe && (KindOf(err) != Uncertain || a.calls.Load() != 1) {
					t.Errorf("%v after %d calls, want Uncertain after 1", err, a.calls.Load())
				}
			})
		})
	}
}

func TestWalk(t *testing.T) {
	page := func(next, entry string) string {
		cursor := ""
		if next != "-" {
			cursor = fmt.Sprintf(`,"nextCursor":%q`, next)
		}
		return `{"tools":[{"name":"` + entry + `"}]` + cursor + `}`
	}
	for _, tc := range []struct {
		name  string
		pages map[string]string // by cursor; "-" is the first
		want  int
		fault string
	}{
		{"three pages", map[string]string{"-": page("x", "1"), "x": page("y", "2"), "y": page("-", "3")}, 3, ""},
		{"an empty cursor is a cursor", map[string]string{"-": page("", "1"), "": page("-", "2")}, 2, ""},
		{"an empty cursor for ever", map[string]string{"-": page("", "1"), "": page("", "2")}, 2, "repeats a cursor"},
		{"a cursor that stands still", map[string]string{"-": page("x", "1"), "x": page("x", "2")}, 2, "repeats a cursor"},
		{"a cycle", map[string]string{"-": page("x", "1"), "x": page("y", "2"), "y": page("x", "3")}, 3, "repeats a cursor"},
		{"a failure on page 2 keeps page 1", map[string]string{"-": page("x", "1")}, 1, "page 2"},
		{"null ends", map[string]string{"-": `{"tools":[{"name":"1"}],"nextCursor":null}`}, 1, ""},
		{"a cursor too long to follow", map[string]string{"-": page(strings.Repeat("x", maxCursor), "1")}, 1, "at most 65536 are followed"},
		{"a tool too deep for anybody", map[string]string{"-": `{"tools":[{"name":"deep","x":` + strings.Repeat(`{"a":[`, 100_000) + strings.Repeat(`]}`, 100_000) + `},{"name":"1"}]}`}, 2, ""},
		{"no tools member", map[string]string{"-": `{}`}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := &script{answer: func(_ *script, m *wire.Message) (string, string) {
					cursor := "-"
					if raw, ok := wire.Get(m.Params, "cursor"); ok {
						cursor, _ = wire.Unquote(raw)
					}
					if p, ok := tc.pages[cursor]; ok {
						return p, ""
					}
					return "", "no such page"
				}}
				w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
				defer w.stop()
				w.AwaitFirst(t.Context(), time.Minute, "a")
				l := w.Listing("a")
				if l == nil || len(l.Tools) != tc.want {
					t.Fatalf("got %+v, want %d tools", l, tc.want)
				}
				if got := strings.Join(l.Faults, "; "); !strings.Contains(got, tc.fault) || tc.fault == "" && got != "" {
					t.Errorf("faults %q, want %q", got, tc.fault)
				}
			})
		})
	}
}

// Pages whose bulk is not entries end at the byte limit, and are not kept.
func TestWalkBulkyPages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		var n atomic.Int64
		bulk := strings.Repeat("x", 8<<20)
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method != "tools/list" {
				return "", ""
			}
			i := n.Add(1)
			return fmt.Sprintf(`{"tools":[{"name":"t%d"}],"nextCursor":"%d","bulk":"`, i, i) + bulk + `"}`, ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		l := w.Listing("a")
		if len(l.Tools) != 8 || !strings.Contains(strings.Join(l.Faults, ""), "67108864 bytes") {
			t.Errorf("%d tools, faults %q", len(l.Tools), l.Faults)
		}
	})
}

// What a server says in a list's error is scrubbed like anything else.
func TestWalkScrubs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{answer: func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/list" {
				return "", "your key k-31415926535-x is stale"
			}
			return "", ""
		}}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) {
			s.Env = map[string]string{"KEY": "k-31415926535-x"}
		})
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		st, _ := w.Status("a")
		if st.Err == nil || strings.Contains(st.Err.Error(), "31415926535") || !strings.Contains(st.Err.Error(), "is stale") {
			t.Errorf("got %v", st.Err)
		}
	})
}

// Cursors that are always fresh end at the page limit.
func TestWalkEndless(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		var n atomic.Int64
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method != "tools/list" {
				return "", ""
			}
			return fmt.Sprintf(`{"tools":[{"name":"t%d"}],"nextCursor":"%d"}`, n.Add(1), n.Load()), ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		l := w.Listing("a")
		if len(l.Tools) != maxPages || !strings.Contains(strings.Join(l.Faults, ""), "1000 pages") {
			t.Errorf("%d tools, faults %q", len(l.Tools), l.Faults)
		}
	})
}

func TestRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		off := false
		set, err := NewSet([]Server{
			{Name: "off", Settings: &Settings{Builtin: "x", Enabled: &off}},
			{Name: "bad", Settings: &Settings{Builtin: "x"}, Err: errors.New("tools.include: want a list")},
			{Name: "none", Settings: &Settings{Builtin: "none"}},
			{Name: "unset", Settings: &Settings{Command: "x", Env: map[string]string{"A": "${NOPE}"}}},
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- set.Run(ctx) }()
		set.AwaitFirst(ctx, time.Minute, set.Names()...)
		for server, want := range map[string]string{
			"off": "disabled", "bad": "want a list", "none": `no builtin server "none"`, "unset": "NOPE", "other": "no such server",
		} {
			_, err := set.Do(ctx, Target{Server: server}, &Call{Method: "ping"})
			if KindOf(err) != Config || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want a Config error with %q", server, err, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := set.Do(context.Background(), Target{Server: "none"}, &Call{Method: "ping"}); KindOf(err) != Closed {
			t.Errorf("after the end: got %v, want Closed", err)
		}
	})
	if _, err := NewSet([]Server{{Name: "a", Settings: &Settings{}}, {Name: "a", Settings: &Settings{}}}, Options{}); err == nil {
		t.Error("two servers of one name were accepted")
	}
}

func TestBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{answer: func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/call" {
				return "", "never"
			}
			return "", ""
		}}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.MaxConcurrency = 1 })
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := w.Do(ctx, Target{Server: "a"}, &Call{Method: "tools/call", Name: "t"})
			first <- err
		}()
		synctest.Wait()
		if _, err := w.call("a"); KindOf(err) != Busy {
			t.Errorf("got %v, want Busy", err)
		}
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's cancel", err)
		}
		w.want("a", Ready)
	})
}

// The wanted log level reaches servers that log, and again after a reconnect.
func TestLogLevel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var levels atomic.Int64
		a := &script{caps: `{"tools":{},"logging":{}}`, answer: func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "logging/setLevel" && string(m.Params) == `{"level":"debug"}` {
				levels.Add(1)
				return "{}", ""
			}
			return "", ""
		}}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		w.SetLogLevel(t.Context(), "debug")
		if levels.Load() != 1 {
			t.Fatalf("%d requests, want 1", levels.Load())
		}
		a.close()
		time.Sleep(3 * time.Second)
		w.want("a", Ready)
		if levels.Load() != 2 {
			t.Errorf("%d requests after the reconnect, want 2", levels.Load())
		}
	})
}

// What a server says outside of calls reaches the front.
func TestNotify(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		got := make(chan string, 1)
		w := newSetWorld(t, map[string]*script{"a": a}, Options{OnNotify: func(from Origin, method string, params []byte) {
			got <- from.Server + " " + method + " " + string(params)
		}}, nil)
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		a.send(wire.AppendNotification(nil, "notifications/message", []byte(`{"level":"info","data":"x"}`)))
		if g, want := <-got, `a notifications/message {"level":"info","data":"x"}`; g != want {
			t.Errorf("got %q, want %q", g, want)
		}
	})
}
