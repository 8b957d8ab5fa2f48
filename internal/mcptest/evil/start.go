package evil

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A Running is a server as a test sees it. One behind a pipe starts when the
// sidecar starts it; one behind HTTP, and a proxy, has started in this process.
type Running struct {
	Fault   *Fault
	Journal Journal
	// URL is the endpoint, or that of the proxy; empty behind a pipe.
	URL string
	// Command and Args start the server behind a pipe.
	Command string
	Args    []string
	// Dir holds the journal and the certificates.
	Dir string
}

// Start starts the server with this fault, which ends with the test. Always is
// for HTTP servers: see Server.
func Start(t testing.TB, id string, always bool) *Running {
	t.Helper()
	f, err := Find(id)
	if err != nil {
		t.Fatal(err)
	}
	r := &Running{Fault: f, Dir: t.TempDir()}
	r.Journal = Journal{r.Dir}
	if f.Transport == Stdio {
		r.Command, r.Args = Binary(t), []string{"--fault", id, "--state", r.Dir}
		return r
	}
	s := NewServer(f, r.Dir)
	s.Always = always
	other := s.elsewhere()
	t.Cleanup(other.Close)
	s.other = other.URL + "/mcp"
	up, err := s.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.stop)
	r.URL = s.url
	return r
}

// StartApart is Start for a server behind HTTP that runs in a process of its own, so
// that what it computes is not on the test's account.
func StartApart(t testing.TB, id string) *Running {
	t.Helper()
	f, err := Find(id)
	if err != nil {
		t.Fatal(err)
	}
	if f.Transport == Stdio {
		return Start(t, id, false)
	}
	r := &Running{Fault: f, Dir: t.TempDir()}
	r.Journal = Journal{r.Dir}
	cmd := exec.Command(Binary(t), "--fault", id, "--state", r.Dir, "--life", "2h")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	r.URL = strings.TrimSpace(line)
	return r
}

// CA is the file of the server's authority, for ssl_verify; HTTPS only.
func (r *Running) CA() string { return filepath.Join(r.Dir, CAFile) }

// ClientCert is a file with a certificate that the server takes, and its key.
func (r *Running) ClientCert() string { return filepath.Join(r.Dir, ClientFile) }

// Entry is a line of mcp_servers in YAML, with more settings as they are given.
func (r *Running) Entry(name string, settings ...string) string {
	how := []string{}
	if r.URL != "" {
		how = append(how, "url: "+quote(r.URL))
	} else {
		args, _ := json.Marshal(r.Args)
		how = append(how, "command: "+quote(r.Command), "args: "+string(args))
	}
	return fmt.Sprintf("  %s: {%s}\n", name, strings.Join(append(how, settings...), ", "))
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Run is the body of a TestMain, instead of that of mcptest: it removes what
// Binary built, too.
func Run(m *testing.M) int {
	defer func() { os.RemoveAll(built.dir) }()
	return mcptest.Run(m)
}

// Binary returns the path of evilserver, which it builds once, without the race
// detector: tests start many. TestMain must call Run.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(build)
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "evilserver")
}

func build() {
	root, err := mcptest.Root()
	if err == nil {
		built.dir, err = os.MkdirTemp("", "mcp-sidecar-evil")
	}
	if err != nil {
		built.err = err
		return
	}
	cmd := exec.Command("go", "build", "-o", built.dir, "./internal/mcptest/evil/evilserver")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		built.err = fmt.Errorf("go build evilserver: %v\n%s", err, out)
	}
}
