// Command suites runs test suites one after the other, says how long each took
// and what was skipped and why, and ends with one line of counts.
//
//	suites [-limit 12m] [-tally FILE [-more]] [-fail REASON] 'NAME: go test arguments' ...
//
// With -tally the counts go on from those in FILE and are kept there, so that
// several runs end with one total; -more leaves the total to the next run.
// -fail counts a failure that is no test's.
//
// Only leaves are counted: a test with subtests is what its subtests are. A
// package that does not build, and a suite that runs out of time, is a failure.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("suites", flag.ContinueOnError)
	fs.SetOutput(stderr)
	limit := fs.Duration("limit", 12*time.Minute, "how long one suite may take")
	file := fs.String("tally", "", "file that carries the counts from one run to the next")
	more := fs.Bool("more", false, "another run goes on from -tally: leave the counts to it")
	fail := fs.String("fail", "", "count one failure, for this reason")
	if fs.Parse(args) != nil || fs.NArg() == 0 && *fail == "" {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all := load(*file)
	if *fail != "" {
		fmt.Fprintln(stdout, *fail)
		all.Failed++
	}
	for _, arg := range fs.Args() {
		name, rest, ok := strings.Cut(arg, ": ")
		if !ok {
			fmt.Fprintf(stderr, "suites: %q: want 'NAME: arguments'\n", arg)
			return 2
		}
		fmt.Fprintf(stdout, "--- %s: go test %s\n", name, rest)
		t := suite(ctx, *limit, strings.Fields(rest), stdout)
		fmt.Fprintf(stdout, "--- %s: %d passed, %d failed, %d skipped in %.1f s\n\n", name, t.Passed, t.Failed, len(t.Skipped), t.Took.Seconds())
		all.add(t)
	}
	if !*more {
		all.report(stdout)
	}
	if err := all.save(*file); err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	if all.Failed > 0 {
		return 1
	}
	return 0
}

// suite runs `go test -json` in a process group of its own, so that what the
// tests started ends with it.
func suite(ctx context.Context, limit time.Duration, args []string, stdout io.Writer) tally {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(stdout, err)
		return tally{Failed: 1}
	}
	t := read(out, stdout)
	err = cmd.Wait()
	t.Took = time.Since(start)
	if ctx.Err() != nil {
		fmt.Fprintf(stdout, "stopped after %v\n", t.Took.Round(time.Second))
	}
	if err != nil && t.Failed == 0 || ctx.Err() != nil {
		t.Failed++
	}
	return t
}

// read follows the events of `go test -json` to their end.
func read(r io.Reader, stdout io.Writer) tally {
	c := newCounter(stdout)
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			fmt.Fprintf(stdout, "%s\n", sc.Bytes())
			continue
		}
		c.take(&e)
	}
	io.Copy(io.Discard, r)
	return c.end()
}
