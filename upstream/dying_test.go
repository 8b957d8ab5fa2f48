package upstream

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fakeDying notes a start, and reports whether the server is cured.
func fakeDying() bool {
	os.WriteFile(filepath.Join(os.Getenv("DYING_BOOK"), strconv.Itoa(os.Getpid())), nil, 0o600)
	_, err := os.Stat(os.Getenv("DYING_CURE"))
	return err == nil
}

// dyingWorld runs one server behind a pipe, which ends at once while a file is not
// there, and counts its starts in a folder.
func dyingWorld(t *testing.T, manner string) (set *Set, book, cure string) {
	t.Helper()
	book, cure = t.TempDir(), filepath.Join(t.TempDir(), "cure")
	s := self(t, "fake-server", "dying", manner)
	s.Env["DYING_BOOK"], s.Env["DYING_CURE"] = book, cure
	s.Lifecycle = Lifecycle{RetryPause: 20 * time.Millisecond, RetryPauseMax: 40 * time.Millisecond, ConnectRetries: 1000}
	set, err := NewSet([]Server{{Name: "s", Settings: s}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return set, book, cure
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 10 s: " + what)
		}
	}
}

// A server that dies whatever its first message is gets one start for each pause.
// When it is well again, it is found to be what it is.
func TestDiesAnyway(t *testing.T) {
	for manner, want := range map[string]Era{"legacy": Legacy, "initialize-first": Legacy, "modern": Modern} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			set, book, cure := dyingWorld(t, manner)
			until(t, "six attempts", func() bool { st, _ := set.Status("s"); return st.Attempts >= 6 })
			st, _ := set.Status("s")
			if n := len(readDir(book)); n > st.Attempts+2 { // two in the first, and the one under way
				t.Errorf("%d starts in %d attempts", n, st.Attempts)
			}
			if got := st.Err.Error(); !strings.Contains(got, "status 9") || strings.Count(got, "upstream s") != 1 {
				t.Errorf("got %s", got)
			}
			if err := os.WriteFile(cure, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			until(t, "it is ready", func() bool { st, _ := set.Status("s"); return st.State == Ready })
			if st, _ := set.Status("s"); st.Info.Era != want {
				t.Errorf("era %v, want %v", st.Info.Era, want)
			}
		})
	}
}

func TestFirstWords(t *testing.T) {
	s := &server{}
	check := func(want string) {
		t.Helper()
		era, once := s.firstWords()
		got := "unknown"
		if era != nil {
			got = [...]string{Legacy: "legacy", Modern: "modern"}[*era]
		}
		if once {
			got += " once"
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check("unknown")
	s.dies.Store(true)
	check("legacy once")
	s.foundEra(Legacy)
	check("unknown") // it may be of both eras
	s.foundEra(Modern)
	check("modern")
	s.dies.Store(true)
	check("modern once")
	s.foundEra(Modern)
	check("modern")
}
