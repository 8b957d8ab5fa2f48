package field

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

const logOutside = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"aside"}}`

// once offers a standing stream one time, with an event that has no id, and
// refuses it from then on.
func once() http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) > 1 {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		brief(w, nil)
	}
}

// brief offers a standing stream that ends after one event.
func brief(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: "+logOutside+"\n\n")
}

// droppedStream is a server, or a proxy before it, that cuts the standing stream
// again and again, and loses its sessions besides.
func droppedStream(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a"), tool("hangs")}, Faults: map[string]mcptest.Fault{"hangs": mcptest.Hang}}
	g := &gate{to: u, refuse: brief}
	s := serve(t, at("u", g.start(t), "timeout: 1"))
	a := open(t, s.URL, mcptest.Legacy)
	heard := changes(t, a)
	waitFor(t, "the stream to be opened again", func() bool { return g.gets.Load() > 1 })
	for range 20 {
		start := time.Now()
		works(t, a, "mcp_u_a")
		if d := time.Since(start); d > patience/2 {
			t.Errorf("a call took %v", d)
		}
	}
	u.ExpireSessions()
	works(t, a, "mcp_u_a")
	fails(t, a, "mcp_u_hangs", `server "u"`, "MCPS-TIMEOUT", "1s")
	works(t, a, "mcp_u_a")
	if n := g.gets.Load(); n > 8 {
		t.Errorf("the stream was opened %d times", n)
	}
	if len(heard) > 0 {
		t.Errorf("%d changes are told, there was none", len(heard))
	}
}

// neverTells is a server that gets new tools and says nothing of it.
func neverTells(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Capabilities: `{"tools":{}}`, Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t), "relist_interval: 5"))
	a := open(t, s.URL, mcptest.Legacy)
	lists(t, a, "mcp_u_a")
	heard := changes(t, a)
	u.SetTools(tool("a"), tool("b"))
	select {
	case <-heard:
	case <-time.After(patience):
		t.Fatal("nobody told of the new tool")
	}
	lists(t, a, "mcp_u_a", "mcp_u_b")
	works(t, a, "mcp_u_b")
}

const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// burst is a server that says 200 times that its tools changed.
func burst(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t)))
	a := open(t, s.URL, mcptest.Legacy)
	lists(t, a, "mcp_u_a")
	heard := changes(t, a)
	waitFor(t, "the standing stream", func() bool { return u.Push(logOutside) > 0 })
	reads := func() int { return len(u.Seen("tools/list")) }
	for _, grown := range []bool{false, true} {
		if grown {
			u.SetTools(tool("a"), tool("b"))
		}
		before := reads()
		for range 200 {
			u.Push(toolsChanged)
		}
		waitFor(t, "the list to be read", func() bool { return reads() > before })
		if grown {
			select {
			case <-heard:
			case <-time.After(patience):
				t.Fatal("nobody told of the new tool")
			}
			lists(t, a, "mcp_u_a", "mcp_u_b")
		}
		if n := reads() - before; n > 2 {
			t.Errorf("the list was read %d times", n)
		}
		if len(heard) > 0 {
			t.Errorf("%d more changes are told", len(heard))
		}
	}
}

// lostConnection is an agent whose connection breaks in the middle of a call: it
// fetches the rest.
func lostConnection(t *testing.T) {
	u := curious(mcptest.LegacyVersions...)
	s := serve(t, at("u", u.Start(t)))
	a := openAble(t, s.URL, mcptest.Legacy, answers)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	body := `{"jsonrpc":"2.0","id":"lost","method":"tools/call","params":{"name":"mcp_u_ask","arguments":{"n":1}}}`
	first := sessionStream(t, ctx, a, http.MethodPost, body, "")
	asked := ""
	for asked == "" && first.Next() {
		if m := mcptest.Parse(first.Data); m.Method == "elicitation/create" {
			asked = string(m.ID)
		}
	}
	last := first.ID
	if asked == "" || last == "" {
		t.Fatalf("question %q came in the event %q", asked, last)
	}
	hangUp()
	rest := sessionStream(t, t.Context(), a, http.MethodGet, "", last)
	say(t, a, asked, "elicitation/create")
	for rest.Next() {
		switch m := mcptest.Parse(rest.Data); {
		case m.Method != "" && m.ID != nil:
			say(t, a, string(m.ID), m.Method)
		case string(m.ID) == `"lost"`:
			if !strings.Contains(string(m.Result), jsonInner(saidForm)) {
				t.Errorf("got %s", rest.Data)
			}
			return
		}
	}
	t.Error("the answer never came")
}

// jsonInner is a text as it stands within a JSON string.
func jsonInner(s string) string { return strings.Trim(jsonOf(s), `"`) }

// say posts the answer to a question.
func say(t *testing.T, a *mcptest.Agent, id, method string) {
	t.Helper()
	if r, err := a.Post(t.Context(), []byte(`{"jsonrpc":"2.0","id":`+id+`,`+answers(method, nil)+`}`), inSession(a), ""); err != nil || r.Status/100 != 2 {
		t.Errorf("the answer to %s: %v %+v", method, err, r)
	}
}

func inSession(a *mcptest.Agent) http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {a.Version}, "Mcp-Session-Id": {a.Session}}
}

// sessionStream opens a stream of a session: the answer to a request, or the rest
// of one that broke.
func sessionStream(t *testing.T, ctx context.Context, a *mcptest.Agent, method, body, last string) *mcptest.Events {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, a.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = inSession(a)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %+v", method, err, resp)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return mcptest.NewEvents(resp.Body)
}

// ownProcesses is a server that keeps something for whoever talks to it: each
// session of an agent has a process of its own, which ends with it.
func ownProcesses(t *testing.T) {
	d := newDir(t)
	u := &mcptest.Upstream{Tools: []string{tool("a")}}
	s := serve(t, d.shell(t, "u", u, `echo $$ >> "$PIDS"; exec "$SERVER"`, "isolation: per_session"))
	first, second := open(t, s.URL, mcptest.Legacy), open(t, s.URL, mcptest.Legacy)
	for range 3 {
		works(t, first, "mcp_u_a")
		works(t, second, "mcp_u_a")
	}
	before := living(d.pids())
	if before != 3 {
		t.Errorf("%d processes, want one for the lists and one for each session", before)
	}
	if resp, err := first.Delete(t.Context()); err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("DELETE: %v %v", resp, err)
	}
	waitFor(t, "the process of the session to end", func() bool { return living(d.pids()) == before-1 })
	works(t, second, "mcp_u_a")
}
