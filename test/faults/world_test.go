package faults

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

// The limits of a world.
const (
	listWait = 3 * time.Second         // how long a list waits for a server's first connect
	callTime = 2 * time.Second         // the time-out of the evil server
	patience = 15 * time.Second        // how long a test waits for what must come
	calmTime = 1500 * time.Millisecond // what no call of a healthy server takes: less than any time-out
	// mayBeLate is how many calls a busy machine may hold up. The servers whose time
	// passes make more late ones if they hold others up.
	mayBeLate = 2
	calmRate  = 50 * time.Millisecond
	// calmMore is what a call of a healthy server may take longer beside a fault than
	// twice what it takes elsewhere at that time.
	calmMore = 20 * time.Millisecond
)

// healthy are the servers that nothing may happen to, by the tool of each.
var healthy = map[string]string{"calm_web": "mcp_calm_web_ping_tool", "calm_pipe": "mcp_calm_pipe_ping_tool"}

const pong = `"result":{"resultType":"complete","content":[{"type":"text","text":"pong"}]}`

// A world is the real program with an evil server and two healthy ones.
type world struct {
	s      *mcptest.Sidecar
	a      *mcptest.Agent
	bad    *evil.Running
	behind *evil.Running // what is behind an evil proxy
	name   string        // of the evil server
	before usage
	calm   *calm
	began  time.Time
}

// An entry is an evil server, and settings of its entry in the configuration.
type entry struct {
	id       string
	how      string // tells entries for one fault apart
	settings []string
}

// start starts the evil server of an entry, and what is behind it.
func (e *entry) start(t *testing.T) *world {
	t.Helper()
	w := &world{bad: evil.Start(t, e.id, false)}
	w.name = strings.TrimSuffix("evil_"+strings.ReplaceAll(strings.ToLower(e.id), "-", "_")+"_"+e.how, "_")
	if w.bad.Fault.Transport == evil.Proxy {
		w.behind = evil.Start(t, goodTLS, false)
	}
	return w
}

// goodTLS is a good server, if its authority is known.
const goodTLS = "T6e"

// line is the evil server's line of the configuration. Settings may name the files of
// its authority, $CA and $CERT, and the address of an evil proxy, $PROXY.
func (e *entry) line(w *world) string {
	server := w.bad
	settings := e.complete()
	if w.behind != nil {
		server = &evil.Running{Dir: w.behind.Dir, URL: strings.Replace(w.behind.URL, "127.0.0.1", evil.Behind, 1)}
		settings = append(settings, "ssl_verify: $CA")
	}
	r := strings.NewReplacer("$CA", server.CA(), "$CERT", server.ClientCert(), "$PROXY", strings.TrimPrefix(w.bad.URL, "http://"))
	for i := range settings {
		settings[i] = r.Replace(settings[i])
	}
	return server.Entry(w.name, settings...)
}

// newWorlds starts the program with evil servers, and returns a world for each,
// which share all but that. The healthy servers are listed when it returns, and are
// called until unharmed.
func newWorlds(t *testing.T, entries ...entry) []*world {
	t.Helper()
	text := fmt.Sprintf("list_wait: %v\nmcp_servers:\n", listWait) + calmEntries(t)
	var all []*world
	for _, e := range entries {
		w := e.start(t)
		text += e.line(w)
		all = append(all, w)
	}
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	first := all[0]
	first.began, first.calm = time.Now(), &calm{}
	first.s = mcptest.LaunchServe(t, "--config", config, "--insecure-no-auth")
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	first.a = &mcptest.Agent{URL: first.s.URL, Client: client}
	first.complete(t)
	first.before = use(first.s.PID)
	first.calm.begin(first.s.URL)
	t.Cleanup(first.calm.end)
	for _, w := range all[1:] {
		w.s, w.a, w.before, w.calm, w.began = first.s, first.a, first.before, first.calm, first.began
	}
	return all
}

// complete adds the time-out that is short enough to be waited for.
func (e *entry) complete() []string {
	if slices.ContainsFunc(e.settings, func(s string) bool { return strings.HasPrefix(s, "timeout:") }) {
		return slices.Clone(e.settings)
	}
	return append(slices.Clone(e.settings), "timeout: "+callTime.String())
}

func calmEntries(t testing.TB) string {
	t.Helper()
	web := &mcptest.Upstream{Tools: []string{tool("ping_tool")}, Answers: map[string]string{"ping_tool": pong}}
	return fmt.Sprintf("  calm_web: {url: %q}\n", web.Start(t)) + evil.Start(t, evil.Good, false).Entry("calm_pipe")
}

// complete holds that a list has the healthy servers' tools within list_wait and a
// second, or a second for each MiB. It may take longer when the machine is busy: the
// test is then repeated.
func (w *world) complete(t testing.TB) {
	t.Helper()
	var took, limit time.Duration
	for range 3 {
		start := time.Now()
		all := w.listed(t)
		for !all.has("mcp_calm_web_ping_tool") || !all.has("mcp_calm_pipe_ping_tool") {
			if time.Since(start) > patience {
				t.Fatalf("the healthy servers are not listed after %v: %.2000s", patience, all)
			}
			time.Sleep(20 * time.Millisecond)
			all = w.listed(t)
		}
		took, limit = time.Since(start), listWait+time.Duration(1+len(all)>>20)*time.Second
		if took <= limit {
			return
		}
	}
	t.Fatalf("the healthy servers' list took %v, want %v", took, limit)
}

// listing is a list of tools as it came, page by page: some are too large to be
// taken apart for each look.
type listing []byte

func (l listing) has(tool string) bool { return bytes.Contains(l, []byte(`"name":"`+tool+`"`)) }

// listed reads the whole list of tools.
func (w *world) listed(t testing.TB) (all listing) {
	t.Helper()
	for params := "{}"; params != ""; {
		resp, err := w.a.Client.Post(w.s.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`))
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("tools/list: %v, HTTP %d %.300s", err, resp.StatusCode, page)
		}
		all, params = append(all, page...), ""
		if _, next, ok := bytes.Cut(page, []byte(`"nextCursor":"`)); ok {
			cursor, _, _ := bytes.Cut(next, []byte{'"'})
			params = `{"cursor":"` + string(cursor) + `"}`
		}
	}
	return all
}

// unharmed holds that the faults were their own servers' only: no call of the
// others failed or was late, their list is whole, and what the faults took is given
// back and gone when the program has ended. It ends the program.
func unharmed(t *testing.T, all ...*world) {
	t.Helper()
	w := all[0]
	w.calm.end()
	w.calm.check(t)
	w.calm.compare(t)
	w.complete(t)
	w.given(t, len(all))
	w.stop(t)
	for _, w := range all {
		waitFor(t, "every process of the evil server to end", func() bool { return living(w.bad.Journal.PIDs()) == 0 })
	}
}

// stop ends the program; it has no more than the servers' grace for that.
func (w *world) stop(t *testing.T) {
	t.Helper()
	w.a.Client.CloseIdleConnections()
	syscall.Kill(w.s.PID, syscall.SIGTERM)
	waitFor(t, "the program to end", func() bool { return living([]int{w.s.PID}) == 0 })
}

// living is how many of these processes run.
func living(pids []int) int {
	n := 0
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil && !zombie(pid) {
			n++
		}
	}
	return n
}

// waitFor polls for what other processes do.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// call calls a tool of the evil server.
func (w *world) call(t *testing.T, tool, key string) *mcptest.Reply {
	t.Helper()
	r, err := w.a.Call(t.Context(), "mcp_"+w.name+"_"+tool, `{"key":`+jsonText(key)+`}`)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// serves waits until the evil server is listed and answers.
func (w *world) serves(t *testing.T) {
	t.Helper()
	var last *mcptest.Reply
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if last = w.call(t, "ping_tool", ""); last.Content() == "pong" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v later the server still answers %s", patience, last.Body)
		}
	}
}

// fails holds that misbehave gives a tool error that names the server, with one
// of these codes, in time.
func (w *world) fails(t *testing.T, key string, within time.Duration, codes ...string) *mcptest.Reply {
	t.Helper()
	start := time.Now()
	r := w.call(t, "misbehave", key)
	took := time.Since(start)
	code := codeOf(r)
	if !r.IsToolError() || !strings.Contains(r.Content(), `server "`+w.name+`"`) || !slices.Contains(codes, code) {
		t.Errorf("HTTP %d %.600s, want a tool error that names the server, with a code of %v", r.Status, r.Body, codes)
	}
	if took > within {
		t.Errorf("it took %v, want %v", took, within)
	}
	if len(r.Body) > 4000 {
		t.Errorf("the agent gets %d bytes: %.300s", len(r.Body), r.Body)
	}
	return r
}

// codeOf is the code at the end of a tool error, without MCPS-.
func codeOf(r *mcptest.Reply) string {
	_, code, _ := strings.Cut(r.Content(), "(code MCPS-")
	return strings.TrimSuffix(code, ")")
}

// logs waits until a line of the log that is about the evil server has this word.
func (w *world) logs(t *testing.T, word string) {
	t.Helper()
	waitFor(t, fmt.Sprintf("the log to say %q of %s", word, w.name), func() bool {
		for line := range strings.Lines(w.s.Log()) {
			if strings.Contains(line, "server="+w.name+" ") && strings.Contains(line, word) {
				return true
			}
		}
		return false
	})
}

// unlisted holds that the evil server shows nothing.
func (w *world) unlisted(t *testing.T) {
	t.Helper()
	if w.listed(t).has("mcp_" + w.name + "_ping_tool") {
		t.Errorf("%s is listed", w.name)
	}
}
