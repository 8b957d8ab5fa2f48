package upstream

import "syscall"

// childAttr puts the child into a session of its own, so that its whole group can
// be signalled and no terminal reaches it, and ties its life to ours.
func childAttr(guarded bool) *syscall.SysProcAttr {
	sig := syscall.SIGKILL
	if guarded {
		// The guard finishes off what ignores this, so the child may clean up.
		sig = syscall.SIGTERM
	}
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: sig}
}
