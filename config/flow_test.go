package config

import (
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
