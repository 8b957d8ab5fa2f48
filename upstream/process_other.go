//go:build !linux

package upstream

import "syscall"

// childAttr puts the child into a session of its own. There is no parent-death
// signal here: the guard alone sees to that.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}
