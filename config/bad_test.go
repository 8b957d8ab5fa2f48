package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestBad loads one file per mistake and compares the whole error. No file of
// testdata/bad may load, and none may repeat the secret that it holds.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		if strings.HasSuffix(f, ".want") {
			continue
		}
		n++
		t.Run(filepath.Base(f), func(t *testing.T) { testBad(t, f) })
	}
	if n < 35 {
		t.Errorf("got %d bad files, want at least 35", n)
	}
}

func testBad(t *testing.T, path string) {
	_, err := Load(Input{Files: []string{filepath.Base(path)}, Dir: filepath.Dir(path), Home: "/home/u"})
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got error %v, want *Faults", err)
	}
	got := faults.Error() + "\n"
	if strings.Contains(got, "hunter2") {
		t.Errorf("the error repeats a secret: %s", got)
	}
	if *update {
		if err := os.WriteFile(path+".want", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path + ".want")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("error mismatch (-want +got):\n%s", diff)
	}
}
