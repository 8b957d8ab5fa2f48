package conformance

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// expected says of each scenario what we hold: one line each,
//
//	REVISION SCENARIO pass
//	REVISION SCENARIO pass unscored [http]
//	REVISION SCENARIO next REASON
//
// The suite runs some scenarios without scoring them; http means that they are
// about what only servers over HTTP have.
//
//go:embed expected.txt
var expected string

// A verdict is one line of the list.
type verdict struct {
	scenario string
	// next is why the scenario is not held yet; empty when it must pass.
	next string
	// unscored scenarios are held too, but are not counted.
	unscored bool
	// httpOnly ones are not held with the server as a child process.
	httpOnly bool
}

func verdicts(revision string) ([]verdict, error) {
	var out []verdict
	for sc := bufio.NewScanner(strings.NewReader(expected)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		v, of, err := verdictOf(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("expected.txt: %q: %w", line, err)
		}
		if of == revision {
			out = append(out, v)
		}
	}
	return out, nil
}

func verdictOf(f []string) (v verdict, revision string, err error) {
	if len(f) < 3 {
		return v, "", errors.New("want a revision, a scenario and a word")
	}
	v.scenario = f[1]
	switch rest := strings.Join(f[3:], " "); {
	case f[2] == "next" && rest != "":
		v.next = rest
	case f[2] == "pass" && rest == "":
	case f[2] == "pass" && rest == "unscored":
		v.unscored = true
	case f[2] == "pass" && rest == "unscored http":
		v.unscored, v.httpOnly = true, true
	default:
		return v, "", errors.New("want pass, pass unscored, pass unscored http, or next and a reason")
	}
	return v, f[0], nil
}

// TestExpectedList holds that the list is whole: the number of scored scenarios
// of each revision is frozen, and none is listed twice.
func TestExpectedList(t *testing.T) {
	for revision, want := range map[string]struct{ scored, unscored int }{"2025-11-25": {30, 3}, "2026-07-28": {37, 3}} {
		vs, err := verdicts(revision)
		if err != nil {
			t.Fatal(err)
		}
		names, scored := map[string]bool{}, 0
		for _, v := range vs {
			names[v.scenario] = true
			if !v.unscored {
				scored++
			}
		}
		if scored != want.scored || len(vs)-scored != want.unscored || len(names) != len(vs) {
			t.Errorf("%s: %d scored and %d unscored lines, %d scenarios, want %d and %d", revision, scored, len(vs)-scored, len(names), want.scored, want.unscored)
		}
	}
}
