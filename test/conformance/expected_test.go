package conformance

import (
	"bufio"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// expected says of each scored scenario what we hold: one line each,
//
//	REVISION SCENARIO pass
//	REVISION SCENARIO next REASON
//
//go:embed expected.txt
var expected string

// A verdict is one line of the list.
type verdict struct {
	scenario string
	// next is why the scenario is not held yet; empty when it must pass.
	next string
}

func verdicts(revision string) ([]verdict, error) {
	var out []verdict
	for sc := bufio.NewScanner(strings.NewReader(expected)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 || f[2] != "pass" && (f[2] != "next" || len(f) == 3) {
			return nil, fmt.Errorf("expected.txt: %q", line)
		}
		if f[0] == revision {
			out = append(out, verdict{f[1], strings.Join(f[3:], " ")})
		}
	}
	return out, nil
}

// TestExpectedList holds that the list is whole: the number of scored scenarios
// of each revision is frozen, and none is listed twice.
func TestExpectedList(t *testing.T) {
	for revision, want := range map[string]int{"2025-11-25": 30, "2026-07-28": 37} {
		vs, err := verdicts(revision)
		if err != nil {
			t.Fatal(err)
		}
		names := make([]string, len(vs))
		for i, v := range vs {
			names[i] = v.scenario
		}
		slices.Sort(names)
		if n := len(slices.Compact(names)); n != want || len(vs) != want {
			t.Errorf("%s: %d lines, %d scenarios, want %d", revision, len(vs), n, want)
		}
	}
}
