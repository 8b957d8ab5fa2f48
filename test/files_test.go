package test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxLines is the end of a file; tests and tables may be longer.
const maxLines = 600

// skipped directories hold what others wrote.
var skipped = map[string]bool{".git": true, "node_modules": true, "dist": true, "bin": true, "out": true}

// eachFile calls f with every text file of the tree.
func eachFile(t *testing.T, f func(name string, b []byte)) {
	t.Helper()
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped[d.Name()] {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 4<<20 || strings.HasSuffix(name, "package-lock.json") {
			return nil
		}
		b, err := fs.ReadFile(root, name)
		if err == nil && bytes.IndexByte(b[:min(len(b), 8000)], 0) < 0 {
			f(name, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFileLength keeps files readable in one sitting.
func TestFileLength(t *testing.T) {
	eachFile(t, func(name string, b []byte) {
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "table") {
			return
		}
		if n := bytes.Count(b, []byte{'\n'}); n > maxLines {
			t.Errorf("%s has %d lines, more than %d: is one two?", name, n, maxLines)
		}
	})
}

// unfinished are marks of work that was left. They are put together here so that
// this file does not find itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// TestNothingLeft keeps marks of unfinished work out, and the path of whatever
// checkout the tests run in.
func TestNothingLeft(t *testing.T) {
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	eachFile(t, func(name string, b []byte) {
		for i, line := range strings.Split(string(b), "\n") {
			if hit := unfinished.FindString(line); hit != "" {
				t.Errorf("%s:%d: has %q", name, i+1, hit)
			}
			if strings.Contains(line, here+"/") {
				t.Errorf("%s:%d: names the checkout's own path", name, i+1)
			}
		}
	})
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks holds that every relative link of a document leads to a file.
func TestLinks(t *testing.T) {
	eachFile(t, func(name string, b []byte) {
		if filepath.Ext(name) != ".md" {
			return
		}
		for _, m := range link.FindAllSubmatch(b, -1) {
			to, _, _ := strings.Cut(string(m[1]), "#")
			if to == "" || strings.Contains(to, ":") {
				continue
			}
			at := filepath.Join("..", filepath.Dir(name), to)
			if rel, err := filepath.Rel("..", at); err != nil || strings.HasPrefix(rel, "..") {
				t.Errorf("%s: link %q leaves the project", name, to)
			} else if _, err := os.Stat(at); err != nil {
				t.Errorf("%s: link %q leads nowhere", name, to)
			}
		}
	})
}
