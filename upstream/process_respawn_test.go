package upstream

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The variables by which an heir finds what its forerunners left.
const (
	heirBook  = "HEIR_BOOK"  // its directory, with a file named by each process
	heirFirst = "HEIR_FIRST" // what it does before it serves
)

// fakeHeir plays a server that notes which processes of its forerunners it met
// alive, and leaves a grandchild behind that ignores SIGTERM.
func fakeHeir() {
	dir := os.Getenv(heirBook)
	var met []string
	for _, pid := range bookPIDs(dir) {
		if lives(pid) {
			met = append(met, strconv.Itoa(pid))
		}
	}
	os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), []byte(strings.Join(met, " ")), 0o600)
	for _, what := range strings.Split(os.Getenv(heirFirst), ",") {
		switch what {
		case "stubborn":
			signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		case "family":
			os.Setenv("PID_FILE", filepath.Join(dir, "child"))
			grandchild()
			os.Rename(filepath.Join(dir, "child"), filepath.Join(dir, "child-of-"+strconv.Itoa(os.Getpid())))
		}
	}
}

// bookPIDs are all processes in the book, children too.
func bookPIDs(dir string) (pids []int) {
	for _, f := range readDir(dir) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			b, _ := os.ReadFile(filepath.Join(dir, f))
			pid, _ = strconv.Atoi(string(b))
		}
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func readDir(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// leaders are the servers in the book, and what each met.
func leaders(dir string) map[string]string {
	met := map[string]string{}
	for _, f := range readDir(dir) {
		if _, err := strconv.Atoi(f); err == nil {
			b, _ := os.ReadFile(filepath.Join(dir, f))
			met[f] = string(b)
		}
	}
	return met
}

// runHeirs runs a set of one such server and returns it when that is ready.
func runHeirs(t *testing.T, s *Settings, opt Options) (set *Set, stop func()) {
	t.Helper()
	set, err := NewSet([]Server{{Name: "srv", Settings: s}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	return set, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func heir(t *testing.T, first string) (s *Settings, book string) {
	book = t.TempDir()
	s = self(t, "fake-server", "heir")
	s.Env[heirBook], s.Env[heirFirst] = book, first
	s.Protocol = "legacy"
	s.Lifecycle = Lifecycle{StopGrace: 50 * time.Millisecond, RetryPause: 10 * time.Millisecond, RetryPauseMax: 10 * time.Millisecond, ReconnectRetries: 1000}
	return s, book
}

func callHeir(set *Set, method string) error {
	_, err := set.Do(context.Background(), Target{Server: "srv"}, &Call{Method: method})
	return err
}

// Hermes 57228, 57355, 60385: before a server is started again all of its
// forerunner is gone, also where that, or what it started, ignores SIGTERM.
func TestOneFamilyAtATime(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"", "family", "stubborn,family"} {
		for _, end := range []string{"die", "mute"} {
			t.Run(first+" "+end, func(t *testing.T) {
				t.Parallel()
				s, book := heir(t, first)
				set, stop := runHeirs(t, s, Options{})
				defer stop()
				for n := 1; n <= 3; n++ {
					polled(t, fmt.Sprintf("start %d", n), 20*time.Second, func() bool {
						st, _ := set.Status("srv")
						return st.State == Ready && len(leaders(book)) == n
					})
					if n < 3 {
						callHeir(set, end)
					}
				}
				stop()
				for pid, met := range leaders(book) {
					if met != "" {
						t.Errorf("%s met %s alive", pid, met)
					}
				}
				for _, pid := range bookPIDs(book) {
					if lives(pid) {
						t.Errorf("%d outlives the set", pid)
					}
				}
			})
		}
	}
}

// R10: twenty first calls start one process.
func TestFirstCallsStartOne(t *testing.T) {
	t.Parallel()
	s, book := heir(t, "")
	set, stop := runHeirs(t, s, Options{})
	defer stop()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := callHeir(set, "echo"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := leaders(book); len(got) != 1 {
		t.Errorf("%d processes were started", len(got))
	}
}

// S10: a server that ends at once is started as often as its backoff has it and no
// more, however many calls want it.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	book := t.TempDir()
	s := &Settings{Command: "/bin/sh", Args: []string{"-c", `>"$0/$$"; echo "no database" >&2; exit 3`, book}}
	s.Lifecycle = Lifecycle{ConnectRetries: 2, RetryPause: 20 * time.Millisecond, ProbeInterval: time.Hour}
	set, stop := runHeirs(t, s, Options{})
	defer stop()
	polled(t, "the server is parked", 20*time.Second, func() bool {
		st, _ := set.Status("srv")
		return st.State == Parked
	})
	started := len(readDir(book))
	if most := 2 * 3; started > most { // each of three attempts may take a second process, for the era
		t.Errorf("%d starts, want at most %d", started, most)
	}
	for range 200 {
		err := callHeir(set, "echo")
		if KindOf(err) != Unreachable || !strings.Contains(err.Error(), "exited with status 3; stderr: no database") {
			t.Fatalf("got %v", err)
		}
	}
	if n := len(readDir(book)) - started; n > 4 {
		t.Errorf("200 calls started %d more", n)
	}
}
