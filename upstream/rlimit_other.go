//go:build !linux

package upstream

// rlimitNProc is RLIMIT_NPROC, which package syscall lacks.
const rlimitNProc = 7

// keepParentDeath has nothing to keep: there is no such signal here.
func keepParentDeath() {}
