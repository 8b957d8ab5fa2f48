package vault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const rotations = 20

// child is a process of its own on the vault in the environment.
func child(mode string) int {
	v := &Vault{Dir: os.Getenv("VAULT_TEST_DIR")}
	var err error
	switch mode {
	case "rotate":
		for range rotations {
			err = errors.Join(err, rotate(v))
		}
	case "hold":
		if _, err = v.Lock(context.Background(), "a"); err == nil {
			fmt.Println("held")
			_, _ = bufio.NewReader(os.Stdin).ReadByte()
		}
	case "write":
		for n := 1; err == nil; n++ {
			if err = v.Save(counted(n)); err == nil {
				fmt.Println(n)
			}
		}
	case "full":
		err = saveToFull(v)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// rotate spends the refresh token, as a refresh does, and notes which one that was.
func rotate(v *Vault) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	unlock, err := v.Lock(ctx, "a")
	if err != nil {
		return err
	}
	defer unlock()
	e, err := v.Load("a")
	if err != nil {
		return err
	}
	spent, err := os.OpenFile(filepath.Join(v.Dir, "spent"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer spent.Close()
	n, err := strconv.Atoi(e.Refresh)
	_, writeErr := fmt.Fprintln(spent, n)
	return errors.Join(err, writeErr, v.Save(counted(n+1)))
}

// counted is an entry of some pages on disk whose beginning and end say the same.
func counted(n int) *Entry {
	return &Entry{Server: "a", Access: strings.Repeat(fmt.Sprintf("%08d", n), 1<<10), Refresh: strconv.Itoa(n), Scope: strconv.Itoa(n)}
}

func checkCounted(t *testing.T, e *Entry) int {
	t.Helper()
	if e == nil {
		t.Fatal("torn: absent")
	}
	n, err := strconv.Atoi(e.Refresh)
	if want := counted(n); err != nil || e.Access != want.Access || e.Scope != want.Scope {
		t.Fatalf("torn: %q %q", e.Refresh, e.Scope)
	}
	return n
}

func start(t *testing.T, l *lab, mode string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VAULT_TEST_CHILD="+mode, "VAULT_TEST_DIR="+l.Dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestProcessesRotate(t *testing.T) {
	const processes = 8
	l := newLab(t)
	l.save(counted(0))
	var wg sync.WaitGroup
	for range processes {
		cmd := start(t, l, "rotate")
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := checkCounted(t, l.load("a")); n != processes*rotations {
		t.Errorf("%d of %d rotations were kept", n, processes*rotations)
	}
	spent := map[string]bool{}
	for line := range strings.Lines(l.text(filepath.Join(l.Dir, "spent"))) {
		if spent[line] {
			t.Errorf("spent twice: %s", line)
		}
		spent[line] = true
	}
	if left := temps(t, l.Dir); len(spent) != processes*rotations || left != nil {
		t.Errorf("%d were spent, left %q", len(spent), left)
	}
}

// TestKilledInSave kills a process that does nothing but save: at any time, and
// as soon as a file that is not done is seen.
func TestKilledInSave(t *testing.T) {
	const rounds = 40
	l := newLab(t)
	l.save(counted(0))
	for i := range rounds {
		w := startWriter(t, l)
		if i%2 == 0 {
			time.Sleep(time.Duration(i) * 200 * time.Microsecond) // any time will do
		} else {
			w.seeTemp(l.Dir, temps(t, l.Dir))
		}
		said := w.kill()
		if n := checkCounted(t, l.load("a")); n < said {
			t.Fatalf("%d was saved, but %d is there", said, n)
		}
		if w := l.warned(); w != "" {
			t.Fatalf("warned %q", w)
		}
	}
	crashed := len(temps(t, l.Dir))
	t.Logf("%d of %d were killed before they had renamed their file", crashed, rounds)
	if crashed == 0 {
		t.Error("none was killed while it wrote")
	}
	l.sweepsOnlyDead()
}

// A writer is a process that saves one count after the other, and says so.
type writer struct {
	t    *testing.T
	cmd  *exec.Cmd
	said *bufio.Scanner
}

// startWriter returns when the first is saved.
func startWriter(t *testing.T, l *lab) *writer {
	t.Helper()
	cmd := start(t, l, "write")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	w := &writer{t, cmd, bufio.NewScanner(out)}
	if err != nil || !w.said.Scan() {
		t.Fatal("the writer does not start", err)
	}
	return w
}

func (w *writer) seeTemp(dir string, before []string) {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if len(temps(w.t, dir)) > len(before) {
			return
		}
	}
}

// kill returns the last save that the process is known to have done.
func (w *writer) kill() (last int) {
	w.t.Helper()
	_ = w.cmd.Process.Kill()
	for more := true; more; more = w.said.Scan() {
		n, err := strconv.Atoi(w.said.Text())
		if err != nil {
			w.t.Fatal(err)
		}
		last = n
	}
	_ = w.cmd.Wait()
	return last
}

func (l *lab) sweepsOnlyDead() {
	l.t.Helper()
	old := time.Now().Add(-2 * abandoned)
	busy, err := os.CreateTemp(l.Dir, tempPrefix+"*")
	if err != nil {
		l.t.Fatal(err)
	}
	defer busy.Close()
	if ok, err := flock(busy); !ok {
		l.t.Fatal(err)
	}
	for _, name := range temps(l.t, l.Dir) {
		if err := os.Chtimes(filepath.Join(l.Dir, name), old, old); err != nil {
			l.t.Fatal(err)
		}
	}
	young := filepath.Join(l.Dir, tempPrefix+"young")
	if err := os.WriteFile(young, nil, 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.save(counted(1))
	left := temps(l.t, l.Dir)
	if len(left) != 2 {
		l.t.Errorf("left %q, want one of a living writer and a young one", left)
	}
}

// saveToFull saves where no file can grow: the system's answer is that of a full
// disk in all but the name.
func saveToFull(v *Vault) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	err := v.Save(counted(2))
	if !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

func TestDiskFull(t *testing.T) {
	l := newLab(t)
	l.save(counted(1))
	if err := start(t, l, "full").Run(); err != nil {
		t.Fatal(err)
	}
	if n := checkCounted(t, l.load("a")); n != 1 {
		t.Errorf("got %d, want the old one", n)
	}
	if left := temps(t, l.Dir); left != nil {
		t.Errorf("left %q", left)
	}
}

func TestLockOfAProcessThatDies(t *testing.T) {
	l := newLab(t)
	cmd := start(t, l, "hold")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = l.Lock(short, "a")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `lock of the credentials of "a": another process holds it`) {
		t.Errorf("got %v", err)
	}
	other, err := l.Lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	if err := l.Delete("a"); err != nil { // which must not let a second one in
		t.Fatal(err)
	}
	short, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Lock(short, "a"); err == nil {
		t.Error("two have the lock")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	unlock()
}

// TestLockFileRemoved holds that a lock on a file that somebody removed is none.
func TestLockFileRemoved(t *testing.T) {
	l := newLab(t)
	path := filepath.Join(l.Dir, "a.lock")
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unlock()
	if held, err := hold(waiting, path); held || err != nil {
		t.Errorf("a lock of a file that is gone: %v", err)
	}
	if unlock, err = l.Lock(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if held, err := tryLock(path); held != nil || err != nil {
		t.Errorf("two have the lock: %v", err)
	}
}

func TestLockInOneProcess(t *testing.T) {
	l := newLab(t)
	l.save(counted(0))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if err := rotate(l.Vault); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := checkCounted(t, l.load("a")); n != 40 {
		t.Errorf("%d of 40 rotations were kept", n)
	}
}
