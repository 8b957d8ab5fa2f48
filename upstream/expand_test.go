package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	secret, big, empty := file("secret", "s3cret\n"), file("big", strings.Repeat("x", maxRefFile+1)), file("empty", "\n")
	odd := file("odd", "a${B}c\n")
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	v := Vars{
		Home: "/home/u", Workspace: "/work/proj",
		Lookup: func(name string) (string, bool) {
			s, ok := map[string]string{"FOO": "foo", "EMPTY": "", "REF": "${FOO}", "DOLLAR": "$5", "x": "lower"}[name]
			return s, ok
		},
	}
	for _, tt := range []struct{ in, want, fault string }{
		{in: "plain $FOO $$ {FOO}", want: "plain $FOO $$ {FOO}"},
		{in: "${FOO}", want: "foo"},
		{in: "a${FOO}b${env:FOO}c", want: "afoobfooc"},
		{in: "${ FOO }", want: "foo"},
		{in: "$${FOO}", want: "$foo"},
		{in: "${DOLLAR}", want: "$5"},
		{in: "${userHome}${/}x${pathSeparator}y", want: "/home/u/x/y"},
		{in: "${workspaceFolder}:${workspaceFolderBasename}", want: "/work/proj:proj"},
		{in: "open ${FOO", want: "open ${FOO"},
		{in: "${x}", want: "lower"},
		{in: "${file:" + secret + "}", want: "s3cret"},
		{in: "${file:" + odd + "}", want: "a${B}c"}, // a file is taken as it is
		{in: "${BAR}", fault: "${BAR} is not set"},
		{in: "${env:BAR}", fault: "${env:BAR} is not set"},
		{in: "${EMPTY}", fault: "${EMPTY} is not set"},
		{in: "${}", fault: "names no variable"},
		{in: "${${FOO}}", fault: "reference within a reference"},
		{in: "${REF}", fault: "${REF} is not set to a plain value"},
		{in: "${UserHome}", fault: "${UserHome} is not set"},
		{in: "${input:token}", fault: "${input:token} asks a person"},
		{in: "${file:" + big + "}", fault: "65536 bytes"},
		{in: "${file:" + empty + "}", fault: "empty"},
		{in: "${file:" + fifo + "}", fault: "not a regular file"},
		{in: "${file:" + dir + "}", fault: "not a regular file"},
		{in: "${file:rel/path}", fault: "must be absolute"},
		{in: "${file:/no/such/file}", fault: "/no/such/file"},
	} {
		got, err := v.Expand(tt.in)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("Expand(%q): got %q and error %v, want an error with %q", tt.in, got, err, tt.fault)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("Expand(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
	if _, err := (Vars{}).Expand("${workspaceFolder}"); err == nil || !strings.Contains(err.Error(), "workspaceFolder") {
		t.Errorf("no workspace: got %v, want an error that names it", err)
	}
}

// What leaves is free of references, whatever was written.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"${A}", "${${A}}", "$${A}", "${A${A}}", "}${", "${env:A}${/}", "${userHome}}"} {
		f.Add(s)
	}
	v := Vars{Home: "/h", Lookup: func(n string) (string, bool) { return "v", n == "A" }}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "file:") {
			return
		}
		out, err := v.Expand(s)
		if err == nil && holdsRef(out) {
			t.Errorf("Expand(%q) = %q, which holds a reference", s, out)
		}
	})
}
