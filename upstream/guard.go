package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Guard is one process beside this program that outlives it by a moment: when
// our end of its pipe closes, however we died, it kills the process groups of all
// servers. It starts just before the first server. Its zero value guards nothing.
type Guard struct {
	// Argv is the program and arguments of a process that calls RunGuard; for
	// instance this program and a hidden subcommand. If empty, there is no guard.
	// As PID 1 there is none either: when PID 1 ends, the kernel kills the rest.
	Argv []string
	// Log gets what goes wrong. If nil, it is discarded.
	Log *slog.Logger

	mu     sync.Mutex
	groups map[int]bool
	pipe   *os.File // nil while no guard runs
	pid    int
	gone   chan struct{} // closed by wait when the process ended
	closed bool
}

const (
	// guardWrite bounds how long a guard that does not read may hold up a start.
	guardWrite = time.Second
	// guardHello bounds how long a start waits for a new guard to read.
	guardHello = 2 * time.Second
)

func newGuard(argv []string, log *slog.Logger) *Guard { return &Guard{Argv: argv, Log: log} }

// active reports whether children will be guarded.
func (g *Guard) active() bool {
	return g != nil && len(g.Argv) > 0 && os.Getpid() != 1
}

// ready makes sure that there is a guard before there is a child.
func (g *Guard) ready() {
	if !g.active() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil || ended(g.gone) {
		g.restart()
	}
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// add puts a process group under guard, starting the guard when there is none.
func (g *Guard) add(pgid int) {
	if !g.active() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups == nil {
		g.groups = make(map[int]bool)
	}
	g.groups[pgid] = true
	if !g.send('+', pgid) {
		g.restart()
	}
}

// remove takes a group that is gone off the guard.
func (g *Guard) remove(pgid int) {
	if !g.active() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, pgid)
	g.send('-', pgid)
}

// send reports whether a guard took the line. g.mu is held.
func (g *Guard) send(op byte, pgid int) bool {
	if g.pipe == nil {
		return false
	}
	g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	if _, err := fmt.Fprintf(g.pipe, "%c%d\n", op, pgid); err != nil {
		g.pipe.Close()
		g.pipe = nil
		return false
	}
	return true
}

// restart starts a guard and tells it about every group. g.mu is held.
func (g *Guard) restart() {
	if g.closed {
		return
	}
	if g.pipe != nil {
		g.pipe.Close()
		g.pipe = nil
	}
	if err := g.start(); err != nil {
		g.warn("the guard process does not start; children may outlive a crash", err)
		return
	}
	for pgid := range g.groups {
		g.send('+', pgid)
	}
}

func (g *Guard) start() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	hello, up, err := os.Pipe()
	if err != nil {
		out.Close()
		return err
	}
	defer hello.Close()
	child, err := g.spawn([]*os.File{in, up, null})
	up.Close()
	if err != nil {
		out.Close()
		return err
	}
	g.pipe, g.pid, g.gone = out, child.Pid, make(chan struct{})
	go g.wait(child, g.gone)
	return g.greet(hello)
}

// spawn starts the guard's process.
func (g *Guard) spawn(files []*os.File) (*os.Process, error) {
	hideInherited()
	// No standard error of ours and no environment: whoever waits for our output to
	// end must not wait for the guard, and it needs no secrets.
	child, err := os.StartProcess(g.Argv[0], g.Argv, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err == nil {
		ownChildren.add(child.Pid)
	}
	return child, err
}

// greet waits until the guard reads. One that is merely slow stays: what it is told
// waits in the pipe.
func (g *Guard) greet(hello *os.File) error {
	hello.SetReadDeadline(time.Now().Add(guardHello))
	if _, err := hello.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	g.pipe.Close()
	g.pipe = nil
	return errors.New("it ended before it was ready")
}

// wait collects a guard. One that died early is started anew with the next server.
func (g *Guard) wait(child *os.Process, gone chan struct{}) {
	began := time.Now()
	child.Wait()
	ownChildren.remove(child.Pid)
	close(gone)
	g.mu.Lock()
	defer g.mu.Unlock()
	superseded := g.gone != gone
	if superseded || g.closed || len(g.groups) == 0 || time.Since(began) < time.Second {
		return
	}
	g.warn("the guard process ended; starting another", nil)
	g.restart()
}

func (g *Guard) warn(msg string, err error) {
	if g.Log != nil {
		g.Log.Warn(msg, "err", err)
	}
}

// Close ends the guard, which kills whatever is still under it. Call it last.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.closed = true
	pipe, gone, left := g.pipe, g.gone, len(g.groups)
	g.pipe = nil
	g.mu.Unlock()
	if pipe == nil {
		return
	}
	pipe.Close()
	bound := time.Second
	if left > 0 {
		bound += guardGrace
	}
	within(gone, bound)
}
