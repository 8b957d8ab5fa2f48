//go:build npm && clients

package clients

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

const dir = "test/clients/node"

// write puts a file into a home directory.
func write(t *testing.T, home, name, text string) string {
	t.Helper()
	p := filepath.Join(home, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLibraries are client libraries, each with a small script of ours.
func TestLibraries(t *testing.T) {
	s := demo(t)
	want := demoTools(t, s)
	for _, script := range []string{"langchain.mjs", "aisdk.mjs"} {
		t.Run(script, func(t *testing.T) {
			root, err := mcptest.Root()
			if err != nil {
				t.Fatal(err)
			}
			out, errs, err := node(t, t.TempDir(), "", filepath.Join(root, dir, script), s.URL, "mcp_demo_echo", `{"text":"hi"}`)
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
			var got []string
			for _, n := range mcptest.Elements(mcptest.Member([]byte(out), "tools")) {
				got = append(got, strings.Trim(string(n), `"`))
			}
			sameNames(t, want, got)
			if answer := mcptest.Member([]byte(out), "answer"); !strings.Contains(string(answer), `"hi"`) {
				t.Errorf("echo: %s", answer)
			}
		})
	}
}

func TestMcporter(t *testing.T) {
	s := demo(t)
	want := demoTools(t, s)
	home := t.TempDir()
	config := write(t, home, "mcporter.json", `{"mcpServers":{"sidecar":{"url":`+jsonOf(s.URL)+`}}}`)
	cli := mcptest.Module(t, dir, "mcporter/dist/cli.js")
	out, errs, err := node(t, home, "", cli, "--config", config, "list", "sidecar")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	for _, name := range want {
		if !strings.Contains(out, name+"(") {
			t.Errorf("%s is not listed", name)
		}
	}
	out, errs, err = node(t, home, "", cli, "--config", config, "call", "sidecar.mcp_demo_echo", "text=hi")
	if err != nil || strings.TrimSpace(out) != "hi" {
		t.Errorf("echo: %q %v %s", out, err, errs)
	}
}

// claudeBinary is the program of the package for this platform.
func claudeBinary(t *testing.T) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return mcptest.Module(t, dir, "@anthropic-ai/claude-code-"+runtime.GOOS+"-"+arch+"/claude")
}

func TestClaude(t *testing.T) {
	s := demo(t)
	home := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		p := mcptest.Program{Path: claudeBinary(t), Args: args, Dir: home, Env: []string{"HOME=" + home, "NO_COLOR=1", "DISABLE_AUTOUPDATER=1"}}
		out, errs, err := p.Run(t)
		if err != nil {
			t.Fatalf("claude %v: %v\n%s%s", args, err, out, errs)
		}
		return out
	}
	run("mcp", "add", "--transport", "http", "sidecar", s.URL)
	if out := run("mcp", "list"); !strings.Contains(out, "Connected") {
		t.Errorf("claude mcp list:\n%s", out)
	}
}

// TestCodex shows that codex takes the snippet; its list does not connect.
func TestCodex(t *testing.T) {
	s := demo(t)
	home := t.TempDir()
	write(t, home, ".codex/config.toml", "[mcp_servers.sidecar]\nurl = "+jsonOf(s.URL)+"\n")
	out, errs, err := node(t, home, "", mcptest.Module(t, dir, "@openai/codex/bin/codex.js"), "mcp", "list")
	if err != nil || !strings.Contains(out, s.URL) || !strings.Contains(out, "enabled") {
		t.Errorf("codex mcp list: %v\n%s%s", err, out, errs)
	}
}

func TestGemini(t *testing.T) {
	s := demo(t)
	home := t.TempDir()
	write(t, home, ".gemini/settings.json", `{"mcpServers":{"sidecar":{"httpUrl":`+jsonOf(s.URL)+`}}}`)
	write(t, home, ".gemini/trustedFolders.json", `{`+jsonOf(home)+`:"TRUST_FOLDER"}`)
	out, errs, err := node(t, home, "", mcptest.Module(t, dir, "@google/gemini-cli/bundle/gemini.js"), "mcp", "list")
	if err != nil || !strings.Contains(out+errs, "Connected") {
		t.Errorf("gemini mcp list: %v\n%s%s", err, out, errs)
	}
}
