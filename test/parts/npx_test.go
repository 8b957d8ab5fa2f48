//go:build npm

package parts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// npx is an entry whose server npx starts, as most people start theirs: npx, a shell,
// and Node below it. Nothing is downloaded.
func npx(t *testing.T, name string, settings ...string) string {
	t.Helper()
	dir := filepath.Dir(filepath.Dir(mcptest.Module(t, "test/node", ".bin/mcp-server-everything")))
	more := append(settings, "connect_timeout: 60s")
	return fmt.Sprintf("  %s: {command: %q, args: [--no-install, mcp-server-everything], cwd: %q, env: {npm_config_update_notifier: 'false'}, %s}\n",
		name, program(t, "npm", "npx"), filepath.Dir(dir), strings.Join(more, ", "))
}

// TestKilledWithNpx: of a program that is killed outright nothing is left, children
// of children neither.
func TestKilledWithNpx(t *testing.T) {
	t.Parallel()
	needsProc(t)
	s := mcptest.StartSidecar(t, "list_wait: 60s\nmcp_servers:\n"+npx(t, "one")+npx(t, "two"))
	a := &mcptest.Agent{URL: s.URL}
	for _, name := range []string{"one", "two"} {
		if r := call(t, a, "mcp_"+name+"_echo", `{"message":"hello"}`); r.Content() != "Echo: hello" {
			t.Fatalf("%s: %.600s", name, r.Body)
		}
	}
	all := mcptest.Below(s.PID)
	depth := 0
	for _, p := range all {
		if p.Parent != s.PID {
			depth++
		}
	}
	if depth < 2 {
		t.Errorf("no children of children: %v", all)
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "everything that it started to be gone", func() bool { return len(mcptest.Running(all)) == 0 })
}

// TestLazyWithNpx: a server whose lists are known from before starts with its first
// call, and once when there are twenty of them.
func TestLazyWithNpx(t *testing.T) {
	t.Parallel()
	needsProc(t)
	state := t.TempDir()
	config := filepath.Join(t.TempDir(), "mcp-sidecar.yaml")
	log := filepath.Join(t.TempDir(), "starts")
	launcher := filepath.Join(t.TempDir(), "launch")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >>%s\nexec \"$@\"\n", log)
	if err := os.WriteFile(launcher, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	// The launcher notes each start.
	entry := npx(t, "idle", "lazy: true")
	path := program(t, "npm", "npx")
	entry = strings.Replace(entry, fmt.Sprintf("command: %q, args: [", path), fmt.Sprintf("command: %q, args: [%q, ", launcher, path), 1)
	if err := os.WriteFile(config, []byte("list_wait: 60s\nmcp_servers:\n"+entry), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", config, "--insecure-no-auth", "--state-dir", state}
	first := mcptest.StartServe(t, args...)
	if r := call(t, &mcptest.Agent{URL: first.URL}, "mcp_idle_echo", `{"message":"hello"}`); r.Content() != "Echo: hello" {
		t.Fatalf("the first life: %.600s", r.Body)
	}
	all := mcptest.Below(first.PID)
	syscall.Kill(first.PID, syscall.SIGTERM)
	waitFor(t, "the first life to end", func() bool { return len(mcptest.Running(all)) == 0 })
	if n := starts(t, log); n != 1 {
		t.Errorf("%d starts in the first life", n)
	}

	s := mcptest.StartServe(t, args...)
	a := &mcptest.Agent{URL: s.URL}
	if tools, err := a.Tools(t.Context()); err != nil || tools["mcp_idle_echo"] == nil || starts(t, log) != 1 {
		t.Fatalf("%v: %d tools, %d starts before any call", err, len(tools), starts(t, log))
	}
	if !strings.Contains(s.Log(), "(lazy, starts on first use)") || !strings.Contains(s.Log(), "1 lazy, not spawned yet") {
		t.Errorf("the summary does not say so:\n%s", s.Log())
	}
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			want := fmt.Sprintf("call %d", i)
			r, err := (&mcptest.Agent{URL: s.URL}).Call(t.Context(), "mcp_idle_echo", `{"message":`+jsonOf(want)+`}`)
			if err != nil || r.Content() != "Echo: "+want {
				t.Errorf("%s: %v %.300s", want, err, jsonOf(r))
			}
		})
	}
	callers.Wait()
	if n := starts(t, log); n != 2 {
		t.Errorf("20 first calls started %d processes", n-1)
	}
}

func starts(t *testing.T, log string) int {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}
