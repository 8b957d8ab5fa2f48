package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

// another holds that a server which was found dead is replaced by one that serves:
// silence is believed after two questions of five seconds each.
func (w *world) another(t *testing.T) {
	t.Helper()
	before := w.bad.Journal.Starts()
	for end := time.Now().Add(2 * patience); w.call(t, "ping_tool", "").Content() != "pong"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing serves after %v", 2*patience)
		}
	}
	if n := w.bad.Journal.Starts(); n != before+1 {
		t.Errorf("%d starts more, want 1", n-before)
	}
}

// restarted holds that a server which does not come up is ended and tried again.
func restarted(word string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		down(word)(t, w)
		waitFor(t, "another start", func() bool { return w.bad.Journal.Starts() >= 2 })
		waitFor(t, "the first to end", func() bool { return living(w.bad.Journal.PIDs()[:1]) == 0 })
	}
}

// foundDead holds that silence is found by itself, when nobody calls.
func foundDead(t *testing.T, w *world) {
	for range 5 {
		w.serves(t)
	}
	waitFor(t, "another start", func() bool { return w.bad.Journal.Starts() >= 2 })
	w.serves(t)
}

// outlives holds that a server is not dead because it does not answer ping.
func outlives(t *testing.T, w *world) {
	w.serves(t)
	time.Sleep(8 * time.Second) // of which the keepalive has five
	w.serves(t)
	if n := w.bad.Journal.Starts(); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// sleepsWhenIdle holds that a server that nobody calls ends, stays listed, and is
// back with the next call.
func sleepsWhenIdle(t *testing.T, w *world) {
	w.serves(t)
	before := w.bad.Journal.Starts()
	for round := range 2 {
		waitFor(t, "the process to end", func() bool { return living(w.bad.Journal.PIDs()) == 0 })
		if !w.listed(t).has("mcp_" + w.name + "_ping_tool") {
			t.Error("it is listed no more")
		}
		if r := w.call(t, "ping_tool", ""); r.Content() != "pong" {
			t.Errorf("got %.300s", r.Body)
		}
		if n := w.bad.Journal.Starts() - before; n != round+1 {
			t.Errorf("%d starts more, want %d", n, round+1)
		}
	}
}

// ages holds that a process which is old is replaced, and that no call notices.
func ages(t *testing.T, w *world) {
	w.serves(t)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		if r := w.call(t, "ping_tool", ""); r.Content() != "pong" {
			t.Fatalf("got %.300s", r.Body)
		}
	}
	if n := w.bad.Journal.Starts(); n < 2 || n > 6 {
		t.Errorf("%d starts in 4 s", n)
	}
}

// elsewhere holds that an endpoint of another origin gets nothing.
func elsewhere(t *testing.T, w *world) {
	w.logs(t, "another origin")
	w.unlisted(t)
	if got := w.bad.Journal.Leaks(); len(got) > 0 {
		t.Errorf("the other origin got %v", got)
	}
}

// withheld holds that a tool is, and that the others are not.
func withheld(tool string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.serves(t)
		if w.listed(t).has("mcp_" + w.name + "_" + tool) {
			t.Errorf("%s is listed", tool)
		}
	}
}

// large holds that an answer of eight MiB is whole.
func large(t *testing.T, w *world) {
	w.serves(t)
	if got := w.call(t, "misbehave", "k").Content(); len(got) != 8<<20 || strings.Trim(got, "x") != "" {
		t.Errorf("got %d bytes", len(got))
	}
	w.serves(t)
}

// trips holds that a server which is unwell three times in a row is left alone, until
// it says that it is well. If calls fail all the same, its word counts no more.
func trips(t *testing.T, w *world) {
	w.serves(t)
	for range 3 {
		w.fails(t, "k", callTime, "UNREACHABLE")
	}
	for range 5 {
		w.fails(t, "k", callTime, "OPEN")
	}
	if n := w.bad.Journal.Ran("k"); n != 3 {
		t.Errorf("the server got %d calls, want 3", n)
	}
	w.serves(t) // it answers its probe
	for range 2 {
		w.fails(t, "l", callTime, "UNREACHABLE")
	}
	for range 5 { // it has recovered
		if r := w.call(t, "misbehave", "l"); r.Content() != "I behave" {
			t.Errorf("got %.300s", r.Body)
		}
	}
	for range 3 {
		w.fails(t, "m", callTime, "UNREACHABLE")
	}
	time.Sleep(3 * time.Second)
	w.fails(t, "m", callTime, "OPEN")
	if n := w.bad.Journal.Ran("m"); n != 3 {
		t.Errorf("the server got %d calls, want 3", n)
	}
}

// halfOpen holds that one call finds out whether a server is well, and that no other
// goes with it.
func halfOpen(t *testing.T, w *world) {
	w.serves(t)
	for range 3 {
		w.fails(t, "k", callTime, "UNREACHABLE")
	}
	w.fails(t, "k", callTime, "OPEN")
	w.serves(t) // by a probe, which is not believed again so soon
	for range 3 {
		w.fails(t, "k", callTime, "UNREACHABLE")
	}
	w.fails(t, "k", callTime, "OPEN")
	before := w.bad.Journal.Ran("k")
	time.Sleep(6500 * time.Millisecond) // open: 6s
	codes := w.together(t, 10)
	if n := w.bad.Journal.Ran("k") - before; n != 1 || codes["OPEN"] != 9 {
		t.Errorf("%d of 10 calls were sent, %v", n, codes)
	}
	time.Sleep(6500 * time.Millisecond)
	w.serves(t)
}

// together has n clients call misbehave at once, and counts the codes of the errors.
func (w *world) together(t *testing.T, n int) map[string]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	codes := map[string]int{}
	for range n {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			a := &mcptest.Agent{URL: w.s.URL, Client: client}
			r, err := a.Call(t.Context(), "mcp_"+w.name+"_misbehave", `{"key":"k"}`)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			codes[codeOf(r)]++
		})
	}
	all.Wait()
	return codes
}

// through has a server reached through the evil proxy.
const through = `egress: {proxy: "http://$PROXY"}`

// viaProxy holds that the server behind the proxy serves.
func viaProxy(t *testing.T, w *world) {
	w.serves(t)
	if len(w.bad.Journal.Heads()) == 0 {
		t.Error("the proxy was passed by")
	}
}

// slowProxy holds that a slow way says nothing of the server's era.
func slowProxy(t *testing.T, w *world) {
	viaProxy(t, w)
	w.logs(t, "version="+mcptest.Modern)
}

// untold holds that the proxy learns no more than where to.
func untold(t *testing.T, w *world) {
	viaProxy(t, w)
	for _, head := range w.bad.Journal.Heads() {
		if strings.Contains(head, canary) || !strings.HasPrefix(head, "CONNECT "+evil.Behind+":") {
			t.Errorf("the proxy got %s", head)
		}
	}
}

// refusedByProxy holds that the log says that it was the proxy, and why.
func refusedByProxy(word string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		addr := strings.TrimPrefix(w.bad.URL, "http://")
		w.logs(t, "proxy http://"+addr)
		w.logs(t, word)
		w.unlisted(t)
		if strings.Contains(w.s.Log(), canary) {
			t.Error("the log has the proxy's password")
		}
	}
}

// A lazy server whose tools are known starts with its first call; twenty at once
// start one process. One of which agents see nothing starts at once: no call could
// ever do that.
func TestLazy(t *testing.T) {
	t.Parallel()
	bad := evil.Start(t, evil.Good, false)
	l := &sleeper{bad: bad, config: filepath.Join(t.TempDir(), "c.yaml"), state: t.TempDir()}
	first := l.lives(t)
	first.serves(t)
	l.ends(t, first)
	second := l.lives(t)
	if !second.listed(t).has("mcp_sleepy_ping_tool") || bad.Journal.Starts() != 1 {
		t.Fatalf("%d starts, want 1; the log:\n%s", bad.Journal.Starts(), second.s.Log())
	}
	if codes := second.together(t, 20); codes[""] != 20 || bad.Journal.Starts() != 2 {
		t.Errorf("%d starts, want one for all 20 calls: %v", bad.Journal.Starts()-1, codes)
	}
	l.ends(t, second)
	l.lives(t, "tools: {include: [none_such], resources: false, prompts: false}")
	waitFor(t, "a start without a call", func() bool { return bad.Journal.Starts() == 3 })
}

// A sleeper is one lazy server in the lives of several programs.
type sleeper struct {
	bad           *evil.Running
	config, state string
}

func (l *sleeper) lives(t *testing.T, settings ...string) *world {
	t.Helper()
	settings = append(settings, "lazy: true", "supports_parallel_tool_calls: true")
	text := "mcp_servers:\n" + l.bad.Entry("sleepy", settings...)
	if err := os.WriteFile(l.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mcptest.StartServe(t, "--config", l.config, "--insecure-no-auth", "--state-dir", l.state)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return &world{s: s, a: &mcptest.Agent{URL: s.URL, Client: client}, bad: l.bad, name: "sleepy"}
}

func (l *sleeper) ends(t *testing.T, w *world) {
	t.Helper()
	if err := syscall.Kill(w.s.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program to end", func() bool { return living([]int{w.s.PID}) == 0 })
}
