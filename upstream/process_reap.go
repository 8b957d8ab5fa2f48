package upstream

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ownChildren are the processes that somebody here waits for.
var ownChildren pidSet

type pidSet struct {
	mu   sync.Mutex
	pids map[int]bool
}

func (s *pidSet) add(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pids == nil {
		s.pids = make(map[int]bool)
	}
	s.pids[pid] = true
}

func (s *pidSet) remove(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pids, pid)
}

func (s *pidSet) has(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pids[pid]
}

// ReapOrphans collects what dead servers leave behind, as PID 1 must, until ctx
// ends. Anywhere else it returns at once.
func ReapOrphans(ctx context.Context) {
	if os.Getpid() != 1 {
		return
	}
	r := reaper{parent: 1, patience: time.Second}
	r.run(ctx)
}

// A reaper waits for zombies that nobody waits for. One that was started through
// os/exec elsewhere in the program has a waiter who comes soon, and must find it:
// so only what is still a zombie after some patience is an orphan.
type reaper struct {
	parent   int
	patience time.Duration
	seen     map[int]time.Time
}

func (r *reaper) run(ctx context.Context) {
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, syscall.SIGCHLD)
	defer signal.Stop(sigs)
	tick := time.NewTicker(max(r.patience, 10*time.Millisecond))
	defer tick.Stop()
	busy := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-sigs:
			busy = true
		case <-tick.C:
			if busy {
				busy = r.sweep(time.Now())
			}
		}
	}
}

// sweep reaps and reports whether it must come again.
func (r *reaper) sweep(now time.Time) (again bool) {
	seen := make(map[int]time.Time)
	for _, pid := range zombies(r.parent) {
		since, known := r.seen[pid]
		if !known {
			since = now
		}
		if ownChildren.has(pid) || now.Sub(since) < r.patience {
			seen[pid] = since
			continue
		}
		syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
	r.seen = seen
	return len(seen) > 0
}

// zombies lists the dead children of parent.
func zombies(parent int) (pids []int) {
	eachProcess(func(p procStat) {
		if p.state == 'Z' && p.ppid == parent {
			pids = append(pids, p.pid)
		}
	})
	return pids
}

// A procStat is what we read of a process in /proc.
type procStat struct {
	pid, ppid, pgid int
	state           byte // Z for a zombie
}

// eachProcess visits all processes that /proc shows. Without /proc there are none.
func eachProcess(visit func(procStat)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readStat(pid); ok {
				visit(p)
			}
		}
	}
}

// readStat reads one process. The name in it may hold anything, so the fields are
// counted from its last parenthesis.
func readStat(pid int) (p procStat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 3 || len(f[0]) != 1 {
		return p, false
	}
	p.pid, p.state = pid, f[0][0]
	p.ppid, _ = strconv.Atoi(string(f[1]))
	p.pgid, _ = strconv.Atoi(string(f[2]))
	return p, true
}
