package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// resolveSelf resolves settings under the environment of the test itself.
func resolveSelf(t testing.TB, s *Settings) *Resolved {
	t.Helper()
	r, err := s.Resolve("srv", "", Vars{}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lives is false for zombies: whether somebody collects them is not ours to say.
func lives(pid int) bool {
	if p, ok := readStat(pid); ok && p.state == 'Z' {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

// polled polls what another process does.
func polled(t testing.TB, what string, d time.Duration, f func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

func readPID(t testing.TB, file string) (pid int) {
	t.Helper()
	polled(t, "the grandchild's pid", 10*time.Second, func() bool {
		b, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(b))
		return pid > 0
	})
	return pid
}

// S11, R10: the whole group goes, also members that ignore SIGTERM.
func TestStopEndsTheGroup(t *testing.T) {
	t.Parallel()
	for _, manner := range []string{"stubborn-family", "launcher"} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			s := self(t, "fake-server", manner)
			file := filepath.Join(t.TempDir(), "pid")
			s.Env["PID_FILE"] = file
			s.Lifecycle.StopGrace = 300 * time.Millisecond
			p, err := startProcess(resolveSelf(t, s), &env{})
			if err != nil {
				t.Fatal(err)
			}
			pid := readPID(t, file)
			start := time.Now()
			p.stop()
			// Input closed, SIGTERM, SIGKILL: two graces, and what the machine takes.
			if d := time.Since(start); d < s.Lifecycle.StopGrace || d > 1800*time.Millisecond {
				t.Errorf("stop took %v", d)
			}
			if lives(p.pid) || lives(pid) {
				t.Errorf("child %d lives: %v, grandchild %d lives: %v", p.pid, lives(p.pid), pid, lives(pid))
			}
		})
	}
}

func TestSafeGroup(t *testing.T) {
	for _, pgid := range []int{-5, 0, 1, syscall.Getpgrp()} {
		if safeGroup(pgid) || groupAlive(pgid) || signalGroup(pgid, 0) {
			t.Errorf("group %d would be signalled", pgid)
		}
	}
}

// R40: what kept a process from starting is told apart.
func TestSpawnErrors(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tt := range []struct {
		name  string
		r     Resolved
		fault string
		is    error
	}{
		{"gone", Resolved{Command: dir + "/gone"}, "does not exist", fs.ErrNotExist},
		{"no interpreter", Resolved{Command: script("bad", "#!/no/such/interpreter\n", 0o755)}, "interpreter", fs.ErrNotExist},
		{"not executable", Resolved{Command: script("plain", "", 0o644)}, "may not be executed", fs.ErrPermission},
		{"no program", Resolved{Command: script("text", "hello", 0o755)}, "not a program", syscall.ENOEXEC},
		{"cwd", Resolved{Command: "/bin/sh", Dir: dir + "/gone"}, "cwd", fs.ErrNotExist},
	} {
		for _, e := range []*env{{}, {limiter: []string{self(t).Command, "fake-limiter"}}} {
			t.Run(fmt.Sprintf("%s, limits %v", tt.name, e.limiter != nil), func(t *testing.T) {
				tt.r.Settings = new(Settings)
				if e.limiter != nil {
					tt.r.Settings.Rlimits.NoFile = 64
				}
				p, err := startProcess(&tt.r, e)
				if err == nil {
					p.stop()
					t.Fatal("it started")
				}
				if !strings.Contains(err.Error(), tt.fault) || !errors.Is(err, tt.is) {
					t.Errorf("got %v, want %q and %v", err, tt.fault, tt.is)
				}
			})
		}
	}
}

func TestSpawnGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(1)
		leave, err := g.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("second: got %v, want the deadline", err)
		}
		start := time.Now()
		second, err := g.enter(t.Context()) // the first hangs: its slot comes free by itself
		if err != nil || time.Since(start) != gateHold-time.Second {
			t.Fatalf("got %v after %v", err, time.Since(start))
		}
		leave()
		leave() // too late: must not free the second's slot
		if len(g.slots) != 1 {
			t.Errorf("got %d slots taken, want 1", len(g.slots))
		}
		second()
		if len(g.slots) != 0 {
			t.Errorf("got %d slots taken, want 0", len(g.slots))
		}
	})
	leave, err := (*spawnGate)(nil).enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leave()
}

// S7: standard error is bounded and scrubbed.
func TestStderrTail(t *testing.T) {
	scrub := func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	tail := newStderrTail(slog.New(slog.DiscardHandler), scrub)
	tail.drain(strings.NewReader(strings.Repeat("old line\n", 20_000) + "a\x1b[31mred\x1b[0m\x07\xff hunter2\n\n  last\tone\r\n"))
	got := tail.tail()
	if want := "old line | ared? [redacted] | last one"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end in %q", got, want)
	}
	if len(got) > stderrInError || len(tail.ring) != stderrKept {
		t.Errorf("got %d bytes in the error, %d kept", len(got), len(tail.ring))
	}
}

// The log gets lines without secrets, also where one is cut.
func TestStderrLog(t *testing.T) {
	h := &blockedLog{gate: make(chan struct{})}
	close(h.gate)
	scrub := func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	tail := newStderrTail(slog.New(h), scrub)
	tail.drain(strings.NewReader(strings.Repeat("x", stderrLine-3) + "hunter2\nend\n"))
	polled(t, "lines in the log", 5*time.Second, func() bool { return strings.Contains(h.String(), "end") })
	if got := h.String(); strings.Contains(got, "hun") || !strings.Contains(got, "xxx[re") {
		t.Errorf("got %s", got[stderrLine-20:])
	}
}

// A log that blocks costs lines, not the child's time.
func TestStderrLogBlocks(t *testing.T) {
	h := &blockedLog{gate: make(chan struct{})}
	tail := newStderrTail(slog.New(h), strings.ToUpper)
	tail.drain(strings.NewReader(strings.Repeat("line\n", 10_000))) // must return
	close(h.gate)
	polled(t, "lines in the log", 5*time.Second, func() bool { return strings.Contains(h.String(), "LINE") })
	polled(t, "the count of dropped lines", 5*time.Second, func() bool {
		return tail.dropped.Load() > 0 || strings.Contains(h.String(), "count")
	})
}

type blockedLog struct {
	slog.Handler
	gate chan struct{}
	mu   sync.Mutex
	buf  bytes.Buffer
}

func (*blockedLog) Enabled(context.Context, slog.Level) bool { return true }
func (h *blockedLog) Handle(_ context.Context, r slog.Record) error {
	<-h.gate
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool { h.buf.WriteString(a.String()); return true })
	return nil
}
func (h *blockedLog) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}
