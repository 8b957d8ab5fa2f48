package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const rootsOffered = `{"roots":{}}`

// A rootServer asks for roots some time after initialized and answers tools with
// what it got until then, as server-filesystem does.
type rootServer struct {
	after time.Duration // if negative, it does not ask
	apply time.Duration // how long it thinks about the answer
	never bool          // it withdraws the question at once
	mute  bool          // it does not answer ping

	mu  sync.Mutex
	got string
}

func (s *rootServer) serve(ctx context.Context, rw io.ReadWriteCloser) error {
	return scripted(func(m request, say func(string, ...any)) error {
		switch m.Method {
		case "server/discover":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, m.ID)
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, legacyHello)
		case "notifications/initialized":
			if s.after >= 0 {
				time.AfterFunc(s.after, func() {
					say(`{"jsonrpc":"2.0","id":0,"method":"roots/list"}`)
					if s.never {
						say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
					}
				})
			}
		case "":
			heard := string(m.Result) + string(m.Error)
			if s.apply == 0 {
				s.take(heard)
				break
			}
			time.AfterFunc(s.apply, func() { s.take(heard) })
		case "ping":
			if !s.mute {
				say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
		default:
			s.mu.Lock()
			defer s.mu.Unlock()
			say(`{"jsonrpc":"2.0","id":%s,"result":%q}`, m.ID, s.got)
		}
		return nil
	})(ctx, rw)
}

func (s *rootServer) take(heard string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got += heard
}

// rooted is a call of an agent that has roots.
func rooted(ask func(context.Context, Question) ([]byte, *wire.Error)) *Call {
	return &Call{Method: "x", Ask: ask, Capabilities: []byte(rootsOffered)}
}

func dialRoots(t *testing.T, s *rootServer, e env) conn {
	t.Helper()
	c := newBuiltinConn(t.Context(), &Resolved{Server: "srv", Settings: &Settings{}}, s.serve, e)
	c.early = newEarly(&e)
	c.start()
	if err := c.handshake(t.Context(), LegacyOnly, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// thinking answers after a while.
func thinking(d time.Duration, result string) func(context.Context, Question) ([]byte, *wire.Error) {
	return func(context.Context, Question) ([]byte, *wire.Error) {
		time.Sleep(d)
		return []byte(result), nil
	}
}

// The first call on a connection of one agent's own answers what the server asks
// upon its handshake, before the server sees it.
func TestStdioRootsFirst(t *testing.T) {
	const (
		roots    = `{"roots":[]}`
		declined = `{"code":-32601,"message":"nobody is asked outside of a call"}`
	)
	for _, tt := range []struct {
		name  string
		s     *rootServer
		e     env
		call  time.Duration // after the handshake
		think time.Duration
		no    bool // the agent cannot answer
		want  string
		took  time.Duration
	}{
		{name: "before the call", call: time.Second, want: roots, took: earlyApply},
		{name: "before the call, slowly", call: time.Second, think: 3 * time.Second, want: roots, took: 3*time.Second + earlyApply},
		{name: "as slowly as it may", call: time.Second, think: time.Minute, want: roots, took: time.Minute + earlyApply},
		{name: "while it waits", s: &rootServer{after: 200 * time.Millisecond}, want: roots, took: 200*time.Millisecond + earlyApply},
		{name: "never", s: &rootServer{after: -1}, took: earlyAsk},
		{name: "applied later", s: &rootServer{apply: 90 * time.Millisecond}, call: time.Second, want: roots, took: earlyApply},
		{name: "without ping", s: &rootServer{mute: true}, call: time.Second, want: roots, took: earlyTaken},
		{name: "of an agent without roots", no: true, call: time.Second, want: roots},
		{name: "the call is late", call: earlyHold - time.Second, want: roots, took: earlyApply},
		{name: "the call is too late", call: earlyHold + time.Second, want: declined},
		{name: "the call is late, nothing waits", s: &rootServer{after: -1}, call: earlyIdle + time.Second},
		{name: "withdrawn", s: &rootServer{never: true}, call: time.Second, took: earlyAsk},
		{name: "nothing offered", e: env{own: true}, call: time.Second, want: `{"code":-32601,"message":"this client did not declare roots"}`},
		{name: "no roots offered", e: env{own: true, offers: []byte(`{"sampling":{}}`)}, call: time.Second, want: `{"code":-32601,"message":"this client did not declare roots"}`},
		{name: "shared", e: env{offers: []byte(rootsOffered)}, call: time.Second,
			want: `{"code":-32601,"message":"nobody is asked outside of a call on a connection that agents share; isolation: per_session helps"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if !tt.e.own && tt.e.offers == nil {
					tt.e = env{own: true, offers: []byte(rootsOffered)}
				}
				if tt.s == nil {
					tt.s = &rootServer{}
				}
				c := dialRoots(t, tt.s, tt.e)
				defer c.Close()
				time.Sleep(tt.call)
				first := rooted(thinking(tt.think, roots))
				if tt.no {
					first.Capabilities = nil
				}
				start := time.Now()
				r, err := c.Do(t.Context(), first)
				if got, _ := wire.Unquote(r.Result); err != nil || got != tt.want && !tt.no || time.Since(start) != tt.took {
					t.Errorf("got %s, %v after %v, want %s after %v", got, err, time.Since(start), tt.want, tt.took)
				}
				start = time.Now()
				if _, err := c.Do(t.Context(), rooted(refuses)); err != nil || time.Since(start) != 0 {
					t.Errorf("the second call: %v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// Calls that come with the first wait for it, those that nobody can ask about do not.
func TestStdioRootsFirstOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialRoots(t, &rootServer{}, env{own: true, offers: []byte(rootsOffered)})
		defer c.Close()
		start := time.Now()
		var wg sync.WaitGroup
		first := make(chan struct{})
		wg.Go(func() {
			c.Do(t.Context(), rooted(func(context.Context, Question) ([]byte, *wire.Error) {
				close(first)
				time.Sleep(time.Second)
				return []byte(`{}`), nil
			}))
		})
		<-first
		wg.Go(func() {
			r, err := c.Do(t.Context(), rooted(refuses))
			if string(r.Result) != `"{}"` || err != nil || time.Since(start) != time.Second+earlyApply {
				t.Errorf("the second call: %s, %v after %v", r.Result, err, time.Since(start))
			}
		})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := c.Do(ctx, &Call{Method: "x", Ask: refuses}); err == nil || time.Since(start) != 100*time.Millisecond {
				t.Errorf("the call that was given up: %v after %v", err, time.Since(start))
			}
		})
		if _, err := c.Do(t.Context(), &Call{Method: "x"}); err != nil || time.Since(start) != 0 {
			t.Errorf("the plain call: %v after %v", err, time.Since(start))
		}
		wg.Wait()
	})
}

// The first call ends while it waits as it does elsewhere, and the server sees nothing of it.
func TestStdioRootsFirstEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(c conn, cancel context.CancelFunc)
		kind Kind
		took time.Duration
	}{
		{"cancelled", func(_ conn, cancel context.CancelFunc) { cancel() }, 0, 0},
		{"closed", func(c conn, _ context.CancelFunc) { c.Close() }, Closed, 0},
		{"timeout", func(conn, context.CancelFunc) {}, Timeout, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := dialRoots(t, &rootServer{after: -1}, env{own: true, offers: []byte(rootsOffered)})
				defer c.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				res := make(chan error, 1)
				start := time.Now()
				go func() {
					_, err := c.Do(ctx, &Call{Method: "x", Timeout: 100 * time.Millisecond, Ask: refuses, Capabilities: []byte(rootsOffered)})
					res <- err
				}()
				synctest.Wait()
				tt.end(c, cancel)
				if err := <-res; KindOf(err) != tt.kind || time.Since(start) != tt.took {
					t.Errorf("got %v after %v", err, time.Since(start))
				}
				if tt.kind == Closed {
					return
				}
				if _, err := c.Do(t.Context(), &Call{Method: "x", Ask: refuses}); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

// A process of one agent's own is such a connection.
func TestStdioRootsOfProcess(t *testing.T) {
	e := env{own: true, offers: []byte(rootsOffered)}
	c, err := dialStdio(t.Context(), resolveSelf(t, self(t, "fake-server", "roots")), e)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r, err := c.Do(t.Context(), &Call{Method: "heard", Ask: answers(`{"roots":[]}`), Capabilities: []byte(rootsOffered)}); string(r.Result) != `{"roots":[]}` {
		t.Errorf("got %s, %v", r.Result, err)
	}
}

// newHTTPRoots is a server that asks for roots when the handshake is over, if it
// finds the standing stream then, and answers tools with what it got until then.
// One that is strict has that stream only afterwards, and asks on it at once.
func newHTTPRoots(t *testing.T, strict bool) *fakeHTTP {
	t.Helper()
	var mu sync.Mutex
	got, ready := "nothing", false
	var ask chan struct{}
	f := &fakeHTTP{legacy: true, get: func(w http.ResponseWriter, r *http.Request) {
		mine := make(chan struct{}, 1)
		mu.Lock()
		ask = mine
		refuse := strict && !ready
		mu.Unlock()
		if refuse {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		send := events(w, rpc{})
		send(": here\n\n")
		if strict {
			mine <- struct{}{}
		}
		select {
		case <-mine:
			send(askingEvent(`0`, "roots/list", `{}`))
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}}
	f.any = func(_ http.ResponseWriter, _ *http.Request, m rpc) bool {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case m.Method == "" && m.ID != nil:
			got = string(m.Result) + string(m.Error)
		case m.Method == "initialize":
			ask, ready = nil, false
		case m.Method == "notifications/initialized":
			if ready = true; ask != nil && !strict {
				ask <- struct{}{}
			}
		}
		return false
	}
	f.call = func(w http.ResponseWriter, _ *http.Request, m rpc) {
		mu.Lock()
		defer mu.Unlock()
		text, _ := json.Marshal(got)
		result(w, m, string(text))
		got = "nothing"
	}
	return newFake(t, f)
}

func TestHTTPRootsFirst(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict=%v", strict), func(t *testing.T) {
			leaks(t)
			f := newHTTPRoots(t, strict)
			c := dialed(t, resolved(t, f.URL, nil), env{own: true, offers: []byte(rootsOffered)})
			for _, when := range []string{"dialled", "opened again"} {
				for i, want := range []string{`{"roots":[]}`, "nothing"} {
					call := askedCall("x", thinking(300*time.Millisecond, `{"roots":[]}`))
					call.Capabilities = []byte(rootsOffered)
					r, err := c.Do(t.Context(), call)
					if got, _ := wire.Unquote(r.Result); err != nil || got != want {
						t.Errorf("%s: call %d got %s, %v", when, i, got, err)
					}
				}
				f.forget()
			}
		})
	}
}

// A question before the first call waits for it, is declined when none comes, or
// is withdrawn.
func TestHTTPRootsHeld(t *testing.T) {
	leaks(t)
	f := newHTTPRoots(t, false)
	c := dialed(t, resolved(t, f.URL, nil), env{own: true, offers: []byte(rootsOffered)})
	e := c.session.Load().early
	held := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.held)
	}
	eventually(t, "the question is held", func() bool { return held() == 1 })
	e.expire()
	if held() != 1 {
		t.Error("the question does not wait for a late call")
	}
	e.expire()
	var r Response
	var err error
	eventually(t, "the server is declined", func() bool {
		r, err = c.Do(t.Context(), toolCall("x"))
		return err != nil || string(r.Result) != `"nothing"`
	})
	if got, _ := wire.Unquote(r.Result); err != nil || got != `{"code":-32601,"message":"nobody is asked outside of a call"}` {
		t.Errorf("got %s, %v", got, err)
	}
	if c.askers.withdraw(c.session.Load(), []byte(`0`)); held() != 0 {
		t.Error("a question is held for nobody")
	}
}

func timelessLog(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Where agents share the connection a person learns once what would help, unless
// they did that: then it is only where lists are read.
func TestRootsSharedLog(t *testing.T) {
	for isolation, tt := range map[string]struct{ said, log string }{
		"":            {sharedByAll, "the server asks for roots outside of calls; isolation: per_session lets it"},
		"shared":      {sharedByAll, "the server asks for roots outside of calls; isolation: per_session lets it"},
		"per_session": {notInCall, "the server asks for roots where its lists are read, which is for no agent; agents are asked on connections of their own"},
	} {
		var out bytes.Buffer
		e := env{offers: []byte(`{"roots":{},"sampling":{}}`), log: timelessLog(&out)}
		s := &Settings{Isolation: isolation}
		var told atomic.Bool
		var got []string
		for _, method := range []string{"sampling/createMessage", "roots/list", "roots/list", "elicitation/create", "vendor/ask"} {
			got = append(got, e.decline("srv", s, method, &told))
		}
		want := []string{tt.said, tt.said, tt.said, "this client did not declare elicitation", "this client offers no such method"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", isolation, diff)
		}
		line := fmt.Sprintf("level=INFO msg=%q server=srv op=roots/list\n", tt.log)
		if diff := cmp.Diff(line, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", isolation, diff)
		}
	}
}

// What looks like a message is not logged, whatever is wrong with it.
func TestOddMessageLog(t *testing.T) {
	deep := `{"a":"s3cret","b":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`
	for _, tt := range []struct{ line, want string }{
		{deep, fmt.Sprintf(`level=WARN msg="message on standard output is of no use" server=srv bytes=%d err="more than 128 levels of nesting"`, len(deep))},
		{`{"a":"s3cret"`, `level=WARN msg="message on standard output is of no use" server=srv bytes=13 err="unexpected end of JSON"`},
		{`{"level":"s3cret"}`, `level=WARN msg="message on standard output is of no use" server=srv bytes=18 err="JSON, but no JSON-RPC message"`},
		{`[{"a":"s3cret"`, `level=WARN msg="message on standard output is of no use" server=srv bytes=13 err="unexpected end of JSON"`},
		{`["s3cret"]`, `level=WARN msg="message on standard output is of no use" server=srv bytes=8 err="a message is one JSON object"`},
		{`{"a":"s3cret"}{"b":1}`, `level=WARN msg="message on standard output is of no use" server=srv bytes=14 err="JSON, but no JSON-RPC message"`},
		{`[info] up`, `level=WARN msg="line on standard output is not a message" server=srv line="[info] up"`},
		{`[2026-01-02] up`, `level=WARN msg="line on standard output is not a message" server=srv line="[2026-01-02] up"`},
		{`up`, `level=WARN msg="line on standard output is not a message" server=srv line=up`},
	} {
		var out bytes.Buffer
		c := &lineConn{server: "srv", scrub: func(s string) string { return s }, pending: map[int64]*pending{}}
		c.e.log = timelessLog(&out)
		c.line(&text{data: []byte(tt.line)})
		if got, _, _ := strings.Cut(out.String(), "\n"); got != tt.want {
			t.Errorf("%.40s:\ngot  %s\nwant %s", tt.line, got, tt.want)
		}
	}
}
