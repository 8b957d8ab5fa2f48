package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzLoad feeds one file of any text to the whole loader: no panic, a value or
// an error and never both, and an end within bounds.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*", "../examples/*"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil || strings.HasSuffix(name, ".want") {
				continue
			}
			f.Add(data, byte(len(data)))
		}
	}
	f.Add([]byte("a: &a\n  <<: *a\n"), byte(0))
	f.Add([]byte("? !!str\n: - &x\n  - *x\n"), byte(0))
	f.Add([]byte("{\"servers\":{\"a\":{\"type\":[],\"disabled\":{},\"tools\":\"x\",\"includeTools\":5}}}"), byte(1))
	f.Add([]byte("{\x00"), byte(1))
	f.Add([]byte("//"), byte(1))
	f.Add([]byte("{]"), byte(1))
	names := []string{"c.yaml", "c.json", "c"}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		if len(data) > 64<<10 {
			return
		}
		name := names[int(kind)%len(names)]
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		in := Input{Files: []string{name}, Dir: dir, Home: "/home/u"}
		if kind >= 128 {
			in.Files[0] = "hermes:" + name
		}
		c, err := Load(in)
		if (c == nil) == (err == nil) {
			t.Fatalf("got config %v and error %v", c, err)
		}
		if c != nil {
			c.Effective()
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Fatalf("took %v for %d bytes", d, len(data))
		}
	})
}

func FuzzParseEnv(f *testing.F) {
	f.Add([]byte("export A='b'\nB=\"c\\n\"\n#x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, _ := parseEnv(data, ".env")
		for k := range vars {
			if !validName(k) {
				t.Errorf("got name %q", k)
			}
		}
	})
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`a 'b c' "d\"e" f\ g`)
	f.Fuzz(func(t *testing.T, s string) {
		words, err := splitWords(s)
		if err == nil && words == nil {
			t.Error("got nil words")
		}
	})
}
