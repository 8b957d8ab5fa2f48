package upstream

import (
	"errors"
	"syscall"
	"time"
)

// groupPoll is how often a dying process group is looked at.
const groupPoll = 20 * time.Millisecond

// safeGroup refuses what must never be signalled: kill(-1) means everybody, and
// our own group means us.
func safeGroup(pgid int) bool {
	return pgid > 1 && pgid != syscall.Getpgrp()
}

// groupAlive reports whether the group has a member that we may signal.
func groupAlive(pgid int) bool {
	return safeGroup(pgid) && syscall.Kill(-pgid, 0) == nil
}

// signalGroup reports whether somebody was there to get the signal.
func signalGroup(pgid int, sig syscall.Signal) bool {
	return safeGroup(pgid) && !errors.Is(syscall.Kill(-pgid, sig), syscall.ESRCH)
}

// awaitGroup waits until the group is gone, for at most d. Once leaderGone is
// closed it also collects members that became children of ours, as they do when
// we are PID 1: a zombie still counts as a member.
func awaitGroup(pgid int, d time.Duration, leaderGone <-chan struct{}) (gone bool) {
	end := time.Now().Add(d)
	for n := 1; groupAlive(pgid); n++ {
		if n%5 == 0 && onlyZombies(pgid) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		select {
		case <-leaderGone:
			syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
		default:
		}
		time.Sleep(groupPoll)
	}
	return true
}

// onlyZombies reports whether nobody in the group runs any more: in a container
// whose PID 1 collects no orphans, zombies stay for ever.
func onlyZombies(pgid int) bool {
	zombie, running := false, false
	eachProcess(func(p procStat) {
		if p.pgid == pgid {
			zombie = zombie || p.state == 'Z'
			running = running || p.state != 'Z'
		}
	})
	return zombie && !running
}

// endGroup stops a whole group: politely first, then for good.
func endGroup(pgid int, grace time.Duration, leaderGone <-chan struct{}) (gone bool) {
	if !signalGroup(pgid, syscall.SIGTERM) || awaitGroup(pgid, grace, leaderGone) {
		return true
	}
	signalGroup(pgid, syscall.SIGKILL)
	return awaitGroup(pgid, grace, leaderGone)
}
