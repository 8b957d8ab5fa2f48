package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// lastWords is how long output may still come after the child's end: a grandchild
// that holds the pipe must not keep its death a secret.
const lastWords = 250 * time.Millisecond

// A process is a running stdio server: the leader of a process group of its own.
type process struct {
	pid    int
	stdin  *os.File
	stdout *os.File
	errOut *os.File
	stderr *stderrTail

	exited  chan struct{} // closed by run when the leader was waited for
	state   *os.ProcessState
	drained chan struct{} // closed by drain when standard error ended

	guard *Guard
	// grace is how long the child may take to end when its standard input closes, and
	// again after SIGTERM.
	grace   time.Duration
	limits  Rlimits
	stopped sync.Once
}

// childEnds are the three files that become the child's 0, 1 and 2, and what only
// the process before it has as 3; see launch, which closes it.
type childEnds struct{ in, out, err, report *os.File }

func (c *childEnds) files() []*os.File {
	files := []*os.File{c.in, c.out, c.err}
	if c.report != nil {
		files = append(files, c.report)
	}
	return files
}

func (c *childEnds) close() {
	for _, f := range []*os.File{c.in, c.out, c.err} {
		if f != nil {
			f.Close()
		}
	}
}

// startProcess starts r's command. What it returns must be stopped.
func startProcess(r *Resolved, e *env) (*process, error) {
	hideInherited()
	p := &process{exited: make(chan struct{}), drained: make(chan struct{}), guard: e.guard, grace: stopGrace(r.Settings)}
	if r.Settings != nil {
		p.limits = r.Settings.Rlimits
	}
	ends, err := p.pipes()
	if err != nil {
		return nil, spawnError(r, err)
	}
	l, err := newLaunch(r.Settings, e.limiter)
	if err != nil {
		ends.close()
		p.closePipes()
		return nil, spawnError(r, err)
	}
	started := make(chan error)
	go p.run(r, ends, l, started)
	if err := <-started; err != nil {
		p.closePipes()
		return nil, spawnError(r, err)
	}
	p.stderr = newStderrTail(e.logger().With("server", r.Server), r.scrub)
	go p.drain()
	return p, nil
}

// stopGrace is the setting; a process without settings has the default.
func stopGrace(s *Settings) time.Duration {
	if s == nil {
		s = new(Settings)
	}
	return s.lifecycle().StopGrace
}

func (p *process) pipes() (*childEnds, error) {
	var c childEnds
	var err error
	if c.in, p.stdin, err = os.Pipe(); err == nil {
		if p.stdout, c.out, err = os.Pipe(); err == nil {
			p.errOut, c.err, err = os.Pipe()
		}
	}
	if err != nil {
		c.close()
		p.closePipes()
		return nil, err
	}
	return &c, nil
}

func (p *process) closePipes() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.errOut} {
		if f != nil {
			f.Close()
		}
	}
}

// run starts the child and waits for it on one locked thread: the parent-death
// signal is sent when the thread that forked ends, not the process (golang/go#27505).
func (p *process) run(r *Resolved, ends *childEnds, l *launch, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := p.start(r, ends, l)
	started <- err
	if err != nil {
		return
	}
	p.state, _ = child.Wait()
	ownChildren.remove(p.pid)
	close(p.exited)
	p.stdout.SetReadDeadline(time.Now().Add(lastWords))
}

// start returns when the program runs.
func (p *process) start(r *Resolved, ends *childEnds, l *launch) (*os.Process, error) {
	defer ends.close()
	p.guard.ready()
	argv := append([]string{r.Command}, r.Args...)
	if l == nil {
		return p.fork(r, r.Command, argv, ends)
	}
	defer l.close()
	ends.report = l.theirs
	argv = l.argv(argv)
	child, err := p.fork(r, argv[0], argv, ends)
	if err != nil {
		return nil, l.blame(r, err)
	}
	if err = l.await(); err != nil {
		p.abandon(child)
		return nil, err
	}
	return child, nil
}

// fork starts a process, which has its place with the guard when it returns.
func (p *process) fork(r *Resolved, path string, argv []string, ends *childEnds) (*os.Process, error) {
	child, err := os.StartProcess(path, argv, &os.ProcAttr{
		Dir: r.Dir, Env: r.Env, Files: ends.files(), Sys: childAttr(),
	})
	if err != nil {
		return nil, err
	}
	p.pid = child.Pid
	ownChildren.add(p.pid)
	// Until the next line is through, only the child itself goes down with us, and that
	// only on Linux. What it started within these microseconds is in nobody's book.
	p.guard.add(p.pid)
	return child, nil
}

// abandon ends a process that did not become the program.
func (p *process) abandon(child *os.Process) {
	child.Kill()
	child.Wait()
	ownChildren.remove(p.pid)
	p.guard.remove(p.pid)
}

func (p *process) drain() {
	defer close(p.drained)
	p.stderr.drain(&steadyReader{r: p.errOut})
}

// reason says how the child ended, for the error of everybody who waits on it.
func (p *process) reason() error {
	if !within(p.exited, 2*lastWords) {
		return p.withTail("closed its standard output, but still runs")
	}
	within(p.drained, lastWords)
	return p.withTail(exitText(p.state) + p.limits.blame(p.state, p.stderr.tail()))
}

func (p *process) withTail(what string) error {
	if tail := p.stderr.tail(); tail != "" {
		return fmt.Errorf("the process %s; stderr: %s", what, tail)
	}
	return fmt.Errorf("the process %s", what)
}

func exitText(st *os.ProcessState) string {
	if st == nil {
		return "ended"
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf("was ended by signal %d (%s)", ws.Signal(), ws.Signal())
	}
	return fmt.Sprintf("exited with status %d", st.ExitCode())
}

func within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// stop ends the child and all of its group, and returns when that is done: input
// closed, then SIGTERM, then SIGKILL. It also clears up after a leader that is gone.
func (p *process) stop() {
	p.stopped.Do(func() {
		p.stdin.Close()
		within(p.exited, p.grace)
		if endGroup(p.pid, p.grace, p.exited) {
			p.guard.remove(p.pid)
		}
		within(p.exited, p.grace)
		// A process that left the group may still hold the pipes: do not wait for it.
		p.errOut.SetReadDeadline(time.Now().Add(lastWords))
		<-p.drained
		p.closePipes()
	})
}

// hideInherited keeps files that we were started with away from children. Our own
// are close-on-exec from birth.
func hideInherited() {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		var fd int
		if _, err := fmt.Sscan(name, &fd); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// spawnError says which of the many causes of a failed start it was.
func spawnError(r *Resolved, err error) error {
	if s := (*SettingError)(nil); errors.As(err, &s) {
		return err
	}
	cause := bareCause(err)
	switch {
	case r.Dir != "" && !isDir(r.Dir):
		return fmt.Errorf("cwd %q is not a directory that can be entered: %w", r.Dir, cause)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s, or the interpreter that its first line names, does not exist: %w", r.Command, cause)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be executed: %w", r.Command, cause)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("no room for another process (limit of processes or memory): %w", cause)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("no room for another open file: %w", cause)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is not a program for this machine, or a script without a #! line: %w", r.Command, cause)
	}
	return fmt.Errorf("start %s: %w", r.Command, cause)
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}
