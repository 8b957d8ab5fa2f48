//go:build npm

package oauth

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestRemote: browser and listener are on one machine, the sidecar is on another that
// shares nothing with it but the forwarded admin socket.
func TestRemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60, "")
	_, a := w.serve(t)
	text, code := call(t, a, "locked")
	wantsLogin(t, text, code)
	laptop := func(args ...string) *begun {
		b := &begun{cmd: exec.CommandContext(t.Context(), mcptest.Binary(t), args...), done: make(chan struct{})}
		b.cmd.Dir = t.TempDir()
		b.cmd.Env = []string{"HOME=" + b.cmd.Dir, "PATH=" + os.Getenv("PATH")}
		b.start(t, w)
		return b
	}
	socket := "unix:" + filepath.Join(w.state, "run")
	login := laptop("login", "locked", "--no-browser", "--remote", socket)
	redirect := w.answer(t, login.says(t, visitURL)[1])
	resp, err := http.Get(redirect) // as the browser would
	if err != nil {
		t.Fatal(err)
	}
	if page, _ := io.ReadAll(resp.Body); !strings.Contains(string(page), "Answer received") {
		t.Errorf("the browser sees %s", page)
	}
	resp.Body.Close()
	login.ends(t, "logged in to locked at "+w.p.issuer)
	waitFor(t, "the server to serve", pickup, func() bool { _, code := call(t, a, "locked"); return code == "" })
	if left, _ := filepath.Glob(filepath.Join(login.cmd.Dir, "*")); len(left) > 0 {
		t.Errorf("left on the machine with the browser: %q", left)
	}
	w.good(t)

	none := laptop("login", "free", "--remote", socket)
	<-none.done
	if none.err == nil || !strings.Contains(none.out.String(), "has no auth: oauth") {
		t.Errorf("%v: %s", none.err, none.out.String())
	}
}
