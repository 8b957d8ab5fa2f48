package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// scripted is a modern server that gives one result after the other.
func scripted(results ...string) func(context.Context, *upstream.Call) (upstream.Response, error) {
	n := 0
	return func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		r := results[min(n, len(results)-1)]
		n++
		return upstream.Response{Result: []byte(r), Era: upstream.Modern}, nil
	}
}

// wanting is a result that asks for input; state may be empty.
func wanting(requests, state string) string {
	s := `{"resultType":"input_required"`
	if requests != "" {
		s += `,"inputRequests":` + requests
	}
	if state != "" {
		s += `,"requestState":` + state
	}
	return s + "}"
}

const (
	complete  = `{"resultType":"complete","content":[]}`
	wantForm  = `{"method":"elicitation/create","params":` + form + `}`
	wantModel = `{"method":"sampling/createMessage","params":` + hi + `}`
	wantRoots = `{"method":"roots/list"}`
	modelSaid = `{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn"}`
)

// obliging answers every question.
func obliging(method, _ string) string {
	switch method {
	case "elicitation/create":
		return said42
	case "sampling/createMessage":
		return `"result":` + modelSaid
	case "roots/list":
		return `"result":{"roots":[]}`
	}
	return ""
}

func erring(string, string) string { return `"error":{"code":-1,"message":"not now"}` }

var roundTests = []struct {
	name   string
	server []string // its results, the last one again and again
	caps   string
	answer func(method, params string) string
	opt    option
	sent   []string // the parameters of the calls after the first
	want   string   // of the answer
}{
	{name: "one round, all kinds", server: []string{wanting(`{"a\u0062":`+wantForm+`, "s" : `+wantModel+`,"r":`+wantRoots+`}`, `"st\u0061te/+ "`), complete},
		sent: []string{`{"inputResponses":{"a\u0062":{"action":"accept","content":{"n":42}}, "s" : ` + modelSaid + `,"r":{"roots":[]}},"requestState":"st\u0061te/+ ","name":"slow"}`},
		want: `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	{name: "three rounds, with a state or without", server: []string{wanting(`{"a":`+wantForm+`}`, ""), wanting(`{"b":`+wantForm+`}`, `"1"`), wanting(`{"c":`+wantRoots+`}`, `"2"`), complete},
		sent: []string{
			`{"inputResponses":{"a":{"action":"accept","content":{"n":42}}},"name":"slow"}`,
			`{"inputResponses":{"b":{"action":"accept","content":{"n":42}}},"requestState":"1","name":"slow"}`,
			`{"inputResponses":{"c":{"roots":[]}},"requestState":"2","name":"slow"}`,
		},
		want: `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	{name: "a state only", server: []string{wanting("", `"later"`), wanting("{}", `"still"`), complete},
		sent: []string{`{"requestState":"later","name":"slow"}`, `{"requestState":"still","name":"slow"}`},
		want: `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	{name: "an error of the agent cancels a form", server: []string{wanting(`{"a":`+wantForm+`}`, ""), complete}, answer: erring,
		sent: []string{`{"inputResponses":{"a":{"action":"cancel"}},"name":"slow"}`},
		want: `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	{name: "policy declines a form", server: []string{wanting(`{"a":`+wantForm+`}`, ""), complete},
		opt:  curious(policy.Sampling{}, policy.Elicitation{Enabled: new(bool)}),
		sent: []string{`{"inputResponses":{"a":{"action":"decline"}},"name":"slow"}`},
		want: `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	{name: "an error of the agent ends a call that needs a model", server: []string{wanting(`{"a":`+wantForm+`,"b":`+wantModel+`}`, "")},
		answer: func(method, params string) string {
			if method == "sampling/createMessage" {
				return erring(method, params)
			}
			return "" // is withdrawn
		},
		want: "sampling/createMessage: not now. Nothing more can be done with this call. (code MCPS-UNSUPPORTED)"},
	{name: "an agent without the capability", server: []string{wanting(`{"a":`+wantForm+`}`, "")}, caps: `{"roots":{}}`,
		want: "elicitation/create: the agent did not declare elicitation. Nothing more"},
	{name: "an agent without any", server: []string{wanting(`{"a":`+wantRoots+`}`, "")}, caps: `{}`,
		want: "roots/list: the agent did not declare roots. Nothing more"},
	{name: "a server that may not ask", server: []string{wanting(`{"a":`+wantRoots+`}`, "")}, opt: func(o *Options) { o.Askers = nil },
		want: "roots/list: questions of this server are not answered. Nothing more"},
	{name: "neither questions nor state", server: []string{wanting("", "")}, want: "(code MCPS-PROTOCOL)"},
	{name: "questions that are a list", server: []string{wanting("[]", `"s"`)}, want: "(code MCPS-PROTOCOL)"},
	{name: "a state that is no string", server: []string{wanting("", `{}`)}, want: "(code MCPS-PROTOCOL)"},
	{name: "a key twice", server: []string{wanting(`{"a":`+wantRoots+`,"a":`+wantRoots+`}`, "")}, want: "two questions under one key. "},
	{name: "a question that is none", server: []string{wanting(`{"a":1}`, "")}, want: "MCPS-UNSUPPORTED"},
	{name: "too many questions", server: []string{wanting(`{`+strings.TrimSuffix(manyRoots(17), ",")+`}`, "")}, want: "more than 16 questions at once. "},
	{name: "too many rounds", server: []string{wanting(`{"a":`+wantRoots+`}`, "")}, want: "more than 100 rounds of questions. "},
}

func manyRoots(n int) (s string) {
	for i := range n {
		s += fmt.Sprintf(`"%d":%s,`, i, wantRoots)
	}
	return s
}

func TestRounds(t *testing.T) {
	for _, tt := range roundTests {
		t.Run(tt.name, func(t *testing.T) {
			opts := []option{anything}
			if tt.opt != nil {
				opts = append(opts, tt.opt)
			}
			w := newWorld(t, opts...)
			w.answer = scripted(tt.server...)
			caps, answer := tt.caps, tt.answer
			if caps == "" {
				caps = allCaps
			}
			if answer == nil {
				answer = obliging
			}
			got := w.webAgent("2025-11-25", caps).call(fmt.Sprintf(callSlow, 1), answer)
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
			calls := w.seen()
			if tt.sent == nil {
				return
			}
			for i, c := range calls[1:] {
				if i >= len(tt.sent) || c.Params != tt.sent[i] {
					t.Errorf("call %d had %s", i+2, c.Params)
				}
			}
			if len(calls) != 1+len(tt.sent) {
				t.Errorf("%d calls, want %d", len(calls), 1+len(tt.sent))
			}
		})
	}
}

// A modern server is told what the agent can do, or an endpoint in its place.
func TestModernServersAreToldOfAgents(t *testing.T) {
	endpoint := func(o *Options) {
		curious(policy.Sampling{Endpoint: policy.Endpoint{URL: "http://x.test"}}, policy.Elicitation{})(o)
		o.Sampler = sampler(nil)
	}
	for _, tt := range []struct {
		caps, want string
		opt        option
	}{
		{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, anything},
		{`{"elicitation":{"url":{}}}`, `{"sampling":{},"elicitation":{"url":{}}}`, endpoint},
		{`{}`, ``, anything},
		{`{}`, `{"sampling":{}}`, endpoint},
	} {
		w := newWorld(t, tt.opt)
		var told string
		w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
			told = string(c.Capabilities)
			return upstream.Response{Result: []byte(complete), Era: upstream.Modern}, nil
		}
		w.webAgent("2025-11-25", tt.caps).call(fmt.Sprintf(callSlow, 1), obliging)
		if told != tt.want {
			t.Errorf("legacy, %s: told %s, want %s", tt.caps, told, tt.want)
		}
		told = ""
		body := strings.Replace(modernBody("1", "tools/call", `{"name":"mcp_files_slow"}`), `Capabilities":{}`, `Capabilities":`+tt.caps, 1)
		w.post(body, modernHeader("tools/call", "mcp_files_slow")...)
		if told != tt.want {
			t.Errorf("modern, %s: told %s, want %s", tt.caps, told, tt.want)
		}
	}
}

// What becomes of questions is logged, and what is odd as a warning; what they say
// is not.
func TestQuestionsAreLogged(t *testing.T) {
	var log strings.Builder
	w := newWorld(t, anything, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	w.answer = asks("elicitation/create", strings.Replace(form, "Which one?", "classified", 1))
	w.webAgent("2025-11-25", allCaps).call(fmt.Sprintf(callSlow, 1), func(string, string) string {
		return `"result":{"action":"accept","content":{"secret":"hunter2"}}`
	})
	got := log.String()
	for _, want := range []string{`level=WARN msg="odd answer to a question" server=files op=elicitation/create caller=`,
		`level=INFO msg="question answered" server=files op=elicitation/create caller=`} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "classified") || strings.Contains(got, "hunter2") {
		t.Errorf("tells too much:\n%s", got)
	}
	if c := w.front.asker("files").Counts().Elicitation; c.Accepted != 1 || c.Incomplete != 1 {
		t.Errorf("counted %+v", c)
	}
}

// Prompts and resources may ask too, completions may not.
func TestRoundsOfOtherMethods(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"mcp_files_greet"}}`:                                                   `"result":{"messages":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a.txt"}}`:                                                   `"result":{"messages":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"mcp_files_greet"},"argument":{}}}`: `MCPS-UNSUPPORTED`,
	} {
		w := newWorld(t, anything)
		w.answer = scripted(wanting(`{"a":`+wantRoots+`}`, ""), `{"resultType":"complete","messages":[]}`)
		if got := w.webAgent("2025-11-25", allCaps).call(body, obliging); !strings.Contains(got, want) {
			t.Errorf("%s\n got %s", body, got)
		}
	}
}

// A round ends with its call: by the agent's cancel, or by a time-out.
func TestRoundsEnd(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		w.answer = scripted(wanting(`{"a":`+wantForm+`}`, ""), complete)
		a.say(fmt.Sprintf(callSlow, 1))
		id := a.hearQuestion()
		a.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if got := a.hear(); got != withdrawn(id) {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		if n := len(w.seen()); n != 1 {
			t.Errorf("%d calls after a cancel", n)
		}
		w.answer = scripted(wanting(`{"a":`+wantForm+`,"r":`+wantRoots+`}`, ""), complete)
		a.say(fmt.Sprintf(callSlow, 2))
		start := time.Now()
		got := a.converse(func(method, _ string) string {
			if method == "roots/list" {
				return `"result":{"roots":[]}`
			}
			return ""
		})
		if got != `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}` {
			t.Errorf("got %s", got)
		}
		if d := time.Since(start); d != 300*time.Second {
			t.Errorf("after %v", d)
		}
		if got := w.seen()[2].Params; got != `{"inputResponses":{"a":{"action":"cancel"},"r":{"roots":[]}},"name":"slow"}` {
			t.Errorf("after the time-out: %s", got)
		}
	})
}

// A server that wants to be asked again is, after a while that grows.
func TestStateOnlyIsRepeatedSlowly(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		w.answer = scripted(wanting("", `"s"`))
		a.say(fmt.Sprintf(callSlow, 1))
		start := time.Now()
		if got := a.hear(); !strings.Contains(got, "more than 100 rounds of questions") {
			t.Errorf("got %s", got)
		}
		if d := time.Since(start); d < 150*time.Second || d > 200*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

// The visits that an error of 2025-11-25 asks for are the agent's business, and it
// is told when they are done.
func TestVisitsFirst(t *testing.T) {
	failure := `{"code":-32042,"message":"first visit","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.test","message":"m"}]}}`
	for version, expects := range map[string]bool{"2025-11-25": true, "2025-06-18": false} {
		w := newWorld(t, anything)
		w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
			return upstream.Response{Error: []byte(failure)}, nil
		}
		a := w.webAgent(version, allCaps)
		got := a.call(fmt.Sprintf(callSlow, 1), obliging)
		if got != `{"jsonrpc":"2.0","id":1,"error":`+failure+`}` {
			t.Errorf("%s: got %s", version, got)
		}
		s := w.front.sessions.find(a.session, callerOf(w), mustView(w))
		if got := s.elicits.done("files", "e1"); got != expects {
			t.Errorf("%s: expects the end is %v", version, got)
		}
	}
}

// The end of what an agent was asked to do elsewhere is awaited.
func TestVisitAsked(t *testing.T) {
	w := newWorld(t, anything)
	w.answer = asks("elicitation/create", `{"mode":"url","message":"m","url":"https://a.test/x","elicitationId":"e1"}`)
	a := w.webAgent("2025-11-25", allCaps)
	a.call(fmt.Sprintf(callSlow, 1), func(string, string) string { return `"result":{"action":"accept"}` })
	if s := w.front.sessions.find(a.session, callerOf(w), mustView(w)); !s.elicits.done("files", "e1") {
		t.Error("the end is not expected")
	}
}

// A fault of ours in one question does not end the process.
func TestPanicInAQuestion(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		curious(policy.Sampling{Endpoint: policy.Endpoint{URL: "http://x.test"}}, policy.Elicitation{})(o)
		o.Sampler = sampler(func(string, string) (string, error) { panic("boom") })
	})
	a := w.webAgent("2025-11-25", "{}")
	w.answer = asks("sampling/createMessage", hi)
	if got := heardIn(t, a.call(fmt.Sprintf(callSlow, 1), obliging)); got != "-32603 internal error" {
		t.Errorf("heard %s", got)
	}
	w.answer = scripted(wanting(`{"a":`+wantModel+`}`, ""))
	if got := a.call(fmt.Sprintf(callSlow, 2), obliging); !strings.Contains(got, "sampling/createMessage: internal error. ") {
		t.Errorf("got %s", got)
	}
	if n := w.front.Stats().Panics; n != 2 {
		t.Errorf("%d panics", n)
	}
}
