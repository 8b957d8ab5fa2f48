package field

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func nullSchemas(t *testing.T) {
	const repaired = `{"type":"object"}`
	u := &mcptest.Upstream{Tools: []string{
		tool("good"),
		`{"name":"required","inputSchema":{"type":"object","required":null}}`,
		`{"name":"properties","inputSchema":{"type":"object","properties":null}}`,
		`{"name":"schema","inputSchema":null}`,
	}}
	s := serveWith(t, "log: {level: debug}\n", at("u", u.Start(t)), at("other", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		lists(t, a, "mcp_u_good", "mcp_u_required", "mcp_u_properties", "mcp_u_schema", "mcp_other_a")
		for name, def := range tools(t, a) {
			if got := string(mcptest.Member(def, "inputSchema")); got != repaired {
				t.Errorf("%s: %s", name, got)
			}
			works(t, a, name)
		}
	})
	for _, words := range []string{"inputSchema was null", "inputSchema.required was null", "inputSchema.properties was null"} {
		waitLog(t, s, words)
	}
}

func danglingReferences(t *testing.T) {
	const in = `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}`
	u := &mcptest.Upstream{Tools: []string{
		`{"name":"bad","inputSchema":` + in + `,"outputSchema":{"type":"object","properties":{"s":{"$ref":"#/$defs/ScreenInstance"}}}}`,
		`{"name":"good","inputSchema":` + in + `,"outputSchema":` + in + `}`,
	}}
	s := serve(t, at("u", u.Start(t)))
	eachEra(t, s.URL+"/u", func(t *testing.T, a *mcptest.Agent) {
		all := tools(t, a)
		if got := string(all["good"]); got != u.Tools[1] {
			t.Errorf("good: %s", got)
		}
		if got := string(all["bad"]); got != `{"name":"bad","inputSchema":`+in+`}` {
			t.Errorf("bad: %s", got)
		}
		works(t, a, "bad")
	})
	waitLog(t, s, "ScreenInstance")
}

func combinators(t *testing.T) {
	var u mcptest.Upstream
	for _, word := range []string{"oneOf", "anyOf", "allOf"} {
		u.Tools = append(u.Tools, `{"name":"`+word+`","inputSchema":{"type":"object","`+word+`":[{"required":["a"]},{"required":["b"]}]}}`)
	}
	s := serve(t, at("u", u.Start(t)))
	eachEra(t, s.URL+"/u", func(t *testing.T, a *mcptest.Agent) {
		for i, word := range []string{"oneOf", "anyOf", "allOf"} {
			if got := string(tools(t, a)[word]); got != u.Tools[i] {
				t.Errorf("%s: got %s", word, got)
			}
		}
	})
}

func wholeDefinitions(t *testing.T) {
	def := `{"name":"whole","title":"T","description":"D","icons":[{"src":"https://e.example/i.png","sizes":["48x48"]}],` +
		`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},` +
		`"annotations":{"readOnlyHint":true,"x-risk":"low"},"execution":{"taskSupport":"forbidden"},"_meta":{"com.example/k":[1.0]},"x-vendor":{"a":null}}`
	u := &mcptest.Upstream{Tools: []string{def}}
	s := serve(t, at("u", u.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		want := strings.Replace(def, `"whole"`, `"mcp_u_whole"`, 1)
		if got := string(tools(t, a)["mcp_u_whole"]); got != want {
			t.Errorf("got %s", got)
		}
	})
}

// oddSchemas are correct, and have been broken by well-meaning proxies.
var oddSchemas = []string{
	`{"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}}`,
	`{"type":"object","$defs":{"p":{"anyOf":[{"type":"null"},{"type":"object","properties":{"x":{"type":["string","null"]}}}]}},"properties":{"p":{"$ref":"#/$defs/p/anyOf/1"}}}`,
	`{"type":"object","additionalProperties":"object"}`,
	`{"type":"object","properties":{"$filter":{"type":"string"},"definitions":{"type":"array"}}}`,
}

func schemasStay(t *testing.T) {
	var u mcptest.Upstream
	for i, schema := range oddSchemas {
		u.Tools = append(u.Tools, fmt.Sprintf(`{"name":"t%d","inputSchema":%s}`, i, schema))
	}
	s := serve(t, at("u", u.Start(t)))
	all := tools(t, open(t, s.URL+"/u", mcptest.Modern))
	for i, def := range u.Tools {
		if got := string(all[fmt.Sprintf("t%d", i)]); got != def {
			t.Errorf("got %s\nwant %s", got, def)
		}
	}
}

func excludedIsUnknown(t *testing.T) {
	u := &mcptest.Upstream{
		Tools:   []string{tool("open"), tool("secret"), tool("Secret_2")},
		Prompts: []string{`{"name":"p"}`}, Resources: []string{`{"uri":"x://1","name":"one"}`},
	}
	other := &mcptest.Upstream{Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t), "tools: {exclude: [secret, 'Secret*']}"), at("other", other.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		for _, name := range []string{"mcp_u_secret", "secret", "MCP_U_SECRET", "mcp_u_Secret", "mcp_u_Secret_2", "u/secret", "mcp__u__secret", "mcp_u_nothing"} {
			refused(t, a, "tools/call", `"name":"`+name+`","arguments":{}`, "Unknown tool: "+name)
		}
		refused(t, a, "prompts/get", `"name":"p"`, "Unknown prompt: p")
		refused(t, a, "completion/complete", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`, "Unknown prompt: p")
	})
	eachEra(t, s.URL+"/other", func(t *testing.T, a *mcptest.Agent) {
		refused(t, a, "tools/call", `"name":"mcp_u_open","arguments":{}`, "Unknown tool: mcp_u_open")
		refused(t, a, "tools/call", `"name":"open","arguments":{}`, "Unknown tool: open")
	})
	for _, method := range []string{"tools/call", "prompts/get", "completion/complete"} {
		if n := len(u.Seen(method)); n > 0 {
			t.Errorf("the server saw %d of %s", n, method)
		}
	}
}

// refused holds that an unknown name is the caller's mistake and says so.
func refused(t *testing.T, a *mcptest.Agent, method, members, says string) {
	t.Helper()
	r, err := a.Do(t.Context(), method, members)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code() != badCall || mcptest.Text(r.Error, "message") != says {
		t.Errorf("%s %s: got %.300s, want %q", method, members, r.Body, says)
	}
}

func cursors(t *testing.T) {
	honest := &mcptest.Upstream{Tools: []string{tool("a"), tool("b"), tool("c")}, PageSize: 1}
	stuck := &mcptest.Upstream{Tools: []string{tool("a")}, Faults: map[string]mcptest.Fault{
		"tools/list": mcptest.Body("application/json", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","ttlMs":1,"cacheScope":"public","tools":[`+tool("a")+`],"nextCursor":"again"}}`),
	}}
	s := serve(t, at("honest", honest.Start(t)), at("stuck", stuck.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		lists(t, a, "mcp_honest_a", "mcp_honest_b", "mcp_honest_c", "mcp_stuck_a")
	})
	waitLog(t, s, "repeats a cursor")
	if n := len(stuck.Seen("tools/list")); n > 3 {
		t.Errorf("the cursor that never ends was followed %d times", n)
	}
}

var modelName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func namesFit(t *testing.T) {
	long := strings.Repeat("manage_rows_", 5)
	own := []string{long + "alpha", long + "beta_", long[:60], "a:1", "b.2", "c/3", "d 4", "é5"}
	u := &mcptest.Upstream{}
	for _, n := range own {
		u.Tools = append(u.Tools, tool(n))
	}
	const server = "enterprise-database-management"
	s := serve(t, at(server, u.Start(t)))
	again := serve(t, at("another", (&mcptest.Upstream{Tools: []string{tool("z")}}).Start(t)), at(server, u.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		all, later := tools(t, a), tools(t, open(t, again.URL, a.Version))
		if len(all) != len(own) {
			t.Fatalf("%d names, want %d", len(all), len(own))
		}
		reached := map[string]bool{}
		for name := range all {
			if !modelName.MatchString(name) || later[name] == nil {
				t.Errorf("%q: not a name for models, or another one beside another server", name)
			}
			works(t, a, name)
			seen := u.Seen("tools/call")
			reached[seen[len(seen)-1].Name()] = true
		}
		if len(reached) != len(own) {
			t.Errorf("the server was asked for %v", reached)
		}
	})
}

func collisions(t *testing.T) {
	p := []string{`{"name":"documentation"}`}
	b1 := &mcptest.Upstream{Tools: []string{tool("x_y"), tool("search")}, Prompts: p, Answers: map[string]string{"documentation": `"result":{"messages":[]}`}}
	b1x := &mcptest.Upstream{Tools: []string{tool("y"), tool("search")}, Prompts: p, Answers: b1.Answers}
	s := serveWith(t, "profiles: {default: {utility_tools: false}}\n", at("b1", b1.Start(t)), at("b1_x", b1x.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		lists(t, a, "mcp_b1_search", "mcp_b1_x_search")
		refused(t, a, "tools/call", `"name":"mcp_b1_x_y","arguments":{}`, "Unknown tool: mcp_b1_x_y")
		prompts, err := a.List(t.Context(), "prompts/list", "prompts")
		if err != nil || len(prompts) != 2 {
			t.Errorf("prompts: %s %v", jsonOf(prompts), err)
		}
		for _, raw := range prompts {
			if r, err := a.Do(t.Context(), "prompts/get", `"name":`+jsonOf(mcptest.Text(raw, "name"))); err != nil || r.Result == nil {
				t.Errorf("prompts/get of %s: %v %s", raw, err, r.Body)
			}
		}
	})
	for _, server := range []string{"b1", "b1_x"} {
		works(t, open(t, s.URL+"/"+server, mcptest.Legacy), map[string]string{"b1": "x_y", "b1_x": "y"}[server])
	}
	waitLog(t, s, "mcp_b1_x_y")
}

// ownCollision is two tools of one server on one name: neither may run for the
// other.
func ownCollision(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("read-file"), tool("read_file"), tool("write_file")}}
	s := serve(t, at("fs", u.Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		lists(t, a, "mcp_fs_write_file")
		refused(t, a, "tools/call", `"name":"mcp_fs_read_file","arguments":{}`, "Unknown tool: mcp_fs_read_file")
	})
	if n := len(u.Seen("tools/call")); n > 0 {
		t.Errorf("the server saw %d calls", n)
	}
	waitLog(t, s, "read-file")
	a := open(t, s.URL+"/fs", mcptest.Modern)
	lists(t, a, "read-file", "read_file", "write_file")
}

func nativeWins(t *testing.T) {
	u := &mcptest.Upstream{
		Tools:     []string{tool("read_resource", `,"description":"native"`)},
		Resources: []string{`{"uri":"x://1","name":"one"}`},
	}
	only := &mcptest.Upstream{Tools: []string{tool("a")}}
	s := serve(t, at("u", u.Start(t)), at("only", only.Start(t)))
	a := open(t, s.URL, mcptest.Modern)
	lists(t, a, "mcp_u_read_resource", "mcp_u_list_resources", "mcp_only_a")
	if got := tools(t, a)["mcp_u_read_resource"]; mcptest.Text(got, "description") != "native" {
		t.Errorf("the wrapper hides the native tool: %s", got)
	}
	works(t, a, "mcp_u_read_resource")
	if len(u.Seen("tools/call")) != 1 {
		t.Error("the native tool was not called")
	}
}

func reservedServerNames(t *testing.T) {
	var entries, names []string
	for _, n := range []string{"terminal", "web", "default", "mcp", "memory"} {
		entries = append(entries, at(n, (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
		names = append(names, "mcp_"+n+"_a")
	}
	s := serve(t, entries...)
	lists(t, open(t, s.URL, mcptest.Legacy), names...)
	for _, n := range []string{"terminal", "default", "mcp"} {
		works(t, open(t, s.URL+"/"+n, mcptest.Legacy), "a")
	}
}

func filterSpellings(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("a-1"), tool("a-2"), tool("b")}}
	url := u.Start(t)
	s := serve(t, at("none", url, "tools: {include: []}"), at("glob", url, "tools: {include: ['a-*']}"),
		at("exact", url, "tools: {include: [b], exclude: [b]}"), at("all", url))
	for server, want := range map[string][]string{"none": {}, "glob": {"a-1", "a-2"}, "exact": {"b"}, "all": {"a-1", "a-2", "b"}} {
		lists(t, open(t, s.URL+"/"+server, mcptest.Legacy), want...)
	}
}

func untrusted(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{
		tool("reads", `,"annotations":{"readOnlyHint":true}`), tool("writes", `,"annotations":{"readOnlyHint":false}`),
		tool("silent"), tool("lies", `,"annotations":{"readOnlyHint":"true"}`),
	}}
	s := serve(t, at("u", u.Start(t), "trust: untrusted"))
	a := open(t, s.URL, mcptest.Modern)
	lists(t, a, "mcp_u_reads")
	refused(t, a, "tools/call", `"name":"mcp_u_silent","arguments":{}`, "Unknown tool: mcp_u_silent")
}

func lifetimeOfLists(t *testing.T) {
	u := &mcptest.Upstream{Versions: []string{mcptest.Modern}, Tools: []string{tool("a")}, Faults: map[string]mcptest.Fault{
		"tools/list": mcptest.Body("application/json", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","tools":[`+tool("a")+`],"ttlMs":0,"cacheScope":"public"}}`),
	}}
	s := serve(t, at("u", u.Start(t)))
	r, err := open(t, s.URL, mcptest.Modern).Do(t.Context(), "tools/list", "")
	if err != nil {
		t.Fatal(err)
	}
	var ttl float64
	if json.Unmarshal(mcptest.Member(r.Result, "ttlMs"), &ttl) != nil || ttl <= 0 {
		t.Errorf("the list lives for %v ms: %s", ttl, r.Body)
	}
	if got := mcptest.Text(r.Result, "cacheScope"); got != "private" {
		t.Errorf("cacheScope is %q", got)
	}
}

func instructionsOfShown(t *testing.T) {
	hidden := &mcptest.Upstream{Tools: []string{tool("x")}, Instructions: "Use x."}
	shown := &mcptest.Upstream{Tools: []string{tool("y")}, Instructions: "Use y."}
	s := serve(t, at("hidden", hidden.Start(t), "tools: {include: []}"), at("shown", shown.Start(t)))
	lists(t, open(t, s.URL, mcptest.Legacy), "mcp_shown_y")
	for _, v := range []string{mcptest.Modern, mcptest.Legacy} {
		r, err := (&mcptest.Agent{URL: s.URL, Version: v}).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if says := mcptest.Text(r.Result, "instructions"); strings.Contains(says, "Use x") || !strings.Contains(says, "Use y") {
			t.Errorf("instructions: %q", says)
		}
	}
}

func oneShotClient(t *testing.T) {
	slow := &mcptest.Upstream{Tools: []string{tool("a")}, Delays: map[string]time.Duration{"server/discover": 2 * time.Second}}
	s := serve(t, at("slow", slow.Start(t)))
	lists(t, open(t, s.URL, mcptest.Legacy), "mcp_slow_a")
}

func perServerEndpoints(t *testing.T) {
	a, b := &mcptest.Upstream{Tools: []string{tool("x")}}, &mcptest.Upstream{Tools: []string{tool("x")}}
	s := serve(t, at("git", a.Start(t), `naming: "{server}__{tool}"`), at("git_hub", b.Start(t)), at("a/b", b.Start(t)))
	lists(t, open(t, s.URL, mcptest.Modern), "git__x", "mcp_git_hub_x", "mcp_a_b_x")
	for _, url := range []string{s.URL + "/git", s.URL + "/git/", s.URL + "/git_hub", s.URL + "/a%2Fb"} {
		works(t, open(t, url, mcptest.Modern), "x")
	}
	if len(a.Seen("tools/call")) != 2 || len(b.Seen("tools/call")) != 2 {
		t.Error("a name that begins another one is taken for it")
	}
	for _, path := range []string{"/gi", "/a/b", "/%67it", "/a%2fb", "/git%2F", "/..%2Fgit"} {
		resp, err := http.Post(s.URL+path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: HTTP %d", path, resp.StatusCode)
		}
	}
}

func stableNames(t *testing.T) {
	u := (&mcptest.Upstream{Tools: []string{tool("a"), tool("b")}}).Start(t)
	one := serve(t, at("u", u))
	two := serve(t, at("w", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)), at("broken", mcptest.Refused(t)), at("u", u))
	lists(t, open(t, one.URL, mcptest.Legacy), "mcp_u_a", "mcp_u_b")
	lists(t, open(t, two.URL, mcptest.Legacy), "mcp_u_a", "mcp_u_b", "mcp_w_a")
}
