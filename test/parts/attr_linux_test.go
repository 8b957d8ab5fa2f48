//go:build npm

package parts

import "syscall"

// attr has a service end with the test binary, also when that is killed.
func attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
