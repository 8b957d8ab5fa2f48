//go:build npm && !linux

package parts

import "syscall"

func attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
