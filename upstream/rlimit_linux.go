package upstream

import "syscall"

// rlimitNProc is RLIMIT_NPROC, which package syscall lacks.
const rlimitNProc = 6

// keepParentDeath asks for the parent-death signal again: the kernel keeps it per
// thread, and whichever thread makes the program run is the one that stays. Until
// then the first thread still has it, so there is no moment without.
func keepParentDeath() {
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(childAttr().Pdeathsig), 0)
}
