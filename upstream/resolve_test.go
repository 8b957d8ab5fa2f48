package upstream

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// bins makes a directory with executables.
func bins(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// R15: the child sees the safe baseline and its own env, nothing else.
func TestResolveEnvironment(t *testing.T) {
	dir := bins(t, "srv")
	parent := []string{"PATH=" + dir, "HOME=/h", "LANG=C", "XDG_DATA_HOME=/x", "SECRET=1", "MCP_SIDECAR_TOKEN_FILE=/t",
		"HTTPS_PROXY=http://p", "no_proxy=x", "LD_PRELOAD=evil.so", "odd"}
	s := &Settings{Command: "srv", Env: map[string]string{"TOKEN": "${TOK}", "LANG": "de"}}
	v := Vars{Lookup: func(string) (string, bool) { return "tok-1234", true }}
	r, err := s.Resolve("a", "", v, parent)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"HOME=/h", "LANG=de", "PATH=" + dir, "TOKEN=tok-1234", "XDG_DATA_HOME=/x"}
	if diff := cmp.Diff(want, r.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if r.Command != filepath.Join(dir, "srv") || r.Profile != "default" {
		t.Errorf("got command %q, profile %q", r.Command, r.Profile)
	}
	if got := r.scrub("using tok-1234!"); got != "using [redacted]!" {
		t.Errorf("scrub: got %q", got)
	}
	s.InheritProxyEnv = true
	r, err = s.Resolve("a", "", v, parent)
	if err != nil || !slices.Contains(r.Env, "HTTPS_PROXY=http://p") || !slices.Contains(r.Env, "no_proxy=x") {
		t.Errorf("inherit_proxy_env: got %v, %v", r, err)
	}
}

func TestResolveCommand(t *testing.T) {
	dir, home := bins(t, "srv", "plain"), t.TempDir()
	os.Chmod(filepath.Join(dir, "plain"), 0o644)
	local := filepath.Join(home, ".local", "bin")
	os.MkdirAll(local, 0o755)
	os.WriteFile(filepath.Join(local, "npx"), []byte("#!/bin/sh\n"), 0o755)
	path := "PATH=/nowhere:" + dir
	for _, tt := range []struct {
		name, command, cwd, path string
		want, fault              string
		is                       error
	}{
		{name: "on the child's PATH", command: "srv", path: path, want: filepath.Join(dir, "srv")},
		{name: "absolute", command: filepath.Join(dir, "srv"), want: filepath.Join(dir, "srv")},
		{name: "relative to cwd", command: "./srv", cwd: dir, want: filepath.Join(dir, "srv")},
		{name: "npx elsewhere", command: "npx", path: "PATH=/nowhere", want: filepath.Join(local, "npx")},
		{name: "home", command: "~/.local/bin/npx", want: filepath.Join(local, "npx")},
		{name: "missing", command: "nope", path: path, fault: "PATH (/nowhere:" + dir + ")", is: fs.ErrNotExist},
		{name: "no PATH", command: "srv", fault: "which is empty", is: fs.ErrNotExist},
		{name: "literal $PATH", command: "srv", path: "PATH=$PATH:/nowhere", fault: "$PATH", is: fs.ErrNotExist},
		{name: "not executable", command: "plain", path: path, fault: "not executable", is: fs.ErrPermission},
		{name: "missing path", command: "/no/such/srv", fault: "/no/such/srv", is: fs.ErrNotExist},
		{name: "a directory", command: dir, fault: "directory", is: fs.ErrPermission},
		{name: "long PATH", command: "nope", path: "PATH=/a:/b:/c:/d:/e", fault: "PATH (/a:/b:/c and 2 more)", is: fs.ErrNotExist},
		{name: "how to mend it", command: "nope", path: "PATH=/a", fault: "set env.PATH or an absolute command", is: fs.ErrNotExist},
		{name: "a shell line", command: "sh -c 'curl x'", path: "PATH=/bin:/usr/bin", fault: `command: "sh" is followed by blanks`, is: fs.ErrNotExist},
		{name: "a shell line with a slash", command: "npx -y @scope/pkg", path: "PATH=/bin", fault: "put its arguments into args", is: fs.ErrNotExist},
		{name: "a path and arguments", command: filepath.Join(dir, "srv") + " --key hunter2", fault: "put its arguments into args", is: fs.ErrNotExist},
		{name: "a path with blanks", command: "/no/such dir/srv", fault: `"/no/such dir/srv"`, is: fs.ErrNotExist},
		{name: "NUL", command: "a\x00b", fault: "NUL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Settings{Command: tt.command, Cwd: tt.cwd}
			r, err := s.Resolve("a", "", Vars{Home: home}, []string{tt.path})
			if tt.fault != "" {
				if KindOf(err) != Config || !strings.Contains(err.Error(), tt.fault) || tt.is != nil && !errors.Is(err, tt.is) {
					t.Fatalf("got %v, want a config error with %q", err, tt.fault)
				}
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error %q holds a secret", err)
				}
				return
			}
			if err != nil || r.Command != tt.want {
				t.Fatalf("got %v, %v, want %q", r, err, tt.want)
			}
			if p := r.Env[len(r.Env)-1]; !strings.Contains(p, filepath.Dir(tt.want)) {
				t.Errorf("got %q, want the program's directory in it", p)
			}
		})
	}
}

func TestResolveFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		s     Settings
		fault string
	}{
		{"nothing", Settings{}, "neither command nor url"},
		{"all unset at once", Settings{Command: "x", Args: []string{"${A}"}, Env: map[string]string{"K": "${B}"}}, "env.K: ${B} is not set"},
		{"NUL in env", Settings{Command: "sh", Env: map[string]string{"K": "a\x00b"}}, "env.K: holds a NUL"},
		{"odd name in env", Settings{Command: "sh", Env: map[string]string{"A=B": "c"}}, "cannot be the name"},
		{"NUL in args", Settings{Command: "sh", Args: []string{"a\x00"}}, "args.0: holds a NUL"},
		{"scheme", Settings{URL: "ftp://x/"}, "scheme"},
		{"no host", Settings{URL: "http://:8080/"}, "names no host"},
		{"unparsable keeps its secret", Settings{URL: "http://u:hunter2@[::1"}, "cannot be parsed"},
		{"relative socket", Settings{URL: "http+unix://x.sock/mcp"}, "absolute socket path"},
		{"long socket", Settings{URL: "http+unix://%2F" + strings.Repeat("x", 120) + "/mcp"}, "longer than"},
		{"header value", Settings{URL: "http://h/", Headers: map[string]string{"X": "hunter2\r\nY: 1"}}, "control character"},
		{"header name", Settings{URL: "http://h/", Headers: map[string]string{"X Y": "1"}}, "not a header name"},
		{"header twice", Settings{URL: "http://h/", Headers: map[string]string{"x-a": "1", "X-A": "2"}}, "set twice"},
		{"replay", Settings{URL: "http://h/", Headers: map[string]string{"idempotency-key": "1"}}, "repeat calls"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.s.Resolve("a", "", Vars{}, []string{"PATH=/bin:/usr/bin"})
			if KindOf(err) != Config || !strings.Contains(err.Error(), tt.fault) {
				t.Fatalf("got %v, want a config error with %q", err, tt.fault)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error %q holds a secret", err)
			}
		})
	}
}

// Every unset reference is found at once, with its setting, and on one line: the
// text goes into logs and answers.
func TestResolveNamesEverySetting(t *testing.T) {
	s := &Settings{
		URL: "http://h/${A}", Headers: map[string]string{"X-Key": "${B}", "X.Odd": "${workspaceFolder}"},
		OAuth: auth.OAuth{ClientID: "${C}", ClientName: "${D:-fine}"},
	}
	_, err := s.Resolve("a", "", Vars{}, nil)
	want := "upstream a: url: ${A} is not set; headers.X-Key: ${B} is not set; headers.X.Odd: ${workspaceFolder} is not set: " +
		"give --workspace DIR or the profile's workspace key; oauth.client_id: ${C} is not set"
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	var paths [][]string
	for _, f := range SettingFaults(err) {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff([][]string{{"url"}, {"headers", "X-Key"}, {"headers", "X.Odd"}, {"oauth", "client_id"}}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	_, err = (&Settings{Command: "no-such-program"}).Resolve("a", "", Vars{}, nil)
	if f := SettingFaults(err); len(f) != 1 || !slices.Equal(f[0].Path, []string{"command"}) {
		t.Errorf("got %v, want one fault of command", err)
	}
	if f := SettingFaults(errors.New("x")); f != nil {
		t.Errorf("got %v of an error that names no setting", f)
	}
}

func TestResolveHTTP(t *testing.T) {
	s := &Settings{
		URL: "HTTP+Unix://~%2Frun%2Fx.sock/mcp?a=1", Headers: map[string]string{"x-key": "${K}"},
		SSLVerify: SSLVerify{CAFile: "~/ca.pem"}, ClientCert: []string{"~/c", "~/k", "~pass"},
		IdentityHeader: &auth.IdentityHeader{Name: "x-who", ValueFrom: "profile"},
		Protocol:       "stateless",
	}
	v := Vars{Home: "/h", Lookup: func(string) (string, bool) { return "key-1", true }}
	r, err := s.Resolve("a", "work", v, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{"X-Key": {"key-1"}, "X-Who": {"work"}}
	if diff := cmp.Diff(want, r.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if r.URL.String() != "http://localhost/mcp?a=1" || r.Socket != "/h/run/x.sock" || r.Protocol != ModernOnly {
		t.Errorf("got %s, %q, %v", r.URL, r.Socket, r.Protocol)
	}
	if r.Settings.SSLVerify.CAFile != "/h/ca.pem" || !slices.Equal(r.Settings.ClientCert, []string{"/h/c", "/h/k", "~pass"}) {
		t.Errorf("paths: got %v", r.Settings)
	}
	s.Headers["X-WHO"] = "me"
	if r, _ = s.Resolve("a", "work", v, nil); r.Header.Get("X-Who") != "me" {
		t.Errorf("got %q, want the explicit header to win", r.Header.Get("X-Who"))
	}
}

// R49: what differs in the server's eyes has another identity, what does not has not.
func TestIdentity(t *testing.T) {
	id := func(profile string, change func(*Settings)) [32]byte {
		s := &Settings{URL: "https://h/mcp", Headers: map[string]string{"A": "1", "B": "2"}, Env: map[string]string{}}
		change(s)
		r, err := s.Resolve("a", profile, Vars{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Identity()
	}
	base := id("p", func(*Settings) {})
	same := map[string]func(*Settings){
		"nothing": func(*Settings) {},
		"timeout": func(s *Settings) { s.Timeout = 1 },
		"filter":  func(s *Settings) { s.Tools.Include = []string{"x"} },
	}
	for name, change := range same {
		if id("q", change) != base {
			t.Errorf("%s: got another identity", name)
		}
	}
	for name, change := range map[string]func(*Settings){
		"header": func(s *Settings) { s.Headers["A"] = "3" },
		"moved":  func(s *Settings) { s.Headers = map[string]string{"A": "12", "B": ""} },
		"url":    func(s *Settings) { s.URL = "https://h/mcp2" },
		"tls":    func(s *Settings) { s.SSLVerify.Off = true },
		"era":    func(s *Settings) { s.Protocol = "legacy" },
		"oauth":  func(s *Settings) { s.OAuth.ClientID = "x" },
		"who":    func(s *Settings) { s.IdentityHeader = &auth.IdentityHeader{Name: "W", ValueFrom: "profile"} },
	} {
		if id("q", change) == base {
			t.Errorf("%s: got the same identity", name)
		}
	}
}
