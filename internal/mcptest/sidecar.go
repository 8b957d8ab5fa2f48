package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binEnv names a program that is already built; make test sets it.
const binEnv = "MCP_SIDECAR_BIN"

var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Run is the body of a TestMain: it serves as a stdio upstream when the binary
// was started as one, runs the tests otherwise, and removes what Binary built.
func Run(m *testing.M) int {
	Main()
	defer func() { os.RemoveAll(built.dir) }()
	return m.Run()
}

// Binary returns the path of the program under test: $MCP_SIDECAR_BIN, or one
// that it builds once. TestMain must call Run.
func Binary(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(binEnv); p != "" {
		return p
	}
	built.once.Do(build)
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func build() {
	root, err := Root()
	if err != nil {
		built.err = err
		return
	}
	if built.dir, built.err = os.MkdirTemp("", "mcp-sidecar-test"); built.err != nil {
		return
	}
	built.path = filepath.Join(built.dir, "mcp-sidecar")
	cmd := exec.Command("go", "build", "-o", built.path, "./cmd/mcp-sidecar")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		built.err = fmt.Errorf("go build ./cmd/mcp-sidecar: %v\n%s", err, out)
	}
}

// Root is the directory of go.mod, upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = up
	}
	return "", err
}

// Sidecar is the program, serving one configuration on loopback ports.
type Sidecar struct {
	// Base is http://127.0.0.1:PORT; URL is its /mcp.
	Base, URL string
	// Ops is the base URL of the operations listener.
	Ops string
	// PID is that of the process.
	PID int

	log  lockedBuffer
	done chan struct{}
}

// The bounds of a sidecar's life in a test.
const (
	startLimit = 30 * time.Second
	stopLimit  = 15 * time.Second
)

// StartSidecar runs `serve` over a configuration in YAML until the test ends,
// without authentication unless args say otherwise, and waits for /startupz.
func StartSidecar(t testing.TB, config string, args ...string) *Sidecar {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-sidecar.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartServe(t, append([]string{"--config", file, "--insecure-no-auth"}, args...)...)
}

// StartServe runs `serve` with these arguments besides the listeners and the
// state directory.
func StartServe(t testing.TB, args ...string) *Sidecar {
	t.Helper()
	s := LaunchServe(t, args...)
	s.wait(t, "/startupz", func() bool { return s.answers("/startupz") })
	return s
}

// LaunchServe is StartServe for those who want to see how the servers start: it
// returns as soon as the listeners are open.
func LaunchServe(t testing.TB, args ...string) *Sidecar {
	t.Helper()
	s := &Sidecar{done: make(chan struct{})}
	all := append([]string{"serve",
		"--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--state-dir", filepath.Join(t.TempDir(), "state")}, args...)
	cmd := exec.Command(Binary(t), all...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.PID = cmd.Process.Pid
	go func() {
		defer close(s.done)
		cmd.Wait()
	}()
	t.Cleanup(func() { s.stop(t, cmd.Process) })
	s.wait(t, "its addresses", s.announced)
	return s
}

// announcement is what serve prints of its listeners.
var announcement = regexp.MustCompile(`(?s)endpoint +(http://[^/\n]+)/mcp\n.*health +(http://[^/\n]+)/readyz\n`)

// announced takes the addresses from what the program printed.
func (s *Sidecar) announced() bool {
	m := announcement.FindStringSubmatch(s.Log())
	if m == nil {
		return false
	}
	s.Base, s.URL, s.Ops = m[1], m[1]+"/mcp", m[2]
	return true
}

// wait polls: the process has no other way to tell.
func (s *Sidecar) wait(t testing.TB, what string, is func() bool) {
	t.Helper()
	limit := time.After(startLimit)
	for !is() {
		select {
		case <-s.done:
			t.Fatalf("mcp-sidecar ended:\n%s", s.Log())
		case <-limit:
			t.Fatalf("mcp-sidecar: no %s within %v:\n%s", what, startLimit, s.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Sidecar) answers(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Ops+path, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// stop ends the process; one that does not end is a failure of the test.
func (s *Sidecar) stop(t testing.TB, p *os.Process) {
	p.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(stopLimit):
		p.Kill()
		<-s.done
		t.Errorf("mcp-sidecar did not end within %v of SIGTERM", stopLimit)
	}
	if t.Failed() {
		t.Logf("mcp-sidecar said:\n%s", s.Log())
	}
}

// Log is what the program has printed, the last part when it is long.
func (s *Sidecar) Log() string { return s.log.String() }

// lockedBuffer keeps the last 64 KiB.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const keepLog = 64 << 10

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p)
	if over := b.buf.Len() - keepLog; over > 0 {
		b.buf.Next(over)
	}
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
