package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-token-for-tests"

// A world is a front with fake servers behind it.
type world struct {
	t      testing.TB
	front  *Front
	keeper *Keeper
	srv    *httptest.Server

	mu     sync.Mutex
	calls  []seen
	answer func(ctx context.Context, c *upstream.Call) (upstream.Response, error)
}

// seen is what a server got.
type seen struct {
	upstream.Target
	Method, Name, Params, Meta, Token, Level string
}

// Do implements Upstreams. Unless the test has its own answer, a call comes
// back as the structured content of its result.
func (w *world) Do(ctx context.Context, t upstream.Target, c *upstream.Call) (upstream.Response, error) {
	w.mu.Lock()
	w.calls = append(w.calls, seen{t, c.Method, c.Name, string(c.Params), string(c.Meta), string(c.ProgressToken), c.LogLevel})
	answer := w.answer
	w.mu.Unlock()
	if answer != nil {
		return answer(ctx, c)
	}
	return result(`{"content":[],"structuredContent":` + string(c.Params) + `}`), nil
}

func (w *world) seen() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]seen(nil), w.calls...)
}

func result(s string) upstream.Response { return upstream.Response{Result: []byte(s)} }

var everything = `{"tools":{},"prompts":{},"resources":{},"completions":{},"logging":{}}`

func listing(tools ...string) *upstream.Listing {
	l := &upstream.Listing{Info: upstream.Info{Capabilities: []byte(everything)}}
	for _, name := range tools {
		l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)))
	}
	l.Prompts = []json.RawMessage{[]byte(`{"name":"greet","description":"d","arguments":[{"name":"who"}]}`)}
	return l
}

// sources are two servers: files and github.
func sources() []aggregate.Source {
	files, hub := listing("read-file", "slow"), listing("create-issue")
	files.Resources = []json.RawMessage{[]byte(`{"uri":"file:///a.txt","name":"a","mimeType":"text/plain"}`)}
	files.Templates = []json.RawMessage{[]byte(`{"uriTemplate":"file:///{path}","name":"t"}`)}
	f, err := policy.Tools{Exclude: []string{"delete_repo"}}.Compile()
	if err != nil {
		panic(err)
	}
	hub.Tools = append(hub.Tools, json.RawMessage(`{"name":"delete_repo","inputSchema":{"type":"object"}}`))
	return []aggregate.Source{{Server: "files", Listing: files}, {Server: "github", Listing: hub, Filter: f}}
}

func (w *world) build(name, server string, src []aggregate.Source, page int) {
	n, err := policy.CompileNaming("", 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range src {
		src[i].Namer = n
	}
	v := aggregate.View{Name: name, Sources: src, OwnNames: server != "", Utilities: server == "", PageBytes: page}
	w.keeper.Add("default", server)
	w.keeper.Update("default", server, aggregate.Build(v, nil), nil)
}

type option func(*Options)

func newWorld(t testing.TB, opts ...option) *world {
	t.Helper()
	w := &world{t: t, keeper: new(Keeper)}
	w.build("default", "", sources(), 0)
	w.build("default/files", "files", sources()[:1], 0)
	w.build("default/github", "github", sources()[1:], 0)
	callers := new(auth.Callers)
	callers.Accept([]string{token, token + "-2"})
	o := Options{Views: w.keeper, Upstreams: w, Callers: callers, Version: "1.2.3"}
	for _, f := range opts {
		f(&o)
	}
	w.front = New(o)
	w.srv = httptest.NewUnstartedServer(nil)
	w.srv.Config = Server((&auth.Guard{}).Wrap(w.front))
	w.srv.Start()
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	w.front.Drain()
	http.DefaultClient.CloseIdleConnections()
	w.srv.CloseClientConnections()
	w.srv.Close()
}

// An httpReply is an answer read to its end.
type httpReply struct {
	status int
	header http.Header
	body   string
}

func (w *world) request(method, path, body string, header ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequest(method, w.srv.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	return r
}

func (w *world) send(method, path, body string, header ...string) httpReply {
	w.t.Helper()
	return w.do(w.request(method, path, body, header...))
}

func (w *world) do(r *http.Request) httpReply {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return httpReply{resp.StatusCode, resp.Header, string(b)}
}

// post sends a legacy message without a session.
func (w *world) post(body string, header ...string) httpReply {
	w.t.Helper()
	return w.send("POST", "/mcp", body, header...)
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`

// open does a legacy handshake and returns the session id.
func (w *world) open(version string, header ...string) string {
	w.t.Helper()
	r := w.post(strings.Replace(initialize, "2025-11-25", version, 1), header...)
	id := r.header.Get("Mcp-Session-Id")
	if r.status != 200 || id == "" {
		w.t.Fatalf("initialize: %d %s", r.status, r.body)
	}
	return id
}

// modernBody puts the _meta of 2026-07-28 into params, which has at least one
// member or is {}.
func modernBody(id, method, params string, meta ...string) string {
	m := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}` +
		strings.Join(meta, "") + `}`
	if params == "{}" {
		params = "{" + m + "}"
	} else {
		params = strings.TrimSuffix(params, "}") + "," + m + "}"
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func modernHeader(method, name string, more ...string) []string {
	return append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}, more...)
}

func (w *world) modern(id, method, name, params string, meta ...string) httpReply {
	w.t.Helper()
	return w.post(modernBody(id, method, params, meta...), modernHeader(method, name)...)
}

// wantJSON compares two JSON texts by their bytes without insignificant space.
func wantJSON(t testing.TB, name, got, want string) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(want)); err != nil {
		t.Fatalf("%s: bad want: %v", name, err)
	}
	if got != b.String() {
		t.Errorf("%s:\n got %s\nwant %s", name, got, b.String())
	}
}

func code(body string) int {
	var m struct{ Error struct{ Code int } }
	json.Unmarshal([]byte(body), &m)
	return m.Error.Code
}

type page struct {
	names []string
	next  string
}

func pageOf(t testing.TB, body string) (p page) {
	t.Helper()
	var m struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || m.Result.Tools == nil {
		t.Fatalf("no page: %v %.200s", err, body)
	}
	for _, tool := range m.Result.Tools {
		p.names = append(p.names, tool.Name)
	}
	p.next = m.Result.NextCursor
	return p
}

func callerOf(w *world) auth.Caller {
	c, err := w.front.opt.Callers.Identify(w.request("POST", "/mcp", ""))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}
