//go:build npm

package oauth

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A begun is the program while somebody has to do something.
type begun struct {
	cmd  *exec.Cmd
	out  printed
	done chan struct{}
	err  error // to be read after done
}

// begun starts the program. If in is nil, it reads nothing.
func (w *world) begun(t *testing.T, in *os.File, args ...string) *begun {
	t.Helper()
	b := &begun{cmd: w.program(t, nil, args...), done: make(chan struct{})}
	if in != nil {
		b.cmd.Stdin = in
	}
	b.start(t, w)
	return b
}

func (b *begun) start(t *testing.T, w *world) {
	t.Helper()
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.out
	w.hears(b.out.String)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		b.err = b.cmd.Wait()
	}()
	t.Cleanup(func() {
		b.cmd.Process.Kill()
		<-b.done
	})
}

// says waits for a text and returns its parts.
func (b *begun) says(t *testing.T, re *regexp.Regexp) (found []string) {
	t.Helper()
	waitFor(t, re.String(), patience, func() bool {
		select {
		case <-b.done:
			t.Fatalf("it ended: %v\n%s", b.err, b.out.String())
		default:
		}
		found = re.FindStringSubmatch(b.out.String())
		return found != nil
	})
	return found
}

// ends waits for a good end.
func (b *begun) ends(t *testing.T, want string) {
	t.Helper()
	waitFor(t, "the login to end", patience, func() bool {
		select {
		case <-b.done:
			return true
		default:
			return false
		}
	})
	if b.err != nil || !strings.Contains(b.out.String(), want) {
		t.Fatalf("%v\n%s", b.err, b.out.String())
	}
}

// pair opens what a program reads and what somebody types into.
func pair(t *testing.T, open func() (*os.File, *os.File, error)) (*os.File, io.Writer) {
	t.Helper()
	in, keys, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		keys.Close()
	})
	return in, keys
}
