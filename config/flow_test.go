package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Text with a colon that no blank follows is text, also in brackets within braces.
func TestFlowText(t *testing.T) {
	for list, want := range map[string][]string{
		`[host:443]`:                      {"host:443"},
		`[a.example:443, "b.example:80"]`: {"a.example:443", "b.example:80"},
		`[10.0.0.0/8:5432, 1:2, x:010]`:   {"10.0.0.0/8:5432", "1:2", "x:010"},
		`[http://e.example:80/a:b]`:       {"http://e.example:80/a:b"},
		`[-H, X-Größe:v w]`:               {"-H", "X-Größe:v w"},
		`[x:true, x:~]`:                   {"x:true", "x:~"},
		`[x:$H, y::1]`:                    {"x:$H", "y::1"},
	} {
		c := load(t, "c.yaml", "mcp_servers: {a: {command: x, args: "+list+"}}\n")
		if diff := cmp.Diff(want, c.Servers[0].Settings.Args); diff != "" {
			t.Errorf("%s: args mismatch (-want +got):\n%s", list, diff)
		}
	}
}

// What contradicts itself in another program's file warns, and says what holds.
func TestForeignClashes(t *testing.T) {
	for entry, want := range map[string]string{
		`"idle_timeout_seconds":60,"lifecycle":{"idle_timeout_seconds":90,"wake_wait":9}`: "a.lifecycle.idle_timeout_seconds: contradicts idle_timeout_seconds, which is 1m0s and wins, ignored",
		`"egress":{"proxy":""}`: "a.egress.proxy: is empty: write direct for none, ignored",
	} {
		c := load(t, "mcp.json", `{"mcpServers":{"a":{"command":"x",`+entry+`}}}`)
		if err := c.Servers[0].Err; err != nil {
			t.Errorf("%s: got error %v", entry, err)
		}
		if got := strings.Join(warnings(c), "\n"); !strings.HasSuffix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", entry, got, want)
		}
		if l := c.Servers[0].Settings.Lifecycle; l.IdleTimeout != 0 || strings.Contains(entry, "wake_wait") && l.WakeWait != 9*time.Second {
			t.Errorf("%s: got %+v, want the rest of lifecycle as it is", entry, l)
		}
	}
}

// What a fault brings about is not told beside it.
func TestNoServersForAFault(t *testing.T) {
	for name, text := range map[string]string{"c.yaml": "mcp_servers: {a: {command: x}\n", "d.yaml": "mcp_servers: 3\n"} {
		var faults *Faults
		_, err := Load(Input{Files: []string{name}, Dir: write(t, map[string]string{name: text})})
		if !errors.As(err, &faults) {
			t.Fatalf("%s: got error %v, want *Faults", name, err)
		}
		if len(faults.List) != 1 || len(faults.Warnings) != 0 {
			t.Errorf("%s: got %v, warnings %v, want one fault", name, faults.List, faults.Warnings)
		}
	}
}

// Exemptions from a proxy that nobody uses warn.
func TestDirectClashes(t *testing.T) {
	c := load(t, "c.yaml", "egress: {proxy: direct, no_proxy: [a.example], resolve_names: true}\nmcp_servers: {a: {command: x}}\n")
	const msg = "egress.proxy is direct, so there is no proxy to go past and this does nothing"
	want := []string{"c.yaml:1:25: egress.no_proxy: " + msg, "c.yaml:1:63: egress.resolve_names: " + msg}
	if diff := cmp.Diff(want, warnings(c)); diff != "" {
		t.Errorf("warnings mismatch (-want +got):\n%s", diff)
	}
	c = load(t, "c.yaml", "egress: {proxy: 'http://p.example:1', no_proxy: [a.example], resolve_names: true}\nmcp_servers: {a: {command: x}}\n")
	if len(c.Warnings) > 0 {
		t.Errorf("with a proxy: got warnings %v", c.Warnings)
	}
}
