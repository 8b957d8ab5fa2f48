package field

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// patience bounds every wait; nothing that works comes near it.
const patience = 20 * time.Second

const badCall = -32602

func tool(name string, more ...string) string {
	return `{"name":` + jsonOf(name) + `,"inputSchema":{"type":"object"}` + strings.Join(more, "") + `}`
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// text is an answer with one text.
func text(s string) string { return `"result":{"content":[{"type":"text","text":` + jsonOf(s) + `}]}` }

// at is an entry of mcp_servers with a URL; more are further keys.
func at(name, url string, more ...string) string {
	return fmt.Sprintf("  %s: {%s}\n", jsonOf(name), strings.Join(append([]string{"url: " + jsonOf(url)}, more...), ", "))
}

// shell is an entry whose process is a shell script; in it $SERVER is a program
// that serves u, $LOG and $PIDS are files of the test's own.
func (d *dir) shell(t *testing.T, name string, u *mcptest.Upstream, script string, more ...string) string {
	exe, env := u.Command(t)
	env["SERVER"], env["LOG"], env["PIDS"] = exe, d.path("log"), d.path("pids")
	keys := append([]string{"command: sh", "args: " + jsonOf([]string{"-c", script}), "env: " + jsonOf(env)}, more...)
	return fmt.Sprintf("  %s: {%s}\n", jsonOf(name), strings.Join(keys, ", "))
}

// serve runs the program over entries of mcp_servers.
func serve(t *testing.T, entries ...string) *mcptest.Sidecar {
	t.Helper()
	return serveWith(t, "", entries...)
}

// serveWith is serve with top-level keys of the configuration.
func serveWith(t *testing.T, head string, entries ...string) *mcptest.Sidecar {
	t.Helper()
	return mcptest.StartSidecar(t, head+"mcp_servers:\n"+strings.Join(entries, ""))
}

// open connects an agent of one protocol version.
func open(t *testing.T, url, version string) *mcptest.Agent {
	t.Helper()
	a := &mcptest.Agent{URL: url, Version: version}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// eachEra runs f with an agent of each era.
func eachEra(t *testing.T, url string, f func(t *testing.T, a *mcptest.Agent)) {
	for _, v := range []string{mcptest.Modern, mcptest.Legacy} {
		t.Run(v, func(t *testing.T) { f(t, open(t, url, v)) })
	}
}

// call calls a tool, and fails the test when no answer comes.
func call(t *testing.T, a *mcptest.Agent, name, arguments string) *mcptest.Reply {
	t.Helper()
	r, err := a.Call(t.Context(), name, arguments)
	if err != nil {
		t.Fatalf("tools/call %s: %v", name, err)
	}
	return r
}

// works calls a tool that must answer well.
func works(t *testing.T, a *mcptest.Agent, name string) {
	t.Helper()
	if r := call(t, a, name, `{}`); r.Result == nil || r.IsToolError() {
		t.Errorf("%s: HTTP %d %.500s", name, r.Status, r.Body)
	}
}

// fails calls a tool that must fail with a result that has these words.
func fails(t *testing.T, a *mcptest.Agent, name string, words ...string) {
	t.Helper()
	r := call(t, a, name, `{}`)
	if r.Error != nil || !r.IsToolError() {
		t.Fatalf("%s: got %.500s, want a result with isError", name, r.Body)
	}
	for _, w := range words {
		if !strings.Contains(r.Content(), w) {
			t.Errorf("%s: %q does not say %q", name, r.Content(), w)
		}
	}
}

// tools lists by name.
func tools(t *testing.T, a *mcptest.Agent) map[string]json.RawMessage {
	t.Helper()
	all, err := a.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// lists holds that exactly these names are listed.
func lists(t *testing.T, a *mcptest.Agent, names ...string) {
	t.Helper()
	got := tools(t, a)
	for _, n := range names {
		if got[n] == nil {
			t.Errorf("%s is not listed", n)
		}
	}
	if len(got) != len(names) {
		t.Errorf("listed %d tools, want %d: %.1000s", len(got), len(names), jsonOf(got))
	}
}

// waitFor polls what nobody tells of.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited %v for %s", patience, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// waitLog waits until the program has logged these words.
func waitLog(t *testing.T, s *mcptest.Sidecar, words string) {
	t.Helper()
	waitFor(t, "the log to say "+strconv.Quote(words), func() bool { return strings.Contains(s.Log(), words) })
}

// changes reports the list_changed notifications on an agent's standing stream.
func changes(t *testing.T, a *mcptest.Agent) <-chan string {
	t.Helper()
	resp, err := a.Get(t.Context())
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET: %v %v", resp, err)
	}
	out := make(chan string, 1000)
	t.Cleanup(func() { resp.Body.Close() })
	go relay(mcptest.NewEvents(resp.Body), out)
	return out
}

func relay(e *mcptest.Events, out chan<- string) {
	for e.Next() {
		if m := mcptest.Parse(e.Data); strings.HasSuffix(m.Method, "/list_changed") {
			select {
			case out <- m.Method:
			default:
			}
		}
	}
}

// A gate is an HTTP server that can be down, and says how often it was asked.
type gate struct {
	to   http.Handler
	down atomic.Bool
	gets atomic.Int64
	all  atomic.Int64
	// refuse answers GET in place of the server, when it is set.
	refuse http.HandlerFunc
}

func (g *gate) start(t *testing.T) string {
	s := httptest.NewServer(g)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/mcp"
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.all.Add(1)
	if r.Method == http.MethodGet {
		g.gets.Add(1)
	}
	switch {
	case g.down.Load():
		panic(http.ErrAbortHandler)
	case r.Method == http.MethodGet && g.refuse != nil:
		g.refuse(w, r)
	default:
		g.to.ServeHTTP(w, r)
	}
}

// A dir is a folder of a test's own, which scripts write into.
type dir struct{ at string }

func newDir(t *testing.T) *dir { return &dir{t.TempDir()} }

func (d *dir) path(name string) string { return filepath.Join(d.at, name) }

func (d *dir) write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(d.path(name), []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return d.path(name)
}

// lines are those of a file, none when it is not there yet.
func (d *dir) lines(name string) []string {
	b, _ := os.ReadFile(d.path(name))
	return strings.Fields(string(b))
}

// read is the content of a file that a script writes.
func (d *dir) read(name string) string {
	b, _ := os.ReadFile(d.path(name))
	return string(b)
}

// pids are the processes that scripts have noted.
func (d *dir) pids() (out []int) {
	for _, l := range d.lines("pids") {
		if n, err := strconv.Atoi(l); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// alive reports whether a process runs; one that only waits to be reaped by
// somebody else does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err) || !procfs()
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(rest, []byte("Z")) && !bytes.HasPrefix(rest, []byte("X"))
}

func procfs() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func living(pids []int) (n int) {
	for _, p := range pids {
		if alive(p) {
			n++
		}
	}
	return n
}

// gone waits until none of the processes runs.
func gone(t *testing.T, d *dir) {
	t.Helper()
	waitFor(t, "every process to end", func() bool { return living(d.pids()) == 0 })
}

// command runs a command of the program to its end.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	p := mcptest.Program{Path: mcptest.Binary(t), Args: args}
	return p.Run(t)
}
