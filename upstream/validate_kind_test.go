package upstream

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/egress"
)

// Every key of a server says for whom it is, itself or with its block, and no word
// stands there that is no key.
func TestFitsEveryKey(t *testing.T) {
	used := map[string]bool{}
	var walk func(typ reflect.Type, above string)
	walk = func(typ reflect.Type, above string) {
		for i := range typ.NumField() {
			key, _, _ := strings.Cut(typ.Field(i).Tag.Get("yaml"), ",")
			if key == "" || key == "-" {
				continue
			}
			path := above + key
			if _, ok := fits[path]; ok {
				used[path] = true
				continue
			}
			if ft := typ.Field(i).Type; ft.Kind() == reflect.Struct {
				walk(ft, path+".")
				continue
			}
			t.Errorf("%s: fits does not say which servers it is for", path)
		}
	}
	walk(reflect.TypeFor[Settings](), "")
	for path := range fits {
		if !used[path] {
			t.Errorf("%s: in fits, but no key of a server", path)
		}
	}
}

// advice is what Validate says that is no fault, by path.
func advice(t *testing.T, s *Settings) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range s.Validate("x") {
		path := strings.Join(f.Path, ".")
		if f.Severity != Advice {
			t.Errorf("%s: got the fault %q, want advice", path, f.Msg)
		}
		if _, twice := out[path]; twice {
			t.Errorf("%s: is told twice", path)
		}
		out[path] = f.Msg
	}
	return out
}

func TestMisplaced(t *testing.T) {
	const (
		onCommand = "has no effect on a server with a command: it is for one with a url"
		onURL     = "has no effect on a server with a url: it is for one with a command"
		onBuiltin = "has no effect on a server that is built in: it is for one with a "
	)
	core, yes := 0, true
	for _, tt := range []struct {
		name string
		s    Settings
		want map[string]string
	}{
		{"command", Settings{
			Command: "x", SSLVerify: SSLVerify{Off: true}, ClientCert: []string{"c"}, ClientKey: "k", Headers: map[string]string{"A": "b"},
			SkipPreflight: true, StrictRedirectHeaders: true, Auth: "header", Isolation: "per_caller", MaxProcesses: 3, IdleTimeout: time.Minute,
		}, map[string]string{
			"ssl_verify": onCommand, "client_cert": onCommand, "client_key": onCommand, "headers": onCommand,
			"skip_preflight": onCommand, "strict_redirect_headers": onCommand, "auth": onCommand,
		}},
		{"key alone", Settings{Command: "x", ClientKey: "k"}, map[string]string{"client_key": onCommand}},
		{"login", Settings{Command: "x", Auth: "oauth"}, map[string]string{"auth": onCommand}},
		{"url", Settings{
			URL: "https://e.example/", Cwd: "/", Env: map[string]string{"A": "b"}, Args: []string{"a"}, Rlimits: Rlimits{Core: &core}, Screening: &yes,
			InheritProxyEnv: true, IdleTimeout: time.Minute, MaxLifetime: time.Minute, MaxProcesses: 2, Headers: map[string]string{"A": "b"},
			Lifecycle: Lifecycle{StopGrace: time.Second, IdleTimeout: time.Minute, WakeWait: time.Second}, Egress: egress.Server{Proxy: "direct"},
		}, map[string]string{
			"cwd": onURL, "env": onURL, "args": onURL, "rlimits": onURL, "screening": onURL, "inherit_proxy_env": onURL,
			"idle_timeout_seconds": onURL, "max_lifetime_seconds": onURL, "max_processes": onURL,
			"lifecycle.stop_grace": onURL, "lifecycle.idle_timeout_seconds": onURL,
		}},
		{"builtin", Settings{Builtin: "demo", Args: []string{"a"}, ClientCert: []string{"c"}, Egress: egress.Server{Allow: []string{}}, MaxProcesses: 2},
			map[string]string{"args": onBuiltin + "command", "client_cert": onBuiltin + "url", "egress.allow": onBuiltin + "command or a url"}},
		{"plain", Settings{Command: "x", Args: []string{"a"}, Cwd: "/"}, map[string]string{}},
	} {
		if diff := cmp.Diff(tt.want, advice(t, &tt.s)); diff != "" {
			t.Errorf("%s: advice mismatch (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestClashes(t *testing.T) {
	const (
		single = "serialize lets one tool call through at a time, so this "
		none   = "failures is negative, so there is no breaker and this does nothing"
		own    = "egress.allow gives the server a proxy of its own, so this "
		socket = "has no effect on a unix socket: there is neither TLS nor a proxy on the way"
	)
	for _, tt := range []struct {
		name string
		s    Settings
		want map[string]string
	}{
		{"breaker off", Settings{Command: "x", Breaker: Breaker{Failures: -1, Open: time.Minute, ProbeTimeout: time.Second}},
			map[string]string{"breaker.open": none, "breaker.probe_timeout": none}},
		{"breaker on", Settings{Command: "x", Breaker: Breaker{Open: time.Minute, ProbeTimeout: time.Second}}, map[string]string{}},
		{"serialize", Settings{Command: "x", Serialize: "process", MaxConcurrency: 2, SupportsParallelToolCalls: true}, map[string]string{
			"max_concurrency":              single + "bounds only other requests and those that wait",
			"supports_parallel_tool_calls": single + "does nothing"}},
		{"serialize one", Settings{Command: "x", Serialize: "process", MaxConcurrency: 1}, map[string]string{}},
		{"no queue", Settings{Command: "x", MaxQueue: -1, QueueWait: time.Second},
			map[string]string{"queue_wait": "max_queue is negative, so no call waits and this does nothing"}},
		{"fence", Settings{Command: "x", InheritProxyEnv: true, Env: map[string]string{"HTTPS_PROXY": "http://p.example", "A": "b"}, Egress: egress.Server{Allow: []string{}}},
			map[string]string{"inherit_proxy_env": own + "does nothing", "env.HTTPS_PROXY": own + "is not handed on"}},
		{"no fence", Settings{Command: "x", InheritProxyEnv: true, Env: map[string]string{"HTTPS_PROXY": "http://p.example"}}, map[string]string{}},
		{"unverified", Settings{URL: "https://e.example/", SSLVerify: SSLVerify{Off: true}}, map[string]string{
			"ssl_verify": "is off: anyone on the way can pose as the server, and read and change everything, credentials included. " +
				"Trust its certificate instead: ssl_verify: /path/to/ca.pem"}},
		{"identity", Settings{URL: "https://e.example/", Headers: map[string]string{"x-user ": "b"}, IdentityHeader: &auth.IdentityHeader{Name: "X-User", Value: "a"}},
			map[string]string{"identity_header.name": "is in headers too, and that one is sent"}},
		{"socket", Settings{URL: "http+unix://%2Frun%2Fx.sock/mcp", SSLVerify: SSLVerify{Off: true}, ClientCert: []string{"c"}, ClientKey: "k", Egress: egress.Server{Proxy: "direct"}},
			map[string]string{"ssl_verify": socket, "client_cert": socket, "client_key": socket, "egress.proxy": socket}},
		{"verified socket", Settings{URL: "http+unix://%2Frun%2Fx.sock/mcp"}, map[string]string{}},
		{"same twice", Settings{Command: "x", IdleTimeout: time.Minute, Lifecycle: Lifecycle{IdleTimeout: time.Minute}}, map[string]string{}},
	} {
		if diff := cmp.Diff(tt.want, advice(t, &tt.s)); diff != "" {
			t.Errorf("%s: advice mismatch (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Two spellings of one setting with two values are a fault.
func TestClashingSpellings(t *testing.T) {
	s := Settings{Command: "x", IdleTimeout: time.Minute, MaxLifetime: time.Hour, Lifecycle: Lifecycle{IdleTimeout: time.Hour, MaxLifetime: time.Minute}}
	want := []Fault{
		{Path: []string{"lifecycle", "idle_timeout_seconds"}, Msg: "contradicts idle_timeout_seconds, which is 1m0s and wins"},
		{Path: []string{"lifecycle", "max_lifetime_seconds"}, Msg: "contradicts max_lifetime_seconds, which is 1h0m0s and wins"},
	}
	if diff := cmp.Diff(want, s.Validate("x")); diff != "" {
		t.Errorf("fault mismatch (-want +got):\n%s", diff)
	}
}

// What the machine does not have or allow shows before anything starts.
func TestStarts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	more := 0
	if own.Max < 1<<40 {
		more = int(own.Max) + 1
	}
	for _, tt := range []struct {
		name string
		s    Settings
		want []string
	}{
		{"fine", Settings{Command: "/bin/sh", Cwd: dir, Rlimits: Rlimits{NoFile: 8}}, nil},
		{"missing", Settings{Command: "/bin/sh", Cwd: filepath.Join(dir, "none")}, []string{"cwd: "}},
		{"file", Settings{Command: "/bin/sh", Cwd: file}, []string{"cwd: "}},
		{"limits", Settings{Command: "/bin/sh", Cwd: file, Rlimits: Rlimits{NoFile: more}}, []string{"cwd: ", "rlimits.nofile: "}},
		{"url", Settings{URL: "http://127.0.0.1:1/", Cwd: file}, nil},
	} {
		if tt.name == "limits" && more == 0 {
			continue // there is no more than what is allowed here
		}
		r, err := tt.s.Resolve("x", "", Vars{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := SettingFaults(r.Starts())
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, got, tt.want)
			continue
		}
		for i, f := range got {
			if !strings.HasPrefix(f.Error(), tt.want[i]) {
				t.Errorf("%s: got %v, want %q", tt.name, f, tt.want[i])
			}
		}
	}
}
