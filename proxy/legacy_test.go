package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

const callSlow = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_files_slow"}}`

func TestInitialize(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ asked, got string }{
		{"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
		{"2025-11-25", "2025-11-25"}, {"2026-07-28", "2025-11-25"}, {"1.0", "2025-11-25"}, {"2099-01-01", "2025-11-25"},
	} {
		r := w.post(strings.Replace(initialize, "2025-11-25", tt.asked, 1))
		wantJSON(t, tt.asked, r.body, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"`+tt.got+`","capabilities":{
			"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true},"completions":{},"logging":{}},
			"serverInfo":{"name":"mcp-sidecar","version":"1.2.3"}}}`)
		if id := r.header.Get("Mcp-Session-Id"); len(id) < 22 {
			t.Errorf("%s: session id %q", tt.asked, id)
		}
	}
	if r := w.post(strings.Replace(initialize, `"protocolVersion":"2025-11-25",`, "", 1)); code(r.body) != -32602 {
		t.Errorf("without a version: %d %s", r.status, r.body)
	}
}

// TestInitializeWithVersionHeader: Hermes sets the header on its first POST.
func TestInitializeWithVersionHeader(t *testing.T) {
	w := newWorld(t)
	for _, v := range []string{"2025-11-25", "2025-03-26", "2026-07-28", "2099-01-01"} {
		if r := w.post(initialize, "MCP-Protocol-Version", v); r.status != 200 || r.header.Get("Mcp-Session-Id") == "" {
			t.Errorf("%s: %d %s", v, r.status, r.body)
		}
	}
}

// TestSession walks through one session, and holds J20: initialize twice, calls
// before initialized.
func TestSession(t *testing.T) {
	w := newWorld(t)
	id := w.open("2025-11-25")
	sid := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	for _, tt := range []struct {
		name, method, body string
		header             []string
		status             int
		says               string
	}{
		{"before initialized", "POST", pingBody, sid, 200, `"result":{}`},
		{"initialized", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid, 202, ""},
		{"call", "POST", fmt.Sprintf(callSlow, 3), sid, 200, `"id":3,"result"`},
		{"no version header", "POST", pingBody, sid[:2], 200, `"result":{}`},
		{"bad version header", "POST", pingBody, []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "1.0"}, 400, "-32022"},
		{"initialize again", "POST", initialize, sid, 400, "-32600"},
		{"response", "POST", `{"jsonrpc":"2.0","id":9,"result":{}}`, sid, 202, ""},
		{"unknown notification", "POST", `{"jsonrpc":"2.0","method":"notifications/x"}`, sid, 202, ""},
		{"request as notification", "POST", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"mcp_files_slow"}}`, sid, 202, ""},
		{"unknown method", "POST", `{"jsonrpc":"2.0","id":4,"method":"rpc.x"}`, sid, 200, "-32601"},
		{"discover", "POST", `{"jsonrpc":"2.0","id":4,"method":"server/discover"}`, sid, 200, "-32601"},
		{"empty method", "POST", `{"jsonrpc":"2.0","id":4,"method":""}`, sid, 400, "-32600"},
		{"null id", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, sid, 400, "-32600"},
		{"float id", "POST", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, sid, 400, "-32600"},
		{"big id", "POST", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, sid, 200, `"id":9007199254740993,`},
		{"set level", "POST", `{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"error"}}`, sid, 200, `"result":{}`},
		{"bad level", "POST", `{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"loud"}}`, sid, 200, "-32602"},
		{"batch", "POST", "[" + pingBody + "]", sid, 400, "batches are not served"},
		{"stranger", "POST", pingBody, append([]string{"Authorization", "Bearer " + token + "-2"}, sid...), 404, "session not found"},
		{"stranger deletes", "DELETE", "", append([]string{"Authorization", "Bearer " + token + "-2"}, sid...), 404, "session not found"},
		{"delete", "DELETE", "", sid, 204, ""},
		{"after delete", "POST", pingBody, sid, 404, "session not found"},
		{"initialize with a dead id", "POST", initialize, sid, 200, "protocolVersion"},
	} {
		r := w.send(tt.method, "/mcp", tt.body, tt.header...)
		if r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s: got %d %q, want %d with %q", tt.name, r.status, r.body, tt.status, tt.says)
		}
	}
	if r := w.send("POST", "/mcp/files", pingBody, "Mcp-Session-Id", w.open("2025-11-25")); r.status != 404 {
		t.Errorf("a session of another view: %d", r.status)
	}
	if got := len(w.seen()); got != 1 {
		t.Errorf("servers saw %d calls, want 1", got)
	}
}

// TestCallWithoutSession is R37: agents that never initialize are served.
func TestCallWithoutSession(t *testing.T) {
	w := newWorld(t)
	for _, header := range [][]string{nil, {"MCP-Protocol-Version", "2025-06-18"}} {
		if r := w.post(fmt.Sprintf(callSlow, 1), header...); r.status != 200 || !strings.Contains(r.body, `"result"`) {
			t.Errorf("%v: %d %s", header, r.status, r.body)
		}
	}
	if s := w.seen()[0].Session; s != "" {
		t.Errorf("session %q", s)
	}
}

func TestBatch(t *testing.T) {
	w := newWorld(t)
	id := w.open("2025-03-26")
	note := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{"[" + pingBody + "," + note + `,{"jsonrpc":"2.0","id":"x","method":"no"},5]`, 200,
			`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"Method not found: no"}},` +
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message is one JSON object"}}]`},
		{"[" + note + "]", 202, ""},
		{"[]", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"an empty batch"}}`},
		{"[" + strings.Repeat(pingBody+",", 100) + pingBody + "]", 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch of more than 100 messages"}}`},
	} {
		r := w.post(tt.body, "Mcp-Session-Id", id)
		if r.status != tt.status || r.body != tt.want {
			t.Errorf("%.40s: got %d %s", tt.body, r.status, r.body)
		}
	}
	if r := w.post("["+pingBody, "Mcp-Session-Id", id); code(r.body) != -32700 {
		t.Errorf("broken: %d %s", r.status, r.body)
	}
}

// blocked lets a call say that it runs and then waits for release or ctx.
func (w *world) blocked() (running chan string, release chan struct{}) {
	running, release = make(chan string, 100), make(chan struct{})
	w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
		running <- c.Name
		select {
		case <-release:
			return result(`{"content":[]}`), nil
		case <-ctx.Done():
			running <- "cancelled " + c.Name
			return upstream.Response{}, ctx.Err()
		}
	}
	return running, release
}

// TestCancel is R33 and J10.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	running, release := w.blocked()
	mine, other := w.open("2025-11-25"), w.open("2025-11-25", "Authorization", "Bearer "+token+"-2")
	got := make(chan httpReply, 1)
	go func() { got <- w.post(fmt.Sprintf(callSlow, 101), "Mcp-Session-Id", mine) }()
	<-running
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`
	w.post(fmt.Sprintf(cancel, "101"), "Mcp-Session-Id", other, "Authorization", "Bearer "+token+"-2")
	w.post(fmt.Sprintf(cancel, "101"))
	w.post(fmt.Sprintf(cancel, `"101"`), "Mcp-Session-Id", mine)
	w.post(fmt.Sprintf(cancel, "7"), "Mcp-Session-Id", mine)
	w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, "Mcp-Session-Id", mine)
	select {
	case s := <-running:
		t.Fatalf("got %q before the real cancel", s)
	default:
	}
	w.post(fmt.Sprintf(cancel, "101"), "Mcp-Session-Id", mine)
	if s := <-running; s != "cancelled slow" {
		t.Errorf("got %q", s)
	}
	if r := <-got; r.status != 200 || r.body != "" {
		t.Errorf("the cancelled request was answered: %d %q", r.status, r.body)
	}
	close(release)
	if r := w.post(fmt.Sprintf(callSlow, 101), "Mcp-Session-Id", mine); !strings.Contains(r.body, `"result"`) {
		t.Errorf("the id is not free again: %s", r.body)
	}
}

// TestSameIDTwice is J6.
func TestSameIDTwice(t *testing.T) {
	w := newWorld(t)
	running, release := w.blocked()
	id := w.open("2025-11-25")
	got := make(chan httpReply, 1)
	go func() { got <- w.post(strings.Replace(callSlow, "%d", `"a"`, 1), "Mcp-Session-Id", id) }()
	<-running
	if r := w.post(strings.Replace(callSlow, "%d", `"\u0061"`, 1), "Mcp-Session-Id", id); code(r.body) != -32600 {
		t.Errorf("second: %d %s", r.status, r.body)
	}
	close(release)
	if r := <-got; !strings.Contains(r.body, `"result"`) {
		t.Errorf("first: %s", r.body)
	}
}

// TestDisconnect: hanging up cancels in the modern era and not before (H24).
func TestDisconnect(t *testing.T) {
	w := newWorld(t)
	running, release := w.blocked()
	hangUp := func(r *http.Request) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := http.DefaultClient.Do(r.WithContext(ctx)); err == nil {
				resp.Body.Close()
			}
		}()
		<-running
		cancel()
		<-done
	}
	hangUp(w.request("POST", "/mcp", modernBody("1", "tools/call", `{"name":"mcp_files_slow"}`), modernHeader("tools/call", "mcp_files_slow")...))
	if s := <-running; s != "cancelled slow" {
		t.Errorf("modern: got %q", s)
	}
	id := w.open("2025-11-25")
	hangUp(w.request("POST", "/mcp", fmt.Sprintf(callSlow, 1), "Mcp-Session-Id", id))
	s := w.front.sessions.find(id, callerOf(w), mustView(w))
	if !s.busy() {
		t.Error("legacy: the call ended with the connection")
	}
	for w.front.Stats().Strays != 1 { // the server must notice
		w.post(pingBody)
	}
	close(release)
	w.srv.Close() // waits for the handler
	if s.busy() || w.front.Stats().Strays != 0 {
		t.Error("legacy: the call did not end")
	}
	select {
	case s := <-running:
		t.Errorf("legacy: got %q", s)
	default:
	}
}

func mustView(w *world) *View {
	v, ok := w.keeper.View("default", "")
	if !ok {
		w.t.Fatal("no view")
	}
	return v
}

// TestEqualIDs is J12 (CVE-2026-25536): a thousand clients with the same ids,
// and every answer goes to its owner.
func TestEqualIDs(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Sessions = 1000 })
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		return result(`{"content":[],"structuredContent":` + string(c.Params) + `}`), nil
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	view, caller := mustView(w), callerOf(w)
	for n := range 1000 {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			s, err := w.front.sessions.open(caller, view, "2025-11-25", capabilities{})
			if err != nil {
				t.Error(err)
				return
			}
			for id := range 10 {
				mark := fmt.Sprintf(`"m":"%d-%d"`, n, id)
				x := &exchange{f: w.front, view: view, caller: caller}
				x.join(s)
				x.msg.ID, x.msg.Method = fmt.Appendf(nil, "%d", id), "tools/call"
				x.params = readParams([]byte(`{"name":"mcp_files_slow","arguments":{` + mark + `}}`))
				r := x.run(t.Context())
				body := string(r.append(nil))
				if !strings.HasPrefix(body, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, id)) || !strings.Contains(body, mark+"}") {
					t.Errorf("client %d id %d got %s", n, id, body)
				}
			}
		}()
	}
	wg.Wait()
	if n := w.front.Stats().Sessions; n != 1000 {
		t.Errorf("%d sessions", n)
	}
}

// TestSerialServers: one call at a time per session where the server wants it,
// and sessions do not wait for each other.
func TestSerialServers(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Serial = func(s string) bool { return s == "files" } })
	running, release := w.blocked()
	a, b := w.open("2025-11-25"), w.open("2025-11-25")
	var wg sync.WaitGroup
	call := func(id int, session string) {
		wg.Go(func() { w.post(fmt.Sprintf(callSlow, id), "Mcp-Session-Id", session) })
	}
	call(1, a)
	<-running
	call(2, a)
	call(1, b)
	<-running // of b
	r := w.post(`{"jsonrpc":"2.0","id":99,"method":"ping"}`, "Mcp-Session-Id", a)
	if r.status != 200 {
		t.Errorf("ping: %d", r.status)
	}
	select {
	case s := <-running:
		t.Errorf("two calls of one session run: %q", s)
	default:
	}
	close(release)
	<-running // the second of a
	wg.Wait()
	if n := len(w.front.lanes.m); n != 0 {
		t.Errorf("%d lanes left", n)
	}
}

func TestListPages(t *testing.T) {
	w := newWorld(t)
	src := sources()
	for i := range 50 {
		src[0].Listing.Tools = append(src[0].Listing.Tools, []byte(fmt.Sprintf(`{"name":"tool_%02d","inputSchema":{"type":"object"}}`, i)))
	}
	w.build("default", "", src, 1024)
	seen, cursor, pages := map[string]bool{}, "", 0
	var cursors []string
	for {
		r := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + cursor + `}}`)
		page := pageOf(t, r.body)
		for _, name := range page.names {
			if seen[name] {
				t.Errorf("%s comes twice", name)
			}
			seen[name] = true
		}
		if pages++; page.next == "" || pages > 50 {
			break
		}
		cursors = append(cursors, page.next)
		cursor = fmt.Sprintf(`"cursor":%q`, page.next)
	}
	if len(seen) != 53+8 || pages < 5 {
		t.Errorf("%d tools on %d pages", len(seen), pages)
	}
	// J15: of another list, caller, view, forged, long.
	good := cursors[0]
	other := "_"
	if good[30] == '_' {
		other = "-"
	}
	for _, tt := range []struct{ name, method, path, cursor, auth string }{
		{"other list", "prompts/list", "/mcp", good, token},
		{"other caller", "tools/list", "/mcp", good, token + "-2"},
		{"other view", "tools/list", "/mcp/files", good, token},
		{"forged", "tools/list", "/mcp", good[:30] + other + good[31:], token},
		{"cut", "tools/list", "/mcp", good[:10], token},
		{"long", "tools/list", "/mcp", strings.Repeat("A", 1<<20), token},
		{"empty", "tools/list", "/mcp", "", token},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"cursor":%q}}`, tt.method, tt.cursor)
		r := w.send("POST", tt.path, body, "Authorization", "Bearer "+tt.auth)
		if code(r.body) != -32602 {
			t.Errorf("%s: %d %.200s", tt.name, r.status, r.body)
		}
	}
	if r := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":5}}`); code(r.body) != -32602 {
		t.Errorf("number: %s", r.body)
	}
}

func TestLists(t *testing.T) {
	w := newWorld(t)
	hints := `,"resultType":"complete","ttlMs":60000,"cacheScope":"private",` + serverInfoMeta
	for _, tt := range []struct{ method, path, items string }{
		{"tools/list", "/mcp/github", `"tools":[{"name":"create-issue","inputSchema":{"type":"object"}}]`},
		{"prompts/list", "/mcp/github", `"prompts":[{"name":"greet","description":"d","arguments":[{"name":"who"}]}]`},
		{"resources/list", "/mcp", `"resources":[{"uri":"file:///a.txt","name":"a","mimeType":"text/plain"}]`},
		{"resources/templates/list", "/mcp", `"resourceTemplates":[{"uriTemplate":"file:///{path}","name":"t"}]`},
		{"resources/list", "/mcp/github", `"resources":[]`},
	} {
		r := w.send("POST", tt.path, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`"}`)
		wantJSON(t, tt.method, r.body, `{"jsonrpc":"2.0","id":1,"result":{`+tt.items+`}}`)
		r = w.send("POST", tt.path, modernBody("1", tt.method, "{}"), modernHeader(tt.method, "")...)
		wantJSON(t, tt.method+", modern", r.body, `{"jsonrpc":"2.0","id":1,"result":{`+tt.items+hints+`}}`)
	}
}

func TestListWaits(t *testing.T) {
	var waited []string
	w := newWorld(t, func(o *Options) {
		o.ListWait = func(_ context.Context, view string, _ upstream.Viewer) { waited = append(waited, view) }
	})
	w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	w.send("POST", "/mcp/files", `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)
	w.post(pingBody)
	if fmt.Sprint(waited) != "[default default/files]" {
		t.Errorf("waited for %v", waited)
	}
}

// A call that comes before its server waits for it, once: agents that kept their
// list call at once after a restart of the sidecar.
func TestCallWaitsForItsServer(t *testing.T) {
	waits := 0
	var w *world
	w = newWorld(t, func(o *Options) {
		o.ListWait = func(context.Context, string, upstream.Viewer) {
			waits++
			w.build("default/late", "late", sources()[:1], 0)
		}
	})
	w.keeper.Add("default", "late")
	r := w.send("POST", "/mcp/late", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read-file","arguments":{}}}`)
	if !strings.Contains(r.body, `"result"`) || waits != 1 {
		t.Errorf("got %s after %d waits", r.body, waits)
	}
	r = w.send("POST", "/mcp/late", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody","arguments":{}}}`)
	if !strings.Contains(r.body, "Unknown tool") || waits != 2 {
		t.Errorf("got %s after %d waits", r.body, waits)
	}
}

func TestViewBeforeItsFirstUpdate(t *testing.T) {
	w := newWorld(t)
	w.keeper.Add("default", "new")
	r := w.send("POST", "/mcp/new", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	wantJSON(t, "list", r.body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	if r := w.send("POST", "/mcp/new", initialize); !strings.Contains(r.body, `"prompts":{"listChanged":true}`) {
		t.Errorf("what is not known yet may come, but is not declared: %s", r.body)
	}
}

var _ Snapshot = (*aggregate.Snapshot)(nil)
