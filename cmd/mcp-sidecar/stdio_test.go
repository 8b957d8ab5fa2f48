package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
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
