package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// curious lets all servers ask within the given limits.
func curious(s policy.Sampling, e policy.Elicitation) option {
	return func(o *Options) {
		a := policy.NewAsker("files", s, e, policy.Roots{})
		o.Askers = func(server string) *policy.Asker {
			if server == "files" {
				return a
			}
			return nil
		}
	}
}

func anything(o *Options) { curious(policy.Sampling{}, policy.Elicitation{})(o) }

// heard is what a server got for its question.
func heard(result []byte, err *wire.Error) string {
	switch {
	case err == nil:
		return string(result)
	case err.Data != nil:
		return fmt.Sprintf("%d %s %s", err.Code, err.Message, err.Data)
	}
	return fmt.Sprintf("%d %s", err.Code, err.Message)
}

// asks is a server whose calls ask one question, and answer with what it heard.
func asks(method, params string) func(context.Context, *upstream.Call) (upstream.Response, error) {
	return func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
		text := "nobody to ask"
		if c.Ask != nil {
			text = heard(c.Ask(ctx, upstream.Question{Server: "files", Method: method, Params: []byte(params)}))
		}
		return result(`{"content":[],"heard":` + string(wire.AppendQuote(nil, text)) + `}`), nil
	}
}

// heardIn is what the server of asks heard, by the answer to the call.
func heardIn(t testing.TB, msg string) string {
	t.Helper()
	var m struct{ Result struct{ Heard *string } }
	if err := json.Unmarshal([]byte(msg), &m); err != nil || m.Result.Heard == nil {
		return msg
	}
	return *m.Result.Heard
}

// An agent is a legacy agent that answers questions.
type agent interface {
	// call sends a request and returns its answer. answer gets each question, and
	// returns the members of the response; if they are empty there is none.
	call(body string, answer func(method, params string) string) string
}

type rpc struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// converse reads messages until the answer to a call.
func converse(t testing.TB, next func() string, say func(string), answer func(method, params string) string) string {
	for {
		msg := next()
		var m rpc
		if err := json.Unmarshal([]byte(msg), &m); err != nil {
			return msg
		}
		if m.Method == "" {
			return msg
		}
		if reply := answer(m.Method, string(m.Params)); reply != "" && m.ID != nil {
			say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + reply + `}`)
		}
	}
}

// A webAgent is one session over HTTP.
type webAgent struct {
	w       *world
	session string
}

func (w *world) webAgent(version, caps string, header ...string) *webAgent {
	w.t.Helper()
	body := strings.Replace(strings.Replace(initialize, "2025-11-25", version, 1), `"capabilities":{}`, `"capabilities":`+caps, 1)
	id := w.post(body, header...).header.Get("Mcp-Session-Id")
	if id == "" {
		w.t.Fatal("no session")
	}
	return &webAgent{w, id}
}

func (a *webAgent) say(msg string) {
	if r := a.w.post(msg, "Mcp-Session-Id", a.session); r.status != 202 || r.body != "" {
		a.w.t.Errorf("%s: %d %s", msg, r.status, r.body)
	}
}

// open sends a request and returns the events of its answer.
func (a *webAgent) open(body string) *sseReader {
	resp, err := http.DefaultClient.Do(a.w.request("POST", "/mcp", body, "Mcp-Session-Id", a.session))
	if err != nil {
		a.w.t.Error(err)
		return nil
	}
	return &sseReader{nil, resp, bufio.NewReader(resp.Body)}
}

func (a *webAgent) call(body string, answer func(method, params string) string) string {
	s := a.open(body)
	if s == nil {
		return ""
	}
	defer s.resp.Body.Close()
	if s.resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(s.r)
		return string(b)
	}
	return converse(a.w.t, s.next, a.say, answer)
}

// A pipeAgent is one agent on stdio.
type pipeAgent struct{ *talk }

func (w *world) pipeAgent(t *testing.T, version, caps string) pipeAgent {
	k := w.talk(t, t.Context())
	k.say(strings.Replace(strings.Replace(initialize, "2025-11-25", version, 1), `"capabilities":{}`, `"capabilities":`+caps, 1))
	k.hear()
	return pipeAgent{k}
}

func (a pipeAgent) call(body string, answer func(method, params string) string) string {
	a.say(body)
	return a.converse(answer)
}

func (a pipeAgent) converse(answer func(method, params string) string) string {
	return converse(a.t, a.hear, a.say, answer)
}

// leave closes the agent's end, and reads what is still said to it: unread, that
// would keep the pipe open.
func (a pipeAgent) leave() {
	a.in.Close()
	go io.Copy(io.Discard, a.out)
	if err := <-a.done; err != nil {
		a.t.Error(err)
	}
}

const (
	allCaps = `{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`
	form    = `{"mode":"form","message":"Which one?","requestedSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`
	hi      = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}`
	said42  = `"result":{"action":"accept","content":{"n":42}}`
)

var questions = []struct {
	name, version, caps string
	method, params      string
	answer              string // of the agent
	asked               string // what the agent gets; empty for nothing
	heard               string // by the server
	opt                 option
}{
	{name: "form", method: "elicitation/create", params: form, answer: said42,
		asked: strings.Replace(form, "Which", "[files] Which", 1),
		heard: `{"action":"accept","content":{"n":42}}`},
	{name: "form as 2025-06-18 has it", version: "2025-06-18", method: "elicitation/create", caps: `{"elicitation":{}}`,
		params: `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{` +
			`"a":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]},"b":{"type":"string","enum":["p"]}}}}`,
		answer: `"result":{"action":"decline"}`,
		asked: `{"message":"[files] m","requestedSchema":{"type":"object","properties":{` +
			`"a":{"enum":["x","y"],"enumNames":["X","Y"],"type":"string"},"b":{"type":"string","enum":["p"]}}}}`,
		heard: `{"action":"decline"}`},
	{name: "no form before 2025-06-18", version: "2025-03-26", method: "elicitation/create", params: form,
		heard: "-32601 the agent did not declare elicitation"},
	{name: "url", method: "elicitation/create",
		params: `{"mode":"url","message":"m","url":"https://a.test/x","elicitationId":"e1"}`, answer: `"result":{"action":"accept"}`,
		asked: `{"mode":"url","message":"[files] m","url":"https://a.test/x","elicitationId":"e1"}`,
		heard: `{"action":"accept"}`},
	{name: "url without the mode", method: "elicitation/create", caps: `{"elicitation":{"form":{}}}`,
		params: `{"mode":"url","message":"m","url":"https://a.test/x","elicitationId":"e1"}`,
		heard:  "-32602 the agent did not declare elicitation by URL"},
	{name: "sampling", method: "sampling/createMessage", params: hi,
		answer: `"result":{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn"}`,
		asked:  "*", heard: `{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn"}`},
	{name: "sampling in parts of 2025-11-25 for an older agent", version: "2025-06-18", method: "sampling/createMessage",
		params: `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"maxTokens":10}`,
		answer: `"error":{"code":-1,"message":"no","data":{"why":1}}`,
		asked:  "*", heard: `-1 no {"why":1}`},
	{name: "sampling in many parts for an older agent", version: "2025-06-18", method: "sampling/createMessage",
		params: `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"you"}]}],"maxTokens":10}`,
		heard:  "-32602 the agent's version of MCP has no messages of several parts"},
	{name: "no sampling", caps: `{"roots":{}}`, method: "sampling/createMessage", params: hi,
		heard: "-32601 the agent did not declare sampling"},
	{name: "roots", method: "roots/list", params: "{}", answer: `"result":{"roots":[{"uri":"file:///w"}]}`,
		asked: "{}", heard: `{"roots":[{"uri":"file:///w"}]}`},
	{name: "no roots", caps: `{"sampling":{}}`, method: "roots/list", params: "{}",
		heard: "-32601 the agent did not declare roots"},
	{name: "nothing declared", caps: `{}`, method: "roots/list", params: "{}", heard: "nobody to ask"},
	{name: "refused by policy", method: "elicitation/create", params: form, opt: curious(policy.Sampling{}, policy.Elicitation{Enabled: new(bool)}),
		heard: "-32601 elicitation is disabled for this server"},
	{name: "unknown", method: "vendor/ask", params: "{}", heard: `-32601 method not found: "vendor/ask"`},
	{name: "the agent has no such method", method: "elicitation/create", params: form, asked: "*",
		answer: `"error":{"code":-32601,"message":"Method not found"}`, heard: "-32601 Method not found"},
	{name: "an error without anything", method: "elicitation/create", params: form, asked: "*",
		answer: `"error":{}`, heard: "-32603 the agent gave no message"},
	{name: "an answer that is no object", method: "roots/list", params: "{}", asked: "*",
		answer: `"result":[]`, heard: "-32603 the agent's answer is not an object"},
	{name: "an answer that is too long", method: "roots/list", params: "{}", asked: "*",
		answer: `"result":{"roots":[],"x":"` + strings.Repeat("x", maxSaid) + `"}`, heard: "-32603 the agent's answer is longer than 4194304 bytes"},
}

func TestQuestionsToLegacyAgents(t *testing.T) {
	for _, tt := range questions {
		opt, version, caps := tt.opt, tt.version, tt.caps
		if opt == nil {
			opt = anything
		}
		if version == "" {
			version = "2025-11-25"
		}
		if caps == "" {
			caps = allCaps
		}
		for _, over := range []string{"http", "stdio"} {
			t.Run(tt.name+" over "+over, func(t *testing.T) {
				w := newWorld(t, opt)
				w.answer = asks(tt.method, tt.params)
				var a agent
				if over == "http" {
					a = w.webAgent(version, caps)
				} else {
					p := w.pipeAgent(t, version, caps)
					defer p.leave()
					a = p
				}
				asked := ""
				got := a.call(fmt.Sprintf(callSlow, 1), func(method, params string) string {
					if method != tt.method {
						t.Errorf("the agent got %s %s", method, params)
						return ""
					}
					asked = params
					return tt.answer
				})
				if got = heardIn(t, got); got != tt.heard {
					t.Errorf("the server heard %.300s\nwant %s", got, tt.heard)
				}
				if tt.asked == "*" && asked != "" {
					return
				}
				if asked != tt.asked {
					t.Errorf("the agent was asked %s\nwant %s", asked, tt.asked)
				}
			})
		}
	}
}

// What is left of an agent's error is bounded.
func TestLongErrorsOfAgents(t *testing.T) {
	long := strings.Repeat("é", maxFailure)
	e := agentError([]byte(`{"code":7,"message":"` + long + `","data":{"x":1}}`))
	if e.Code != 7 || len(e.Message) > maxFailure+len("…") || !strings.HasPrefix(e.Message, "éé") || e.Data != nil {
		t.Errorf("code %d, %d bytes of text, data %q", e.Code, len(e.Message), e.Data)
	}
}

// A modern server that names no elicitation gets none named, but agents of
// 2025-11-25 need an id.
func TestElicitationIDIsMade(t *testing.T) {
	s := &session{version: "2025-11-25"}
	in := `{"mode":"url","url":"https://a.test/","message":"m"}`
	got, err := s.phrase("elicitation/create", []byte(in))
	again, _ := s.phrase("elicitation/create", []byte(in))
	id, _ := wire.Get(got, "elicitationId")
	if err != nil || len(id) < 20 || string(got) == string(again) {
		t.Errorf("got %s, then %s, %v", got, again, err)
	}
}

// Who cannot hear events cannot be asked, and the server hears it at once.
func TestAgentsWithoutEventsAreNotAsked(t *testing.T) {
	w := newWorld(t, anything)
	w.answer = asks("elicitation/create", form)
	a := w.webAgent("2025-11-25", allCaps)
	r := w.post(fmt.Sprintf(callSlow, 1), "Mcp-Session-Id", a.session, "Accept", "application/json")
	if got := heardIn(t, r.body); got != "nobody to ask" {
		t.Errorf("got %s", got)
	}
	if got := w.seen()[0].Answers; got != 0 {
		t.Errorf("the server was promised %b", got)
	}
}

// A view of one server does not name it.
func TestOwnEndpointDoesNotName(t *testing.T) {
	w := newWorld(t, anything)
	w.answer = asks("elicitation/create", form)
	body := strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+allCaps, 1)
	id := w.send("POST", "/mcp/files", body).header.Get("Mcp-Session-Id")
	resp, err := http.DefaultClient.Do(w.request("POST", "/mcp/files", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`, "Mcp-Session-Id", id))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	asked := ""
	converse(t, (&sseReader{t, resp, bufio.NewReader(resp.Body)}).next, func(msg string) {
		w.send("POST", "/mcp/files", msg, "Mcp-Session-Id", id)
	}, func(_, params string) string { asked = params; return said42 })
	if asked != form {
		t.Errorf("got %s, want %s", asked, form)
	}
}

// A sampler is an endpoint.
type sampler func(server, params string) (string, error)

func (s sampler) Sample(_ context.Context, server string, params []byte) ([]byte, error) {
	out, err := s(server, string(params))
	return []byte(out), err
}

// An endpoint answers for agents that cannot, and only for them.
func TestEndpointAnswersForAgentsThatCannot(t *testing.T) {
	text := `{"role":"assistant","content":{"type":"text","text":"%s"},"model":"m","stopReason":"endTurn"}`
	var fault error
	set := func(o *Options) {
		curious(policy.Sampling{Endpoint: policy.Endpoint{URL: "http://x.test", Model: "m"}}, policy.Elicitation{})(o)
		o.Sampler = sampler(func(server, params string) (string, error) {
			if server != "files" || !strings.Contains(params, `"hi"`) {
				t.Errorf("the endpoint got %s of %s", params, server)
			}
			return fmt.Sprintf(text, "endpoint"), fault
		})
	}
	w := newWorld(t, set)
	w.answer = asks("sampling/createMessage", hi)
	agents := func(string, string) string { return `"result":` + fmt.Sprintf(text, "agent") }
	for _, tt := range []struct {
		caps, want string
		fault      error
	}{
		{`{"sampling":{}}`, fmt.Sprintf(text, "agent"), nil},
		{`{}`, fmt.Sprintf(text, "endpoint"), nil},
		{`{}`, "-32603 the sampling endpoint gave no answer", io.ErrUnexpectedEOF},
		{`{}`, "-1 quota", &wire.Error{Code: -1, Message: "quota"}},
	} {
		fault = tt.fault
		if got := heardIn(t, w.webAgent("2025-11-25", tt.caps).call(fmt.Sprintf(callSlow, 1), agents)); got != tt.want {
			t.Errorf("%s: heard %s, want %s", tt.caps, got, tt.want)
		}
	}
	w.answer = asks("elicitation/create", form)
	if got := heardIn(t, w.webAgent("2025-11-25", "{}").call(fmt.Sprintf(callSlow, 1), agents)); got != "-32601 the agent did not declare elicitation" {
		t.Errorf("a form: heard %s", got)
	}
}

func TestWhatServersAreTold(t *testing.T) {
	w := newWorld(t, anything)
	caps := readCapabilities([]byte(`{"sampling":{"tools":{}},"elicitation":{"form":{}},"roots":{}}`), "2025-11-25")
	x := &exchange{f: w.front, view: mustView(w), sess: &session{caps: caps}, out: &pipe{}}
	if got, want := x.answers("files"), policy.AnswerSampling|policy.AnswerForm|policy.AnswerRoots; got != want {
		t.Errorf("answers: got %b, want %b", got, want)
	}
	if got, want := string(x.offered("files")), `{"sampling":{},"elicitation":{"form":{}},"roots":{}}`; got != want {
		t.Errorf("offered: got %s, want %s", got, want)
	}
	if got := x.answers("github"); got != 0 || x.offered("github") != nil {
		t.Errorf("a server without questions: %b", got)
	}
	plain := &exchange{f: w.front, view: mustView(w), modern: true, params: readParams([]byte(`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`))}
	if n := testing.AllocsPerRun(100, func() {
		if plain.answers("files") != 0 || plain.offered("files") != nil {
			t.Error("something for an agent that declared nothing")
		}
	}); n != 0 {
		t.Errorf("%v allocations for an agent that declared nothing", n)
	}
}

// Four calls with equal ids and progress tokens: each gets its own question.
func TestConcurrentQuestions(t *testing.T) {
	w := newWorld(t, anything)
	var ready sync.WaitGroup
	ready.Add(4)
	w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
		ready.Done()
		ready.Wait() // all are open at the same time
		who, _ := wire.Get(c.Params, "arguments")
		q := strings.Replace(form, "Which one?", strings.ReplaceAll(string(who), `"`, "'"), 1)
		c.Notify("notifications/progress", []byte(`{"progressToken":"p","progress":1}`))
		return asks("elicitation/create", q)(ctx, c)
	}
	var done sync.WaitGroup
	for i := range 4 {
		a := w.webAgent("2025-11-25", allCaps)
		done.Add(1)
		go func() {
			defer done.Done()
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow","arguments":{"i":%d},"_meta":{"progressToken":"p"}}}`, i)
			got := a.call(body, func(method, params string) string {
				if method == "notifications/progress" {
					return ""
				}
				if want := fmt.Sprintf("{'i':%d}", i); !strings.Contains(params, want) {
					t.Errorf("call %d was asked %s", i, params)
				}
				return fmt.Sprintf(`"result":{"action":"accept","content":{"n":%d}}`, i)
			})
			if got, want := heardIn(t, got), fmt.Sprintf(`{"action":"accept","content":{"n":%d}}`, i); got != want {
				t.Errorf("call %d heard %s", i, got)
			}
		}()
	}
	done.Wait()
}

// Nobody but the session that was asked can answer, and one answer counts.
func TestAnswersOfOthersAreIgnored(t *testing.T) {
	w := newWorld(t, anything)
	w.answer = asks("elicitation/create", form)
	a, other := w.webAgent("2025-11-25", allCaps), w.webAgent("2025-11-25", allCaps)
	stranger := w.webAgent("2025-11-25", allCaps, "Authorization", "Bearer "+token+"-2")
	bad := `{"jsonrpc":"2.0","id":"q1","result":{"action":"accept","content":{"n":13}}}`
	got := a.call(fmt.Sprintf(callSlow, 1), func(string, string) string {
		other.say(bad)
		if r := w.post(bad, "Mcp-Session-Id", stranger.session, "Authorization", "Bearer "+token+"-2"); r.status != 202 {
			t.Errorf("another caller: %d", r.status)
		}
		if r := w.post(bad, "Mcp-Session-Id", a.session, "Authorization", "Bearer "+token+"-2"); r.status != 404 {
			t.Errorf("another caller in this session: %d", r.status)
		}
		if r := w.post(bad); r.status != 202 {
			t.Errorf("without a session: %d", r.status)
		}
		a.say(`{"jsonrpc":"2.0","id":"q2","result":{"action":"accept","content":{"n":14}}}`)
		a.say(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"n":15}}}`)
		return said42
	})
	if got := heardIn(t, got); got != `{"action":"accept","content":{"n":42}}` {
		t.Errorf("heard %s", got)
	}
	a.say(`{"jsonrpc":"2.0","id":"q1",` + said42 + `}`) // late
}

// An answer can be part of a batch in the version that has them.
func TestAnswerInBatch(t *testing.T) {
	w := newWorld(t, anything)
	w.answer = asks("roots/list", "{}")
	a := w.webAgent("2025-03-26", `{"roots":{}}`)
	s := a.open(fmt.Sprintf(callSlow, 1))
	defer s.resp.Body.Close()
	got := converse(t, s.next, func(msg string) {
		if r := w.post(`[`+msg+`]`, "Mcp-Session-Id", a.session); r.status != 202 {
			t.Errorf("batch: %d %s", r.status, r.body)
		}
	}, func(string, string) string { return `"result":{"roots":[]}` })
	if got := heardIn(t, got); got != `{"roots":[]}` {
		t.Errorf("heard %s", got)
	}
}

func TestQuestionsOfOneSessionAreBounded(t *testing.T) {
	var a asked
	var open []<-chan said
	var ids [][]byte
	for range maxAsked {
		id, c, err := a.begin()
		if err != nil {
			t.Fatal(err)
		}
		open, ids = append(open, c), append(ids, id)
	}
	if _, _, err := a.begin(); err == nil || err.Message != "64 questions wait for this agent, which is the limit" {
		t.Errorf("got %v", err)
	}
	a.forget(ids[0])
	if _, _, err := a.begin(); err != nil {
		t.Error(err)
	}
	a.end()
	for _, c := range open[1:] {
		if s := <-c; s.result != nil || s.failure != nil {
			t.Error("an answer after the end")
		}
	}
	if _, _, err := a.begin(); err != errAgentGone {
		t.Errorf("after the end: %v", err)
	}
}

// Equal questions at the same time, in one call, each with its own answer.
func TestManyQuestionsOfOneCall(t *testing.T) {
	w := newWorld(t, anything)
	w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
		var all sync.WaitGroup
		got := make([]string, 5)
		for i := range got {
			all.Add(1)
			go func() {
				defer all.Done()
				q := upstream.Question{Server: "files", Method: "elicitation/create", Params: []byte(strings.Replace(form, "Which one?", fmt.Sprint("no ", i), 1))}
				got[i] = heard(c.Ask(ctx, q))
			}()
		}
		all.Wait()
		b, _ := json.Marshal(got)
		return result(`{"content":[],"all":` + string(b) + `}`), nil
	}
	got := w.webAgent("2025-11-25", allCaps).call(fmt.Sprintf(callSlow, 1), func(_, params string) string {
		_, after, _ := strings.Cut(params, "no ")
		return `"result":{"action":"accept","content":{"n":` + after[:1] + `}}`
	})
	var m struct{ Result struct{ All []string } }
	json.Unmarshal([]byte(got), &m)
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprintf(`{"action":"accept","content":{"n":%d}}`, i))
	}
	if d := cmp.Diff(want, m.Result.All); d != "" {
		t.Error(d)
	}
}

// A question too big for the stream of an agent fails at once.
func TestBigQuestions(t *testing.T) {
	w := newWorld(t, anything)
	w.answer = asks("roots/list", `{"x":"`+strings.Repeat("x", waitingBytes)+`"}`)
	got := w.webAgent("2025-11-25", allCaps).call(fmt.Sprintf(callSlow, 1), func(string, string) string { return "" })
	if got := heardIn(t, got); got != "-32603 the question is longer than 1048576 bytes" {
		t.Errorf("heard %.200s", got)
	}
}
