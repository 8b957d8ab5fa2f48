//go:build npm

package conformance

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func TestMain(m *testing.M) { os.Exit(mcptest.Run(m)) }

// TestThroughSidecar runs the scenarios of a revision against go-sdk's
// everything-server, with the program between: every scored one, and those that
// are not scored but about what a proxy must keep.
func TestThroughSidecar(t *testing.T) {
	server := everythingServer(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			up := startHTTP(t, server, revision)
			s := mcptest.StartSidecar(t, config("url: "+up))
			hold(t, revision, run(t, revision, s.URL), false)
		})
	}
}

// TestThroughSidecarStdio does the same with the server as a child process.
func TestThroughSidecarStdio(t *testing.T) {
	s := mcptest.StartSidecar(t, config("command: "+everythingServer(t)))
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) { hold(t, revision, run(t, revision, s.URL), true) })
	}
}

// TestDirect shows what the server passes with nothing between: a scenario that
// fails here says nothing about us.
func TestDirect(t *testing.T) {
	server := everythingServer(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			got := run(t, revision, startHTTP(t, server, revision))
			vs, _ := verdicts(revision)
			for _, v := range vs {
				if !got[v.scenario].passed {
					t.Errorf("%s fails without us", v.scenario)
				}
			}
		})
	}
}

func config(how string) string {
	return "naming: \"{tool}\"\nprofiles: {default: {utility_tools: false}}\nmcp_servers:\n  u:\n    " + how + "\n    supports_parallel_tool_calls: true\n"
}

// hold compares outcomes with the expected list, one subtest per scenario.
func hold(t *testing.T, revision string, got map[string]outcome, stdio bool) {
	vs, err := verdicts(revision)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vs {
		if stdio && v.httpOnly {
			continue
		}
		t.Run(v.scenario, func(t *testing.T) {
			o, ran := got[v.scenario]
			switch {
			case v.next != "" && o.passed:
				t.Logf("passes already: expected.txt may say so")
			case v.next != "":
				t.Skipf("next: %s", v.next)
			case !ran:
				t.Error("did not run")
			case !o.passed:
				t.Errorf("failed:\n%s", o.why)
			}
		})
	}
}

// An outcome is what the suite said of one scenario.
type outcome struct {
	passed bool
	why    string
}

var summary = regexp.MustCompile(`(?m)^(\S+) ([\w/.-]+): (\d+) passed, (\d+) failed`)

// run runs the suite once and reads its summary and its records.
func run(t *testing.T, revision, url string) map[string]outcome {
	t.Helper()
	dir := t.TempDir()
	p := mcptest.Program{
		Path: mcptest.Node(t),
		Args: []string{
			mcptest.Module(t, "test/node", "@modelcontextprotocol/conformance/dist/index.js"),
			"server", "--url", url, "--requirements", revision, "--timeout", "15000", "-o", dir,
		},
		Limit: 5 * time.Minute,
	}
	stdout, stderr, err := p.Run(t)
	got := map[string]outcome{}
	for _, m := range summary.FindAllStringSubmatch(stdout, -1) {
		got[m[2]] = outcome{passed: m[1] == "✓", why: failures(dir, m[2])}
	}
	if len(got) == 0 {
		t.Fatalf("the suite gave no summary: %v\n%s\n%s", err, stdout, stderr)
	}
	return got
}

var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT.*$`)

// failures are the failed checks that the suite recorded for a scenario.
func failures(dir, scenario string) string {
	var out []string
	fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		at := stamp.ReplaceAllString(filepath.Base(filepath.Dir(name)), "")
		if err != nil || d.Name() != "checks.json" || strings.TrimPrefix(at, "server-") != scenario && at != scenario {
			return nil
		}
		b, _ := os.ReadFile(filepath.Join(dir, name))
		var checks []struct{ ID, Status, ErrorMessage, Description string }
		json.Unmarshal(b, &checks)
		for _, c := range checks {
			if c.Status == "FAILURE" {
				out = append(out, fmt.Sprintf("  %s: %.300s", c.ID, c.ErrorMessage+" ("+c.Description+")"))
			}
		}
		return nil
	})
	return strings.Join(out, "\n")
}

// everythingServer builds the SDK's fixture server.
func everythingServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "everything-server")
	out, err := exec.Command("go", "build", "-o", path, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// startHTTP runs the fixture server: its handler serves one era at a time.
func startHTTP(t *testing.T, server, revision string) string {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", mcptest.FreePort(t))
	cmd := exec.Command(server, "-http="+addr, fmt.Sprintf("-stateless=%v", revision == mcptest.Modern))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
	})
	for range 500 {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return "http://" + addr
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s does not listen", server)
	return ""
}
