//go:build npm

package parts

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// needsProc skips what looks at processes.
func needsProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skipf("needs Linux's list of processes: %v", err)
	}
}

// TestBrowser: Playwright's server with a browser, ended when it is idle and started
// again by the next call. Nothing of a browser stays behind.
func TestBrowser(t *testing.T) {
	t.Parallel()
	needsProc(t)
	browser := program(t, "chromium-headless-shell", "chromium", "chromium-headless-shell")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<title>A page</title><h1>for "+r.URL.Path+"</h1>")
	}))
	t.Cleanup(page.Close)
	cli := mcptest.Module(t, "test/node", "@playwright/mcp/cli.js")
	args := []string{cli, "--headless", "--no-sandbox", "--isolated", "--browser", "chromium", "--executable-path", browser, "--output-dir", t.TempDir()}
	s := mcptest.StartSidecar(t, fmt.Sprintf("list_wait: 60s\nmcp_servers:\n  web: {command: %q, args: %s, env: {HOME: %q}, connect_timeout: 60s, idle_timeout_seconds: 3}\n",
		mcptest.Node(t), jsonOf(args), t.TempDir()))
	a := &mcptest.Agent{URL: s.URL}
	first := browses(t, s, a, page.URL)
	waitFor(t, "the idle server and its browser to be gone", func() bool { return len(mcptest.Running(first)) == 0 })
	if tools, err := a.Tools(t.Context()); err != nil || tools["mcp_web_browser_navigate"] == nil {
		t.Errorf("%v: the tools of the idle server are not listed: %d", err, len(tools))
	}
	second := browses(t, s, a, page.URL)
	end := syscall.SIGTERM
	if longRun() {
		end = syscall.SIGKILL
	}
	syscall.Kill(s.PID, end)
	waitFor(t, "the browser to end with the program", func() bool { return len(mcptest.Running(second)) == 0 })
}

// browses has a page read, and returns the processes of the server and the browser.
func browses(t *testing.T, s *mcptest.Sidecar, a *mcptest.Agent, url string) (all []mcptest.Process) {
	t.Helper()
	if r := call(t, a, "mcp_web_browser_navigate", `{"url":`+jsonOf(url+"/here")+`}`); r.IsToolError() || !strings.Contains(string(r.Result), "A page") {
		t.Fatalf("navigate: %.2000s", r.Body)
	}
	if r := call(t, a, "mcp_web_browser_snapshot", "{}"); !strings.Contains(string(r.Result), "for /here") {
		t.Errorf("snapshot: %.2000s", r.Body)
	}
	for _, p := range mcptest.Below(s.PID) {
		if !strings.HasPrefix(p.Line, mcptest.Binary(t)+" ") { // that would be the guard
			all = append(all, p)
		}
	}
	if len(mcptest.Named(all, "chromium")) < 3 || len(mcptest.Named(all, "playwright")) == 0 {
		t.Errorf("no server and browser run, but %v", all)
	}
	return all
}
