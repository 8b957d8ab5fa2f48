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
		Home: "/home/u", Workspace: "/srv/proj",
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
		{in: "${workspaceFolder}:${workspaceFolderBasename}", want: "/srv/proj:proj"},
		{in: "open ${FOO", want: "open ${FOO"},
		{in: "${x}", want: "lower"},
		{in: "${file:" + secret + "}", want: "s3cret"},
		{in: "${file:" + odd + "}", want: "a${B}c"}, // a file is taken as it is
		{in: "${FOO:-other}", want: "foo"},
		{in: "${BAR:-other}/${env:BAR:-more}", want: "other/more"},
		{in: "${EMPTY:-other}", want: "other"},
		{in: "a${BAR:-}b", want: "ab"},
		{in: "${ BAR :- two words }", want: " two words "},
		{in: "${BAR:-https://h:1/x?a=$FOO}", want: "https://h:1/x?a=$FOO"},
		{in: "${BAR:-a:-b}", want: "a:-b"},
		{in: "${workspaceFolder:-/other}", want: "/srv/proj"},
		{in: "${file:" + secret + "} ${BAR:-x}", want: "s3cret x"},
		{in: "${BAR:-${FOO}}", fault: "${BAR:-...} is a reference within a reference"},
		{in: "${REF:-other}", fault: "plain value"},
		{in: "${:-x}", fault: "names no variable"},
		{in: "${BAR-x}", fault: "${BAR-x} is not set"},
		{in: "${file:/no/such:-x}", fault: "/no/such:-x"},
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
	for in, want := range map[string]string{
		"${workspaceFolder}":         "${workspaceFolder} is not set: give --workspace DIR or the profile's workspace key",
		"${workspaceFolderBasename}": "${workspaceFolderBasename} is not set: give --workspace DIR or the profile's workspace key",
		"${userHome}":                "${userHome} is not set: set HOME",
	} {
		if _, err := (Vars{}).Expand(in); err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if got, err := (Vars{}).Expand("${workspaceFolder:-.}"); err != nil || got != "." {
		t.Errorf("got %q, %v, want the default", got, err)
	}
}

// A default that stands in for a secret is kept out of logs as a secret is.
func TestDefaultIsKept(t *testing.T) {
	s := &Settings{URL: "http://${HOST_NAME:-h.example}/", Headers: map[string]string{"X": "${API_KEY:-hunter2}"}}
	r, err := s.Resolve("a", "", Vars{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.scrub("h.example says hunter2"); got != "h.example says [redacted]" {
		t.Errorf("got %q", got)
	}
}

// What leaves is free of references, whatever was written.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"${A}", "${${A}}", "$${A}", "${A${A}}", "}${", "${env:A}${/}", "${userHome}}", "${A:-x}", "${B:-$}{x}"} {
		f.Add(s)
	}
	v := Vars{Home: "/h", Lookup: func(n string) (string, bool) { return "v", n == "A" }}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "file:") {
			return
		}
		out, err := v.Expand(s)
		// A default is literal text, of which one could be put together.
		if err == nil && holdsRef(out) && !strings.Contains(s, ":-") {
			t.Errorf("Expand(%q) = %q, which holds a reference", s, out)
		}
	})
}
