package mcptest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nodeEnv names a Node.js of version 22.19 or newer; make test sets it.
const nodeEnv = "MCP_SIDECAR_TEST_NODE"

// Node returns the path of Node.js 22 as make test installs it from npm.
func Node(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(nodeEnv); p != "" {
		return p
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return Module(t, "test/node", fmt.Sprintf("node-%s-%s/bin/node", runtime.GOOS, arch))
}

// Module returns the path of a file below the node_modules of a directory of
// this project. It fails the test when npm did not install it.
func Module(t testing.TB, dir, file string) string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(root, dir, "node_modules", file)
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%v\nhint: make deps installs it", err)
	}
	return p
}

// A Program is a child process of a test, with all that it printed.
type Program struct {
	// Path and Args are what runs; Args does not repeat Path.
	Path string
	Args []string
	// Env is added to the test's own environment.
	Env []string
	// Dir is the working directory. If empty, the test's.
	Dir string
	// Stdin is what it reads. If empty, nothing.
	Stdin string
	// Limit bounds its life. If zero, one minute.
	Limit time.Duration
}

// Run runs the program to its end, kills its whole process group at the limit,
// and returns what it printed. err is not nil when it failed.
func (p *Program) Run(t testing.TB) (stdout, stderr string, err error) {
	t.Helper()
	limit := p.Limit
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Dir, cmd.Stdin = p.Dir, strings.NewReader(p.Stdin)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil && t.Context().Err() == nil {
		err = fmt.Errorf("not done after %v", limit)
	}
	return out.String(), errs.String(), err
}
