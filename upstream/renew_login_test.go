package upstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A gate is a server that takes one token at a time, whatever its session.
type gate struct {
	token atomic.Pointer[string]
	fakeHTTP
	calls, refused atomic.Int64
	// held keeps calls of the tool "slow" until release.
	held    chan struct{}
	release func()
	waiting atomic.Int64
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Token") != *g.token.Load() {
		g.refused.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	g.fakeHTTP.ServeHTTP(w, r)
}

// loginWorld is a gate and a set that reads its token from a file.
type loginWorld struct {
	*Set
	t    *testing.T
	gate *gate
	file string
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (w *loginWorld) write(token string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(token), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *loginWorld) state() State {
	st, _ := w.Status("a")
	return st.State
}

func newLoginWorld(t *testing.T, change func(*Settings)) *loginWorld {
	leaks(t)
	g := &gate{held: make(chan struct{})}
	g.legacy, g.sessions = true, map[string]bool{}
	g.call = func(w http.ResponseWriter, r *http.Request, m rpc) {
		g.calls.Add(1)
		if m.Params.Name == "slow" {
			g.waiting.Add(1)
			<-g.held
		}
		result(w, m, `{"content":[]}`)
	}
	one := "one"
	g.token.Store(&one)
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	g.release = sync.OnceFunc(func() { close(g.held) })
	t.Cleanup(g.release)
	w := &loginWorld{t: t, gate: g, file: filepath.Join(t.TempDir(), "token"), log: &lockedBuffer{}}
	w.write("one")
	s := &Settings{URL: srv.URL, Headers: map[string]string{"X-Token": "${file:" + w.file + "}"}}
	if change != nil {
		change(s)
	}
	var err error
	w.Set, err = NewSet([]Server{{Name: "a", Settings: s}}, Options{Log: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.AwaitFirst(t.Context(), time.Minute, "a")
	if w.state() != Ready {
		t.Fatalf("it is %s", w.state())
	}
	return w
}

func (w *loginWorld) call(tool string) error {
	_, err := w.Do(w.t.Context(), Target{Server: "a"}, &Call{Method: "tools/call", Params: []byte(fmt.Sprintf(`{"name":%q}`, tool))})
	return err
}

// A server takes other credentials from one moment to the next. Calls that begin
// after the file has them succeed, all over one new connection, each once; calls
// that are on the old connection end there.
func TestCredentialsRotate(t *testing.T) {
	w := newLoginWorld(t, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.call("slow"); err != nil {
			t.Errorf("the call under way: %v", err)
		}
	})
	eventually(t, "the slow call", func() bool { return w.gate.waiting.Load() == 1 })
	before := len(w.gate.got("initialize"))
	two := "two"
	w.gate.token.Store(&two)
	w.write("two")
	for range 20 {
		wg.Go(func() {
			if err := w.call("quick"); err != nil {
				t.Errorf("after the change: %v", err)
			}
		})
	}
	eventually(t, "the calls", func() bool { return w.gate.calls.Load() == 21 })
	w.gate.release()
	wg.Wait()
	if n := len(w.gate.got("initialize")) - before; n != 1 || w.gate.calls.Load() != 21 || w.state() != Ready {
		t.Errorf("%d connections, %d calls ran, %s", n, w.gate.calls.Load(), w.state())
	}
}

// A server that refuses our login in the middle of a connection is shown so, and is
// well again at once when the file changes, without a call.
func TestLoginComesBack(t *testing.T) {
	w := newLoginWorld(t, nil)
	two := "two"
	w.gate.token.Store(&two)
	for range 3 {
		if err := w.call("t"); KindOf(err) != Unauthorized {
			t.Fatalf("got %v, want Unauthorized", err)
		}
	}
	st, _ := w.Status("a")
	if in := time.Until(st.RetryAt); st.State != NeedsLogin || in < 3*time.Minute || in > 7*time.Minute {
		t.Errorf("%s, again in %v", st.State, in)
	}
	if n := strings.Count(w.log.String(), "needs-login"); n != 1 {
		t.Errorf("%d lines tell of it:\n%s", n, w.log)
	}
	w.write("two")
	eventually(t, "the new token", func() bool { return w.state() == Ready })
	if err := w.call("t"); err != nil {
		t.Error(err)
	}
}

// A file that is lost while the server refuses what it held is named, at once.
func TestLoginFileIsLost(t *testing.T) {
	w := newLoginWorld(t, nil)
	two := "two"
	w.gate.token.Store(&two)
	if err := w.call("t"); KindOf(err) != Unauthorized {
		t.Fatalf("got %v, want Unauthorized", err)
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file's name", func() bool {
		err := w.call("t")
		return KindOf(err) == Config && strings.Contains(err.Error(), w.file)
	})
	w.write("two")
	eventually(t, "the new token", func() bool { return w.state() == Ready })
}

// Credentials that are good again without having changed are found by the probe.
func TestLoginProbe(t *testing.T) {
	w := newLoginWorld(t, func(s *Settings) { s.Lifecycle.ProbeInterval = time.Second })
	two, one := "two", "one"
	w.gate.token.Store(&two)
	if err := w.call("t"); KindOf(err) != Unauthorized || w.state() != NeedsLogin {
		t.Fatalf("got %v, %s", err, w.state())
	}
	w.gate.token.Store(&one)
	eventually(t, "the probe", func() bool { return w.state() == Ready })
	if n := w.gate.refused.Load(); n > 10 {
		t.Errorf("%d requests refused", n)
	}
}

// A process in which a task lives is neither idle nor aged until the task's time is
// over.
func TestTasksKeepTheirProcess(t *testing.T) {
	for name, result := range map[string]string{
		"legacy": `{"task":{"taskId":"1","status":"working","ttl":1800000}}`,
		"modern": `{"resultType":"task","taskId":"1","status":"working","ttlMs":1800000}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := &script{}
				if name == "modern" {
					a.early = func(m *wire.Message) (string, string) {
						if m.Method == "server/discover" {
							return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`, ""
						}
						return "", ""
					}
				}
				a.answer = func(_ *script, m *wire.Message) (string, string) {
					if m.Method == "tools/call" {
						return result, ""
					}
					return "", ""
				}
				w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) {
					s.IdleTimeout, s.Lifecycle.MaxLifetime = time.Minute, 5*time.Minute
				})
				defer w.stop()
				synctest.Wait()
				if _, err := w.Do(t.Context(), Target{Server: "a"}, &Call{Method: "tools/call", Params: []byte(`{"name":"t","task":{}}`)}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(29 * time.Minute)
				w.want("a", Ready)
				if a.starts.Load() != 1 {
					t.Errorf("%d starts", a.starts.Load())
				}
				time.Sleep(3 * time.Minute)
				w.want("a", Recycled)
			})
		})
	}
}

// What a server listed is kept for another of its times whenever it says the same
// again.
func TestCacheIsGoodAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		a.early = func(m *wire.Message) (string, string) {
			switch m.Method {
			case "server/discover":
				return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`, ""
			case "tools/list":
				return `{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":600000}`, ""
			}
			return "", ""
		}
		c := &Cache{Dir: filepath.Join(t.TempDir(), "lists")}
		run := func() *setWorld {
			return newSetWorld(t, map[string]*script{"a": a}, Options{Cache: c}, func(_ string, s *Settings) {
				s.Lazy, s.RelistInterval = true, 5*time.Minute
			})
		}
		w := run()
		time.Sleep(16 * time.Minute)
		w.want("a", Ready)
		w.stop()
		w = run()
		defer w.stop()
		synctest.Wait()
		w.want("a", Lazy)
	})
}

// A breaker that opens says so in the log, once.
func TestBreakerIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := &lockedBuffer{}
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{Log: slog.New(slog.NewTextHandler(log, nil))}, nil)
		defer w.stop()
		synctest.Wait()
		srv := w.byName["a"]
		for range 5 {
			p, err := srv.breaker.allow(nil)
			if err == nil {
				p.report(unwell())
			}
			srv.plain.judge(srv.plain.conn.Load(), unwell())
			srv.noteBreaker()
		}
		if n := strings.Count(log.String(), "in a row"); n != 1 {
			t.Errorf("%d lines tell of it:\n%s", n, log)
		}
	})
}

// What ended is not called degraded by calls that were under way.
func TestLateFailures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		synctest.Wait()
		srv := w.byName["a"]
		srv.plain.judge(newHeld(nil, "", nil), unwell())
		w.want("a", Ready)
		srv.plain.judge(srv.plain.conn.Load(), unwell())
		w.want("a", Degraded)
		srv.change(func(st *Status) { st.State = Parked })
		srv.noteBreaker()
		srv.plain.judge(srv.plain.conn.Load(), nil)
		w.want("a", Parked)
	})
}
