package upstream

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const (
	guardLine   = 64                     // bytes of one line
	guardGroups = 4096                   // groups that one guard remembers
	guardGrace  = 3 * time.Second        // between SIGTERM and SIGKILL
	guardPoll   = 100 * time.Millisecond // how often it looks meanwhile
)

// RunGuard is the guard process: it reads "+pgid" and "-pgid" lines from in, and
// when in ends it kills the groups that are left. One byte on ready says that it is
// at its post. It returns the exit status.
func RunGuard(in io.Reader, ready io.Writer) int {
	// Only the end of the pipe ends a guard: a Ctrl-C for the whole terminal, or a
	// signal for the whole pod, must leave it to clear up after the others.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE)
	w := newWatch()
	ready.Write([]byte("\n")) // whoever started us may be gone already: go on anyway
	w.read(in)
	w.end()
	return 0
}

// A watch is the set of groups that a guard answers for.
type watch struct {
	groups map[int]bool
	banned map[int]bool
	alive  func(pgid int) bool
	signal func(pgid int, sig syscall.Signal) bool
	sleep  func(time.Duration)
}

func newWatch() *watch {
	w := &watch{
		groups: make(map[int]bool), banned: make(map[int]bool),
		alive:  func(pgid int) bool { return groupAlive(pgid) && !onlyZombies(pgid) },
		signal: signalGroup, sleep: time.Sleep,
	}
	// A line that is wrong must never turn against us, or against who started us.
	parent := os.Getppid()
	for _, pgid := range []int{os.Getpid(), syscall.Getpgrp(), parent} {
		w.banned[pgid] = true
	}
	if pgid, err := syscall.Getpgid(parent); err == nil {
		w.banned[pgid] = true
	}
	return w
}

// read follows the lines until in ends. A line over the limit is skipped.
func (w *watch) read(in io.Reader) {
	r := bufio.NewReaderSize(in, guardLine)
	skip := false
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			skip = true
			continue
		}
		if err != nil {
			return // a line without its newline was cut off: do not guess the rest
		}
		if !skip {
			w.line(string(line[:len(line)-1]))
		}
		skip = false
	}
}

func (w *watch) line(s string) {
	if len(s) < 2 || s[1] < '0' || s[1] > '9' {
		return
	}
	pgid, err := strconv.Atoi(s[1:])
	if err != nil || pgid <= 1 || w.banned[pgid] {
		return
	}
	switch s[0] {
	case '+':
		w.prune()
		if len(w.groups) < guardGroups {
			w.groups[pgid] = true
		}
	case '-':
		delete(w.groups, pgid)
	}
}

// prune forgets groups that are gone, since their numbers will be used again.
func (w *watch) prune() {
	maps.DeleteFunc(w.groups, func(pgid int, _ bool) bool { return !w.alive(pgid) })
}

// end stops every group that is left.
func (w *watch) end() {
	w.each(syscall.SIGTERM)
	for waited := time.Duration(0); waited < guardGrace && len(w.groups) > 0; waited += guardPoll {
		w.sleep(guardPoll)
		w.prune()
	}
	w.each(syscall.SIGKILL)
}

func (w *watch) each(sig syscall.Signal) {
	for pgid := range w.groups {
		if !w.signal(pgid, sig) {
			delete(w.groups, pgid)
		}
	}
}
