//go:build npm

package parts

import (
	"fmt"
	"os"
	"path/filepath"
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

// TestRestartsHTTP: a server is killed and started again under the calls of eight
// clients.
func TestRestartsHTTP(t *testing.T) {
	t.Parallel()
	for _, more := range []struct{ name, settings string }{{"breaker", ""}, {"no breaker", ", breaker: {failures: -1}"}} {
		t.Run(more.name, func(t *testing.T) {
			t.Parallel()
			b, addr := newBook(t), fmt.Sprintf("127.0.0.1:%d", mcptest.FreePort(t))
			up := b.serve(t, addr)
			s := mcptest.StartSidecar(t, fmt.Sprintf("list_wait: 20s\nmcp_servers:\n  web: {url: \"http://%s\", supports_parallel_tool_calls: true, %s%s}\n", addr, soon, more.settings))
			stop := make(chan struct{})
			clients := b.callers(t, s.URL, "mcp_web_count", 8, stop)
			a := &mcptest.Agent{URL: s.URL}
			for i := range kills() {
				b.grown(t, 50)
				up.kill()
				time.Sleep(200 * time.Millisecond) // calls come while nobody listens
				up = b.serve(t, addr)
				began := time.Now()
				served(t, a, "mcp_web_count", fmt.Sprintf(`{"key":"back %d"}`, i), "counted back")
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("the server is back, and served after %v", took)
				}
			}
			b.grown(t, 50)
			close(stop)
			clients.Wait()
			b.balance(t)
		})
	}
}

// TestRestartsStdio: a server's process is killed under the calls of eight clients.
func TestRestartsStdio(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := mcptest.StartSidecar(t, fmt.Sprintf("list_wait: 20s\nmcp_servers:\n  pipe: {command: %q, env: {%s: %q}, supports_parallel_tool_calls: true, %s}\n", exe, bookEnv, b.file, soon))
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

	// Without load: the next call is served after the server's own start.
	a := &mcptest.Agent{URL: s.URL}
	for i := range 3 {
		killServer(t, s, exe)
		key := fmt.Sprintf("next %d", i)
		for tries := 0; ; tries++ {
			began := time.Now()
			r := call(t, a, "mcp_pipe_count", `{"key":`+jsonOf(key)+`}`)
			if took := time.Since(began); r.Content() == "counted "+key && took < 5*time.Second {
				break
			}
			// The call may have been written before the death was noticed.
			if codeOf(r) != "UNCERTAIN" || tries > 0 {
				t.Fatalf("try %d: %.600s", tries, r.Body)
			}
		}
	}
}

// killServer kills the server's process outright.
func killServer(t *testing.T, s *mcptest.Sidecar, exe string) {
	t.Helper()
	var servers []proc
	waitFor(t, "the server to run", func() bool { servers = with(below(s.PID), exe); return len(servers) == 1 })
	syscall.Kill(servers[0].pid, syscall.SIGKILL)
	waitFor(t, "the server to be dead", func() bool { return len(left(servers)) == 0 })
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
