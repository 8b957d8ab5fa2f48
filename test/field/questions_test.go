package field

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// ableToAnswer is what an agent declares that answers everything.
const ableToAnswer = `{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}`

// The questions of the servers here, and what agents say to them.
const (
	whoForm    = `{"message":"Who?","requestedSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`
	oneMessage = `{"messages":[{"role":"user","content":{"type":"text","text":"Say $N"}}],"maxTokens":10}`

	saidForm   = `{"action":"accept","content":{"n":1.50}}`
	saidSample = `{"role":"assistant","content":{"type":"text","text":"said"},"model":"m"}`
	saidRoots  = `{"roots":[{"uri":"file:///home/ada","name":"w"}]}`
)

// answers says the same thing to each kind of question.
func answers(method string, _ []byte) string {
	switch method {
	case "elicitation/create":
		return `"result":` + saidForm
	case "sampling/createMessage":
		return `"result":` + saidSample
	case "roots/list":
		return `"result":` + saidRoots
	}
	return `"error":{"code":-32601,"message":"what?"}`
}

// openAble connects an agent that answers questions with f.
func openAble(t *testing.T, url, version string, f func(method string, params []byte) string) *mcptest.Agent {
	t.Helper()
	a := &mcptest.Agent{URL: url, Version: version, Capabilities: ableToAnswer, Answer: f}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// throughQuestions calls a tool to its end, through all questions.
func throughQuestions(t *testing.T, a *mcptest.Agent, name, arguments string) *mcptest.Reply {
	t.Helper()
	r, _, err := a.Converse(t.Context(), "tools/call", `"name":`+jsonOf(name)+`,"arguments":`+arguments)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// curious is a server of one era whose tool asks all there is, in three rounds.
func curious(versions ...string) *mcptest.Upstream {
	return &mcptest.Upstream{Versions: versions, Tools: []string{tool("ask")}, Asks: map[string][][]mcptest.Question{
		"ask": {
			{{Method: "elicitation/create", Params: whoForm}},
			{{Method: "sampling/createMessage", Params: oneMessage}, {Method: "roots/list", Params: `{}`}},
			{{Method: "elicitation/create", Params: whoForm}},
		},
	}}
}

// stdio is an entry whose process serves u.
func stdio(t *testing.T, name string, u *mcptest.Upstream, more ...string) string {
	t.Helper()
	exe, env := u.Command(t)
	keys := append([]string{"command: " + jsonOf(exe), "env: " + jsonOf(env)}, more...)
	return fmt.Sprintf("  %s: {%s}\n", jsonOf(name), strings.Join(keys, ", "))
}

// bridge is what it takes that a question crosses between the eras.
func bridge(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"every_pair": everyPair, "a_person_thinks": personThinks, "nobody_there": nobodyThere, "capabilities": ownCapabilities,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

// everyPair is every pair of eras over both transports: three rounds of
// questions come to the agent and go back as it wrote them.
func everyPair(t *testing.T) {
	s := serve(t,
		at("old", curious(mcptest.LegacyVersions...).Start(t)), at("new", curious(mcptest.Modern).Start(t)),
		stdio(t, "old-pipe", curious(mcptest.LegacyVersions...)), stdio(t, "new-pipe", curious(mcptest.Modern)))
	want := strings.Join([]string{saidForm, saidSample, saidRoots, saidForm}, " ")
	for _, v := range []string{mcptest.Modern, mcptest.Legacy} {
		t.Run(v, func(t *testing.T) {
			a := openAble(t, s.URL, v, answers)
			for _, server := range []string{"old", "new", "old_pipe", "new_pipe"} {
				if got := throughQuestions(t, a, "mcp_"+server+"_ask", `{"n":9007199254740993}`).Content(); got != want {
					t.Errorf("%s: the server was told %s", server, got)
				}
			}
		})
	}
}

// heardQuestions is a set of the questions that an agent got.
type heardQuestions struct {
	mu  sync.Mutex
	all []string
}

func (h *heardQuestions) answer(method string, params []byte) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, string(params))
	return answers(method, params)
}

// cleanQuestions is hidden text in what a server asks a person or a model.
func cleanQuestions(t *testing.T) {
	dirty := strings.Trim(jsonOf("a"+strings.Join(smuggled, "b")+scotland), `"`)
	asks := map[string][][]mcptest.Question{"ask": {{
		{Method: "elicitation/create", Params: `{"message":"` + dirty + `","requestedSchema":{"type":"object","properties":{"f":{"type":"string","title":"` + dirty + `","description":"` + dirty + `"}}}}`},
		{Method: "sampling/createMessage", Params: `{"systemPrompt":"` + dirty + `","messages":[{"role":"user","content":{"type":"text","text":"` + dirty + `"}}],"maxTokens":10}`},
	}}}
	old := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("ask")}, Asks: asks}
	modern := &mcptest.Upstream{Versions: []string{mcptest.Modern}, Tools: []string{tool("ask")}, Asks: asks}
	s := serve(t, at("old", old.Start(t)), at("new", modern.Start(t)))
	for _, v := range []string{mcptest.Modern, mcptest.Legacy} {
		var h heardQuestions
		a := openAble(t, s.URL, v, h.answer)
		throughQuestions(t, a, "mcp_old_ask", `{}`)
		throughQuestions(t, a, "mcp_new_ask", `{}`)
		if len(h.all) != 4 {
			t.Fatalf("%s: %d questions, want 4", v, len(h.all))
		}
		for _, q := range h.all {
			if !strings.Contains(q, scotland) || !strings.Contains(q, "old") && !strings.Contains(q, "new") {
				t.Errorf("%s: the flag or the server's name is not in %+q", v, q)
			}
			if rest := strings.ReplaceAll(q, scotland, ""); strings.IndexFunc(rest, isTag) >= 0 {
				t.Errorf("%s: hidden text in %+q", v, q)
			}
		}
	}
}

func isTag(r rune) bool { return r >= 0xE0000 && r <= 0xE007F }

// personThinks is a person who takes longer than the server may: the server's
// time-out is for the server.
func personThinks(t *testing.T) {
	one := func(version string) *mcptest.Upstream {
		return &mcptest.Upstream{Versions: []string{version}, Tools: []string{tool("ask")},
			Asks: map[string][][]mcptest.Question{"ask": {{{Method: "elicitation/create", Params: whoForm}}}}}
	}
	slow := func(method string, params []byte) string {
		time.Sleep(1300 * time.Millisecond)
		return answers(method, params)
	}
	s := serve(t, at("old", one(mcptest.Legacy).Start(t), "timeout: 1"), at("new", one(mcptest.Modern).Start(t), "timeout: 1"),
		stdio(t, "pipe", one(mcptest.Legacy), "timeout: 1"))
	var all sync.WaitGroup
	defer all.Wait()
	for _, v := range []string{mcptest.Modern, mcptest.Legacy} {
		a := openAble(t, s.URL, v, slow)
		for _, name := range []string{"mcp_old_ask", "mcp_new_ask", "mcp_pipe_ask"} {
			all.Go(func() {
				r, _, err := a.Converse(t.Context(), "tools/call", `"name":"`+name+`","arguments":{}`)
				if err != nil || r.Content() != saidForm {
					t.Errorf("%s with an agent of %s: %v %.400s", name, v, err, r.Body)
				}
			})
		}
	}
}

// askedAndCancelled is a call that is given up while a person is asked: the
// server hears of it, and so does the person's agent about the question.
func askedAndCancelled(t *testing.T) {
	u := curious(mcptest.LegacyVersions...)
	s := serve(t, at("u", u.Start(t)))
	asked := make(chan struct{}, 1)
	a := openAble(t, s.URL, mcptest.Legacy, func(string, []byte) string { asked <- struct{}{}; return "" })
	done := make(chan *mcptest.Reply, 1)
	go func() {
		r, _ := a.DoID(t.Context(), "7", "tools/call", `"name":"mcp_u_ask","arguments":{}`)
		done <- r
	}()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("nobody was asked")
	}
	if err := a.Notify(t.Context(), "notifications/cancelled", `"requestId":7`); err != nil {
		t.Fatal(err)
	}
	cancelled(t, u, "ask", 1)
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the agent's request stays open")
	}
}

// nobodyThere is an agent of the newer era that is asked and never comes back.
// It costs others nothing, and its call ends at the server.
func nobodyThere(t *testing.T) {
	u := curious(mcptest.LegacyVersions...)
	u.Tools = append(u.Tools, tool("a"))
	s := serveWith(t, "limits: {parked_time: 1}\n", at("u", u.Start(t)))
	a := openAble(t, s.URL, mcptest.Modern, answers)
	r := call(t, a, "mcp_u_ask", `{}`)
	if mcptest.Text(r.Result, "resultType") != "input_required" {
		t.Fatalf("got %.400s", r.Body)
	}
	works(t, a, "mcp_u_a")
	cancelled(t, u, "ask", 1)
	late, err := a.Do(t.Context(), "tools/call", `"name":"mcp_u_ask","arguments":{}`+a.Inputs(r.Result))
	if err != nil || late.Code() != badCall || !strings.Contains(mcptest.Text(late.Error, "message"), "requestState") {
		t.Errorf("an answer that comes too late: %v %.400s", err, late.Body)
	}
	asks := 0
	for _, c := range u.Seen("tools/call") {
		if c.Name() == "ask" {
			asks++
		}
	}
	if asks != 1 {
		t.Errorf("the server ran the tool %d times", asks)
	}
}

// ownCapabilities is what a server is told of agents: no more than that somebody
// can answer it and that it may ask.
func ownCapabilities(t *testing.T) {
	u := &mcptest.Upstream{Versions: []string{mcptest.Modern}, Tools: []string{tool("a")}}
	url := u.Start(t)
	s := serve(t, at("all", url), at("none", url, "sampling: {enabled: false}", "elicitation: {enabled: false}", "roots: {enabled: false}"))
	plain := open(t, s.URL, mcptest.Modern)
	able := openAble(t, s.URL, mcptest.Legacy, answers)
	for _, tt := range []struct {
		a          *mcptest.Agent
		tool, want string
	}{
		{plain, "mcp_all_a", `{}`},
		{able, "mcp_all_a", ableToAnswer},
		{able, "mcp_none_a", `{}`},
	} {
		works(t, tt.a, tt.tool)
		seen := u.Seen("tools/call")
		caps := mcptest.Member(mcptest.Member(seen[len(seen)-1].Params, "_meta"), "io.modelcontextprotocol/clientCapabilities")
		if string(caps) != tt.want {
			t.Errorf("%s: the server was told %s, want %s", tt.tool, caps, tt.want)
		}
	}
}

// eachItsProgress is two agents that use the same ids and progress tokens.
func eachItsProgress(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("steps")}, Notes: map[string][]string{"steps": {
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"heard"}}`,
	}}, Delays: map[string]time.Duration{"steps": 50 * time.Millisecond}}
	s := serve(t, at("u", u.Start(t)))
	var all sync.WaitGroup
	defer all.Wait()
	for range 4 {
		a := open(t, s.URL, mcptest.Legacy)
		all.Go(func() {
			for i := range 5 {
				own := fmt.Sprintf(`{"from":%q,"n":%d}`, a.Session, i)
				r, err := a.DoID(t.Context(), "1", "tools/call", `"name":"mcp_u_steps","arguments":`+own+`,"_meta":{"progressToken":"same"}`)
				if err != nil || r.Content() != own {
					t.Errorf("%v, got %.300s", err, r.Body)
					return
				}
				if progress, logs := said(r.Notes); progress != 1 || logs != 1 {
					t.Errorf("%d times progress and %d log messages, want 1 each: %s", progress, logs, r.Body)
				}
			}
		})
	}
}

func said(notes [][]byte) (progress, logs int) {
	for _, n := range notes {
		switch m := mcptest.Parse(n); {
		case m.Method == "notifications/progress" && mcptest.Text(m.Params, "progressToken") == "same":
			progress++
		case m.Method == "notifications/message" && mcptest.Text(m.Params, "data") == "heard":
			logs++
		}
	}
	return progress, logs
}

// logLevels is an agent with a level of its session, before a server that wants
// one with each request.
func logLevels(t *testing.T) {
	u := &mcptest.Upstream{Versions: []string{mcptest.Modern}, Tools: []string{tool("chatty")}, Notes: map[string][]string{"chatty": {
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"fine"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"coarse"}}`,
	}}}
	s := serve(t, at("u", u.Start(t)))
	a := open(t, s.URL, mcptest.Legacy)
	for _, level := range []string{"debug", "error"} {
		if r, err := a.Do(t.Context(), "logging/setLevel", `"level":"`+level+`"`); err != nil || r.Result == nil {
			t.Fatalf("setLevel: %v %s", err, r.Body)
		}
		r := call(t, a, "mcp_u_chatty", `{}`)
		heard := string(r.Body)
		if strings.Contains(heard, "fine") != (level == "debug") || !strings.Contains(heard, "coarse") {
			t.Errorf("at level %s: %s", level, heard)
		}
		seen := u.Seen("tools/call")
		meta := mcptest.Member(seen[len(seen)-1].Params, "_meta")
		if got := mcptest.Text(meta, "io.modelcontextprotocol/logLevel"); got != level {
			t.Errorf("the server was asked for level %q, want %q", got, level)
		}
	}
}

// promptsAndTemplates are listed, and what is listed is served.
func promptsAndTemplates(t *testing.T) {
	u := &mcptest.Upstream{
		Prompts:   []string{`{"name":"p","arguments":[{"name":"city"}]}`},
		Templates: []string{`{"uriTemplate":"city://{name}","name":"city"}`, `{"uriTemplate":"city://{name}/map","name":"map"}`},
		Tools:     []string{tool("links")},
		Answers: map[string]string{
			"links":           `"result":{"content":[{"type":"resource_link","uri":"note://7","name":"seven"}]}`,
			"p":               `"result":{"messages":[{"role":"user","content":{"type":"text","text":"go"}}]}`,
			"city://bern":     `"result":{"contents":[{"uri":"city://bern","text":"Bern"}]}`,
			"city://bern/map": `"result":{"contents":[{"uri":"city://bern/map","text":"map of Bern"}]}`,
			"note://7":        `"result":{"contents":[{"uri":"note://7","text":"seven"}]}`,
			"city://{name}":   `"result":{"completion":{"values":["bern","basel"]}}`,
		},
	}
	s := serve(t, at("u", u.Start(t)), at("other", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		answered(t, a, "prompts/get", `"name":"mcp_u_p"`, `"go"`)
		answered(t, a, "resources/read", `"uri":"city://bern"`, `"Bern"`)
		answered(t, a, "resources/read", `"uri":"city://bern/map"`, `"map of Bern"`)
		answered(t, a, "completion/complete", `"ref":{"type":"ref/resource","uri":"city://{name}"},"argument":{"name":"name","value":"b"}`, `["bern","basel"]`)
		answered(t, a, "tools/call", `"name":"mcp_u_links","arguments":{}`, `note://7`)
		answered(t, a, "resources/read", `"uri":"note://7"`, `"seven"`)
		if r, err := a.Do(t.Context(), "resources/read", `"uri":"note://8"`); err != nil || r.Error == nil {
			t.Errorf("a link that nobody gave: %v %.300s", err, r.Body)
		}
	})
}

// answered holds that a request is answered with a result that has these words.
func answered(t *testing.T, a *mcptest.Agent, method, members, words string) {
	t.Helper()
	r, err := a.Do(t.Context(), method, members)
	if err != nil || !strings.Contains(string(r.Result), words) {
		t.Errorf("%s %s: %v %.400s", method, members, err, r.Body)
	}
}
