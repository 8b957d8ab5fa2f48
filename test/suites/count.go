package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// An event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// A tally is what one or more suites came to.
type tally struct {
	Passed, Failed int
	// Skipped holds "test: reason".
	Skipped []string
	Took    time.Duration
}

// load reads what an earlier run saved; without one, counting starts at zero.
func load(file string) (t tally) {
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &t) != nil {
		return tally{}
	}
	return t
}

func (t *tally) save(file string) error {
	if file == "" {
		return nil
	}
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

func (t *tally) add(o tally) {
	t.Passed += o.Passed
	t.Failed += o.Failed
	t.Skipped = append(t.Skipped, o.Skipped...)
	t.Took += o.Took
}

func (t *tally) report(w io.Writer) {
	for _, s := range t.Skipped {
		fmt.Fprintf(w, "skipped %s\n", s)
	}
	fmt.Fprintf(w, "%.0f s\n%d passed, %d failed\n", t.Took.Seconds(), t.Passed, t.Failed)
}

// A counter turns events into a tally and prints what failed.
type counter struct {
	w       io.Writer
	outputs map[string][]string // by package and test
	results map[string]string   // by package and test: the last action
	tests   []string            // keys of results in order of their end
}

func newCounter(w io.Writer) *counter {
	return &counter{w: w, outputs: map[string][]string{}, results: map[string]string{}}
}

// maxOutput bounds the lines that are kept for one test.
const maxOutput = 400

func (c *counter) take(e *event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		if len(c.outputs[key]) < maxOutput {
			c.outputs[key] = append(c.outputs[key], e.Output)
		}
	case "build-output":
		fmt.Fprint(c.w, e.Output)
	case "pass", "fail", "skip":
		c.results[key] = e.Action
		c.tests = append(c.tests, key)
		c.print(e, key)
	}
}

// print shows the output of what failed, and each package's seconds.
func (c *counter) print(e *event, key string) {
	if e.Test == "" && e.Action != "skip" {
		fmt.Fprintf(c.w, "%-4s %s %.1f s\n", e.Action, e.Package, e.Elapsed)
	}
	if e.Action == "fail" {
		fmt.Fprint(c.w, strings.Join(c.outputs[key], ""))
		c.printUnended(e)
	}
	if e.Action != "skip" {
		delete(c.outputs, key)
	}
}

// printUnended shows the tests that ran when their package ended: one of them hung
// or panicked, and the stacks are in what it printed last.
func (c *counter) printUnended(e *event) {
	if e.Test != "" {
		return
	}
	keys := slices.Sorted(maps.Keys(c.outputs))
	for _, key := range keys {
		if pkg, test, _ := strings.Cut(key, "\x00"); pkg == e.Package && test != "" && c.results[key] == "" {
			fmt.Fprintf(c.w, "did not end: %s\n%s", test, strings.Join(c.outputs[key], ""))
			delete(c.outputs, key)
		}
	}
}

func (c *counter) end() (t tally) {
	parents := map[string]bool{}
	failedBelow := map[string]bool{}
	for _, key := range c.tests {
		for up := parent(key); up != ""; up = parent(up) {
			parents[up] = true
			failedBelow[up] = failedBelow[up] || c.results[key] == "fail"
		}
	}
	for _, key := range c.tests {
		c.count(&t, key, parents[key], failedBelow[key])
	}
	return t
}

func (c *counter) count(t *tally, key string, isParent, failedBelow bool) {
	pkg, test, _ := strings.Cut(key, "\x00")
	switch action := c.results[key]; {
	case action == "fail" && !failedBelow:
		t.Failed++
	case action == "skip" && test != "":
		t.Skipped = append(t.Skipped, short(pkg)+" "+test+": "+reason(c.outputs[key]))
	case action == "pass" && test != "" && !isParent:
		t.Passed++
	}
}

// parent is the test, or the package, that contains a key.
func parent(key string) string {
	pkg, test, _ := strings.Cut(key, "\x00")
	if i := strings.LastIndexByte(test, '/'); i >= 0 {
		return pkg + "\x00" + test[:i]
	}
	if test != "" {
		return pkg + "\x00"
	}
	return ""
}

func short(pkg string) string {
	parts := strings.Split(pkg, "/")
	return strings.Join(parts[min(len(parts)-1, 3):], "/")
}

// reason is what a skipped test said of itself.
func reason(lines []string) string {
	said := slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		l = strings.TrimSpace(l)
		return strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") || l == ""
	})
	if len(said) == 0 {
		return "no reason given"
	}
	text := strings.TrimSpace(said[len(said)-1])
	if _, after, ok := strings.Cut(text, ": "); ok && strings.Contains(text, ".go:") {
		return after
	}
	return text
}
