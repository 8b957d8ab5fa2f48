package field

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func noGetStorm(t *testing.T) {
	refusals := map[string]http.HandlerFunc{
		"405":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"400":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad request", http.StatusBadRequest) },
		"404":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not found", http.StatusNotFound) },
		"html": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hello</html>") },
		"once": once(),
	}
	gates, entries, names := []*gate{}, []string{}, []string{}
	for name, f := range refusals {
		u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a")}, Delays: map[string]time.Duration{"a": 30 * time.Millisecond}}
		g := &gate{to: u, refuse: f}
		gates, entries, names = append(gates, g), append(entries, at(name, g.start(t))), append(names, "mcp_"+name+"_a")
	}
	s := serve(t, entries...)
	a := open(t, s.URL, mcptest.Legacy)
	lists(t, a, names...)
	heard := changes(t, a)
	waitFor(t, "the stream that broke to be asked for again", func() bool { return gates[slices.Index(names, "mcp_once_a")].gets.Load() > 1 })
	for range 10 {
		for _, n := range names {
			works(t, a, n)
		}
	}
	for i, g := range gates {
		if n := g.gets.Load(); n > 3 {
			t.Errorf("%s: %d GETs", names[i], n)
		}
	}
	if len(heard) > 0 {
		t.Errorf("%d changes are told, there was none", len(heard))
	}
}

func boundedDialling(t *testing.T) {
	denied := &mcptest.Upstream{Faults: map[string]mcptest.Fault{}}
	login := mcptest.Status(http.StatusUnauthorized, "who are you?", `WWW-Authenticate: Bearer realm="x"`)
	denied.Faults["server/discover"], denied.Faults["initialize"] = login, login
	good := &mcptest.Upstream{Tools: []string{tool("a")}}
	s := serve(t, at("denied", denied.Start(t)), at("refused", mcptest.Refused(t)), at("good", good.Start(t)))
	waitLog(t, s, "set auth: oauth")
	before := len(denied.Seen(""))
	a := open(t, s.URL, mcptest.Legacy)
	lists(t, a, "mcp_good_a")
	for range 20 {
		works(t, a, "mcp_good_a")
	}
	if n := len(denied.Seen("")); n > before || n > 2 {
		t.Errorf("a server that wants a login was asked %d times, %d of them for other servers' calls", n, n-before)
	}
}

func contentTypes(t *testing.T) {
	s := serve(t, at("u", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tt := range []struct {
		contentType, accept string
		status              int
		says                string
	}{
		{"application/json; charset=utf-8", "application/json, text/event-stream", 200, "result"},
		{"Application/JSON", "application/json", 200, "result"},
		{"application/json", "text/event-stream", 200, "result"},
		{"application/json", "*/*", 200, "result"},
		{"", "application/json, text/event-stream", 415, "Content-Type"},
		{"text/plain", "application/json, text/event-stream", 415, "application/json"},
	} {
		a := &mcptest.Agent{URL: s.URL}
		h := http.Header{"Accept": {tt.accept}, "Content-Type": {tt.contentType}}
		r, err := a.Post(t.Context(), []byte(ping), h, "1")
		if err != nil || r.Status != tt.status || !strings.Contains(string(r.Body), tt.says) {
			t.Errorf("%+v: %v, got %d %s", tt, err, r.Status, r.Body)
		}
	}
}

func hostsAndOrigins(t *testing.T) {
	s := serveWith(t, "auth: {allowed_hosts: [sidecar.ns.svc], allowed_origins: ['https://app.example']}\n",
		at("u", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	for _, tt := range []struct {
		url, host, origin string
		status            int
	}{
		{s.Ops + "/livez", "10.244.0.5:8000", "", 200},
		{s.Ops + "/readyz", "10.244.0.5:8000", "", 200},
		{s.Ops + "/startupz", "anything.example", "", 200},
		{s.URL, "", "", 200},
		{s.URL, "sidecar.ns.svc", "", 200},
		{s.URL, "evil.example", "", 403},
		{s.URL, "", "https://evil.example", 403},
		{s.URL, "", "null", 403},
		{s.URL, "", "https://app.example", 200},
	} {
		if got := asks(t, tt.url, tt.host, tt.origin); got != tt.status {
			t.Errorf("%+v: got %d", tt, got)
		}
	}
}

// asks posts a ping, or gets a probe, and returns the status.
func asks(t *testing.T, url, host, origin string) int {
	t.Helper()
	method := http.MethodPost
	if strings.HasSuffix(url, "z") {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func troubleIsAResult(t *testing.T) {
	u := &mcptest.Upstream{
		Tools:  []string{tool("slow"), tool("cut"), tool("ok"), tool("empty"), tool("html")},
		Delays: map[string]time.Duration{"slow": time.Minute},
		Faults: map[string]mcptest.Fault{
			"cut": mcptest.ResetInBody, "empty": mcptest.Body("application/json", ""), "html": mcptest.Faults["html 200"],
		},
	}
	s := serve(t, at("u", u.Start(t), "timeout: 1"))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		fails(t, a, "mcp_u_slow", `server "u"`, "in time", "MCPS-TIMEOUT")
		fails(t, a, "mcp_u_cut", `server "u"`, "MCPS-UNCERTAIN")
		fails(t, a, "mcp_u_empty", `server "u"`, "MCPS-")
		fails(t, a, "mcp_u_html", `server "u"`, "text/html", "MCPS-PROTOCOL")
		refused(t, a, "tools/call", `"name":"mcp_u_none","arguments":{}`, "Unknown tool: mcp_u_none")
		works(t, a, "mcp_u_ok")
		lists(t, a, "mcp_u_slow", "mcp_u_cut", "mcp_u_ok", "mcp_u_empty", "mcp_u_html")
	})
	counts := map[string]int{}
	for _, c := range u.Seen("tools/call") {
		counts[c.Name()]++
	}
	if counts["slow"] != 2 || counts["cut"] != 2 {
		t.Errorf("a call that may have run was repeated: %v", counts)
	}
}

func callWithoutSession(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t)))
	for _, version := range []string{"", "2025-11-25", "2025-03-26"} {
		a := &mcptest.Agent{URL: s.URL, Version: mcptest.Legacy, Header: http.Header{}}
		if version != "" {
			a.Header["Mcp-Protocol-Version"] = []string{version}
		}
		works(t, a, "mcp_u_a")
	}
}

func lostSessions(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("writes")}}
	other := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t)), at("other", other.Start(t)))
	a := open(t, s.URL, mcptest.Legacy)
	works(t, a, "mcp_u_writes")
	u.ExpireSessions()
	works(t, a, "mcp_u_writes")
	works(t, a, "mcp_other_a")
	if n := len(u.Seen("initialize")); n != 2 {
		t.Errorf("the session was opened %d times, want 2", n)
	}
	if n := len(other.Seen("initialize")); n != 1 {
		t.Errorf("the other server's session was opened %d times, want 1", n)
	}
}

func oneSession(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t)))
	ids := map[string]bool{}
	for _, v := range []string{mcptest.Legacy, mcptest.Modern, mcptest.Legacy} {
		a := open(t, s.URL, v)
		lists(t, a, "mcp_u_a")
		works(t, a, "mcp_u_a")
	}
	for _, r := range u.Seen("tools/call") {
		ids[r.Header.Get("Mcp-Session-Id")] = true
	}
	if len(u.Seen("initialize")) != 1 || len(ids) != 1 || len(u.Seen("tools/list")) != 1 {
		t.Errorf("the server saw %v", methods(u.Seen("")))
	}
}

func outage(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("a")}}
	g := &gate{to: u}
	s := serve(t, at("u", g.start(t)), at("other", (&mcptest.Upstream{Tools: []string{tool("b")}}).Start(t)))
	a := open(t, s.URL, mcptest.Legacy)
	lists(t, a, "mcp_u_a", "mcp_other_b")
	g.down.Store(true)
	codes := map[string]int{}
	for range 8 {
		r := call(t, a, "mcp_u_a", "{}")
		_, code, _ := strings.Cut(strings.TrimSuffix(r.Content(), ")"), "(code MCPS-")
		codes[code]++
		lists(t, a, "mcp_u_a", "mcp_other_b")
		works(t, a, "mcp_other_b")
	}
	if n := codes["UNCERTAIN"]; n == 0 || n > 3 || n+codes["UNREACHABLE"]+codes["OPEN"] != 8 {
		t.Errorf("the calls ended with %v", codes)
	}
	g.down.Store(false)
	waitFor(t, "the server to come back", func() bool { return !call(t, a, "mcp_u_a", "{}").IsToolError() })
}

func lateStart(t *testing.T) {
	port := mcptest.FreePort(t)
	good := &mcptest.Upstream{Tools: []string{tool("b")}}
	s := serve(t, at("late", fmt.Sprintf("http://127.0.0.1:%d/mcp", port)), at("good", good.Start(t)))
	a := open(t, s.URL, mcptest.Legacy)
	lists(t, a, "mcp_good_b")
	heard := changes(t, a)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Skipf("the port was taken: %v", err)
	}
	late := &httptest.Server{Listener: l, Config: &http.Server{Handler: &mcptest.Upstream{Tools: []string{tool("a")}}}}
	late.Start()
	t.Cleanup(func() { late.CloseClientConnections(); late.Close() })
	select {
	case <-heard:
	case <-time.After(patience):
		t.Fatal("nobody told that the server is there")
	}
	lists(t, a, "mcp_good_b", "mcp_late_a")
	works(t, a, "mcp_late_a")
}

// strangers are answers that no MCP server gives, and what is said of each.
var strangers = map[string]mcptest.Fault{
	"variant": mcptest.Status(400, "unsupported variant 7", "Content-Type: text/plain"),
	"web":     mcptest.Body("text/html", "<html>Sign in</html>"),
	"scalar":  mcptest.Body("application/json", "42"),
	"garbage": mcptest.Body("application/json", "{{{{"),
	"reset":   mcptest.Reset,
}

func strangersAreNamed(t *testing.T) {
	var entries []string
	for name, f := range strangers {
		u := &mcptest.Upstream{Faults: map[string]mcptest.Fault{"server/discover": f, "initialize": f, "tools/list": f}}
		entries = append(entries, at(name, u.Start(t)))
	}
	entries = append(entries, at("good", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	config := newDir(t).write(t, "c.yaml", "mcp_servers:\n"+strings.Join(entries, ""), 0o600)
	stdout, stderr, err := command(t, "tools", "--config", config)
	if err == nil || !strings.Contains(err.Error(), "1") {
		t.Errorf("the exit is %v, want 1", err)
	}
	if !strings.Contains(stdout, "mcp_good_a") {
		t.Errorf("the good server is not shown: %s", stdout)
	}
	for name := range strangers {
		if !strings.Contains(stderr, "server "+name+" failed: ") {
			t.Errorf("%s is not said to have failed:\n%s", name, stderr)
		}
	}
	for _, words := range []string{"400", "unsupported variant 7", "text/html"} {
		if !strings.Contains(stderr, words) {
			t.Errorf("nothing says %q:\n%s", words, stderr)
		}
	}
}

func strangersHurtNobody(t *testing.T) {
	var entries []string
	for name, f := range strangers {
		u := &mcptest.Upstream{Faults: map[string]mcptest.Fault{"server/discover": f, "initialize": f, "tools/list": f}}
		entries = append(entries, at(name, u.Start(t)))
	}
	broken := &mcptest.Upstream{Tools: []string{tool("a")}, Faults: map[string]mcptest.Fault{"a": mcptest.Faults["json cut off"]}}
	s := serve(t, append(entries, at("broken", broken.Start(t)), at("good", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))...)
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		lists(t, a, "mcp_broken_a", "mcp_good_a")
		for range 3 {
			fails(t, a, "mcp_broken_a", `server "broken"`)
			works(t, a, "mcp_good_a")
		}
	})
	if strings.Contains(s.Log(), "goroutine ") {
		t.Error("something panicked")
	}
}

// chunked posts without a length, as some clients do.
func chunked(t *testing.T) {
	s := serve(t, at("u", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, url := range []string{s.URL, s.URL + "/"} {
		body := io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,`), strings.NewReader(`"method":"ping"}`))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(`"result"`)) {
			t.Errorf("%s: %d %s", url, resp.StatusCode, b)
		}
	}
}

// itself lists its own endpoint among its servers.
func itself(t *testing.T) {
	port := mcptest.FreePort(t)
	own := fmt.Sprintf("127.0.0.1:%d", port)
	config := newDir(t).write(t, "c.yaml", "list_wait: 1s\nmcp_servers:\n"+at("me", "http://"+own+"/mcp", "connect_timeout: 3")+at("u", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)), 0o600)
	s := mcptest.StartServe(t, "--config", config, "--insecure-no-auth", "--listen", own)
	a := open(t, s.URL, mcptest.Legacy)
	works(t, a, "mcp_u_a")
	if n := len(tools(t, a)); n > 10 {
		t.Errorf("%d tools of its own", n)
	}
}

// otherCaller uses a session that somebody else has opened.
func otherCaller(t *testing.T) {
	token := newDir(t).write(t, "token", "first-token-0123456789\nsecond-token-0123456789\n", 0o600)
	config := newDir(t).write(t, "c.yaml", "mcp_servers:\n"+at("u", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)), 0o600)
	s := mcptest.StartServe(t, "--config", config, "--token-file", token)
	first := &mcptest.Agent{URL: s.URL, Version: mcptest.Legacy, Token: "first-token-0123456789"}
	if _, err := first.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	works(t, first, "mcp_u_a")
	thief := &mcptest.Agent{URL: s.URL, Version: mcptest.Legacy, Token: "second-token-0123456789", Session: first.Session}
	if r := call(t, thief, "mcp_u_a", "{}"); r.Status != http.StatusNotFound {
		t.Errorf("another caller's session: HTTP %d %s", r.Status, r.Body)
	}
}
