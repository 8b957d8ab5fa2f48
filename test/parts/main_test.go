//go:build npm

package parts

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

// patience bounds the wait for what another process does.
const patience = 30 * time.Second

// TestMain runs the tests in a network of their own, where they may have addresses
// that are not loopback's and that nobody else reaches.
func TestMain(m *testing.M) {
	mcptest.Main()
	serveCurl()
	serveCount()
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "no_proxy"} {
		os.Unsetenv(name)
		os.Unsetenv(strings.ToUpper(name))
	}
	enterNetwork()
	flag.Parse()
	flag.Set("test.parallel", "6")
	os.Exit(evil.Run(m))
}

// longRun reports whether the suites may take long.
func longRun() bool { return os.Getenv("MCP_SIDECAR_LONG") != "" }

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// program is the path of a program, for which a test is skipped if it is not there:
// a machine without it can test everything else. Debian has the name's package.
func program(t *testing.T, pkg string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
		for _, dir := range []string{"/usr/sbin", "/sbin"} {
			if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return p
			}
		}
	}
	t.Skipf("%s is not installed; Debian's package %s has it", names[0], pkg)
	return ""
}

// A service is a program that runs until the test ends, or is killed.
type service struct {
	cmd  *exec.Cmd
	out  printed
	done chan struct{}
}

// printed keeps what a program says.
type printed struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

// start runs a program and waits until it listens on addr. Env is added.
func start(t *testing.T, addr string, env []string, path string, args ...string) *service {
	t.Helper()
	s := &service{cmd: exec.Command(path, args...), done: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.SysProcAttr = attr()
	started := make(chan error)
	go s.run(started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	waitFor(t, fmt.Sprintf("%s to listen on %s", filepath.Base(path), addr), func() bool {
		select {
		case <-s.done:
			t.Fatalf("%s ended:\n%s", path, s.out.String())
		default:
		}
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

// run keeps its thread, since with that the system would end the program, too.
func (s *service) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	started <- err
	if err == nil {
		s.cmd.Wait()
		close(s.done)
	}
}

// given are the ports that tests have got, of which some may not be in use yet.
var given sync.Map

// newPort is a loopback port that no other test has got.
func newPort(t *testing.T) int {
	t.Helper()
	for {
		port := mcptest.FreePort(t)
		if _, taken := given.LoadOrStore(port, true); !taken {
			return port
		}
	}
}

// kill ends the program's group at once. It may be called again.
func (s *service) kill() {
	select {
	case <-s.done:
		return
	default:
	}
	syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.done
}

// waitFor polls for what other processes do.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// call calls a tool; arguments are raw.
func call(t *testing.T, a *mcptest.Agent, tool, arguments string) *mcptest.Reply {
	t.Helper()
	r, err := a.Call(t.Context(), tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// served waits until a server's tool answers with a text that holds want.
func served(t *testing.T, a *mcptest.Agent, tool, arguments, want string) {
	t.Helper()
	var last *mcptest.Reply
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		last = call(t, a, tool, arguments)
		if !last.IsToolError() && strings.Contains(last.Content(), want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v later %s still answers %.600s", patience, tool, last.Body)
		}
	}
}

// codeOf is the code at the end of a tool error, without MCPS-.
func codeOf(r *mcptest.Reply) string {
	_, code, _ := strings.Cut(r.Content(), "(code MCPS-")
	return strings.TrimSuffix(code, ")")
}

// write writes a file below dir and returns its path.
func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}
