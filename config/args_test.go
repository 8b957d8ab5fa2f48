package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShowArgs is the table of what check shows of arguments. No result holds the
// word hunter2, and no argument without a secret is hidden.
func TestShowArgs(t *testing.T) {
	const random = "q7F3kPz9Lw2XmB8vT4cRhunter2"
	for _, tc := range []struct {
		args, want []string // want nil: all is shown
	}{
		{args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/home/user/My Projects/App2024", "~/x", "."}},
		{args: []string{"-y", "@modelcontextprotocol/server-sequential-thinking@2025.7.1", "mcp-server-time", "--local-timezone=Europe/Berlin"}},
		{args: []string{"run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server:v1.2.3"}},
		{args: []string{"img@sha256:" + strings.Repeat("0a1f", 16)}},
		{args: []string{"--from", "git+https://github.com/oraios/serena", "serena", "start-mcp-server", "--port", "8080", "-port", "80"}},
		{args: []string{"mcp-remote", "https://mcp.example.com:8443/sse", "--header", "Authorization: Bearer ${TOKEN}", "X=${Y}"}},
		{args: []string{"${TOKEN}", "--token", "${env:TOKEN}", "--api-key=${file:/run/secret}", "${ROOT:-/srv/data}"}},
		{args: []string{"-c", "import time; time.sleep(1)", "-jar", "-Xmx512m", "npm:left-pad@1.3.0", "Qwen2.5-7B-Instruct"}},
		{args: []string{}},
		{[]string{"--token", "hunter2", "after"}, []string{"--token", "[redacted]", "after"}},
		{[]string{"-token", "hunter2", "-H", "hunter2"}, []string{"-token", "[redacted]", "-H", "[redacted]"}},
		{[]string{"--key=hunter2", "--db-password=hunter2", "-secret=hunter2"}, []string{"--key=[redacted]", "--db-password=[redacted]", "-secret=[redacted]"}},
		{[]string{"--no-auth", "--port", "1"}, nil},
		{[]string{"-e", "K=hunter2", "--env", "K=hunter2", "--env=K=hunter2", "-eK=hunter2"},
			[]string{"-e", "K=[redacted]", "--env", "K=[redacted]", "--env=K=[redacted]", "-eK=[redacted]"}},
		{[]string{"-ehunter2", "-phunter2", "-e", "hunter2", "-e", "K=${V}"}, []string{"-e[redacted]", "-p[redacted]", "-e", "[redacted]", "-e", "K=${V}"}},
		{[]string{"API_KEY=hunter2", "MODE=fast"}, []string{"API_KEY=[redacted]", "MODE=fast"}},
		{[]string{"--header", "X-Key: hunter2${K}", "--header", "X-Key:${K:-hunter2}"}, []string{"--header", "[redacted]", "--header", "[redacted]"}},
		{[]string{"${API_KEY:-hunter2}", "--key", "${env:K:-hunter2}"}, []string{"[redacted]", "--key", "[redacted]"}},
		{[]string{"postgres://u:hunter2@h:5432/db?sslmode=hunter2"}, []string{"postgres://[redacted]@h:5432/db?sslmode=[redacted]"}},
		{[]string{"postgres://u:a/hunter2@h/db", "postgres://u:a@b/hunter2@h"}, []string{"postgres://[redacted]", "postgres://[redacted]"}},
		{[]string{"--url=redis://:hunter2@h", "DB=redis://:hunter2@h", "u:hunter2@tcp(h)/db"}, []string{"--url=redis://[redacted]@h", "DB=redis://[redacted]@h", "[redacted]"}},
		{[]string{"https://h/mcp?key=hunter2#hunter2", "https://h/s/" + random}, []string{"https://h/mcp?key=[redacted]", "[redacted]"}},
		{[]string{"ghp_hunter2", "sk-hunter2", "xoxb-hunter2", "eyJhunter2", "x=ghp_hunter2"}, []string{"[redacted]", "[redacted]", "[redacted]", "[redacted]", "[redacted]"}},
		{[]string{random, "--set=" + random, "--" + random, "550e8400-e29b-41d4-a716-446655440000"}, []string{"[redacted]", "--set=[redacted]", "[redacted]", "[redacted]"}},
		{[]string{"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "cnry00Q7f3kPz9", "0123456789abcdef0123456789abcdef"}, []string{"[redacted]", "[redacted]", "[redacted]"}},
		{[]string{"-c", "curl -H 'Authorization: Bearer hunter2' x"}, []string{"-c", "[redacted]"}},
		{[]string{"-c", "server --token hunter2", "K=1 TOKEN=hunter2 run"}, []string{"-c", "[redacted]", "[redacted]"}},
		{[]string{`{"token":"hunter2"}`, `{"token": "hunter2"}`, `"ghp_hunter2"`, "host=h;password=hunter2"}, []string{"[redacted]", "[redacted]", "[redacted]", "[redacted]"}},
	} {
		if tc.want == nil {
			tc.want = tc.args
		}
		if diff := cmp.Diff(tc.want, showArgs(tc.args)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.args, diff)
		}
	}
}

func FuzzShowArgs(f *testing.F) {
	f.Add("-e K=v --token x {\"a\":\"b\"}")
	f.Fuzz(func(t *testing.T, s string) {
		args := append(strings.Split(s, " "), s, "--token", "\x00hunter2\x00")
		got := showArgs(args)
		if len(got) != len(args) || strings.Contains(got[len(got)-1], "hunter2") {
			t.Errorf("got %q", got)
		}
	})
}
