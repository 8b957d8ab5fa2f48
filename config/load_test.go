package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// write puts files into a new directory and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, name, text string) *Config {
	t.Helper()
	dir := write(t, map[string]string{name: text})
	c, err := Load(Input{Files: []string{name}, Dir: dir, Home: "/home/u"})
	if err != nil {
		t.Fatalf("load %s: %v", name, err)
	}
	return c
}

func loadError(t *testing.T, in Input) string {
	t.Helper()
	_, err := Load(in)
	var f *Faults
	if !errors.As(err, &f) {
		t.Fatalf("got error %v, want *Faults", err)
	}
	return f.Error()
}

func warnings(c *Config) []string {
	out := []string{}
	for _, w := range c.Warnings {
		out = append(out, w.Error())
	}
	return out
}

func TestExamples(t *testing.T) {
	for _, tc := range []struct {
		file    string
		servers []string
		foreign bool
	}{
		{"minimal.yaml", []string{"files"}, false},
		{"http.yaml", []string{"docs"}, false},
		{"full.yaml", []string{"files", "notes", "docs", "github", "local"}, false},
		{"corporate-proxy.yaml", []string{"docs", "wiki", "lab", "search"}, false},
		{"mtls.yaml", []string{"combined", "pair", "locked"}, false},
		{"lazy.yaml", []string{"browser", "memory"}, false},
		{"hermes-config.yaml", []string{"filesystem", "github", "company_api"}, true},
		{"hermes-mcp_servers.yaml", []string{"time", "search"}, true},
		{"claude.mcp.json", []string{"filesystem", "docs"}, true},
		{"vscode.mcp.json", []string{"memory", "docs"}, true},
		{"cursor.mcp.json", []string{"thinking", "linear"}, true},
		{"gemini.settings.json", []string{"docs"}, true},
	} {
		t.Run(tc.file, func(t *testing.T) {
			c, err := Load(Input{Files: []string{tc.file}, Dir: "../examples", Home: "/home/u"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range c.Servers {
				got = append(got, s.Name)
				if s.Err != nil || s.Foreign != tc.foreign || s.Line == 0 {
					t.Errorf("server %s: err %v, foreign %v, line %d", s.Name, s.Err, s.Foreign, s.Line)
				}
			}
			if diff := cmp.Diff(tc.servers, got); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
		})
	}
	all, _ := filepath.Glob("../examples/*.[yj]*")
	if len(all) != 12 {
		t.Errorf("got %d examples, but 12 are loaded here", len(all))
	}
}

// TestMinimalStandsAlone holds that the first file anyone tries needs no variable.
func TestMinimalStandsAlone(t *testing.T) {
	data, err := os.ReadFile("../examples/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "${") {
		t.Error("examples/minimal.yaml refers to a variable")
	}
}

func TestScalarsKeepTheirText(t *testing.T) {
	c := load(t, "c.yaml", `
mcp_servers:
  a:
    command: x
    args: [010, 1.10, yes, 0x10, 1_000, 1e3, true, "5", -y, 2001-01-01, !!str 7]
    env: {A: 010, B: 1.10, C: no, D: 0o7, E: "", F: "~", G: .5, H: NULL x}
`)
	want := []string{"010", "1.10", "yes", "0x10", "1_000", "1e3", "true", "5", "-y", "2001-01-01", "7"}
	if diff := cmp.Diff(want, c.Servers[0].Settings.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	env := map[string]string{"A": "010", "B": "1.10", "C": "no", "D": "0o7", "E": "", "F": "~", "G": ".5", "H": "NULL x"}
	if diff := cmp.Diff(env, c.Servers[0].Settings.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	j := load(t, "c.json", `{"mcpServers": {"a": {"command": "x", "args": ["010", 1.10, 1e3, true, 12345678901234567890]}}}`)
	if diff := cmp.Diff([]string{"010", "1.10", "1e3", "true", "12345678901234567890"}, j.Servers[0].Settings.Args); diff != "" {
		t.Errorf("JSON args (-want +got):\n%s", diff)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c := load(t, "c.yaml", `
mcp_servers:
  a: &a
    command: x
    env: &env {A: "1", B: "2"}
    timeout: 5
  b:
    <<: *a
    command: y
    env: {<<: [*env, {C: "9", A: "8"}], B: "3"}
`)
	b := c.Servers[1].Settings
	if b.Command != "y" || b.Timeout != 5*time.Second {
		t.Errorf("got command %q, timeout %v", b.Command, b.Timeout)
	}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "3", "C": "9"}, b.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}

func TestSeedSpellings(t *testing.T) {
	no := false
	for _, tc := range []struct {
		name, entry string
		want        upstream.Settings
	}{
		{"args as words", `args: a 'b c' "d\"e" f\ g`, upstream.Settings{Args: []string{"a", "b c", `d"e`, "f g"}}},
		{"args as JSON", `args: '["a", 1.10, true]'`, upstream.Settings{Args: []string{"a", "1.10", "true"}}},
		{"args as scalar", `args: 5`, upstream.Settings{Args: []string{"5"}}},
		{"args null", `args:`, upstream.Settings{Args: []string{}}},
		{"boolish off", `enabled: "OFF"`, upstream.Settings{Enabled: &no}},
		{"boolish zero", `enabled: 0`, upstream.Settings{Enabled: &no}},
		{"enabled null", `enabled:`, upstream.Settings{}},
		{"seconds", `timeout: 1.5`, upstream.Settings{Timeout: 1500 * time.Millisecond}},
		{"seconds as text", `timeout: "90"`, upstream.Settings{Timeout: 90 * time.Second}},
		{"duration", `timeout: 1h30m`, upstream.Settings{Timeout: 90 * time.Minute}},
		{"no bound", `timeout: -1`, upstream.Settings{Timeout: -time.Second}},
		{"trimmed", `command: " x "`, upstream.Settings{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := "mcp_servers:\n  a:\n    command: x\n    " + tc.entry + "\n"
			if strings.HasPrefix(tc.entry, "command") {
				text = "mcp_servers:\n  a:\n    " + tc.entry + "\n"
			}
			got := load(t, "c.yaml", text).Servers[0].Settings
			tc.want.Command = "x"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToolsSpellings(t *testing.T) {
	for _, tc := range []struct {
		tools            string
		include, exclude []string
	}{
		{`tools:`, nil, nil},
		{`tools: {}`, nil, nil},
		{`tools: {include: []}`, []string{}, nil},
		{`tools: {include: read}`, []string{"read"}, nil},
		{`tools: "read, write list"`, []string{"read", "write", "list"}, nil},
		{`tools: ""`, nil, nil},
		{`tools: [read, "w*"]`, []string{"read", "w*"}, nil},
		{`tools: []`, []string{}, nil},
		{`tools: {exclude: ["[a", b]}`, nil, []string{"[a", "b"}},
	} {
		got := load(t, "c.yaml", "mcp_servers: {a: {command: x, "+tc.tools+"}}\n").Servers[0].Settings.Tools
		if tc.tools == `tools: ""` {
			tc.include = []string{} // nothing named is nothing included, never everything
		}
		if diff := cmp.Diff(tc.include, got.Include); diff != "" {
			t.Errorf("%s: include (-want +got):\n%s", tc.tools, diff)
		}
		if diff := cmp.Diff(tc.exclude, got.Exclude); diff != "" {
			t.Errorf("%s: exclude (-want +got):\n%s", tc.tools, diff)
		}
	}
}

func TestEmptyFileStarts(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "mcp_servers:\n", "null\n"} {
		c := load(t, "c.yaml", text)
		if len(c.Servers) != 0 || c.Listen[0] != DefaultListen || c.OpsListen != DefaultOpsListen || c.ListWait != DefaultListWait {
			t.Errorf("%q: got %d servers, listen %v", text, len(c.Servers), c.Listen)
		}
		if got := warnings(c); !slices.Contains(got, "no servers are configured") {
			t.Errorf("%q: got warnings %q", text, got)
		}
	}
}

// TestActive pins what kept a server off before this program could honour it.
func TestActive(t *testing.T) {
	c := load(t, "c.yaml", `
mcp_servers:
  oauth: {url: "https://e.example/", auth: " OAuth "}
  cert: {url: "https://e.example/", client_cert: c.pem, client_key: k.pem}
  verify: {url: "https://e.example/", ssl_verify: false}
  ca: {url: "https://e.example/", ssl_verify: ~/ca.pem}
  sse: {url: "https://e.example/", transport: sse}
  fine: {url: "https://e.example/", ssl_verify: true, auth: header, transport: http}
  disabled: {url: "https://e.example/", auth: oauth, enabled: false}
`)
	for _, s := range c.Servers {
		if s.Err != nil {
			t.Errorf("%s: %v", s.Name, s.Err)
		}
	}
}

func TestWarnings(t *testing.T) {
	c := load(t, "c.yaml", `
mcp_servers:
  a:
    command: x
    lazy: true
    idle_timeout_seconds: 5
    max_lifetime_seconds: 5
    lifecycle: {idle_timeout_seconds: 5}
    keepalive_interval: 60
    sampling: {enabled: true}
    elicitation: {enabled: false}
    isolation: per_session
    max_processes: 2
    serialize: process
    breaker: {failures: -1}
    egress: {allow: []}
    oauth: {client_id: x}
    env: {PATH: "/opt/bin:$PATH", LD_PRELOAD: /x.so, NODE_OPTIONS: --x, SPACE: " hunter2", OK: "${HOME}/x"}
    tools: {include: [a, b], exclude: [b]}
  "odd/name": {command: x}
  remote: {url: "https://e.example/", lazy: true, idle_timeout_seconds: 5, lifecycle: {max_lifetime_seconds: 60}}
tracing: {endpoint: x}
catalog: {}
`)
	want := []string{
		"c.yaml:17:5: mcp_servers.a.oauth: has no effect on a server with a command: it is for one with a url",
		"c.yaml:18:17: mcp_servers.a.env.PATH: holds a literal $PATH, which nothing expands: write ${PATH}",
		"c.yaml:18:47: mcp_servers.a.env.LD_PRELOAD: changes what code the server loads",
		"c.yaml:18:68: mcp_servers.a.env.NODE_OPTIONS: changes what code the server loads",
		"c.yaml:18:80: mcp_servers.a.env.SPACE: the value begins or ends with white space",
		"c.yaml:19:40: mcp_servers.a.tools.exclude.0: is in include too, and include wins",
		`c.yaml:20:3: mcp_servers."odd/name": the name holds one of / ? # %, so its own endpoint /mcp/<server> is reached percent-encoded only`,
		"c.yaml:21:73: mcp_servers.remote.idle_timeout_seconds: has no effect on a server with a url: it is for one with a command",
		"c.yaml:21:110: mcp_servers.remote.lifecycle.max_lifetime_seconds: has no effect on a server with a url: it is for one with a command",
		"c.yaml:22:1: tracing: not active yet",
	}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if c.Servers[0].Err != nil {
		t.Errorf("got %v, want a server that starts", c.Servers[0].Err)
	}
}

func TestManyFiles(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml":      "listen: 127.0.0.1:1\nlog: {level: debug}\nmcp_servers: {a: {command: x}}\n",
		"b.yaml":      "log: {format: json}\nmcp_servers: {c: {command: x}}\n",
		"c.json":      `{"mcpServers": {"b": {"command": "x"}}}`,
		"again.yaml":  "listen: 127.0.0.1:2\nlog: {level: info}\nmcp_servers: {b: {command: x}}\n",
		"missing.txt": "",
	})
	c, err := Load(Input{Files: []string{"a.yaml", "c.json", "b.yaml"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Servers, c.Log, c.Listen); got != "[server a server b server c] {debug json} [127.0.0.1:1]" {
		t.Errorf("got %s", got)
	}
	want := `again.yaml:1:1: listen: is set in a.yaml:1 too
again.yaml:2:7: log.level: is set in a.yaml:2 too
again.yaml:3:15: mcp_servers.b: the same server is in c.json:1`
	if got := loadError(t, Input{Files: []string{"a.yaml", "c.json", "again.yaml"}, Dir: dir}); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	got := loadError(t, Input{Files: []string{"none.yaml", ".", "a.yaml", "./a.yaml"}, Dir: dir})
	for _, want := range []string{"none.yaml: open: no such file", ".: is a directory", `file "./a.yaml" is named twice`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want it to hold %q", got, want)
		}
	}
}

func TestSearch(t *testing.T) {
	text := "mcp_servers: {a: {command: x}}\n"
	dir := write(t, map[string]string{
		"here/mcp-sidecar.yaml":                     text,
		"home/.config/mcp-sidecar/mcp-sidecar.yaml": text,
		"xdg/mcp-sidecar/mcp-sidecar.yaml":          text,
		"env.yaml":                                  text,
		"empty/x":                                   "",
	})
	home := filepath.Join(dir, "home")
	for _, tc := range []struct {
		name, cwd string
		env       []string
		no        bool
		want      string
	}{
		{"working directory", "here", nil, false, "mcp-sidecar.yaml"},
		{"home", "empty", nil, false, filepath.Join(home, ".config/mcp-sidecar/mcp-sidecar.yaml")},
		{"xdg", "empty", []string{"XDG_CONFIG_HOME=" + filepath.Join(dir, "xdg")}, false, filepath.Join(dir, "xdg/mcp-sidecar/mcp-sidecar.yaml")},
		{"xdg relative", "empty", []string{"XDG_CONFIG_HOME=xdg"}, false, ""},
		{"environment", "here", []string{"MCP_SIDECAR_CONFIG= ../env.yaml "}, false, "../env.yaml"},
		{"none wanted", "here", nil, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Load(Input{Dir: filepath.Join(dir, tc.cwd), Home: home, Env: tc.env, NoSearch: tc.no})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Files, ","); got != tc.want {
				t.Errorf("got files %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPermissionsWarn(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": "mcp_servers: {a: {command: x}}\n", ".env": "A=b\n"})
	for _, f := range []string{"c.yaml", ".env"} {
		if err := os.Chmod(filepath.Join(dir, f), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(Input{Files: []string{"c.yaml"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"c.yaml: others may write to it (mode 0666): whoever can change it decides what runs here",
		".env: others may write to it (mode 0666)",
	}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestBounds holds that what is too large is refused by name, and soon.
func TestBounds(t *testing.T) {
	var many, keys strings.Builder
	many.WriteString(`{"mcpServers": {`)
	for i := range maxServers + 1 {
		fmt.Fprintf(&many, `"s%d": {"command": "x"},`, i)
	}
	many.WriteString("}}")
	for i := range maxKeys + 1 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"bytes.yaml", strings.Repeat("# a comment\n", maxYAMLBytes/12+1), "larger than 2 MiB"},
		{"bytes.json", strings.Repeat(" ", maxFileBytes+1), "larger than 8388608 bytes, the limit"},
		{"servers.json", many.String(), "more than 10000 servers"},
		{"keys.yaml", keys.String(), "more than 12000 keys in one mapping"},
		{"brackets.yaml", strings.Repeat("[", 100_000), "nested more than 100 deep"},
		{"dashes.yaml", strings.Repeat("- ", 50_000) + "x", "nested more than 100 deep"},
		{"questions.yaml", strings.Repeat("? ", 50_000) + "x", "nested more than 100 deep"},
		{"tags.yaml", strings.Repeat("!a ", 50_000) + "x", "more than 8 tags and anchors in a row"},
		{"anchors.yaml", strings.Repeat("&a ", 50_000) + "x", "more than 8 tags and anchors in a row"},
		{"tokens.yaml", "{" + strings.Repeat("a,", 210_000) + "}", "more than 200000 tokens"},
		{"brackets.json", strings.Repeat("[", 1_000_000), "nested more than 100 deep"},
		{"values.json", "[" + strings.Repeat("1,", maxNodes) + "1]", "more than 200000 values"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{tc.name: tc.text})
			if got := loadError(t, Input{Files: []string{tc.name}, Dir: dir}); !strings.Contains(got, tc.want) {
				t.Errorf("got %.300q, want it to hold %q", got, tc.want)
			}
		})
	}
}
