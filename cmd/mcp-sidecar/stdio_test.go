package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A call in flight on standard input is answered at a signal too, though nobody
// closes the input.
func TestStdioIsAnsweredAtTerm(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mcp-sidecar", "serve", "--demo", "--stdio", "--state-dir", t.TempDir())
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_demo_slow","arguments":{"milliseconds":1000},"_meta":{"progressToken":"p"}}}
`)
	answered := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, "notifications/progress"):
			cmd.Process.Signal(syscall.SIGTERM) // the second one stops at once, so it is sent once
			for lines.Scan() {
				answered = answered || strings.Contains(lines.Text(), `"id":1,"result"`)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !answered {
		t.Errorf("ended with %v, answered: %t", err, answered)
	}
}

// With a log in JSON every line of standard error is a record, from the first
// warning to the last word.
func TestJSONLogIsNothingElse(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	config := "mcp_servers:\n  demo: {builtin: demo}\n  gone: {command: no-such-program-of-ours, env: {T: \"$TOKEN\"}}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "mcp-sidecar", "serve", "--config", file, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--state-dir", filepath.Join(dir, "state"), "--log-format", "json")
	cmd.Env = append(os.Environ(), "HOME="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = time.Second
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var record struct{ Msg, Endpoint, Server, Level, Time string }
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil || record.Msg == "" || record.Level == "" || record.Time == "" {
			t.Errorf("no record: %s", lines.Text())
		}
		seen[record.Msg] = true
		if record.Msg == "started" {
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, msg := range []string{"the configuration deserves a word", "listening", "health endpoints", "server found", "started", "stopping", "stopped"} {
		if !seen[msg] {
			t.Errorf("nothing says %q", msg)
		}
	}
}
