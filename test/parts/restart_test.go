//go:build npm

package parts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// kills is how often a server dies under load.
func kills() int {
	if longRun() {
		return 25
	}
	return 5
}

// soon are settings by which a server is tried again within a second.
const soon = "lifecycle: {retry_pause: 0.1, retry_pause_max: 0.5, probe_interval: 1}"

// breakers are the default, and none. One death of the server is one reason to find
// it unwell, however many calls it interrupts.
var breakers = []struct{ name, settings string }{{"breaker", ""}, {"no breaker", ", breaker: {failures: -1}"}}

// TestRestartsHTTP: a server is killed and started again under the calls of eight
// clients. Those that come while nobody listens may be told so at once.
func TestRestartsHTTP(t *testing.T) {
	t.Parallel()
	for _, br := range breakers {
		t.Run(br.name, func(t *testing.T) {
			t.Parallel()
			restartsHTTP(t, br.settings)
		})
	}
}

func restartsHTTP(t *testing.T, settings string) {
	b, addr := newBook(t), fmt.Sprintf("127.0.0.1:%d", newPort(t))
	up := b.serve(t, addr)
	s := mcptest.StartSidecar(t, fmt.Sprintf("list_wait: 20s\nmcp_servers:\n  web: {url: \"http://%s\", supports_parallel_tool_calls: true, %s%s}\n", addr, soon, settings))
	stop := make(chan struct{})
	clients := b.callers(t, s.URL, "mcp_web_count", 8, stop)
	a := &mcptest.Agent{URL: s.URL}
	for i := range kills() {
		b.grown(t, 50)
		up.kill()
		time.Sleep(200 * time.Millisecond) // calls come while nobody listens
		up = b.serve(t, addr)
		back(t, a, "mcp_web_count", fmt.Sprintf("back %d", i))
	}
	b.grown(t, 50)
	close(stop)
	clients.Wait()
	b.balance(t, "UNREACHABLE", "OPEN")
}

// back holds that a server that listens again is served within its probe interval of
// a second, and another for a busy machine.
func back(t *testing.T, a *mcptest.Agent, tool, key string) {
	t.Helper()
	began := time.Now()
	for i := 0; ; i++ {
		// Each try has a key of its own: one that failed may have run.
		key := fmt.Sprintf("%s, try %d", key, i)
		r := call(t, a, tool, `{"key":`+jsonOf(key)+`}`)
		if r.Content() == "counted "+key {
			return
		}
		if time.Since(began) > 2*time.Second {
			t.Fatalf("the server is back for %v, but: %.600s", time.Since(began), r.Body)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestRestartsStdio: a server's process is killed under the calls of eight clients.
// Those that come before it is there again wait for it.
func TestRestartsStdio(t *testing.T) {
	t.Parallel()
	needsProc(t)
	for _, br := range breakers {
		t.Run(br.name, func(t *testing.T) {
			t.Parallel()
			restartsStdio(t, br.settings)
		})
	}
}

func restartsStdio(t *testing.T, settings string) {
	b := newBook(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := mcptest.StartSidecar(t, fmt.Sprintf("list_wait: 20s\nmcp_servers:\n  pipe: {command: %q, env: {%s: %q}, supports_parallel_tool_calls: true, %s%s}\n", exe, bookEnv, b.file, soon, settings))
	stop := make(chan struct{})
	clients := b.callers(t, s.URL, "mcp_pipe_count", 8, stop)
	for range kills() {
		b.grown(t, 50)
		killServer(t, s, exe)
	}
	b.grown(t, 50)
	close(stop)
	clients.Wait()
	b.balance(t)
}

// TestNextCall: without load, the next call after a process was killed is served
// after the server's own start.
func TestNextCall(t *testing.T) {
	t.Parallel()
	needsProc(t)
	b := newBook(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := mcptest.StartSidecar(t, fmt.Sprintf("list_wait: 20s\nmcp_servers:\n  pipe: {command: %q, env: {%s: %q}}\n", exe, bookEnv, b.file))
	a := &mcptest.Agent{URL: s.URL}
	for i := range 3 {
		back(t, a, "mcp_pipe_count", fmt.Sprintf("before %d", i))
		killServer(t, s, exe)
		waitFor(t, "the program to notice", func() bool { return strings.Count(s.Log(), "server down") > i })
		key, began := fmt.Sprintf("next %d", i), time.Now()
		if r := call(t, a, "mcp_pipe_count", `{"key":`+jsonOf(key)+`}`); r.Content() != "counted "+key {
			t.Fatalf("kill %d, after %v: %.600s", i, time.Since(began), r.Body)
		}
	}
}

// killServer kills the server's process outright.
func killServer(t *testing.T, s *mcptest.Sidecar, exe string) {
	t.Helper()
	var servers []mcptest.Process
	waitFor(t, "the server to run", func() bool { servers = mcptest.Named(mcptest.Below(s.PID), exe); return len(servers) == 1 })
	syscall.Kill(servers[0].PID, syscall.SIGKILL)
	waitFor(t, "the server to be dead", func() bool { return len(mcptest.Running(servers)) == 0 })
}

func newBook(t *testing.T) *book {
	return &book{file: filepath.Join(t.TempDir(), "book"), told: map[string]string{}}
}

// serve runs the counting server on an address.
func (b *book) serve(t *testing.T, addr string) *service {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, addr, []string{bookEnv + "=" + b.file, listenEnv + "=" + addr}, exe)
}

// grown waits until so many more calls have a result.
func (b *book) grown(t *testing.T, n int) {
	t.Helper()
	good := func() (n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, told := range b.told {
			if told == "" {
				n++
			}
		}
		return n
	}
	from := good()
	waitFor(t, "calls with results", func() bool { return good() >= from+n })
}
