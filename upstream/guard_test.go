package upstream

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWatch(t *testing.T) {
	var signals []string
	live := map[int]bool{100: true, 200: true, 300: true}
	w := &watch{groups: map[int]bool{}, banned: map[int]bool{77: true},
		alive: func(pgid int) bool { return live[pgid] },
		signal: func(pgid int, sig syscall.Signal) bool {
			signals = append(signals, fmt.Sprint(pgid, " ", int(sig)))
			if sig == syscall.SIGTERM && pgid == 100 {
				delete(live, 100)
			}
			return live[pgid] || pgid == 100
		},
		sleep: func(time.Duration) {},
	}
	long := "+" + strings.Repeat("3", 200)
	w.read(strings.NewReader("+200\n+1\n+0\n+-1\n-\n+\n+77\nx300\n" + long + "\n+300\n+100\n-300\n+400\n+2" /* cut off */))
	if diff := cmp.Diff(map[int]bool{100: true, 200: true, 400: true}, w.groups); diff != "" {
		t.Fatalf("groups (-want +got):\n%s", diff)
	}
	w.groups = map[int]bool{100: true}
	w.end() // goes on SIGTERM
	w.groups = map[int]bool{200: true}
	w.end() // does not
	if diff := cmp.Diff([]string{"100 15", "200 15", "200 9"}, signals); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

func TestWatchRefusesItsOwn(t *testing.T) {
	w := newWatch()
	for _, pgid := range []int{os.Getpid(), os.Getppid(), syscall.Getpgrp()} {
		w.line(fmt.Sprintf("+%d", pgid))
	}
	if len(w.groups) != 0 {
		t.Errorf("got %v under watch", w.groups)
	}
}

func FuzzWatch(f *testing.F) {
	f.Add([]byte("+12\n-12\n+1\n"))
	f.Add([]byte("+99999999999999999999\n+\n\n-"))
	f.Fuzz(func(t *testing.T, in []byte) {
		w := newWatch()
		w.alive = func(int) bool { return true }
		w.read(strings.NewReader(string(in)))
		for pgid := range w.groups {
			if pgid <= 1 || w.banned[pgid] {
				t.Errorf("watches %d", pgid)
			}
		}
	})
}

func testGuard(t testing.TB) *Guard {
	return newGuard([]string{self(t).Command, "fake-guard"}, nil)
}

// fakeSidecar starts a server under guard, says so, and waits to be killed.
func fakeSidecar([]string) int {
	exe, _ := os.Executable()
	g := newGuard([]string{exe, "fake-guard"}, nil)
	s := &Settings{Command: exe, Args: []string{"fake-server", "stubborn-family"},
		Env: map[string]string{"PID_FILE": os.Getenv("PID_FILE"), quickExit: "atexit_sleep_ms=0"}}
	r, err := s.Resolve("srv", "", Vars{}, os.Environ())
	if err != nil {
		panic(err)
	}
	p, err := startProcess(r, &env{guard: g})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.pid)
	time.Sleep(time.Hour)
	return 0
}

// 11202, 29363, 47510: a sidecar that is killed outright leaves nobody behind, not
// even a grandchild that ignores SIGTERM.
func TestGuardAfterSIGKILL(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	c := exec.Command(self(t).Command, "fake-sidecar")
	c.Env = append(os.Environ(), "PID_FILE="+file)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(bufio.NewReader(out), &child); err != nil {
		t.Fatal(err)
	}
	grandchild := readPID(t, file)
	c.Process.Signal(syscall.SIGKILL)
	c.Wait()
	polled(t, "child and grandchild are gone", 15*time.Second, func() bool { return !lives(child) && !lives(grandchild) })
}

// fakeHurry starts three stubborn servers at once, tagged, and waits to be killed.
// args are the guard's command, if not the real one.
func fakeHurry(args []string) int {
	exe, _ := os.Executable()
	argv := []string{exe, "fake-guard"}
	if len(args) > 1 {
		argv = args[1:]
	}
	e := &env{guard: newGuard(argv, nil), limiter: []string{exe, "fake-limiter"}}
	s := new(Settings)
	if os.Getenv(hurryLimited) != "" {
		s.Rlimits.NoFile = 64
	}
	fmt.Println("begin")
	for range 3 {
		go startProcess(&Resolved{Server: "srv", Settings: s, Command: "/bin/sh", Args: []string{"-c",
			`trap "" TERM HUP INT; echo $$ >>"$0"; while :; do read x || sleep 0.2; done`, args[0]}, Env: os.Environ()}, e)
	}
	time.Sleep(time.Hour)
	return 0
}

// hurryLimited is set where the servers have rlimits.
const hurryLimited = "HURRY_LIMITED"

// leaveInAHurry kills a sidecar once ready says so and returns the tag of its servers.
func leaveInAHurry(t *testing.T, limited bool, ready func(tag string), guard ...string) (tag string) {
	t.Helper()
	tag = filepath.Join(t.TempDir(), "tag")
	t.Cleanup(func() {
		for _, pid := range tagged(tag) { // when the test failed
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	c := exec.Command(self(t).Command, append([]string{"fake-hurry", tag}, guard...)...)
	if limited {
		c.Env = append(os.Environ(), hurryLimited+"=1")
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(out).ReadString('\n')
	ready(tag)
	c.Process.Signal(syscall.SIGKILL)
	c.Wait()
	return tag
}

// tagged lists the processes with tag among their arguments.
func tagged(tag string) (pids []int) {
	eachProcess(func(p procStat) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if p.state != 'Z' && strings.Contains(string(b), tag) {
			pids = append(pids, p.pid)
		}
	})
	return pids
}

// A sidecar that is killed at any moment of its start leaves no server behind.
func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	rounds := 8
	if s := os.Getenv("KILL_ROUNDS"); s != "" {
		fmt.Sscan(s, &rounds)
	}
	for i := range rounds {
		moment := time.Duration(i*250/rounds) * time.Millisecond
		tag := leaveInAHurry(t, i%2 == 1, func(string) { <-time.After(moment) })
		polled(t, fmt.Sprintf("servers are gone after a kill at %v", moment), 15*time.Second, func() bool { return len(tagged(tag)) == 0 })
	}
}

// The servers themselves do not need the guard for that on Linux, nor does the
// signal get lost where a process in between sets their limits.
func TestKilledWithoutItsGuard(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a parent-death signal")
	}
	t.Parallel()
	for _, limited := range []bool{false, true} {
		tag := leaveInAHurry(t, limited, func(tag string) {
			polled(t, "the servers run", 10*time.Second, func() bool {
				b, _ := os.ReadFile(tag)
				return strings.Count(string(b), "\n") == 3
			})
		}, "/bin/true")
		polled(t, fmt.Sprintf("servers are gone (limits: %v)", limited), 5*time.Second, func() bool { return len(tagged(tag)) == 0 })
	}
}

// A child finds the guard in place.
func TestGuardComesFirst(t *testing.T) {
	t.Parallel()
	g := testGuard(t)
	defer g.Close()
	if _, err := startProcess(&Resolved{Command: "/no/such/program"}, &env{guard: g}); err == nil {
		t.Fatal("it started")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		t.Error("there is no guard yet")
	}
}

// A guard that does not come up is said to.
func TestGuardFails(t *testing.T) {
	h := &blockedLog{gate: make(chan struct{})}
	close(h.gate)
	g := newGuard([]string{"/bin/true"}, slog.New(h))
	defer g.Close()
	g.ready()
	if got := h.String(); !strings.Contains(got, "ended before it was ready") {
		t.Errorf("got %q", got)
	}
}

// A guard that dies is replaced, and the new one knows the old groups.
func TestGuardIsReplaced(t *testing.T) {
	t.Parallel()
	g := testGuard(t)
	s := self(t, "fake-server", "sleep-stubborn")
	first, err := startProcess(resolveSelf(t, s), &env{guard: g})
	if err != nil {
		t.Fatal(err)
	}
	killGuard(t, g)
	second, err := startProcess(resolveSelf(t, s), &env{guard: g})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(2, len(g.guarded())); diff != "" {
		t.Errorf("groups under guard (-want +got):\n%s", diff)
	}
	g.Close() // kills what is left under it, which is both
	for _, p := range []*process{first, second} {
		if !within(p.exited, 10*time.Second) {
			t.Errorf("process %d lives on", p.pid)
		}
		p.stop()
	}
	if n := len(g.guarded()); n != 0 {
		t.Errorf("got %d groups under guard, want 0", n)
	}
}

// killGuard kills the guard process and waits until that is known.
func killGuard(t *testing.T, g *Guard) {
	t.Helper()
	g.mu.Lock()
	pid, gone := g.pid, g.gone
	g.mu.Unlock()
	syscall.Kill(pid, syscall.SIGKILL)
	if !within(gone, 5*time.Second) {
		t.Fatal("the guard does not die")
	}
}

func TestNoGuard(t *testing.T) {
	var none *Guard
	none.add(5)
	none.remove(5)
	none.Close()
	if none.active() || (&Guard{}).active() {
		t.Error("a guard without a command is active")
	}
}

// guarded lists the groups under guard.
func (g *Guard) guarded() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []int
	for pgid := range g.groups {
		out = append(out, pgid)
	}
	slices.Sort(out)
	return out
}
