package vault

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// mount makes a directory as Kubernetes mounts secrets: links to links, open to
// others.
func (l *lab) mount(entries ...*Entry) {
	l.t.Helper()
	seed := &Vault{Dir: filepath.Join(l.t.TempDir(), "secret", "..2030_01_01"), Key: l.Key}
	for _, e := range entries {
		if err := seed.Save(e); err != nil {
			l.t.Fatal(err)
		}
		if err := os.Chmod(seed.path(e.Server), 0o644); err != nil {
			l.t.Fatal(err)
		}
	}
	l.Seed = filepath.Dir(seed.Dir)
	link := func(to, at string) {
		if err := os.Symlink(to, filepath.Join(l.Seed, at)); err != nil {
			l.t.Fatal(err)
		}
	}
	link("..2030_01_01", "..data")
	for _, e := range entries {
		link(filepath.Join("..data", fileName(e.Server)), fileName(e.Server))
	}
	if err := os.Chmod(l.Seed, 0o555); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) names() string {
	l.t.Helper()
	names, err := l.Names()
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func TestSeed(t *testing.T) {
	for name, key := range map[string][]byte{"open": nil, "sealed": bytes.Repeat([]byte{1}, KeySize)} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.Key = key
			l.mount(full("a"), full("b"))
			if diff := cmp.Diff(full("a"), l.load("a"), plainly); diff != "" {
				t.Fatal(diff)
			}
			stamp := l.Stamp("a")
			if stamp == (Stamp{}) || l.names() != "a b" {
				t.Errorf("stamp %v, names %s", stamp, l.names())
			}
			rotated := full("a")
			rotated.Refresh = canary + "-rotated"
			l.save(rotated)
			l.save(full("c"))
			if got := l.load("a"); got.Refresh != rotated.Refresh || l.Stamp("a") == stamp || l.names() != "a b c" {
				t.Error("the overlay does not count")
			}
			if err := l.Delete("a"); err != nil {
				t.Fatal(err)
			}
			if l.load("a") != nil || l.names() != "b c" {
				t.Errorf("still there after a logout: %s", l.names())
			}
			if err := l.Delete("a"); err != nil || strings.Contains(l.text(l.path("a")), canary) {
				t.Errorf("again: %v", err)
			}
			l.save(rotated)
			if l.load("a").Refresh != rotated.Refresh || l.names() != "a b c" {
				t.Error("not there after a new login")
			}
			if w := l.warned(); w != "" {
				t.Errorf("warned %q", w)
			}
		})
	}
}

// TestNewerSeed holds that an operator who logs in again and replaces the secret
// is heard, and that a clock that is ahead brings no spent token back.
func TestNewerSeed(t *testing.T) {
	l := newLab(t)
	old := full("a")
	old.Refresh = canary + "-spent"
	l.save(old)
	fresh := full("a")
	l.mount(fresh)
	if l.load("a").Refresh != fresh.Refresh {
		t.Error("the newer secret does not count")
	}
	if err := l.Delete("a"); err != nil || l.load("a") != nil {
		t.Fatal("a logout does not hide it")
	}
	l.mount(fresh)
	if l.load("a") == nil || l.names() != "a" {
		t.Error("a newer secret does not end the logout")
	}

	b, err := os.ReadFile(filepath.Join(l.Seed, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	f, bad := decodeFile(b)
	if bad != nil {
		t.Fatal(bad)
	}
	ahead := time.Now().Add(240 * time.Hour).UTC().Format(time.RFC3339Nano)
	b = bytes.Replace(b, []byte(f.Updated.Format(time.RFC3339Nano)), []byte(ahead), 1)
	if err := os.WriteFile(filepath.Join(l.Seed, "..data", "a.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	rotated := full("a")
	rotated.Refresh = canary + "-rotated"
	if l.save(rotated); l.load("a").Refresh != rotated.Refresh {
		t.Error("a clock that was ahead brought a spent token back")
	}
	if err := l.Delete("a"); err != nil || l.load("a") != nil {
		t.Error("a clock that was ahead undid a logout")
	}
}

func TestBadSeed(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil     func(l *lab)
		want      bool
		wantError string
	}{
		"no directory":          {spoil: func(l *lab) { l.Seed = "/nowhere" }},
		"another key":           {spoil: func(l *lab) { l.Key = bytes.Repeat([]byte{2}, KeySize) }, wantError: "sealed with a key that we do not have"},
		"another key, overlaid": {spoil: func(l *lab) { l.Key = bytes.Repeat([]byte{2}, KeySize); l.save(full("a")) }, want: true},
		"damaged":               {spoil: func(l *lab) { l.spoilSeed("CANARY") }},
		"damaged overlay":       {spoil: func(l *lab) { l.put("a", "CANARY") }, want: true},
		"newer overlay":         {spoil: func(l *lab) { l.put("a", `{"version":2,"x":"CANARY"}`) }},
		"is a pipe's directory": {spoil: func(l *lab) { l.Seed = os.DevNull }, wantError: "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.Key = bytes.Repeat([]byte{1}, KeySize)
			l.mount(full("a"))
			tc.spoil(l)
			got, err := l.Load("a")
			if (got != nil) != tc.want || (err == nil) != (tc.wantError == "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func (l *lab) spoilSeed(text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.Seed, "..data", "a.json"), []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func TestNamesOfBoth(t *testing.T) {
	l := newLab(t)
	l.mount(full("a"), full(strings.Repeat("s/", 300)))
	l.save(full("b"))
	for _, junk := range []string{"README.md", "X.json", "b.lock", "_.json", ".json"} {
		if err := os.WriteFile(filepath.Join(l.Dir, junk), []byte(`{"version":1,"server":""}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.Names(); err != nil || !slices.Equal(got, []string{"a", "b", strings.Repeat("s/", 300)}) {
		t.Errorf("got %.100q, %v", got, err)
	}
}
