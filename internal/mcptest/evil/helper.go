package evil

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// again is the command that runs this program again with other arguments.
func again(args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(exe, args...), nil
}

// launcher runs the server as its child, on its own pipes, and ends with it.
func launcher(p *Pipe) {
	cmd, err := again("--fault", "S11c", "--state", p.s.Journal.dir)
	if err != nil {
		os.Exit(1)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if cmd.Run() != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// hasHelper starts a process that does nothing for a minute and cannot be asked
// to end. A daemon has a session and no pipe of ours.
func hasHelper(daemon bool) func(*Pipe) {
	return func(p *Pipe) {
		cmd, err := again("--helper")
		if err != nil {
			os.Exit(1)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: daemon}
		if !daemon {
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		}
		if cmd.Start() != nil {
			os.Exit(1)
		}
		p.s.Journal.Note(processes, strconv.Itoa(cmd.Process.Pid))
	}
}

// idle is the whole life of such a helper.
func idle() {
	stubborn()
	time.Sleep(hangFor)
}

// stubborn ignores every request to end.
func stubborn() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }
