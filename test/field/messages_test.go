package field

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func exactDigits(t *testing.T) {
	const big = `{"id":9007199254740993,"f":1.0,"e":1e400}`
	def := `{"name":"n","inputSchema":{"type":"object","properties":{"id":{"const":9007199254740993,"multipleOf":1.0}}}}`
	server := func(versions ...string) *mcptest.Upstream {
		return &mcptest.Upstream{Versions: versions, Tools: []string{def, tool("echo")}, Answers: map[string]string{
			"n": `"result":{"content":[],"structuredContent":` + big + `,"_meta":{"com.example/n":` + big + `}}`,
		}}
	}
	s := serve(t, at("old", server(mcptest.LegacyVersions...).Start(t)), at("new", server(mcptest.Modern).Start(t)))
	for _, name := range []string{"old", "new"} {
		eachEra(t, s.URL+"/"+name, func(t *testing.T, a *mcptest.Agent) {
			if got := string(tools(t, a)["n"]); got != def {
				t.Errorf("listed as %s", got)
			}
			if got := call(t, a, "echo", big).Content(); got != big {
				t.Errorf("the server got %s", got)
			}
			r := call(t, a, "n", "{}")
			for _, member := range []json.RawMessage{mcptest.Member(r.Result, "structuredContent"), mcptest.Member(mcptest.Member(r.Result, "_meta"), "com.example/n")} {
				if string(member) != big {
					t.Errorf("the agent got %s", r.Result)
				}
			}
		})
	}
}

// smuggled are spellings of hidden text that no agent may get.
var smuggled = []string{
	"\U000E0049\U000E0047\U000E004E", // tag characters without a flag
	"\U0001F3F4\U000E0069\U000E0067\U000E006E\U000E006F\U000E0072\U000E0065\U000E007F", // a flag that spells a word
}

const scotland = "\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F"

func hiddenText(t *testing.T) {
	dirty := jsonOf("a" + strings.Join(smuggled, "b") + scotland)
	u := &mcptest.Upstream{
		Tools: []string{
			`{"name":"ok","title":` + dirty + `,"description":` + dirty + `,"inputSchema":{"type":"object","properties":{"p":{"description":` + dirty + `}}}}`,
			tool("error"), tool("fault"),
		},
		Resources: []string{`{"uri":"x://1","name":` + dirty + `,"description":` + dirty + `}`},
		Prompts:   []string{`{"name":"p","description":` + dirty + `}`},
		Answers: map[string]string{
			"ok":    `"result":{"content":[{"type":"text","text":` + dirty + `}],"structuredContent":{"k":` + dirty + `},"_meta":{"com.example/m":` + dirty + `}}`,
			"error": `"result":{"isError":true,"content":[{"type":"text","text":` + dirty + `}]}`,
			"fault": `"error":{"code":-31000,"message":` + dirty + `,"data":{"why":` + dirty + `}}`,
			"x://1": `"result":{"contents":[{"uri":"x://1","text":` + dirty + `}]}`,
			"p":     `"result":{"description":` + dirty + `,"messages":[{"role":"user","content":{"type":"text","text":` + dirty + `}}]}`,
		},
		Instructions: "a" + smuggled[0] + scotland,
	}
	s := serve(t, at("u", u.Start(t)))
	for _, url := range []string{s.URL, s.URL + "/u"} {
		eachEra(t, url, func(t *testing.T, a *mcptest.Agent) { hears(t, a, url == s.URL) })
	}
}

// hears holds that nothing an agent can ask for is hidden text.
func hears(t *testing.T, a *mcptest.Agent, prefixed bool) {
	prefix := ""
	if prefixed {
		prefix = "mcp_u_"
	}
	for _, ask := range [][2]string{
		{"tools/list", ""}, {"resources/list", ""}, {"prompts/list", ""},
		{"tools/call", `"name":"` + prefix + `ok","arguments":{}`},
		{"tools/call", `"name":"` + prefix + `error","arguments":{}`},
		{"tools/call", `"name":"` + prefix + `fault","arguments":{}`},
		{"resources/read", `"uri":"x://1"`},
		{"prompts/get", `"name":"` + prefix + `p"`},
	} {
		r, err := a.Do(t.Context(), ask[0], ask[1])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(r.Body), scotland) {
			t.Errorf("%v: the flag of Scotland is lost: %.500s", ask, r.Body)
		}
		rest := strings.ReplaceAll(string(r.Body), scotland, "")
		if i := strings.IndexFunc(rest, func(r rune) bool { return r >= 0xE0000 && r <= 0xE007F }); i >= 0 {
			t.Errorf("%v: hidden text: %+q", ask, rest[max(0, i-40):min(len(rest), i+40)])
		}
	}
}

func errorWithoutStructure(t *testing.T) {
	const answer = `{"isError":true,"content":[{"type":"text","text":"no such row"}]}`
	u := &mcptest.Upstream{
		Versions: mcptest.LegacyVersions,
		Tools:    []string{tool("q", `,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)},
		Answers:  map[string]string{"q": `"result":` + answer},
	}
	s := serve(t, at("u", u.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		want := answer
		if a.Version == mcptest.Modern {
			want = `{"resultType":"complete",` + answer[1:]
		}
		if r := call(t, a, "mcp_u_q", "{}"); string(r.Result) != want {
			t.Errorf("got %s, want %s", r.Body, want)
		}
	})
}

// everyBlock is a result with each kind of content, known and unknown.
const everyBlock = `"content":[{"type":"text","text":"{\"a\":1}"},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},` +
	`{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"},{"type":"resource_link","uri":"x://1","name":"one"},` +
	`{"type":"resource","resource":{"uri":"x://2","blob":"AAEC","mimeType":"application/x"}},{"type":"hologram","x":[1.0]}],"structuredContent":{"a":1}`

func everyBlockArrives(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("all")}, Answers: map[string]string{"all": `"result":{` + everyBlock + `}`}}
	s := serve(t, at("u", u.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		if r := call(t, a, "mcp_u_all", "{}"); !strings.Contains(string(r.Result), everyBlock) {
			t.Errorf("got %s", r.Result)
		}
	})
}

// ours are the headers that a request to a server may have.
var ours = []string{
	"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "User-Agent",
	"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "X-Ours",
}

func agentHeadersStopHere(t *testing.T) {
	token := newDir(t).write(t, "token", "canary-token-0123456789abcdef\n", 0o600)
	old := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("echo")}}
	modern := &mcptest.Upstream{Versions: []string{mcptest.Modern}, Tools: []string{tool("echo")}}
	config := newDir(t).write(t, "c.yaml", "mcp_servers:\n"+at("old", old.Start(t), "headers: {X-Ours: ours}")+at("new", modern.Start(t), "headers: {X-Ours: ours}"), 0o600)
	s := mcptest.StartServe(t, "--config", config, "--token-file", token)
	for _, v := range []string{mcptest.Modern, mcptest.Legacy} {
		a := &mcptest.Agent{URL: s.URL, Version: v, Token: "canary-token-0123456789abcdef", Header: http.Header{
			"Cookie": {"canary=1"}, "X-Forwarded-For": {"canary"}, "X-Forwarded-Proto": {"canary"}, "Forwarded": {"for=canary"},
			"User-Agent": {"canary"}, "X-Ours": {"canary"}, "Traceparent": {"canary"}, "Baggage": {"canary"}, "Proxy-Authorization": {"canary"},
		}}
		if _, err := a.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		works(t, a, "mcp_old_echo")
		works(t, a, "mcp_new_echo")
	}
	for _, r := range append(old.Seen(""), modern.Seen("")...) {
		for name, values := range r.Header {
			if !slices.Contains(ours, name) || strings.Contains(strings.Join(values, " "), "canary") {
				t.Errorf("%s arrived with %s: %q", r.Method, name, values)
			}
		}
		if got := r.Header.Get("X-Ours"); got != "ours" {
			t.Errorf("%s arrived with X-Ours %q", r.Method, got)
		}
		if strings.Contains(string(r.Raw), "canary") {
			t.Errorf("arrived: %s", r.Raw)
		}
	}
}

func everyEra(t *testing.T) {
	versions := append([]string{mcptest.Modern}, mcptest.LegacyVersions...)
	entries, names := []string{}, []string{}
	for _, v := range versions {
		u := &mcptest.Upstream{Versions: []string{v}, Tools: []string{tool("a")}}
		entries = append(entries, at(v, u.Start(t)))
		names = append(names, "mcp_"+strings.ReplaceAll(v, "-", "_")+"_a")
	}
	s := serve(t, entries...)
	for _, v := range versions {
		a := open(t, s.URL, v)
		lists(t, a, names...)
		for _, n := range names {
			works(t, a, n)
		}
	}
}

func initializedFirst(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t)))
	works(t, open(t, s.URL, mcptest.Modern), "mcp_u_a")
	seen := u.Seen("")
	i := slices.IndexFunc(seen, func(r mcptest.Received) bool { return r.Method == "initialize" })
	if i < 0 || len(seen) < i+3 || seen[i+1].Method != "notifications/initialized" {
		t.Errorf("the handshake was %v", methods(seen))
	}
}

func methods(seen []mcptest.Received) (out []string) {
	for _, r := range seen {
		out = append(out, r.Method)
	}
	return out
}

func cancel(t *testing.T) {
	u := &mcptest.Upstream{
		Versions: mcptest.LegacyVersions, Tools: []string{tool("slow"), tool("slower")},
		Delays: map[string]time.Duration{"slow": time.Minute, "slower": time.Minute},
	}
	s := serve(t, at("u", u.Start(t)), at("v", u.Start(t), "timeout: 1"))
	a := open(t, s.URL, mcptest.Legacy)
	done := make(chan *mcptest.Reply, 1)
	go func() {
		r, _ := a.DoID(t.Context(), "101", "tools/call", `"name":"mcp_u_slow","arguments":{}`)
		done <- r
	}()
	waitFor(t, "the call to arrive", func() bool { return len(u.Seen("tools/call")) == 1 })
	if err := a.Notify(t.Context(), "notifications/cancelled", `"requestId":101,"reason":"enough"`); err != nil {
		t.Fatal(err)
	}
	cancelled(t, u, "slow", 1)
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the agent's request stays open")
	}
	fails(t, a, "mcp_v_slower", `"v"`, "MCPS-TIMEOUT", "1s")
	cancelled(t, u, "slower", 2)
	if n := len(u.Seen("tools/call")); n != 2 {
		t.Errorf("the server saw %d calls, want 2: none is repeated", n)
	}
}

// cancelled waits until the server is told that its nth call, by its own id, is
// no longer wanted.
func cancelled(t *testing.T, u *mcptest.Upstream, name string, n int) {
	t.Helper()
	waitFor(t, "the cancellation", func() bool { return len(u.Seen("notifications/cancelled")) == n })
	c := u.Seen("tools/call")[n-1]
	got := mcptest.Member(u.Seen("notifications/cancelled")[n-1].Params, "requestId")
	if c.Name() != name || string(got) != string(c.ID) {
		t.Errorf("cancelled %s, but the call of %s had the id %s", got, c.Name(), c.ID)
	}
}
