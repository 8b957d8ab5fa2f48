package upstream

import "syscall"

// childAttr puts the child into a session of its own, so that its whole group can
// be signalled and no terminal reaches it, and ties its life to ours. The signal is
// the one that cannot be ignored: were it milder, a child that ignores it would live
// on when we are killed before the guard knows of it. Time to clear up is what a
// stop gives, not a crash.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
