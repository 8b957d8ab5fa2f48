//go:build npm

package clients

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// converse runs a stdio bridge, hands it a script and returns its answers when
// there are n of them.
func converse(t *testing.T, script string, n int, args ...string) map[string]mcptest.Message {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), mcptest.Node(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer limit.Stop()
	io.WriteString(in, script)
	lines := take(out, n)
	in.Close()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()
	got := answers(lines)
	if len(got) < n {
		t.Fatalf("%d answers, want %d:\n%s\n%s", len(got), n, lines, errs.String())
	}
	return got
}

// take reads lines until n of them are answers, or to the end.
func take(out io.Reader, n int) string {
	var all strings.Builder
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 16<<20)
	for len(answers(all.String())) < n && sc.Scan() {
		all.WriteString(sc.Text() + "\n")
	}
	return all.String()
}
