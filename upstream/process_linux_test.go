package upstream

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() { fakeInit = playInit }

// playInit is what the test below runs: a process that inherits orphans as PID 1 does.
func playInit() int {
	const setSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setSubreaper, 1, 0); errno != 0 {
		fmt.Println("prctl:", errno)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := reaper{parent: os.Getpid(), patience: 100 * time.Millisecond}
	go r.run(ctx)
	for i := range 5 {
		// The shell leaves an orphan that dies after it.
		if err := exec.Command("/bin/sh", "-c", "sleep 0.05 & exit 0").Run(); err != nil {
			fmt.Println("a waited-for child was stolen:", i, err)
			return 1
		}
	}
	p, err := startProcess(&Resolved{Command: "/bin/sh", Args: []string{"-c", "exit 9"}}, &env{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	time.Sleep(300 * time.Millisecond) // the reaper has every chance to get it wrong
	p.stop()
	if p.state == nil || p.state.ExitCode() != 9 {
		fmt.Println("status of our own child:", p.state)
		return 1
	}
	if !sparesOwn() {
		fmt.Println("a child that somebody waits for was collected")
		return 1
	}
	for end := time.Now().Add(5 * time.Second); len(zombies(os.Getpid())) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			fmt.Println("zombies:", zombies(os.Getpid()))
			return 1
		}
	}
	return 0
}

// sparesOwn checks that a child with a waiter is left alone however long it takes.
func sparesOwn() bool {
	child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 4"}, &os.ProcAttr{})
	if err != nil {
		return false
	}
	ownChildren.add(child.Pid)
	for p, _ := readStat(child.Pid); p.state != 'Z'; p, _ = readStat(child.Pid) {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // three times the patience
	st, err := child.Wait()
	ownChildren.remove(child.Pid)
	return err == nil && st.ExitCode() == 4
}

// R10, S11: orphans are collected, and nobody's own child is.
func TestReaper(t *testing.T) {
	t.Parallel()
	exe := self(t).Command
	out, err := exec.Command(exe, "fake-init").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// S14, R15: of our variables only the baseline, and of our files only 0, 1 and 2 reach a child.
func TestInheritedFilesStayHere(t *testing.T) {
	t.Setenv("SECRET_OF_ANOTHER", "hunter2")
	marker, err := syscall.Open(os.Args[0], syscall.O_RDONLY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(marker)
	c := dialSelf(t, "legacy")
	defer c.Close()
	got := string(call(t, c, "environ", "{}"))
	if strings.Contains(got, os.Args[0]+`"`) {
		t.Errorf("the child holds a file of ours: %s", got)
	}
	if !strings.Contains(got, `"0 pipe:`) || strings.Contains(got, "SECRET_OF_ANOTHER") {
		t.Errorf("got %s", got)
	}
}
