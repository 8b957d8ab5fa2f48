//go:build npm

package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A probe talks to a stdio server with nothing between, and keeps the bytes.
type probe struct {
	in   io.WriteCloser
	msgs chan mcptest.Message
	id   int
}

// startProbe runs a server and does the handshake.
func startProbe(t *testing.T, s *server) *probe {
	t.Helper()
	cmd := exec.Command(s.command, s.args...)
	cmd.Dir = s.dir
	cmd.Env = os.Environ()
	for k, v := range s.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
	p := &probe{in: in, msgs: make(chan mcptest.Message, 1000)}
	done := make(chan struct{})
	go p.read(out, done)
	t.Cleanup(func() {
		in.Close()
		select {
		case <-done:
		case <-time.After(2 * time.Second):
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		cmd.Wait()
	})
	p.handshake(t)
	return p
}

// read forwards messages, and drops the lines that are none.
func (p *probe) read(out io.Reader, done chan struct{}) {
	defer close(done)
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		if m := mcptest.Parse(sc.Bytes()); m.ID != nil && m.Method == "" {
			p.msgs <- m
		}
	}
}

func (p *probe) handshake(t *testing.T) {
	t.Helper()
	p.ask(t, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}`)
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// ask sends one request and returns its answer.
func (p *probe) ask(t *testing.T, method, params string) mcptest.Message {
	t.Helper()
	p.id++
	fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", p.id, method, params)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case m := <-p.msgs:
			if string(m.ID) == fmt.Sprint(p.id) {
				return m
			}
		case <-ctx.Done():
			t.Fatalf("%s: no answer", method)
		}
	}
}

// list walks one list to its end.
func (p *probe) list(t *testing.T, method, key string) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	params := "{}"
	for range 100 {
		m := p.ask(t, method, params)
		all = append(all, mcptest.Elements(mcptest.Member(m.Result, key))...)
		next := mcptest.Member(m.Result, "nextCursor")
		if next == nil {
			return all
		}
		params = `{"cursor":` + string(next) + `}`
	}
	t.Fatalf("%s: no end", method)
	return nil
}
