package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// shellEntry is a server that a shell becomes after it has run before.
func shellEntry(t *testing.T, name, before string, settings ...string) string {
	t.Helper()
	u := &mcptest.Upstream{Tools: []string{tool("fine")}}
	exe, env := u.Command(t)
	args, err := json.Marshal([]string{"-c", strings.TrimSpace(before + ` exec "$0"`), exe})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  %s: {command: /bin/sh, args: %s, env: %s%s}\n", name, args, jsonText(env), strings.Join(append([]string{""}, settings...), ", "))
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// answering waits until the tool fine of a server answers.
func answering(t *testing.T, s *mcptest.Sidecar, servers ...string) {
	t.Helper()
	a := &mcptest.Agent{URL: s.URL}
	for _, name := range servers {
		eventually(t, name+" answers", func() bool {
			r, err := a.Call(t.Context(), "mcp_"+name+"_fine", "{}")
			return err == nil && r.Content() == "{}"
		})
	}
}

const (
	// family leaves a grandchild that ignores SIGTERM in the group.
	family = `trap "" TERM HUP; (while :; do sleep 0.2; done) &`
	// orphans leaves fifty that end soon, and whose parents end before.
	orphans = `i=0; while [ $i -lt 50 ]; do ( (sleep 0.0$((i % 10)); : >"$BOOK/$i") & ); i=$((i + 1)); done;`
	// forkedTwice leaves one in a session of its own, as programs do that fork twice.
	forkedTwice = `(setsid sleep 600 &);`
)

// R10, S11: of a program that is killed outright nothing is left, whether a server
// ignores SIGTERM, has children that do, or was started under limits.
func TestKilledOutright(t *testing.T) {
	config := "mcp_servers:\n" +
		shellEntry(t, "plain", "") + shellEntry(t, "family", family) +
		shellEntry(t, "limited", family, "rlimits: {nofile: 256, core: 0}")
	s := mcptest.StartSidecar(t, config)
	answering(t, s, "plain", "family", "limited")
	var all []mcptest.Process
	eventually(t, "three servers, two families, a guard", func() bool {
		all = mcptest.Below(s.PID)
		return len(all) >= 3+2+1
	})
	for _, p := range all {
		if strings.Contains(p.Line, "run-limited") {
			t.Errorf("process %d is still in between: %s", p.PID, p.Line)
		}
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything that it started is gone", func() bool { return len(mcptest.Running(all)) == 0 })
}

// S11, S12, Hermes 11202: as PID 1 the program leaves no zombie, of a server that is
// restarted neither, and what left its server's group ends with the namespace.
func TestAsPID1(t *testing.T) {
	real, book := mcptest.Binary(t), t.TempDir()
	t.Setenv("MCP_SIDECAR_BIN", inNamespace(t, real))
	config := filepath.Join(t.TempDir(), "c.yaml")
	text := "mcp_servers:\n" + shellEntry(t, "plain", "") +
		strings.Replace(shellEntry(t, "forking", orphans+forkedTwice), "env: {", "env: {BOOK: "+strconv.Quote(book)+", ", 1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mcptest.StartServe(t, "--config", config, "--insecure-no-auth")
	first := one(t, s.PID, real) // PID 1 of its namespace, by its number in ours
	ended := false
	defer func() {
		if !ended {
			syscall.Kill(first, syscall.SIGKILL)
		}
	}()
	answering(t, s, "plain", "forking")
	calm := func() bool {
		done, _ := filepath.Glob(book + "/*")
		list := mcptest.Below(first)
		for _, p := range list {
			if p.Zombie {
				return false
			}
		}
		return len(done) == 50 && len(list) >= 3
	}
	eventually(t, "fifty ended, and none is a zombie", calm)
	for range 3 {
		var server int
		eventually(t, "the server that forks runs", func() bool { server = serverBelow(first); return server != 0 })
		syscall.Kill(server, syscall.SIGKILL)
		eventually(t, "another runs", func() bool { n := serverBelow(first); return n != 0 && n != server })
	}
	answering(t, s, "plain", "forking")
	eventually(t, "none is a zombie after restarts", calm)
	all := mcptest.Below(first)
	syscall.Kill(first, syscall.SIGTERM)
	eventually(t, "the namespace is empty", func() bool { return len(mcptest.Running(all)) == 0 })
	ended = true
}

// inNamespace is a script that runs the program as PID 1.
func inNamespace(t *testing.T, real string) string {
	t.Helper()
	flags := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Getuid() != 0 {
		flags = append(flags, "--user", "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(flags, "true")...).CombinedOutput(); err != nil {
		t.Skipf("needs a PID namespace of its own: unshare: %v: %s", err, out)
	}
	script := filepath.Join(t.TempDir(), "serve")
	text := fmt.Sprintf("#!/bin/sh\nexec unshare %s '%s' \"$@\"\n", strings.Join(flags, " "), real)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

// one is the only child of a process, which must be of this program.
func one(t *testing.T, parent int, program string) (pid int) {
	t.Helper()
	for _, p := range mcptest.Processes() {
		if p.Parent == parent && strings.HasPrefix(p.Line, program+" ") {
			pid = p.PID
		}
	}
	if pid == 0 {
		t.Fatalf("process %d has no child that is %s", parent, program)
	}
	return pid
}

// serverBelow is the server that forks: of the two the younger.
func serverBelow(first int) (pid int) {
	exe, _ := os.Executable()
	for _, p := range mcptest.Below(first) {
		if p.Parent == first && !p.Zombie && strings.HasPrefix(p.Line, exe) {
			pid = max(pid, p.PID)
		}
	}
	return pid
}
