//go:build npm

package oauth

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// pickup is how soon a running sidecar has what a login elsewhere brought.
const pickup = 5 * time.Second

// TestLater: a server that wants a login stands in nobody's way, and serves soon
// after somebody has logged in elsewhere.
func TestLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60, "")
	s, a := w.serve(t)
	served(t, a, "free")
	if tools, err := a.Tools(t.Context()); err != nil || tools["mcp_free_echo"] == nil || tools["mcp_locked_echo"] != nil {
		t.Fatalf("before the login: %v %v", tools, err)
	}
	if !strings.Contains(s.Log(), "mcp-sidecar login locked") {
		t.Error("the log does not say how to log in")
	}
	old := &mcptest.Agent{URL: s.URL, Version: mcptest.Legacy}
	if _, err := old.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := changed(t, old)
	w.login(t)
	waitFor(t, "notifications/tools/list_changed", pickup, func() bool { return strings.Contains(told.String(), "notifications/tools/list_changed") })
	served(t, a, "locked")
	if tools, err := old.Tools(t.Context()); err != nil || tools["mcp_locked_echo"] == nil {
		t.Errorf("after the login: %v %v", tools, err)
	}
	w.good(t)
}

// changed reads the standing stream of a session.
func changed(t *testing.T, a *mcptest.Agent) *printed {
	t.Helper()
	resp, err := a.Get(t.Context())
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET: %v", err)
	}
	told, done := &printed{}, make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(told, resp.Body)
	}()
	t.Cleanup(func() {
		resp.Body.Close()
		<-done
	})
	return told
}

// TestAgain: tools that an earlier run knew stay listed. Calls to them say how to
// log in until somebody has.
func TestAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60, "")
	w.login(t)
	s, a := w.serve(t)
	served(t, a, "locked")
	stop(t, s)
	if _, stderr, err := w.run(t, nil, "logout", "locked"); err != nil {
		t.Fatalf("logout: %v\n%s", err, stderr)
	}
	_, a = w.serve(t)
	if tools, err := a.Tools(t.Context()); err != nil || tools["mcp_locked_echo"] == nil {
		t.Fatalf("after the logout: %v %v", tools, err)
	}
	text, code := call(t, a, "locked")
	wantsLogin(t, text, code)
	served(t, a, "free")
	w.login(t)
	waitFor(t, "the server to serve", pickup, func() bool {
		_, code := call(t, a, "locked")
		return code == ""
	})
	w.good(t)
}
