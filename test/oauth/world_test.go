//go:build npm

package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A world is a provider, a server that is locked and one that is not, and the
// program before them. Whatever the program printed is searched for secrets in the end.
type world struct {
	p      *provider
	l      *locked
	free   *mcptest.Upstream
	config string // the file
	state  string // the directory

	mu   sync.Mutex
	said []func() string
}

// newWorld makes a world. The block oauth of the locked server is YAML, and may be
// empty.
func newWorld(t *testing.T, life int, oauth string) *world {
	t.Helper()
	w := &world{p: newProvider(t, life), state: filepath.Join(t.TempDir(), "state")}
	w.l = newLocked(t, w.p)
	w.free = &mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}
	w.config = filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("mcp_servers:\n  free: {url: %q}\n  locked:\n    url: %q\n    auth: oauth\n    oauth: {%s}\n", w.free.Start(t), w.l.url, oauth)
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.searched(t) })
	return w
}

// searched fails the test if a secret was printed, or a file of the state directory
// is for others to read.
func (w *world) searched(t *testing.T) {
	secrets := w.p.seen(t).Secrets
	if len(secrets) == 0 {
		t.Error("the provider gave nothing away")
	}
	for _, said := range w.said {
		text := said()
		for _, s := range secrets {
			if i := strings.Index(text, s); i >= 0 {
				t.Errorf("a secret was printed: …%s[%s]", text[max(0, i-200):i], s)
			}
		}
	}
	filepath.WalkDir(w.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if fi, err := d.Info(); err == nil && fi.Mode().Perm()&0o077 != 0 && strings.Contains(path, "oauth") {
			t.Errorf("%s is %v", path, fi.Mode())
		}
		return nil
	})
}

func (w *world) hears(said func() string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, said)
}

// serve starts the program at debug level.
func (w *world) serve(t *testing.T) (*mcptest.Sidecar, *mcptest.Agent) {
	t.Helper()
	s := mcptest.StartServe(t, "--config", w.config, "--insecure-no-auth", "--state-dir", w.state, "-v")
	w.hears(s.Log)
	return s, &mcptest.Agent{URL: s.URL}
}

// stop ends a sidecar before the test does.
func stop(t *testing.T, s *mcptest.Sidecar) {
	t.Helper()
	syscall.Kill(s.PID, syscall.SIGTERM)
	waitFor(t, "the sidecar to end", patience, func() bool { return syscall.Kill(s.PID, 0) != nil })
}

// program is the program with its state and configuration, at debug level.
func (w *world) program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), mcptest.Binary(t), append(args, "--config", w.config, "--state-dir", w.state, "-v")...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs the program to its end.
func (w *world) run(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	p := mcptest.Program{Path: mcptest.Binary(t), Args: append(args, "--config", w.config, "--state-dir", w.state, "-v"), Env: env}
	stdout, stderr, err = p.Run(t)
	w.hears(func() string { return stdout + stderr })
	return stdout, stderr, err
}

// begin begins a login that finish ends, and returns the URL to visit.
func (w *world) begin(t *testing.T) (visit string) {
	t.Helper()
	stdout, stderr, err := w.run(t, nil, "login", "locked", "--start", "--json")
	if visit = mcptest.Text([]byte(stdout), "url"); err != nil || visit == "" {
		t.Fatalf("login --start: %v\n%s%s", err, stdout, stderr)
	}
	return visit
}

// login logs in, without a browser.
func (w *world) login(t *testing.T) {
	t.Helper()
	if _, stderr, err := w.run(t, nil, "login", "--finish", w.answer(t, w.begin(t))); err != nil || !strings.Contains(stderr, "locked: 1 tool(s)") {
		t.Fatalf("login --finish: %v\n%s", err, stderr)
	}
}

// answerTime is long for a call: it may wait for another token, but for no person.
const answerTime = 15 * time.Second

// call calls the tool of a server, and returns the code of its failure, if any.
func call(t *testing.T, a *mcptest.Agent, server string) (text, code string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	r, err := a.Call(ctx, "mcp_"+server+"_echo", `{"n":1}`)
	if err != nil {
		t.Fatalf("%s: %v", server, err)
	}
	if r.Result == nil || r.IsToolError() {
		_, code, _ = strings.Cut(r.Content(), "(code MCPS-")
		if code = strings.TrimSuffix(code, ")"); code == "" {
			code = fmt.Sprintf("none in %.500s", r.Body)
		}
	}
	return r.Content(), code
}

// served fails the test if a server's tool does not answer.
func served(t *testing.T, a *mcptest.Agent, server string) {
	t.Helper()
	if text, code := call(t, a, server); code != "" {
		t.Fatalf("%s: %s: %s", server, code, text)
	}
}

// wantsLogin fails the test if an answer is not how to log in.
func wantsLogin(t *testing.T, text, code string) {
	t.Helper()
	if code != "UNAUTHORIZED" || !strings.Contains(text, "mcp-sidecar login locked") {
		t.Fatalf("%s: %s: does not say how to log in", code, text)
	}
}

// good fails the test if the provider saw a refresh token twice, or refused anything.
func (w *world) good(t *testing.T) seen {
	t.Helper()
	s := w.p.seen(t)
	if s.Reused != 0 || s.Revoked != 0 || len(s.Errors) != 0 {
		t.Errorf("refresh tokens were reused %d times, and %d grants revoked: %q", s.Reused, s.Revoked, s.Errors)
	}
	for _, r := range s.Resources {
		if r != w.l.url {
			t.Errorf("a token was asked for for %q, want %q", r, w.l.url)
		}
	}
	return s
}

// kept fails the test if what is stored is no whole file.
func (w *world) kept(t *testing.T) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(w.state, "oauth", "*", "*.json"))
	if len(files) == 0 {
		t.Error("nothing is stored")
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || !json.Valid(b) {
			t.Errorf("%s is damaged: %v", f, err)
		}
	}
}
