package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrecedence(t *testing.T) {
	dir := write(t, map[string]string{"sub/c.yaml": `listen: 127.0.0.1:1
ops_listen: "off"
state_dir: state
auth: {token_file: token}
log: {level: warn}
`})
	in := Input{
		Files: []string{"sub/c.yaml"}, Dir: dir, Home: "/home/u",
		Env:   []string{"MCP_SIDECAR_LISTEN= 127.0.0.1:2 , unix:/tmp/x ", "MCP_SIDECAR_LOG_LEVEL=debug", "MCP_SIDECAR_NAMING=", "MCP_SIDECAR_INSECURE_NO_AUTH=yes"},
		Flags: Process{LogLevel: "error", Workspace: "ws"},
	}
	c, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	if c.OpsListen != "" || !c.InsecureNoAuth {
		t.Errorf("got ops_listen %q, insecure %v", c.OpsListen, c.InsecureNoAuth)
	}
	got := map[string]Setting{}
	for _, s := range c.Effective() {
		got[s.Path] = s
	}
	for _, want := range []Setting{
		{"listen", Value{[]string{"127.0.0.1:2", "unix:/tmp/x"}}, "MCP_SIDECAR_LISTEN"},
		{"ops_listen", Value{"off"}, "sub/c.yaml:2"},
		{"naming", Value{"mcp_{server}_{tool}"}, "default"},
		{"list_wait", Value{"5s"}, "default"},
		{"state_dir", Value{filepath.Join(dir, "sub/state")}, "sub/c.yaml:3"},
		{"auth.token_file", Value{filepath.Join(dir, "sub/token")}, "sub/c.yaml:4"},
		{"log.level", Value{"error"}, "--log-level"},
		{"log.format", Value{"text"}, "default"},
		{"limits.request_bytes", Value{16777216}, "default"},
		{"policy.cleaning", Value{true}, "default"},
		{"profiles.default.workspace", Value{filepath.Join(dir, "ws")}, "--workspace"},
		{"profiles.default.utility_tools", Value{true}, "default"},
		{"insecure_no_auth", Value{true}, "MCP_SIDECAR_INSECURE_NO_AUTH"},
	} {
		if diff := cmp.Diff(want, got[want.Path], cmp.AllowUnexported(Value{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Path, diff)
		}
	}
}

// TestEffectiveOrder holds that servers come first, each with what holds where it
// says nothing, and that the top level follows.
func TestEffectiveOrder(t *testing.T) {
	c := load(t, "c.yaml", "listen: 127.0.0.1:1\nmcp_servers:\n  b: {command: x, trust: untrusted, supports_parallel_tool_calls: true, lifecycle: {retry_pause: 2m}, breaker: {failures: -1}}\n  a: {command: x}\n")
	var got []string
	for _, s := range c.Effective() {
		if len(got) < 55 && !guards(strings.Split(s.Path, ".")) {
			got = append(got, fmt.Sprint(s.Path, " ", s.Value, " ", s.Origin))
		}
	}
	want := []string{
		"mcp_servers.b.command x c.yaml:3",
		"mcp_servers.b.protocol auto default",
		"mcp_servers.b.timeout 5m0s default",
		"mcp_servers.b.connect_timeout 1m0s default",
		"mcp_servers.b.keepalive_interval 3m0s default",
		"mcp_servers.b.keepalive_timeout 30s default",
		"mcp_servers.b.lifecycle.connect_retries 3 default",
		"mcp_servers.b.lifecycle.reconnect_retries 5 default",
		"mcp_servers.b.lifecycle.retry_pause 2m0s c.yaml:3",
		"mcp_servers.b.lifecycle.retry_pause_max 2m0s default",
		"mcp_servers.b.lifecycle.probe_interval 5m0s default",
		"mcp_servers.b.lifecycle.wake_wait 15s default",
		"mcp_servers.b.lifecycle.stop_grace 2s default",
		"mcp_servers.b.breaker.failures -1 c.yaml:3",
		"mcp_servers.b.breaker.open 1m0s default",
		"mcp_servers.b.breaker.probe_timeout 10s default",
		"mcp_servers.b.lazy false default",
		"mcp_servers.b.supports_parallel_tool_calls true c.yaml:3",
		"mcp_servers.b.max_concurrency 64 default",
		"mcp_servers.b.max_queue 256 default",
		"mcp_servers.b.queue_wait 30s default",
		"mcp_servers.b.max_in_flight_bytes 134217728 default",
		"mcp_servers.b.isolation shared default",
		"mcp_servers.b.max_processes 4 default",
		"mcp_servers.b.trust untrusted c.yaml:3",
		"mcp_servers.a.command x c.yaml:4",
		"mcp_servers.a.protocol auto default",
		"mcp_servers.a.timeout 5m0s default",
		"mcp_servers.a.connect_timeout 1m0s default",
		"mcp_servers.a.keepalive_interval 3m0s default",
		"mcp_servers.a.keepalive_timeout 30s default",
		"mcp_servers.a.lifecycle.connect_retries 3 default",
		"mcp_servers.a.lifecycle.reconnect_retries 5 default",
		"mcp_servers.a.lifecycle.retry_pause 1s default",
		"mcp_servers.a.lifecycle.retry_pause_max 1m0s default",
		"mcp_servers.a.lifecycle.probe_interval 5m0s default",
		"mcp_servers.a.lifecycle.wake_wait 15s default",
		"mcp_servers.a.lifecycle.stop_grace 2s default",
		"mcp_servers.a.breaker.failures 3 default",
		"mcp_servers.a.breaker.open 1m0s default",
		"mcp_servers.a.breaker.probe_timeout 10s default",
		"mcp_servers.a.lazy false default",
		"mcp_servers.a.supports_parallel_tool_calls false default",
		"mcp_servers.a.max_concurrency 64 default",
		"mcp_servers.a.max_queue 256 default",
		"mcp_servers.a.queue_wait 30s default",
		"mcp_servers.a.max_in_flight_bytes 134217728 default",
		"mcp_servers.a.isolation shared default",
		"mcp_servers.a.max_processes 4 default",
		"mcp_servers.a.trust full default",
		"listen [127.0.0.1:1] c.yaml:1",
		"ops_listen 127.0.0.1:8809 default",
		"naming mcp_{server}_{tool} default", "max_name_length 64 default", "list_wait 5s default",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestEffectiveJSON holds that JSON has values and not their text.
func TestEffectiveJSON(t *testing.T) {
	c := load(t, "c.yaml", `
auth: {allowed_hosts: [h]}
mcp_servers:
  a: {command: x, args: [-y, "a & b"], timeout: 90, max_concurrency: 3, enabled: true, ssl_verify: false, tools: {include: []}}
`)
	got := map[string]string{}
	for _, s := range c.Effective() {
		data, err := json.Marshal(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		got[s.Path] = string(data)
	}
	for path, want := range map[string]string{
		"mcp_servers.a.command":         `"x"`,
		"mcp_servers.a.args":            `["-y","a \u0026 b"]`,
		"mcp_servers.a.timeout":         `"1m30s"`,
		"mcp_servers.a.connect_timeout": `"1m0s"`,
		"mcp_servers.a.max_concurrency": "3",
		"mcp_servers.a.enabled":         "true",
		"mcp_servers.a.ssl_verify":      "false",
		"mcp_servers.a.tools.include":   "[]",
		"listen":                        `["127.0.0.1:8808"]`,
		"max_name_length":               "64",
		"limits.depth":                  "128",
		"policy.cleaning":               "true",
		"auth.allowed_hosts":            `["h"]`,
		"auth.allowed_origins":          "[]",
		"list_wait":                     `"5s"`,
		"profiles.default.servers":      `"all"`,
	} {
		if got[path] != want {
			t.Errorf("%s: got %s, want %s", path, got[path], want)
		}
	}
}

func TestNoStateDir(t *testing.T) {
	for _, tc := range []struct {
		name, home string
		env        []string
		want       string
	}{
		{"home", "/home/u", nil, ""},
		{"xdg", "", []string{"XDG_STATE_HOME=/x"}, ""},
		{"nothing", "", nil, "neither HOME nor XDG_STATE_HOME is set; give --state-dir DIR"},
		{"relative", "", []string{"XDG_STATE_HOME=x"}, "XDG_STATE_HOME is not an absolute path; give --state-dir DIR"},
		{"named", "", []string{"MCP_SIDECAR_STATE_DIR=/s"}, ""},
	} {
		c, err := Load(Input{NoSearch: true, Home: tc.home, Env: tc.env})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.NoStateDir(); (got == "") != (tc.want == "") || !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestProcessFaults(t *testing.T) {
	got := loadError(t, Input{NoSearch: true, Env: []string{
		"MCP_SIDECAR_INSECURE_NO_AUTH=hunter2", "MCP_SIDECAR_LOG_FORMAT=xml", "MCP_SIDECAR_OPS_LISTEN=nope",
	}, Flags: Process{Naming: "fixed"}})
	want := `MCP_SIDECAR_INSECURE_NO_AUTH: must be true or false
MCP_SIDECAR_OPS_LISTEN: "nope": must be host:port or unix:PATH
--naming: naming "fixed": must hold {tool} exactly once
MCP_SIDECAR_LOG_FORMAT: unknown value, use one of text, json`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestVariableSlips(t *testing.T) {
	c, err := Load(Input{NoSearch: true, Env: []string{
		"MCP_SIDECAR_LISTN=127.0.0.1:1", "MCP_SIDECAR_PORT=tcp://10.0.0.1:8808", "MCP_SIDECAR_SERVICE_HOST=10.0.0.1", "MCP_SIDECAR_INSECURE_NO_AUTH=0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`MCP_SIDECAR_LISTN: unknown variable (did you mean "MCP_SIDECAR_LISTEN"?)`}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if c.InsecureNoAuth {
		t.Error("got insecure, want not")
	}
}

func TestOpenListenerWithoutTokenWarns(t *testing.T) {
	yes := true
	c, err := Load(Input{NoSearch: true, Flags: Process{InsecureNoAuth: &yes, Listen: []string{"0.0.0.0:8808", "127.0.0.1:1", "unix:/x"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`--listen: "0.0.0.0:8808" is open to the network without a token (insecure-no-auth)`}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

const secretConfig = `
mcp_servers:
  a:
    url: "https://user:hunter2@e.example:8443/mcp?key=hunter2&hunter2#hunter2"
    headers: {Authorization: "Bearer hunter2", X-Ref: "${TOKEN}", X-Both: "${TOKEN}hunter2"}
    identity_header: {name: X-Agent, value: hunter2}
    oauth: {client_id: id, client_secret: hunter2, client_metadata_url: "https://hunter2@m.example/"}
    client_cert: [a.pem, b.pem, hunter2]
  b:
    command: docker
    args: [run, -i, "-ehunter2", -e, TOKEN=hunter2, --token=hunter2, --key, hunter2, "${TOKEN}"]
    env: {TOKEN: hunter2}
    timeout: 5
    egress: {allow: [], proxy: "u:hunter2@p.example:3128"}
egress: {proxy: "http://u:hunter2@p.example:3128"}
`

// TestSecretsStayIn covers R44: no print of a configuration holds a secret.
func TestSecretsStayIn(t *testing.T) {
	c := load(t, "c.yaml", secretConfig)
	got := map[string]string{}
	for _, s := range c.Effective() {
		if s.Path == "egress.proxy" && s.Value.String() != "http://[redacted]@p.example:3128" {
			t.Errorf("egress.proxy: got %v", s.Value)
		}
		if strings.HasPrefix(s.Path, "mcp_servers") {
			got[strings.TrimPrefix(s.Path, "mcp_servers.")] = s.Value.String()
		}
		if s.Origin == "" {
			t.Errorf("%s has no origin", s.Path)
		}
	}
	want := map[string]string{
		"a.url":                       "https://[redacted]@e.example:8443/mcp?key=[redacted]&[redacted]",
		"a.headers.Authorization":     "[redacted]",
		"a.headers.X-Ref":             "${TOKEN}",
		"a.headers.X-Both":            "[redacted]",
		"a.identity_header.name":      "X-Agent",
		"a.identity_header.value":     "[redacted]",
		"a.oauth.client_id":           "id",
		"a.oauth.client_secret":       "[redacted]",
		"a.oauth.client_metadata_url": "https://[redacted]@m.example/",
		"a.client_cert":               "[a.pem, b.pem, [redacted]]",
		"b.command":                   "docker",
		"b.args":                      "[run, -i, -e[redacted], -e, TOKEN=[redacted], --token=[redacted], --key, [redacted], ${TOKEN}]",
		"b.env.TOKEN":                 "[redacted]",
		"b.timeout":                   "5s",
		"b.max_processes":             "4",
		"b.egress.proxy":              "[redacted]@p.example:3128",
		"b.egress.allow":              "[]",
		"b.lifecycle.stop_grace":      "2s",
	}
	for path, value := range serverZeroMeans {
		for _, server := range []string{"a.", "b."} {
			if want[server+path] == "" {
				want[server+path] = fmt.Sprint(value)
			}
		}
	}
	for _, path := range lived {
		for _, server := range []string{"a.", "b."} {
			want[server+path] = got[server+path] // see TestEffectiveOrder
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v %#v %s", c, c, c), fmt.Sprintf("%v %+v %#v", c.Servers[0], c.Servers, c.Servers[1]),
		fmt.Sprint(c.Servers[0].Err), strings.Join(warnings(c), "\n"), c.LogValue().String(),
	} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a print holds the secret: %s", text)
		}
	}
}

func TestLookup(t *testing.T) {
	dir := write(t, map[string]string{
		"own/c.yaml":      "mcp_servers: {a: {command: x}}\n",
		"own/.env":        "TOKEN=own\nONLY_OWN=1\nEMPTY=\nbroken line\n",
		"hermes/c.yaml":   "model: x\nmcp_servers: {b: {command: x}}\n",
		"hermes/.env":     "TOKEN=hermes\n",
		"claude/mcp.json": `{"mcpServers": {"c": {"command": "x"}}}`,
		"claude/.env":     "TOKEN=claude\n",
	})
	c, err := Load(Input{
		Files: []string{"own/c.yaml", "hermes/c.yaml", "claude/mcp.json"}, Dir: dir, Home: "/home/u",
		Env: []string{"TOKEN=process", "EMPTY=filled", "BLANK="}, Flags: Process{Workspace: "/ws"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		server, name, want string
	}{
		{"a", "TOKEN", "own"}, {"a", "EMPTY", "filled"}, {"a", "BLANK", ""}, {"a", "NOPE", ""}, {"a", "ONLY_OWN", "1"},
		{"b", "TOKEN", "hermes"}, {"b", "ONLY_OWN", ""}, {"c", "TOKEN", "process"},
	} {
		got, ok := c.ServerLookup(tc.server)(tc.name)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s in %s: got %q %v, want %q", tc.name, tc.server, got, ok, tc.want)
		}
	}
	if got, _ := c.Lookup(DefaultProfile)("TOKEN"); got != "own" {
		t.Errorf("got %q, want the first file's", got)
	}
	if got, err := c.Vars("b", DefaultProfile).Expand("${workspaceFolder}/${TOKEN}"); got != "/ws/hermes" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got := strings.Join(warnings(c), "\n"); got != "own/.env:4:1: is not NAME=value, skipped" {
		t.Errorf("got warnings %q", got)
	}
}

func TestParseEnv(t *testing.T) {
	got, faults := parseEnv([]byte("\ufeff# comment\n\nA=1\nexport B = two words # comment\nC=a#b\r\n"+
		"D='single $X \\n'\nE=\"double \\n \\$ \\q \\\"\" # c\nF=\"two\nlines\"\nG=\nH=${A}\nI.j-k=1\nA=last\nL=\"x\" y\n=v\n1A=x\nM='open\nN=1\n"), ".env")
	want := map[string]string{
		"A": "last", "B": "two words", "C": "a#b", "D": `single $X \n`, "E": "double \n $ \\q \"", "F": "two\nlines",
		"G": "", "H": "${A}", "I.j-k": "1", "L": "x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	var text []string
	for _, f := range faults {
		text = append(text, f.Error())
	}
	wantFaults := []string{
		".env:14:1: has text after the closing quote",
		".env:15:1: is not NAME=value, skipped",
		".env:16:1: is not NAME=value, skipped",
		".env:17:1: a quote has no end, the rest is skipped",
	}
	if diff := cmp.Diff(wantFaults, text); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"tools", "timeout", "connect_timeout", "headers", "url"}
	for key, want := range map[string]string{
		"tols": "tools", "Tools": "tools", "connectTimeout": "connect_timeout", "header": "headers", "uri": "url",
		"ulr": "url", "completely": "", "x": "", strings.Repeat("tools", 100): "",
	} {
		if got := nearest(key, known); got != want {
			t.Errorf("%.20s: got %q, want %q", key, got, want)
		}
	}
}

// TestDocument holds docs/CONFIGURATION.md against the structs: every key and
// variable has a row, and no row names what does not exist.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, line := range strings.Split(string(data), "\n") {
		if key, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") {
			documented[key] = true
		}
	}
	exists := map[string]bool{}
	for _, k := range append(DocKeys(), EnvNames()...) {
		exists[k] = true
		if !documented[k] {
			t.Errorf("%s has no row", k)
		}
	}
	for k := range documented {
		if !exists[k] {
			t.Errorf("the row of %s names nothing that exists", k)
		}
	}
}
