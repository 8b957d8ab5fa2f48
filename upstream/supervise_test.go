package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A server that never comes is parked after its attempts, and probed from then on.
// A call wakes it at once, with one attempt that all calls share.
func TestParked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		refuse := errors.New("down")
		a.fail.Store(&refuse)
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		time.Sleep(500 * time.Millisecond)
		w.want("a", Failed)
		time.Sleep(15 * time.Second) // 1, 2 and 4 s, with their jitter
		w.want("a", Parked)
		st, _ := w.Status("a")
		if a.starts.Load() != 4 || st.Attempts != 4 || time.Until(st.RetryAt) < 3*time.Minute {
			t.Errorf("%d starts, status %+v; want 4, and the next in about five minutes", a.starts.Load(), st)
		}
		time.Sleep(7 * time.Minute)
		if n := a.starts.Load(); n != 5 {
			t.Errorf("%d starts, want one probe more", n)
		}
		a.fail.Store(nil)
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
		if a.starts.Load() != 6 || failed.Load() != 0 {
			t.Errorf("%d starts, %d calls failed; want one start for all calls", a.starts.Load(), failed.Load())
		}
		w.want("a", Ready)
	})
}

// What lives but never proves itself uses up its attempts; a call that is answered
// gives them back.
func TestBudgetNeedsProof(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		for range 6 { // connects, and dies before anything was asked
			time.Sleep(70 * time.Second)
			w.want("a", Ready)
			a.close()
			synctest.Wait()
		}
		w.want("a", Parked)
		time.Sleep(2 * wakeEvery)
		if _, err := w.call("a"); err != nil {
			t.Fatal(err)
		}
		a.close()
		synctest.Wait()
		if st, _ := w.Status("a"); st.State != Failed || st.Attempts != 1 {
			t.Errorf("status %+v, want the first of new attempts", st)
		}
		time.Sleep(2 * time.Second)
		w.want("a", Ready)
	})
}

// Where a login is missing nothing is dialled until the next probe, however many
// calls come, or until the credentials are others.
func TestNeedsLogin(t *testing.T) {
	leaks(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	var tries atomic.Int64
	f := &fakeHTTP{legacy: true}
	newFake(t, f)
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "two" {
			tries.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		f.ServeHTTP(w, r)
	}))
	defer gate.Close()
	set, err := NewSet([]Server{{Name: "a", Settings: &Settings{URL: gate.URL, Headers: map[string]string{"X-Token": "${file:" + file + "}"}}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	defer func() { cancel(); <-done }()
	set.AwaitFirst(ctx, time.Minute, "a")
	if st, _ := set.Status("a"); st.State != NeedsLogin || time.Until(st.RetryAt) < 3*time.Minute {
		t.Fatalf("state %s (%v), again at %v", st.State, st.Err, st.RetryAt)
	}
	_, _ = set.Do(ctx, Target{Server: "a"}, &Call{Method: "tools/call"}) // may wake it once
	before := tries.Load()
	for range 200 {
		if _, err := set.Do(ctx, Target{Server: "a"}, &Call{Method: "tools/call"}); KindOf(err) != Unauthorized {
			t.Fatalf("got %v, want Unauthorized", err)
		}
	}
	if n := tries.Load() - before; n > 0 {
		t.Errorf("%d requests for 200 calls", n)
	}
	write("two")
	eventually(t, "the new token", func() bool { st, _ := set.Status("a"); return st.State == Ready })
}

// Settings that do not resolve are dialled with nothing; they are when they do.
func TestConfigFault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		file := filepath.Join(t.TempDir(), "late")
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) {
			s.Headers = map[string]string{"X-Token": "${file:" + file + "}"}
		})
		defer w.stop()
		time.Sleep(10 * time.Minute)
		w.want("a", Failed)
		if _, err := w.call("a"); KindOf(err) != Config || a.starts.Load() != 0 {
			t.Errorf("%v after %d starts, want Config and none", err, a.starts.Load())
		}
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		w.want("a", Ready)
	})
}

// A process is ended when no call came for its idle time, tools stay, and the next
// call starts it again. Never is it ended in the middle of a call.
func TestIdleRecycle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		hold := make(chan struct{})
		a := &script{}
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/call" {
				<-hold
			}
			return "", ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.IdleTimeout = time.Minute })
		defer w.stop()
		synctest.Wait()
		done := make(chan error, 1)
		go func() { _, err := w.call("a"); done <- err }()
		time.Sleep(4 * time.Minute)
		w.want("a", Ready)
		close(hold)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		w.want("a", Ready)
		time.Sleep(30 * time.Second)
		w.want("a", Recycled)
		if l := w.Listing("a"); l == nil || len(l.Tools) != 1 || a.starts.Load() != 1 {
			t.Fatalf("listing %v after %d starts", l, a.starts.Load())
		}
		time.Sleep(time.Hour)
		w.want("a", Recycled)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := w.call("a"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := a.starts.Load(); n != 2 {
			t.Errorf("%d starts, want one for all", n)
		}
	})
}

// At its age a process goes at the first moment without a call. If there is none,
// new calls wait for the old ones.
func TestLifetime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := &script{}
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/call" {
				time.Sleep(10 * time.Second)
			}
			return "", ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) { s.Lifecycle.MaxLifetime = 5 * time.Minute })
		defer w.stop()
		stop := time.Now().Add(10 * time.Minute)
		var wg sync.WaitGroup
		var n atomic.Int64
		for i := range 3 { // always one in flight
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Second)
				for time.Now().Before(stop) {
					if _, err := w.call("a"); err != nil {
						t.Error(err)
					}
					n.Add(1)
				}
			})
		}
		wg.Wait()
		if a.starts.Load() < 2 || n.Load() < 150 || n.Load() != a.calls.Load() {
			t.Errorf("%d starts; %d calls, of which %d ran", a.starts.Load(), n.Load(), a.calls.Load())
		}
	})
}

// A lazy server is known from an earlier life and starts with the first call. What
// it no longer has is gone then.
func TestLazy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &Cache{Dir: filepath.Join(t.TempDir(), "lists")}
		tools := `{"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"old <&>","inputSchema":{ "type" : "object" }}]}`
		a := &script{}
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			if m.Method == "tools/list" {
				return tools, ""
			}
			return "", ""
		}
		lazy := func(_ string, s *Settings) { s.Lazy = true }
		run := func() *setWorld {
			return newSetWorld(t, map[string]*script{"a": a}, Options{Cache: c}, lazy)
		}
		w := run() // nothing is known yet
		synctest.Wait()
		w.want("a", Ready)
		first := w.Listing("a")
		w.stop()

		w = run()
		defer w.stop()
		w.AwaitFirst(t.Context(), time.Minute, "a")
		w.want("a", Lazy)
		if l := w.Listing("a"); !l.same(first) || string(l.Tools[1]) != string(first.Tools[1]) {
			t.Fatalf("the listing is %s", l.Tools)
		}
		if st, _ := w.Status("a"); st.Tools != 2 || !st.Lazy || a.starts.Load() != 1 {
			t.Errorf("status %+v after %d starts", st, a.starts.Load())
		}
		time.Sleep(time.Hour)
		w.want("a", Lazy)
		tools = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
		if _, err := w.call("a"); err != nil {
			t.Fatal(err)
		}
		w.want("a", Ready)
		if l := w.Listing("a"); len(l.Tools) != 1 || a.starts.Load() != 2 {
			t.Errorf("%d tools after %d starts, want what it has now", len(l.Tools), a.starts.Load())
		}
	})
}

// What is damaged, foreign, too old or another's counts as absent.
func TestCacheFaults(t *testing.T) {
	dir := t.TempDir()
	c := &Cache{Dir: dir}
	s := newServer(&Set{opt: Options{Cache: c}}, Server{Name: "a", Settings: &Settings{Command: "x", Lazy: true, Headers: map[string]string{"A": "1"}}})
	l := &Listing{Info: Info{Version: VersionLegacy}, TTL: time.Minute}
	l.Tools = append(l.Tools, []byte(`{"name":"t"}`))
	c.store(s, l)
	if c.load(s) == nil {
		t.Fatal("nothing was kept")
	}
	path := c.file(s, Legacy)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	put := func(b []byte) func() {
		return func() {
			os.Remove(path)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	replaced := func(old, new string) func() { return put([]byte(strings.Replace(string(whole), old, new, 1))) }
	for _, c2 := range []struct {
		name string
		do   func()
	}{
		{"empty", put(nil)},
		{"cut", put(whole[:len(whole)/2])},
		{"another version", replaced(`"Version":1`, `"Version":2`)},
		{"another server", replaced(`"Server":"a"`, `"Server":"b"`)},
		{"no JSON in it", replaced("eyJuYW1lIjoidCJ9", "eyJuYW1lIjoidCJ8")},
		{"old", replaced(`"Written":"2`, `"Written":"1`)},
		{"writable by others", func() { put(whole)(); os.Chmod(path, 0o602) }},
		{"a link", func() { put(whole)(); os.Rename(path, path+"x"); os.Symlink(path+"x", path) }},
		{"a pipe", func() { os.Remove(path); syscall.Mkfifo(path, 0o600) }},
		{"with nothing to call", put([]byte(`{"Version":1,"Server":"a","Written":"` + time.Now().Format(time.RFC3339) + `"}`))},
		{"another's", func() { put(whole)(); os.Chown(path, 4711, 4711) }},
		{"a directory", func() { os.Remove(path); os.Mkdir(path, 0o700) }},
	} {
		if c2.do(); c2.name == "another's" && os.Geteuid() != 0 {
			t.Log("not root: files of others cannot be made")
			continue
		}
		if got := c.load(s); got != nil {
			t.Errorf("%s: got %v", c2.name, got)
		}
	}
	os.Remove(path)
	put(whole)()
	other := newServer(&Set{}, Server{Name: "a", Settings: &Settings{Command: "x", Args: []string{"y"}, Lazy: true}})
	if c.load(s) == nil || c.load(other) != nil {
		t.Errorf("the same: %v; other arguments: %v", c.load(s), c.load(other))
	}
	same := newServer(&Set{}, Server{Name: "a", Settings: &Settings{Command: "x", Lazy: true, Tools: s.settings.Tools}})
	if same.settings.Tools.Include = []string{"z"}; c.load(same) == nil {
		t.Error("a filter is part of the key")
	}
	none := &Cache{Dir: filepath.Join(path, "impossible")}
	none.store(s, l)
	if (*Cache)(nil).load(s) != nil || none.load(s) != nil {
		t.Error("something came of nothing")
	}
}

// A server that gives no sign of life is asked in another way before it counts as
// dead. One that does not know ping is asked by list from then on.
func TestKeepalive(t *testing.T) {
	for _, c := range []struct {
		name        string
		ping, lists string
		want        State
		starts      int64
	}{
		{"answers ping", `{}`, "", Ready, 1},
		{"does not know ping", "!", "", Ready, 1},
		{"keeps silent on ping", "never", "", Ready, 1},
		{"keeps silent", "never", "never", Ready, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var first, pings atomic.Int64
				a := &script{}
				a.answer = func(s *script, m *wire.Message) (string, string) {
					mute := s.starts.Load() == 1
					switch {
					case m.Method == "ping":
						pings.Add(1)
						if c.ping == "!" {
							return "", "unknown method"
						}
						if c.ping == "never" && mute {
							return "", "never"
						}
						return `{}`, ""
					case m.Method == "tools/list" && mute && first.Add(1) > 1 && c.lists != "":
						return "", c.lists
					}
					return "", ""
				}
				w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
				defer w.stop()
				time.Sleep(8 * time.Minute)
				w.want("a", c.want)
				if a.starts.Load() != c.starts || pings.Load() == 0 {
					t.Errorf("%d starts, %d pings; want %d starts", a.starts.Load(), pings.Load(), c.starts)
				}
				if c.ping != `{}` && c.lists == "" && pings.Load() != 1 {
					t.Errorf("%d pings, want lists in their place from the first on", pings.Load())
				}
			})
		})
	}
}

// Calls that pass by are sign of life enough, and in the middle of one nobody asks.
func TestNoKeepaliveUnderCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var pings atomic.Int64
		a := &script{}
		a.answer = func(_ *script, m *wire.Message) (string, string) {
			switch m.Method {
			case "ping":
				pings.Add(1)
			case "tools/call":
				time.Sleep(4 * time.Minute)
			}
			return "", ""
		}
		w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
		defer w.stop()
		for range 5 {
			if _, err := w.call("a"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		if n := pings.Load(); n != 0 {
			t.Errorf("%d pings", n)
		}
	})
}
