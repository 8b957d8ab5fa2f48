package upstream

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pipeNumber tells one pipe from another.
var pipeNumber = regexp.MustCompile(`pipe:\[\d+\]`)

func limiter(t testing.TB) *env {
	return &env{limiter: []string{self(t).Command, "fake-limiter"}}
}

// The limits hold from the program's first instruction on, hard and soft.
func TestRlimits(t *testing.T) {
	core := 0
	l := Rlimits{NoFile: 61, NProc: 4321, AS: 1 << 40, CPU: 77, FSize: 123456, Core: &core}
	got := kernelLimits(t, l)
	for name, want := range map[string]string{
		"Max open files": "61", "Max processes": "4321", "Max address space": "1099511627776",
		"Max cpu time": "77", "Max file size": "123456", "Max core file size": "0",
	} {
		if got[name] != want+" "+want {
			t.Errorf("%s: got %q, want %s", name, got[name], want)
		}
	}
	// What is not set stays, also what the Go runtime had raised for itself.
	if diff := cmp.Diff(kernelLimits(t, Rlimits{})["Max open files"], kernelLimits(t, Rlimits{CPU: 7})["Max open files"]); diff != "" {
		t.Errorf("open files (-without +with another limit):\n%s", diff)
	}
}

// kernelLimits is what a child under l reads of itself.
func kernelLimits(t *testing.T, l Rlimits) map[string]string {
	t.Helper()
	r := &Resolved{Server: "srv", Command: "/bin/cat", Args: []string{"/proc/self/limits"}, Settings: &Settings{Rlimits: l}}
	p, err := startProcess(r, limiter(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	out, _ := io.ReadAll(p.stdout)
	limits := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if len(line) > 26 {
			f := strings.Fields(line[26:])
			limits[strings.TrimSpace(line[:26])] = strings.Join(f[:min(2, len(f))], " ")
		}
	}
	return limits
}

// S14, C10: under limits a program has the same arguments, environment, files,
// number and group as without.
func TestRlimitsChangeNothingElse(t *testing.T) {
	var saw []string
	for _, l := range []Rlimits{{}, {NoFile: 64}} {
		s := self(t, "fake-server", "legacy", "a b", "--", "-x", "", "$(id)")
		s.Env["LAST"], s.Rlimits = "a=b\nc", l
		c, err := dialStdio(t.Context(), resolveSelf(t, s), *limiter(t))
		if err != nil {
			t.Fatal(err)
		}
		pid := c.Info().PID
		if pgid, err := syscall.Getpgid(pid); err != nil || pgid != pid {
			t.Errorf("limits %v: the group of %d is %d (%v)", l, pid, pgid, err)
		}
		saw = append(saw, pipeNumber.ReplaceAllString(string(call(t, c, "environ", "{}")), "pipe"))
		c.Close()
		if lives(pid) {
			t.Errorf("limits %v: the process outlives Close", l)
		}
	}
	if diff := cmp.Diff(saw[0], saw[1]); diff != "" {
		t.Errorf("(-without +with limits):\n%s", diff)
	}
}

// S14: a child has the files 0, 1 and 2, and of our variables the baseline.
func TestChildHasNothingElse(t *testing.T) {
	t.Setenv("SECRET_OF_ANOTHER", "hunter2")
	marker, err := syscall.Open(os.Args[0], syscall.O_RDONLY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(marker)
	for _, l := range []Rlimits{{}, {NoFile: 64}} {
		s := &Settings{Command: "/bin/sh", Args: []string{"-c", `ls /proc/$$/fd; tr '\0' '\n' </proc/$$/environ`}, Env: map[string]string{"PATH": "/bin:/usr/bin", "OWN": "1"}, Rlimits: l}
		r, err := s.Resolve("srv", "", Vars{}, []string{"PATH=/x", "HOME=/h", "SECRET_OF_ANOTHER=hunter2", "LD_PRELOAD=x"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := startProcess(r, limiter(t))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := io.ReadAll(p.stdout)
		p.stop()
		if got, want := string(out), "0\n1\n2\nHOME=/h\nOWN=1\nPATH=/bin:/usr/bin\n"; got != want {
			t.Errorf("limits %v: got %q, want %q", l, got, want)
		}
	}
}

// Limits that cannot be had keep the server from starting, and say which it was.
func TestRlimitsRefused(t *testing.T) {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	s := self(t, "fake-server", "legacy")
	s.Rlimits.NoFile = int(own.Max) + 1
	r := resolveSelf(t, s)
	_, err := dialStdio(t.Context(), r, *limiter(t))
	if want := fmt.Sprintf("rlimits.nofile: %d is more than %d", own.Max+1, own.Max); KindOf(err) != Config || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	s.Rlimits.NoFile = 64
	for name, tt := range map[string]struct {
		e    *env
		want string
	}{
		"nobody sets them":    {&env{}, "cannot be set"},
		"the program is gone": {&env{limiter: []string{filepath.Join(t.TempDir(), "gone")}}, "does not start"},
	} {
		if _, err := dialStdio(t.Context(), resolveSelf(t, s), *tt.e); KindOf(err) != Config || !strings.Contains(err.Error(), "rlimits: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A program that goes over a limit is reported with what ended it.
func TestRlimitsHit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	s := &Settings{Command: "/bin/sh", Args: []string{"-c", `exec head -c 1000000 /dev/zero >"$0"`, file}, Rlimits: Rlimits{FSize: 5000}}
	_, err := dialStdio(t.Context(), resolveSelf(t, s), *limiter(t))
	if KindOf(err) != Unreachable || !strings.Contains(err.Error(), "file size limit exceeded") {
		t.Errorf("got %v", err)
	}
}

func TestRlimitText(t *testing.T) {
	core := 0
	l := Rlimits{NoFile: 9, Core: &core, AS: 5}
	set := l.list()
	text := rlimitText(set)
	if text != "core=0,nofile=9,as=5" {
		t.Errorf("got %s", text)
	}
	if got, ok := parseRlimits(text); !ok || !slices.Equal(got, set) {
		t.Errorf("got %v, want %v", got, set)
	}
	for _, bad := range []string{"", "core", "core=", "core=-1", "stack=1", "core=0,", "core=18446744073709551616"} {
		if got, ok := parseRlimits(bad); ok {
			t.Errorf("%q: got %v", bad, got)
		}
	}
	for said, want := range map[string]string{"": "were not set", "exec x": "were not set", "nproc 1\n": "rlimits.nproc: the system refuses it: operation not permitted"} {
		if err := launchError(said); !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", said, err, want)
		}
	}
}

// What a limit of its own ended says so.
func TestRlimitsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		l            Rlimits
		want         string
	}{
		{"cpu", "while :; do :; done", Rlimits{CPU: 1}, "maybe by rlimits.cpu (1 s)"},
		{"fsize", "head -c 100000 /dev/zero > " + filepath.Join(t.TempDir(), "f"), Rlimits{FSize: 5000}, "maybe by rlimits.fsize (5000 bytes)"},
		{"as", "echo Cannot allocate memory >&2; exit 1", Rlimits{AS: 1 << 40}, "maybe by rlimits.as"},
		{"nofile", "echo EMFILE: too many open files >&2; exit 1", Rlimits{NoFile: 60}, "maybe by rlimits.nofile (60)"},
		{"nproc", "echo fork: Resource temporarily unavailable >&2; exit 1", Rlimits{NProc: 5000}, "maybe by rlimits.nproc (5000)"},
		{"something else", "exit 3", Rlimits{CPU: 100, AS: 1 << 40, NoFile: 60}, ""},
		{"no limit", "kill -9 $$", Rlimits{NoFile: 60}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &Resolved{Server: "srv", Command: "/bin/sh", Args: []string{"-c", tt.script + "; exit $?"}, Settings: &Settings{Rlimits: tt.l},
				Env: []string{"PATH=/usr/bin:/bin"}}
			p, err := startProcess(r, limiter(t))
			if err != nil {
				t.Fatal(err)
			}
			defer p.stop()
			<-p.exited
			got := p.reason().Error()
			if tt.want == "" && strings.Contains(got, "rlimits") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
