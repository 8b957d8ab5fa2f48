package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// fakeStarved takes from itself what a start needs, tries one, gives it back and
// tries again.
func fakeStarved(args []string) int {
	r := &Resolved{Server: "srv", Command: "/bin/sh", Args: []string{"-c", "read x"}, Env: os.Environ()}
	warmUp()
	if err := tryStart(r); err != nil {
		fmt.Println("before:", err)
		return 1
	}
	give := map[string]func() func(){"files": hoardFiles, "processes": noProcesses}[args[0]]()
	fmt.Println("starved:", tryStart(r))
	give()
	fmt.Println("after:", tryStart(r))
	return 0
}

func tryStart(r *Resolved) error {
	p, err := startProcess(r, &env{})
	if err == nil {
		p.stop()
	}
	return err
}

// warmUp has the runtime make its threads while it may.
func warmUp() {
	var up, down sync.WaitGroup
	up.Add(16)
	down.Add(1)
	for range 16 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			down.Wait()
		}()
	}
	up.Wait()
	down.Done()
}

func hoardFiles() (give func()) {
	var old syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old)
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: old.Max})
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	return func() {
		for _, f := range held {
			f.Close()
		}
	}
}

func noProcesses() (give func()) {
	var old syscall.Rlimit
	syscall.Getrlimit(rlimitNProc, &old)
	syscall.Setrlimit(rlimitNProc, &syscall.Rlimit{Cur: 1, Max: old.Max})
	return func() { syscall.Setrlimit(rlimitNProc, &old) }
}

// R40, S22: where the machine has no room the start fails with a clear text, the
// program lives, and the next start works.
func TestStarved(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{
		"files":     "no room for another open file",
		"processes": "no room for another process",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			out, err := unprivileged(t, "fake-starved", what).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if s := string(out); !strings.Contains(s, "starved: "+want) || !strings.Contains(s, "after: <nil>") {
				t.Errorf("got %s", s)
			}
		})
	}
}

// unprivileged is the test binary run by somebody whom the kernel counts the
// processes of: root's it does not.
func unprivileged(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(self(t).Command, args...)
	c.Env = append(os.Environ(), quickExit+"=atexit_sleep_ms=0")
	if os.Getuid() != 0 {
		return c
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.Path = copied(t, c.Path, filepath.Join(dir, "self"))
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61799, Gid: 61799}}
	return c
}

func copied(t *testing.T, from, to string) string {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil || out.Close() != nil {
		t.Fatal(err)
	}
	return to
}

// Failures of a start leave no file of ours open.
func TestSpawnErrorsLeaveNothing(t *testing.T) {
	limiter := []string{self(t).Command, "fake-limiter"}
	limited := &Settings{Rlimits: Rlimits{NoFile: 64}}
	before := len(openFiles())
	for range 3 {
		for _, r := range []*Resolved{
			{Command: "/no/such/program"},
			{Command: "/no/such/program", Settings: limited},
		} {
			if _, err := startProcess(r, &env{limiter: limiter}); err == nil {
				t.Fatal("it started")
			}
		}
		if _, err := startProcess(&Resolved{Command: "/bin/true", Settings: limited}, &env{}); !errors.As(err, new(*SettingError)) {
			t.Fatalf("without a limiter: got %v", err)
		}
	}
	if n := len(openFiles()); n > before {
		t.Errorf("%d files are open, %d were", n, before)
	}
}

// A person reads where the program was looked for, and what is wrong with it.
func TestMissingProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"no-such-server": `"no-such-server" is not on the server's PATH (` + dir + `); install it, or set env.PATH or an absolute command`,
		"plain":          dir + "/plain is not executable",
		dir + "/gone":    `"` + dir + `/gone": no such file`,
		"npx -y server":  `"npx" is followed by blanks`,
	} {
		_, err := (&Settings{Command: command}).Resolve("srv", "", Vars{}, []string{"PATH=" + dir})
		if err == nil || KindOf(err) != Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", command, err, want)
		}
	}
}

// A server that dies while its handshake runs is reported with its status and its
// last words, whichever message it died of, and so is one that is killed.
func TestDeathInHandshake(t *testing.T) {
	for script, want := range map[string]string{
		`echo "no licence" >&2; exit 4`:                    "exited with status 4; stderr: no licence",
		`read x; echo "bad message" >&2; exit 5`:           "exited with status 5; stderr: bad message",
		`read x; echo "\033[1mno room\033[0m" >&2; exit 6`: "exited with status 6; stderr: no room",
		`echo "about to go" >&2; kill -9 $$`:               "was ended by signal 9 (killed); stderr: about to go",
		`exec 1>&-; echo "mute" >&2; read x; read x; exit`: "stderr: mute",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := &Settings{Command: "/bin/sh", Args: []string{"-c", script}}
			_, err := dialStdio(t.Context(), resolveSelf(t, s), env{})
			if KindOf(err) != Unreachable || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// proxies are handed on only where that is asked for.
func TestInheritProxyEnv(t *testing.T) {
	parent := []string{"PATH=/bin:/usr/bin", "SECRET=1", "HTTPS_PROXY=http://p:1", "http_proxy=http://p:2", "NO_PROXY=x", "all_proxy=socks5://p:3"}
	for _, inherit := range []bool{false, true} {
		s := &Settings{Command: "/bin/sh", Args: []string{"-c", `env | sort; exit 0`}, InheritProxyEnv: inherit, Env: map[string]string{"NO_PROXY": "own"}}
		r, err := s.Resolve("srv", "", Vars{}, parent)
		if err != nil {
			t.Fatal(err)
		}
		p, err := startProcess(r, &env{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for in := bufio.NewScanner(p.stdout); in.Scan(); {
			seen[in.Text()] = true
		}
		p.stop()
		for _, kv := range parent[2:] {
			if want := inherit && kv != "NO_PROXY=x"; seen[kv] != want {
				t.Errorf("inherit_proxy_env %v: %s is there: %v", inherit, kv, seen[kv])
			}
		}
		if seen["SECRET=1"] || !seen["NO_PROXY=own"] {
			t.Errorf("inherit_proxy_env %v: got %v", inherit, seen)
		}
	}
}
