package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Rlimits bound what the process of a stdio server, and each that it starts, may
// take of the machine. What is zero is as the sidecar's own.
type Rlimits struct {
	// NoFile is how many files may be open at once.
	NoFile int `yaml:"nofile"`
	// NProc is how many processes and threads the user of the server may have in
	// all; the kernel asks that of nobody who is root.
	NProc int `yaml:"nproc"`
	// AS is how much memory may be mapped, in bytes.
	AS int `yaml:"as"`
	// CPU is how many seconds of a processor a process may use up.
	CPU int `yaml:"cpu"`
	// FSize is how long a file may become, in bytes.
	FSize int `yaml:"fsize"`
	// Core is how long a memory dump may become, in bytes. If nil, as the sidecar's
	// own; 0 is none.
	Core *int `yaml:"core"`
}

// An rlimit is one that is set.
type rlimit struct {
	key   string
	value uint64
}

// rlimitNumbers are the kernel's, by key.
var rlimitNumbers = map[string]int{
	"nofile": syscall.RLIMIT_NOFILE, "nproc": rlimitNProc, "as": syscall.RLIMIT_AS,
	"cpu": syscall.RLIMIT_CPU, "fsize": syscall.RLIMIT_FSIZE, "core": syscall.RLIMIT_CORE,
}

// list returns those that are set. The two come last that also bind whoever sets
// them.
func (l *Rlimits) list() (set []rlimit) {
	if l.Core != nil {
		set = append(set, rlimit{"core", uint64(max(*l.Core, 0))})
	}
	for _, r := range []struct {
		key   string
		value int
	}{{"cpu", l.CPU}, {"fsize", l.FSize}, {"nofile", l.NoFile}, {"nproc", l.NProc}, {"as", l.AS}} {
		if r.value > 0 {
			set = append(set, rlimit{r.key, uint64(r.value)})
		}
	}
	return set
}

// allowed holds limits against our own, which nobody may pass on more than.
func allowed(set []rlimit) error {
	for _, r := range set {
		var own syscall.Rlimit
		if err := syscall.Getrlimit(rlimitNumbers[r.key], &own); err != nil {
			return setting(err, "rlimits", r.key)
		}
		if r.value > own.Max {
			return setting(fmt.Errorf("%d is more than %d, the hard limit that this program runs under itself", r.value, own.Max), "rlimits", r.key)
		}
	}
	return nil
}

// launchWait bounds how long the process in between may take.
const launchWait = 30 * time.Second

// A launch starts a program under limits: a process of this program's own sets
// them on itself and becomes the program, so that they hold from its first
// instruction. Number, group and parent-death signal stay what they were.
type launch struct {
	limiter []string
	set     []rlimit
	report  *os.File // says what went wrong before the program ran, and ends when it runs
	theirs  *os.File // is the end of the other
}

// newLaunch returns nil where nothing is limited.
func newLaunch(s *Settings, limiter []string) (*launch, error) {
	if s == nil {
		return nil, nil
	}
	set := s.Rlimits.list()
	if len(set) == 0 {
		return nil, nil
	}
	if len(limiter) == 0 {
		return nil, setting(errors.New("cannot be set by this program"), "rlimits")
	}
	if err := allowed(set); err != nil {
		return nil, err
	}
	l := &launch{limiter: limiter, set: set}
	var err error
	l.report, l.theirs, err = os.Pipe()
	return l, err
}

// argv is the command line of the process in between.
func (l *launch) argv(program []string) []string {
	return append(slices.Concat(l.limiter, []string{rlimitText(l.set)}), program...)
}

// blame keeps the server's program out of what is wrong with our own.
func (l *launch) blame(r *Resolved, err error) error {
	ours := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
	if !ours || r.Dir != "" && !isDir(r.Dir) {
		return err
	}
	return setting(fmt.Errorf("%s, which sets them, does not start: %w", l.limiter[0], bareCause(err)), "rlimits")
}

// await returns when the program runs, or why it does not.
func (l *launch) await() error {
	l.theirs.Close()
	defer l.report.Close()
	l.report.SetReadDeadline(time.Now().Add(launchWait))
	buf := make([]byte, 64)
	n, err := l.report.Read(buf)
	if n > 0 {
		return launchError(string(buf[:n]))
	}
	if os.IsTimeout(err) {
		return fmt.Errorf("the limits of rlimits were not set within %v", launchWait)
	}
	return nil
}

func (l *launch) close() {
	l.report.Close()
	l.theirs.Close()
}

// launchError reads what RunLimited reports.
func launchError(said string) error {
	what, number, _ := strings.Cut(strings.TrimSpace(said), " ")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return errors.New("the limits of rlimits were not set")
	case what == "exec":
		return &os.PathError{Op: "exec", Err: syscall.Errno(n)}
	}
	return setting(fmt.Errorf("the system refuses it: %w", syscall.Errno(n)), "rlimits", what)
}

func rlimitText(set []rlimit) string {
	items := make([]string, len(set))
	for i, r := range set {
		items[i] = fmt.Sprintf("%s=%d", r.key, r.value)
	}
	return strings.Join(items, ",")
}

func parseRlimits(text string) (set []rlimit, ok bool) {
	for _, item := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(item, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		if _, known := rlimitNumbers[key]; err != nil || !known {
			return nil, false
		}
		set = append(set, rlimit{key, n})
	}
	return set, true
}

// blame names the limit that a process may have died of; empty when that is none.
func (l *Rlimits) blame(st *os.ProcessState, said string) string {
	ws, ok := syscall.WaitStatus(0), false
	if st != nil {
		ws, ok = st.Sys().(syscall.WaitStatus)
	}
	if !ok || ws.Exited() && ws.ExitStatus() == 0 {
		return ""
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(said), w) })
	}
	sig := syscall.Signal(-1)
	switch {
	case ws.Signaled():
		sig = ws.Signal()
	case ws.ExitStatus() > 128: // as a shell puts it
		sig = syscall.Signal(ws.ExitStatus() - 128)
	}
	crashed := sig == syscall.SIGSEGV || sig == syscall.SIGABRT || sig == syscall.SIGBUS || sig == syscall.SIGTRAP
	switch {
	case l.CPU > 0 && (sig == syscall.SIGXCPU || sig == syscall.SIGKILL):
		return fmt.Sprintf(", maybe by rlimits.cpu (%d s)", l.CPU)
	case l.FSize > 0 && (sig == syscall.SIGXFSZ || has("file too large")):
		return fmt.Sprintf(", maybe by rlimits.fsize (%d bytes)", l.FSize)
	case l.AS > 0 && (crashed || has("memory", "enomem", "mmap", "failed to map")):
		return fmt.Sprintf(", maybe by rlimits.as (%d bytes)", l.AS)
	case l.NoFile > 0 && has("too many open files", "emfile"):
		return fmt.Sprintf(", maybe by rlimits.nofile (%d)", l.NoFile)
	case l.NProc > 0 && has("resource temporarily unavailable", "eagain", "cannot fork", "can't start new thread"):
		return fmt.Sprintf(", maybe by rlimits.nproc (%d)", l.NProc)
	}
	return ""
}
