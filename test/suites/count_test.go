package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name           string
		events         string
		passed, failed int
		skipped        []string
	}{
		{"leaves count", `
{"Action":"pass","Package":"m/p","Test":"A/x"}
{"Action":"pass","Package":"m/p","Test":"A/y/z"}
{"Action":"pass","Package":"m/p","Test":"A/y"}
{"Action":"pass","Package":"m/p","Test":"A"}
{"Action":"pass","Package":"m/p","Test":"B"}
{"Action":"pass","Package":"m/p"}`, 3, 0, nil},
		{"one failure is one", `
{"Action":"fail","Package":"m/p","Test":"A/x"}
{"Action":"fail","Package":"m/p","Test":"A"}
{"Action":"fail","Package":"m/p"}`, 0, 1, nil},
		{"a parent that fails by itself", `
{"Action":"pass","Package":"m/p","Test":"A/x"}
{"Action":"fail","Package":"m/p","Test":"A"}
{"Action":"fail","Package":"m/p"}`, 1, 1, nil},
		{"a package that does not build, or panics", `
{"Action":"fail","Package":"m/p"}
{"Action":"pass","Package":"m/q","Test":"A"}
{"Action":"pass","Package":"m/q"}`, 1, 1, nil},
		{"skips keep their reason", `
{"Action":"output","Package":"github.com/o/m/test/p","Test":"A","Output":"=== RUN   A\n"}
{"Action":"output","Package":"github.com/o/m/test/p","Test":"A","Output":"    a_test.go:7: next: not yet\n"}
{"Action":"output","Package":"github.com/o/m/test/p","Test":"A","Output":"--- SKIP: A (0.00s)\n"}
{"Action":"skip","Package":"github.com/o/m/test/p","Test":"A"}
{"Action":"skip","Package":"github.com/o/m/empty"}`, 0, 0, []string{"test/p A: next: not yet"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := read(strings.NewReader(tt.events), io.Discard)
			if got.Passed != tt.passed || got.Failed != tt.failed {
				t.Errorf("got %d passed, %d failed, want %d, %d", got.Passed, got.Failed, tt.passed, tt.failed)
			}
			if d := cmp.Diff(tt.skipped, got.Skipped); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFailureIsShown(t *testing.T) {
	var out strings.Builder
	read(strings.NewReader(`{"Action":"output","Package":"p","Test":"A","Output":"a_test.go:1: got 1\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"B","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"B"}
{"Action":"build-output","Output":"x.go:1: no\n"}
`), &out)
	if got, want := out.String(), "a_test.go:1: got 1\nx.go:1: no\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnendedIsShown(t *testing.T) {
	var out strings.Builder
	read(strings.NewReader(`{"Action":"output","Package":"p","Test":"A","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"B","Output":"panic: test timed out after 6m0s\n"}
{"Action":"output","Package":"q","Test":"C","Output":"of another package\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\n"}
{"Action":"fail","Package":"p","Elapsed":360}
`), &out)
	if got, want := out.String(), "fail p 360.0 s\nFAIL\tp\ndid not end: B\npanic: test timed out after 6m0s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTallyGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tally")
	(&tally{Passed: 2, Skipped: []string{"a: b"}}).save(file)
	var out strings.Builder
	if code := run([]string{"-tally", file, "-fail", "npm is out of reach"}, &out, io.Discard); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	want := "npm is out of reach\nskipped a: b\n0 s\n2 passed, 1 failed\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if got := load(file); got.Failed != 1 {
		t.Errorf("saved %+v", got)
	}
}
