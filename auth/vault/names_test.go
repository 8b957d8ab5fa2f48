package vault

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFileNames is what a directory of one file for each server stands on: names
// that are apart on every file system, also where A is a.
func TestFileNames(t *testing.T) {
	long := strings.Repeat("n", 300)
	names := []string{
		"a.b", "a_b", "a-b", "a b", "a/b", `a\b`, "a:b", "a%2eb", "a_2eb", "a__b", "_", "__", "_5f", "A", "a", "AB", "aB", "Ab", "ab",
		".", "..", "...", "/", "//", "/etc/passwd", "../../x", "-", "--", "-a", "CON", "con", "Con", "nul", "com1", "com9", "lpt1", "COM1", "con.x", "_63on",
		"é", "e\u0301", "É", "ß", "ss", "ſ", "s", "K", "k", "\u212a", "日本", "x\x00y", "x\ny", " ", "  ", "a ", "a.", ".lock", "a.lock", "a.json", ".new-x", "default",
		long, long + "n", strings.ToUpper(long), strings.Repeat("_", 300), strings.Repeat(".", 60), strings.Repeat(".", 61), strings.Repeat("é", 2000),
		strings.Repeat(".", 33) + "_h" + strings.Repeat("0", 64), strings.Repeat("n", 99) + strings.Repeat("_", 80), strings.Repeat("n", 99) + strings.Repeat(".", 80),
		long[:maxBase], long[:maxBase+1], strings.TrimSuffix(fileName(long), fileSuffix),
	}
	made := map[string]string{}
	good := regexp.MustCompile(`^[-_a-z0-9]+\.json$`)
	for _, name := range names {
		file := fileName(name)
		if other, ok := made[file]; ok {
			t.Errorf("%.40q and %.40q are both in %s", name, other, file)
		}
		made[file] = name
		if !good.MatchString(file) || len(file)+len(backupSuffix) > 200 || file[0] == '-' {
			t.Errorf("%.40q is in %s", name, file)
		}
		if got, ok := serverOf(file); ok && got != name || !ok && len(baseName(name)) < maxKept {
			t.Errorf("%s: got %.40q, %t, want %.40q", file, got, ok, name)
		}
	}
	for name, want := range map[string]string{"github": "github.json", "a.b": "a_2eb.json", "a_b": "a__b.json", "..": "_2e_2e.json", "con": "_63on.json"} {
		if got := fileName(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestForeignFileNames(t *testing.T) {
	for _, name := range []string{"", ".json", "A.json", "_.json", "a_.json", "a_2.json", "a_2E.json", "_61.json", "_5f.json", "a.b.json", "con.json", "a.lock", "a.json.bak", "_ff.json", ".new-1", "..data"} {
		if server, ok := serverOf(name); ok {
			t.Errorf("%s: got %q", name, server)
		}
	}
}

func TestLongNames(t *testing.T) {
	l := newLab(t)
	want := []string{".", "A", "CON", "a", strings.Repeat("x/", 500), strings.Repeat("x/", 501), "é"}
	for _, name := range want {
		l.save(full(name))
		if got := l.load(name); got == nil || got.Server != name {
			t.Errorf("%.20q: got %v", name, got)
		}
		if unlock, err := l.Lock(t.Context(), name); err != nil {
			t.Error(err)
		} else {
			unlock()
		}
	}
	if got, err := l.Names(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %.200q, %v", got, err)
	}
	for _, name := range want {
		if err := l.Delete(name); err != nil {
			t.Error(err)
		}
	}
	if got, err := l.Names(); err != nil || len(got) > 0 {
		t.Errorf("got %.200q, %v", got, err)
	}
}

func FuzzFileName(f *testing.F) {
	f.Add("a.b", "a_b")
	f.Add("A", "a")
	f.Add("con", "_63on")
	f.Fuzz(func(t *testing.T, a, b string) {
		if checkName(a) != nil || checkName(b) != nil {
			t.Skip()
		}
		if a != b && strings.EqualFold(fileName(a), fileName(b)) {
			t.Errorf("%q and %q share %s", a, b, fileName(a))
		}
		if got, ok := serverOf(fileName(a)); ok && got != a || !ok && len(baseName(a)) < maxKept {
			t.Errorf("%q: got %q, %t", a, got, ok)
		}
		serverOf(a + fileSuffix)
	})
}
