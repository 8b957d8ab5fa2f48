package mcptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// stdioEnv tells a re-executed test binary to be an upstream.
const stdioEnv = "MCPTEST_UPSTREAM"

// Main is for TestMain, before anything else: in a child started through
// Command it serves the upstream and exits; otherwise it does nothing.
func Main() {
	path := os.Getenv(stdioEnv)
	if path == "" {
		return
	}
	if err := serveFile(path); err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveFile(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var u Upstream
	if err := json.Unmarshal(b, &u); err != nil {
		return err
	}
	return u.ServeStdio(os.Stdin, os.Stdout)
}

// Command returns what starts u as a stdio server: the test binary itself, whose
// TestMain must call Main. Seen and Faults do not work across processes.
func (u *Upstream) Command(t testing.TB) (command string, env map[string]string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "upstream.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return exe, map[string]string{stdioEnv: path}
}

// ServeStdio answers the messages on in, one a line, until in ends.
func (u *Upstream) ServeStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	if _, err := io.WriteString(out, u.Noise); err != nil {
		return err
	}
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			u.line(line, out, &mu)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (u *Upstream) line(line []byte, out io.Writer, mu *sync.Mutex) {
	m := Parse(line)
	u.record(Received{Message: m, Raw: line})
	if m.ID == nil || m.Method == "" {
		u.told(&m)
		return
	}
	if u.asks(&m) && !modernMeta(m.Params) {
		go u.askStdio(&m, out, mu)
		return
	}
	if u.labLine(&m, out, mu) {
		return
	}
	if d := u.delay(&m); d > 0 {
		go func() {
			time.Sleep(d)
			u.write(&m, out, mu)
		}()
		return
	}
	u.write(&m, out, mu)
}

// labLine serves what of a lab takes its time or outlasts its request.
func (u *Upstream) labLine(m *Message, out io.Writer, mu *sync.Mutex) bool {
	if !u.Lab {
		return false
	}
	send := func(msg string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%s\n", msg)
	}
	modern := modernMeta(m.Params)
	switch {
	case m.Method == "initialize":
		u.lab.mu.Lock()
		u.lab.line = send
		u.lab.mu.Unlock()
		return false
	case modern && m.Method == "subscriptions/listen" && u.speaks(Modern):
		u.listen(m, send)
		return true
	case m.Method != "tools/call":
		return false
	}
	go func() {
		if member, ok := u.labTool(m, modern, nil); ok {
			send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + member + `}`)
			return
		}
		u.write(m, out, mu)
	}()
	return true
}

// askStdio serves a legacy call whose tool asks.
func (u *Upstream) askStdio(m *Message, out io.Writer, mu *sync.Mutex) {
	send := func(msg string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%s\n", msg)
	}
	for _, n := range u.notes(m) {
		send(n)
	}
	send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + u.ask(asking{send: send}, m) + `}`)
}

func (u *Upstream) write(m *Message, out io.Writer, mu *sync.Mutex) {
	modern := m.Method != "initialize" && modernMeta(m.Params)
	member := u.member(m, modern)
	if modern && !u.speaks(Modern) {
		member = failure(-32601, "method not found: "+m.Method)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, n := range u.notes(m) {
		fmt.Fprintf(out, "%s\n", n)
	}
	fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", m.ID, member)
}
