//go:build npm

package oauth

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// patience bounds the wait for what another process does.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "no_proxy", "browser", "display", "wayland_display", "ssh_client", "ssh_tty"} {
		os.Unsetenv(name)
		os.Unsetenv(strings.ToUpper(name))
	}
	flag.Parse()
	flag.Set("test.parallel", "4")
	os.Exit(mcptest.Run(m))
}

// chromium is a browser, without which a test is skipped.
func chromium(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Skip("chromium-headless-shell is not installed; Debian has a package of that name")
	}
	return p
}

// waitFor polls for what other processes do.
func waitFor(t *testing.T, what string, limit time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

// printed keeps what a program says.
type printed struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}
