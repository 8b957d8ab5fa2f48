package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// why returns the lines of what keeps each server off, as a terminal shows them.
func why(c *Config) []string {
	var out []string
	for i := range c.Servers {
		s := &c.Servers[i]
		err := s.Err
		if err == nil {
			_, err = s.Settings.Resolve(s.Name, DefaultProfile, c.Vars(s.Name, DefaultProfile), []string{"PATH=/nowhere"})
		}
		for _, f := range s.Faults(err) {
			out = append(out, f.Error())
		}
	}
	return out
}

// TestServerFaults holds that every fault of a server is one line with one place,
// whichever part found it.
func TestServerFaults(t *testing.T) {
	dir := write(t, map[string]string{
		".mcp.json": `{"mcpServers": {
  "remote": {"url": "https://e.example/${HERE}"},
  "keys": {
    "url": "https://e.example/${PATH_OF}",
    "headers": {"X-Key": "${API_KEY}", "X-Default": "${NOT_SET:-fine}"}
  },
  "stdio": {"command": "no-such-program"},
  "args": {"command": "x", "args": ["-y", "${workspaceFolder}"], "env": {"A": "${B}"}},
  "fine": {"url": "https://e.example/"},
  "file": {"command": "x", "envFile": "none.env"},
  "lines": {"command": "x", "envFile": "bad.env"}
}}`,
		"bad.env": "A=1\n\nbroken\n=2\n",
	})
	c, err := Load(Input{Files: []string{".mcp.json"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		".mcp.json:2:21: mcpServers.remote.url: ${HERE} is not set",
		".mcp.json:4:12: mcpServers.keys.url: ${PATH_OF} is not set",
		".mcp.json:5:26: mcpServers.keys.headers.X-Key: ${API_KEY} is not set",
		`.mcp.json:7:24: mcpServers.stdio.command: "no-such-program" is not on the server's PATH (/nowhere); install it, or set env.PATH or an absolute command: file does not exist`,
		".mcp.json:8:43: mcpServers.args.args.1: ${workspaceFolder} is not set: give --workspace DIR or the profile's workspace key",
		".mcp.json:8:79: mcpServers.args.env.A: ${B} is not set",
		".mcp.json:10:39: mcpServers.file.envFile: none.env: open: no such file or directory",
		".mcp.json:11:40: mcpServers.lines.envFile: bad.env: line 3 is not NAME=value, skipped",
		".mcp.json:11:40: mcpServers.lines.envFile: bad.env: line 4 is not NAME=value, skipped",
	}
	if diff := cmp.Diff(want, why(c)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestServerFaultsWithoutPlace(t *testing.T) {
	s := Server{Name: "demo"} // of the command line
	if got := s.Faults(nil); len(got) != 0 {
		t.Errorf("got %v of no error", got)
	}
	if got := s.Faults(errors.New("broken")); len(got) != 1 || got[0].Error() != "mcp_servers.demo: broken" {
		t.Errorf("got %v", got)
	}
}

// TestFilterNames covers what would otherwise let the wrong tools through.
func TestFilterNames(t *testing.T) {
	c := load(t, "c.yaml", `
model: x
mcp_servers:
  a: {command: x, tools: {include: 5}}
  b: {command: x, tools: {exclude: true}}
  c: {command: x, tools: {include: [ok, 5]}}
  d: {command: x, tools: [ok, false]}
  e: {command: x, tools: {include: ["5", yes], exclude: "7"}}
`)
	var got []string
	for i := range c.Servers {
		for _, f := range c.Servers[i].Faults(c.Servers[i].Err) {
			got = append(got, f.Error())
		}
	}
	want := []string{
		"c.yaml:4:36: mcp_servers.a.tools.include: must be a list of strings, not a number",
		"c.yaml:5:36: mcp_servers.b.tools.exclude: must be a list of strings, not a boolean",
		"c.yaml:6:27: mcp_servers.c.tools.include: item 1 must be a string, not a number: put the name in quotes",
		"c.yaml:7:26: mcp_servers.d.tools.include: item 1 must be a string, not a boolean: put the name in quotes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// TestClaudeState covers Claude Code's own file without servers of the user, which
// must not be taken for a file of ours.
func TestClaudeState(t *testing.T) {
	const project = `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}, "history": []}`
	for _, tc := range []struct{ text, want string }{
		{`{"numStartups": 5, "theme": "dark", "projects": {"/p": ` + project + `, "/q": {"mcpServers": {}}}}`, "under projects (2 servers) is not read"},
		{`{"projects": {"/p": ` + project + `}}`, "under projects (2 servers) is not read"},
		{`{"firstStartTime": "2026-01-01", "tipsHistory": {}}`, "no mcpServers at its top level: copy"},
	} {
		got := loadError(t, Input{Files: []string{".claude.json"}, Dir: write(t, map[string]string{".claude.json": tc.text})})
		if strings.Count(got, "\n") != 0 || !strings.Contains(got, ".claude.json: this is Claude Code's own file") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want one line with %q", tc.text, got, tc.want)
		}
	}
	c := load(t, ".claude.json", `{"numStartups": 5, "mcpServers": {"u": {"command": "x"}}, "projects": {"/p": `+project+`}}`)
	if len(c.Servers) != 1 || c.Servers[0].Name != "u" || c.Servers[0].Err != nil {
		t.Errorf("got %v, want the server of the user", c.Servers)
	}
}
