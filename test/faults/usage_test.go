package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// background is for callers that outlive a subtest's context.
var background = context.Background()

// usage is what a process holds. Where there is no /proc it is zero, and then
// holds nothing.
type usage struct {
	files, children, threads int
	rss, peak                int // bytes
}

// What a world may hold more at its end than at its begin.
const (
	moreFiles   = 10 // connections of the agent, and idle ones to servers
	moreThreads = 12 // the runtime keeps those that once blocked
	moreRSS     = 48 << 20
	morePeak    = 128 << 20
	// calm_pipe and the guard; each evil server may have one.
	mostChildren = 2
)

// given holds that the program gives back what the fault took.
func (w *world) given(t *testing.T, servers int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	var now usage
	ok := func() bool {
		now = use(w.s.PID)
		return now.files <= w.before.files+moreFiles+2*servers && now.children <= mostChildren+servers && now.threads <= w.before.threads+moreThreads && now.rss <= w.before.rss+moreRSS
	}
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("the program holds %+v, before the fault %+v", now, w.before)
			break
		}
	}
	if now.peak > w.before.rss+morePeak {
		t.Errorf("it held %d MiB at once", now.peak>>20)
	}
}

func use(pid int) (u usage) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	files, _ := os.ReadDir(dir + "fd")
	u.files = len(files)
	threads, _ := os.ReadDir(dir + "task")
	u.threads = len(threads)
	for _, th := range threads {
		b, _ := os.ReadFile(dir + "task/" + th.Name() + "/children")
		u.children += len(strings.Fields(string(b)))
	}
	u.rss, u.peak = memory(dir, "VmRSS:"), memory(dir, "VmHWM:")
	return u
}

// memory reads a line of status, which counts in KiB.
func memory(dir, line string) int {
	b, _ := os.ReadFile(dir + "status")
	_, rest, _ := bytes.Cut(b, []byte(line))
	f := bytes.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(string(f[0]))
	return n << 10
}

func zombie(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z")
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
