//go:build npm

package oauth

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestBrowser: a browser logs in, and from then on nobody has to.
func TestBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, "")
	env := []string{"CHROMIUM=" + chromium(t), "BROWSER=" + mcptest.Node(t) + " " + script(t, "visit.mjs")}
	_, stderr, err := w.run(t, env, "login", "locked")
	if err != nil || !strings.Contains(stderr, "renewed by itself") || !strings.Contains(stderr, "locked: 1 tool(s)") {
		t.Fatalf("login: %v\n%s", err, stderr)
	}
	_, a := w.serve(t)
	served(t, a, "locked")
	before := w.good(t).Refreshed
	time.Sleep(time.Duration(w.p.life)*time.Second + leeway) // the token is over
	served(t, a, "locked")
	if n := w.good(t).Refreshed; n == before {
		t.Error("the token was not renewed")
	}
	w.l.revoke()
	served(t, a, "locked")
	waitFor(t, "the browser to end", patience, func() bool {
		return len(mcptest.Named(mcptest.Named(mcptest.Processes(), "visit.mjs"), w.p.issuer)) == 0
	})
	if s := w.good(t); s.Registered != 1 {
		t.Errorf("%d registrations, want 1", s.Registered)
	}
	if seen := w.l.Seen("tools/call"); len(seen) != 3 {
		t.Errorf("the server saw %d calls, want 3", len(seen))
	}
}

var deviceCode = regexp.MustCompile(`(http://\S+/device)\b[\s\S]*?\b([A-Z]{4}-[A-Z]{4})\b`)

// TestDevice: the code is typed in at a browser.
func TestDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, "flow: device")
	login := w.begun(t, nil, "login", "locked")
	at := login.says(t, deviceCode)
	typed := &mcptest.Program{Path: mcptest.Node(t), Args: []string{script(t, "visit.mjs"), at[1], at[2]}, Env: []string{"CHROMIUM=" + chromium(t)}}
	if stdout, stderr, err := typed.Run(t); err != nil || !strings.Contains(stdout, "Success") {
		t.Fatalf("the browser: %v\n%s%s", err, stdout, stderr)
	}
	login.ends(t, "locked: 1 tool(s)")
	_, a := w.serve(t)
	served(t, a, "locked")
	time.Sleep(time.Duration(w.p.life)*time.Second + leeway)
	served(t, a, "locked")
	if s := w.good(t); s.Refreshed == 0 {
		t.Error("the token was not renewed")
	}
}

var visitURL = regexp.MustCompile(`visit:\s+(http://\S+)`)

// TestPaste: the redirect URL is pasted, after something else was.
func TestPaste(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(t *testing.T) (in *os.File, keys io.Writer)
	}{
		{"pipe", func(t *testing.T) (*os.File, io.Writer) { return pair(t, os.Pipe) }},
		{"terminal", func(t *testing.T) (*os.File, io.Writer) { return pair(t, terminal) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 60, "")
			in, keys := c.open(t)
			login := w.begun(t, in, "login", "locked", "--no-browser")
			redirect := w.answer(t, login.says(t, visitURL)[1])
			fmt.Fprintln(keys, "http://127.0.0.1:1/callback?state=another&code=of-no-worth")
			login.says(t, regexp.MustCompile("Not the redirect URL"))
			fmt.Fprintln(keys, redirect)
			login.ends(t, "locked: 1 tool(s)")
			_, a := w.serve(t)
			served(t, a, "locked")
			w.good(t)
		})
	}
}

// TestStartFinish: two processes share a login, and only the right answer ends it.
func TestStartFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60, "")
	redirect := w.answer(t, w.begin(t))
	refused := func(answer, want string) {
		t.Helper()
		if _, stderr, err := w.run(t, nil, "login", "--finish", answer); err == nil || !strings.Contains(stderr, want) {
			t.Errorf("want %q: %v\n%s", want, err, stderr)
		}
	}
	refused(strings.Replace(redirect, "state=", "state=x", 1), "no login is pending")
	if _, stderr, err := w.run(t, nil, "login", "--finish", redirect); err != nil || !strings.Contains(stderr, "locked: 1 tool(s)") {
		t.Fatalf("login --finish: %v\n%s", err, stderr)
	}
	refused(redirect, "finished already")
	refused(strings.Replace(w.answer(t, w.begin(t)), "iss=", "iss=http%3A%2F%2F127.0.0.2%2F", 1), "another authorization server")
	w.kept(t)
	_, a := w.serve(t)
	served(t, a, "locked")
	w.good(t)
}
