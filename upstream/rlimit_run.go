package upstream

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
)

// launchReport is the file on which RunLimited says what went wrong. It is closed
// when the program begins.
const launchReport = 3

// RunLimited becomes another program under limits: args are the limits as text, the
// program's path, and its arguments. It returns the exit status only where that
// fails.
func RunLimited(args []string) int {
	if len(args) < 2 {
		return 2
	}
	// From here to the end the runtime must ask for neither threads nor memory, which
	// the limits may refuse it.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	syscall.CloseOnExec(launchReport)
	environ := os.Environ()
	set, ok := parseRlimits(args[0])
	if !ok {
		return launchFailed("limits", syscall.EINVAL)
	}
	keepParentDeath()
	for _, r := range set {
		// Soft and hard are one: a soft one alone could be raised again.
		if err := syscall.Setrlimit(rlimitNumbers[r.key], &syscall.Rlimit{Cur: r.value, Max: r.value}); err != nil {
			return launchFailed(r.key, err)
		}
	}
	return launchFailed("exec", syscall.Exec(args[1], args[1:], environ))
}

func launchFailed(what string, err error) int {
	n := syscall.EINVAL
	errors.As(err, &n)
	syscall.Write(launchReport, fmt.Appendf(nil, "%s %d\n", what, int(n)))
	return 126
}
