package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

func TestWhoseFile(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       flavor
	}{
		{"c.yaml", "mcp_servers: {}\n", own},
		{"c.yaml", "model: x\nmcp_servers: {}\n", hermes},
		{"c.yaml", "model: x\nlisten: y\nmcp_servers: {}\n", own},
		{"c.yaml", "a: {command: x}\nb: {url: y}\n", hermes},
		{"c.yaml", "a: {command: x}\nb: {foo: y}\n", own},
		{"c.yaml", "log: {command: x}\n", own},
		{"c.yaml", "mcpServers: {}\n", own},
		{"c.yaml", "", own},
		{"c.json", `{"mcpServers": {}}`, client},
		{"c.json", `{"servers": {}}`, client},
		{"c.json", `{"mcp_servers": {}}`, own},
		{"c.jsonc", "// hi\n{\"servers\": {},}", client},
		{"noext", "{\"mcpServers\": {}}", client},
		{"noext", "mcp_servers: {}", own},
		{"c.json", "\ufeff{\"mcpServers\": {}}", client},
	} {
		f := &file{name: tc.name, path: tc.name}
		root, faults := f.parse([]byte(tc.text))
		if len(faults) > 0 {
			t.Errorf("%s %q: %v", tc.name, tc.text, faults)
		}
		f.root = root
		if got := f.guess(); got != tc.want {
			t.Errorf("%s %q: got flavor %d, want %d", tc.name, tc.text, got, tc.want)
		}
	}
}

func TestHermes(t *testing.T) {
	dir := write(t, map[string]string{"config.yaml": `
model: x
mcp: {stdio_servers: "no"}
timeouts: {mcp: {tool_call: 42}}
listen: ignored
mcp_servers:
  stdio: {command: x, tols: 1}
  http:
    url: https://e.example/mcp
    command: old
    lazy: maybe
    protocol: quic
    trust: maybe
    transport: ws
    auth: Bearer
    idle_timeout_seconds: -5
    keepalive_interval: 1
    connect_timeout: -1
    sampling: {max_rpm: lots, max_tokens_cap: -1, enabled: false}
    identity_header: {name: X}
    timeout: 7
  broken: {url: "http://:8080"}
  bad: {command: x, tools: {include: {a: b}}}
  nothing:
`})
	c, err := Load(Input{Files: []string{"hermes:config.yaml"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	stdio, http := c.Servers[0].Settings, c.Servers[1].Settings
	if stdio.Enabled == nil || *stdio.Enabled || stdio.Timeout != 42*time.Second {
		t.Errorf("stdio: got enabled %v, timeout %v", stdio.Enabled, stdio.Timeout)
	}
	if http.Enabled != nil || http.Timeout != 7*time.Second || http.Command != "" || http.Trust != "untrusted" ||
		http.Protocol != "" || http.Transport != "" || http.Auth != "" || http.IdleTimeout != 0 || http.IdentityHeader != nil ||
		http.KeepaliveInterval != 5*time.Second || http.ConnectTimeout != 0 || *http.Sampling.Enabled || http.Sampling.MaxTokensCap != 0 {
		t.Errorf("http: got %+v", http)
	}
	want := []string{
		"config.yaml:5:1: listen: ignored: only the servers of another program's file are read",
		`config.yaml:7:23: mcp_servers.stdio: unknown key "tols" (did you mean "tools"?), ignored`,
		"config.yaml:9:10: mcp_servers.http.url: command is set too, url wins",
		"config.yaml:11:11: mcp_servers.http.lazy: must be true or false, ignored",
		"config.yaml:12:15: mcp_servers.http.protocol: unknown value, use one of auto, modern, stateless, 2026-07-28, legacy, handshake, ignored",
		`config.yaml:13:12: mcp_servers.http.trust: unknown value, use one of full, untrusted, taken for "untrusted"`,
		"config.yaml:14:16: mcp_servers.http.transport: unknown value, use one of http, streamable-http, stdio, sse, ignored",
		"config.yaml:15:11: mcp_servers.http.auth: unknown value, use one of none, header, oauth, ignored",
		"config.yaml:16:27: mcp_servers.http.idle_timeout_seconds: must not be negative, ignored",
		"config.yaml:17:25: mcp_servers.http.keepalive_interval: must be at least 5s, ignored",
		"config.yaml:18:22: mcp_servers.http.connect_timeout: must not be negative, ignored",
		"config.yaml:19:25: mcp_servers.http.sampling.max_rpm: must be a whole number, not a string, ignored",
		"config.yaml:19:47: mcp_servers.http.sampling.max_tokens_cap: must not be negative, ignored",
		"config.yaml:20:5: mcp_servers.http.identity_header: is missing, ignored",
	}
	got := warnings(c)
	for i := range got {
		got[i] = strings.Replace(got[i], "identity_header.value", "identity_header", 1)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	errs := map[string]string{}
	for _, s := range c.Servers {
		if s.Err != nil {
			errs[s.Name] = s.Err.Error()
		}
	}
	wantErrs := map[string]string{
		"broken":  "config.yaml:22:17: mcp_servers.broken.url: invalid URL: no host",
		"bad":     "config.yaml:23:29: mcp_servers.bad.tools.include: must be a list of strings, not a mapping",
		"nothing": "config.yaml:24:3: mcp_servers.nothing: must be a mapping, not nothing",
	}
	if diff := cmp.Diff(wantErrs, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestHermesClientOff(t *testing.T) {
	c := load(t, "c.yaml", "mcp: {client: false}\nmcp_servers: {a: {url: 'https://e.example/'}}\n")
	if e := c.Servers[0].Settings.Enabled; e == nil || *e {
		t.Errorf("got enabled %v, want false", e)
	}
}

func TestClients(t *testing.T) {
	c := load(t, "settings.json", `{
  "theme": "dark", // another program's
  "inputs": [],
  "mcpServers": {
    "off": {"command": "x", "disabled": true, "autoApprove": []},
    "on": {"command": "x", "disabled": false, "type": "stdio"},
    "cascade": {"serverUrl": "https://a.example/"},
    "gemini": {"httpUrl": "https://b.example/", "url": "https://sse.example/", "timeout": 30000, "trust": true,
               "includeTools": ["a", "b"], "excludeTools": ["b"]},
    "camel": {"type": "streamableHttp", "url": "https://c.example/", "timeout": 60, "disabledTools": ["x"]},
    "odd": {"type": "carrier-pigeon", "command": "x"},
    "sse": {"type": "sse", "url": "https://d.example/"},
    "ask": {"command": "x", "env": {"T": "${input:api key}"}},
    "bare": {"url": "https://e.example/", "headers": {"Authorization": "Bearer $TOKEN"}},
  },
}`)
	by := map[string]*Server{}
	for i := range c.Servers {
		by[c.Servers[i].Name] = &c.Servers[i]
	}
	if e := by["off"].Settings.Enabled; e == nil || *e {
		t.Errorf("off: got enabled %v", e)
	}
	if e := by["on"].Settings.Enabled; e != nil || by["on"].Err != nil {
		t.Errorf("on: got enabled %v, err %v", e, by["on"].Err)
	}
	if got := by["cascade"].Settings.URL; got != "https://a.example/" {
		t.Errorf("cascade: got url %q", got)
	}
	g := by["gemini"].Settings
	if g.URL != "https://b.example/" || g.Timeout != 30*time.Second || g.Trust != "" {
		t.Errorf("gemini: got url %q, timeout %v, trust %q", g.URL, g.Timeout, g.Trust)
	}
	if diff := cmp.Diff(policy.Tools{Include: []string{"a"}, Exclude: []string{"b"}}, g.Tools); diff != "" {
		t.Errorf("gemini tools (-want +got):\n%s", diff)
	}
	cam := by["camel"].Settings
	if cam.Transport != "http" || cam.Timeout != time.Minute || cmp.Diff([]string{"x"}, cam.Tools.Exclude) != "" {
		t.Errorf("camel: got %+v", cam)
	}
	if s := by["sse"]; s.Err != nil || s.Settings.Transport != "sse" {
		t.Errorf("sse: got transport %q, err %v", s.Settings.Transport, s.Err)
	}
	if err := by["ask"].Err; err == nil || !strings.Contains(err.Error(), "write ${API_KEY}") {
		t.Errorf("ask: got %v", err)
	}
	all := strings.Join(warnings(c), "\n")
	for _, want := range []string{
		`mcpServers.off: unknown key "autoApprove", ignored`,
		`mcpServers.gemini.httpUrl: wins over "url"`,
		"mcpServers.gemini.timeout: 1000 and more are taken for milliseconds",
		"mcpServers.gemini.trust: ignored",
		`mcpServers.odd.type: unknown type "carrier-pigeon", ignored`,
		"mcpServers.bare.headers.Authorization: holds a literal $NAME",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("got warnings\n%s\nwant one with %q", all, want)
		}
	}
	if strings.Contains(all, "theme") || strings.Contains(all, "inputs") {
		t.Errorf("another program's keys are none of our business: %s", all)
	}
}

func TestEnvFile(t *testing.T) {
	dir := write(t, map[string]string{
		"proj/.vscode/mcp.json": `{"servers": {
  "a": {"command": "x", "envFile": "${workspaceFolder}/dev.env", "env": {"B": "mine"}},
  "b": {"command": "x", "envFile": "none.env"},
  "c": {"command": "x", "envFile": "${NOPE}/x"},
  "d": {"command": "x", "envFile": 5}
}}`,
		"proj/dev.env": "A=from file\nB=theirs\n",
	})
	c, err := Load(Input{Files: []string{"proj/.vscode/mcp.json"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "from file", "B": "mine"}, c.Servers[0].Settings.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	for _, s := range c.Servers[1:] {
		if s.Err == nil || !strings.Contains(s.Err.Error(), "envFile") {
			t.Errorf("%s: got error %v, want one about envFile", s.Name, s.Err)
		}
	}
}

func TestJSONPositions(t *testing.T) {
	f := &file{name: "c.json", path: "c.json"}
	root, faults := f.parse([]byte("{\n  \"servers\": {\n    /* é */ \"a\": {\"url\": \"x\",},\n  }, // end\n}\n"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for _, tc := range []struct {
		path         string
		line, column int
	}{{"servers", 2, 3}, {"servers a", 3, 13}, {"servers a url", 3, 26}} {
		at := root.at(nil, strings.Fields(tc.path))
		if at.line != tc.line || at.column != tc.column {
			t.Errorf("%s: got %d:%d, want %d:%d", tc.path, at.line, at.column, tc.line, tc.column)
		}
	}
}
