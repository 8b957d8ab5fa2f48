package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// dialSelf starts the test binary as a server of the given manner.
func dialSelf(t testing.TB, manner string) conn {
	t.Helper()
	c, err := dialStdio(t.Context(), resolveSelf(t, self(t, "fake-server", manner)), env{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func call(t testing.TB, c conn, method, params string) []byte {
	t.Helper()
	r, err := c.Do(t.Context(), &Call{Method: method, Params: []byte(params)})
	if err != nil || r.Error != nil {
		t.Fatalf("%s: got %v, %s", method, err, r.Error)
	}
	return r.Result
}

func TestStdioEras(t *testing.T) {
	for _, tt := range []struct {
		manner string
		want   Era
	}{
		{"legacy", Legacy},
		{"modern", Modern},
		{"initialize-first", Legacy}, // R21: exits on anything else; a fresh process cures it
	} {
		t.Run(tt.manner, func(t *testing.T) {
			t.Parallel()
			c := dialSelf(t, tt.manner)
			defer c.Close()
			info := c.Info()
			if info.Era != tt.want || !info.Has("tools") || info.PID == 0 || !bytes.Contains(info.ServerInfo, []byte("fake")) {
				t.Errorf("got %+v", info)
			}
			got := string(call(t, c, "echo", `{"n":9007199254740993,"s":"é"}`))
			if !strings.Contains(got, `"n":9007199254740993,"s":"é"`) || strings.Contains(got, "_meta") != (tt.want == Modern) {
				t.Errorf("the server saw %s", got)
			}
			pid := info.PID
			c.Close()
			if lives(pid) {
				t.Error("the process outlives Close")
			}
			if _, err := c.Do(t.Context(), &Call{Method: "echo"}); KindOf(err) != Unreachable {
				t.Errorf("after Close: got %v", err)
			}
		})
	}
}

// R21: a remembered verdict spares the second process.
func TestStdioHint(t *testing.T) {
	r := resolveSelf(t, self(t, "fake-server", "initialize-first"))
	legacy := Legacy
	r.EraHint = &legacy
	c, err := startStdio(t.Context(), r, env{}, r.EraHint)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// R39: a start that fails says why, at once.
func TestStdioCrashAtStart(t *testing.T) {
	s := self(t, "fake-server", "crash")
	s.Env["DB_PASSWORD"] = "hunter2"
	_, err := dialStdio(t.Context(), resolveSelf(t, s), env{})
	if err == nil || KindOf(err) != Unreachable {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"upstream srv", "exited with status 3", "fatal: no database at [redacted]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
}

// A child that dies fails its calls at once, with its last words.
func TestStdioDeath(t *testing.T) {
	for _, tt := range []struct {
		method, want string
	}{
		{"die", "exited with status 7; stderr: out of memory"},
		{"half", "exited with status 0"},
	} {
		t.Run(tt.method, func(t *testing.T) {
			t.Parallel()
			c := dialSelf(t, "legacy")
			defer c.Close()
			idle := make(chan error, 1)
			go func() {
				_, err := c.Do(t.Context(), &Call{Method: "never"})
				idle <- err
			}()
			_, err := c.Do(t.Context(), &Call{Method: tt.method})
			if KindOf(err) != Uncertain || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err := <-idle; err == nil {
				t.Error("the other call got an answer")
			}
			<-c.Done()
			if c.Err() == nil {
				t.Error("no reason is given")
			}
		})
	}
}

// An answer that was written before the end is delivered.
func TestStdioLastWords(t *testing.T) {
	c := dialSelf(t, "legacy")
	defer c.Close()
	if got := call(t, c, "last-words", "{}"); string(got) != `{"last":true}` {
		t.Errorf("got %s", got)
	}
}

// R19, S4: an answer over the limit fails its call; the connection stays.
func TestStdioBigAnswer(t *testing.T) {
	s := self(t, "fake-server", "legacy")
	s.MaxMessageBytes = 1 << 20
	c, err := dialStdio(t.Context(), resolveSelf(t, s), env{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do(t.Context(), &Call{Method: "big"}); KindOf(err) != TooLarge || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("got %v", err)
	}
	call(t, c, "echo", "{}")
	s.MaxMessageBytes = 0 // 16 MiB
	wide, err := dialStdio(t.Context(), resolveSelf(t, s), env{})
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	if got := call(t, wide, "big", "{}"); len(got) < 2<<20 {
		t.Errorf("got %d bytes", len(got))
	}
}

// S7: a flood on standard error holds nothing up.
func TestStdioFlood(t *testing.T) {
	c := dialSelf(t, "flood")
	defer c.Close()
	for range 20 {
		call(t, c, "echo", "{}")
	}
}

// S8: a server that stops reading fails the call within the call's own limit.
func TestStdioNotReading(t *testing.T) {
	t.Parallel()
	c := dialSelf(t, "not-reading")
	defer c.Close()
	big := []byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	start := time.Now()
	_, err := c.Do(t.Context(), &Call{Method: "echo", Params: big, Timeout: 300 * time.Millisecond})
	if KindOf(err) != Timeout || time.Since(start) > 5*time.Second {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.Do(ctx, &Call{Method: "echo"}); !errors.Is(err, context.Canceled) {
		t.Errorf("second call: got %v", err)
	}
}

// R10: many first calls share one process, and no two calls their answers.
func TestStdioConcurrent(t *testing.T) {
	c := dialSelf(t, "legacy")
	defer c.Close()
	var wg sync.WaitGroup
	var wrong atomic.Int32
	for i := range 200 {
		wg.Go(func() {
			want := fmt.Sprintf(`{"n":%d}`, i)
			r, err := c.Do(t.Context(), &Call{Method: "echo", Params: []byte(want)})
			if err != nil || string(r.Result) != want {
				wrong.Add(1)
			}
		})
	}
	wg.Wait()
	if n := wrong.Load(); n != 0 {
		t.Errorf("%d answers were wrong", n)
	}
}

// A grandchild that keeps the pipes open does not hide the leader's death.
func TestStdioLauncherDies(t *testing.T) {
	t.Parallel()
	s := self(t, "fake-server", "launcher")
	file := filepath.Join(t.TempDir(), "pid")
	s.Env["PID_FILE"] = file
	r := resolveSelf(t, s)
	r.Protocol = LegacyOnly
	start := time.Now()
	_, err := dialStdio(t.Context(), r, env{})
	if KindOf(err) != Unreachable || time.Since(start) > 8*time.Second {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
	if pid := readPID(t, file); lives(pid) {
		t.Errorf("the grandchild %d lives on", pid)
	}
}

// A child that is killed is reported with its signal, and its connection ends.
func TestStdioKilled(t *testing.T) {
	c := dialSelf(t, "legacy")
	defer c.Close()
	syscall.Kill(c.Info().PID, syscall.SIGKILL)
	<-c.Done()
	if !strings.Contains(c.Err().Error(), "signal 9") {
		t.Errorf("got %v", c.Err())
	}
}

// C10: arguments reach the program as they are, without a shell.
func TestStdioArguments(t *testing.T) {
	args := []string{"a b", "$(touch /tmp/x)", "*", "", "é;'\""}
	s := self(t, append([]string{"fake-server", "legacy"}, args...)...)
	c, err := dialStdio(t.Context(), resolveSelf(t, s), env{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := string(call(t, c, "environ", "{}")); !strings.Contains(got, `"args":["legacy","a b","$(touch /tmp/x)","*","","é;'\""]`) {
		t.Errorf("got %s", got)
	}
}

func BenchmarkStdio1K(b *testing.B) {
	exe, _ := os.Executable()
	s := &Settings{Command: exe, Args: []string{"fake-server", "legacy"}}
	c, err := dialStdio(b.Context(), resolveSelf(b, s), env{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	params := []byte(`{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 1000) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Do(b.Context(), &Call{Method: "echo", Params: params}); err != nil {
			b.Fatal(err)
		}
	}
}
