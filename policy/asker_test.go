package policy

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

var noon = time.Unix(1_800_000_000, 0)

func no() *bool { b := false; return &b }

func rounds(n int) *int { return &n }

func withTools(n int) Sampling { return Sampling{ExposeClientTools: true, MaxToolRounds: rounds(n)} }

func screen(t testing.TB, a *Asker, method, params string) (Verdict, *wire.Error) {
	t.Helper()
	v, err := a.Screen(noon, method, []byte(params), 0, Audience{})
	if err == nil {
		if _, bad := wire.Valid(v.Params, wire.Limits{}); bad != nil {
			t.Fatalf("%s: got params that are no JSON: %s", params, v.Params)
		}
	}
	return v, err
}

// wantVerdict wants an error with the code and a message that holds want, or the
// parameters want where code is zero.
func wantVerdict(t *testing.T, v Verdict, err *wire.Error, code int, want string) {
	t.Helper()
	switch {
	case code == 0 && err != nil:
		t.Errorf("got error %d %q, want a verdict", err.Code, err.Message)
	case code == 0:
		if diff := cmp.Diff(want, string(v.Params)); diff != "" {
			t.Errorf("params (-want +got):\n%s", diff)
		}
	case err == nil:
		t.Errorf("got %s, want error %d %q", v.Params, code, want)
	case err.Code != code || !strings.Contains(err.Message, want):
		t.Errorf("got error %d %q, want %d %q", err.Code, err.Message, code, want)
	}
}

const hello = `"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]`

func TestScreenSampling(t *testing.T) {
	models := Sampling{AllowedModels: []string{"a", "b"}}
	for _, tc := range []struct {
		name   string
		set    Sampling
		params string
		code   int // of the error; zero for a verdict
		want   string
	}{
		{"untouched", Sampling{}, `{` + hello + ` , "maxTokens" : 100.0,"x":[1e2,12345678901234567890]}`, 0, `{` + hello + ` , "maxTokens" : 100.0,"x":[1e2,12345678901234567890]}`},
		{"disabled", Sampling{Enabled: no()}, `{}`, -32601, "sampling is disabled"},
		{"no params", Sampling{}, `[]`, -32602, "not an object"},
		{"no JSON", Sampling{}, `{`, -32602, "params"},

		{"cap", Sampling{}, `{` + hello + `,"maxTokens":1e9}`, 0, `{` + hello + `,"maxTokens":4096}`},
		{"own cap", Sampling{MaxTokensCap: 7}, `{` + hello + `,"maxTokens":8}`, 0, `{` + hello + `,"maxTokens":7}`},
		{"at the cap", Sampling{MaxTokensCap: 7}, `{` + hello + `,"maxTokens":7}`, 0, `{` + hello + `,"maxTokens":7}`},
		{"no tokens", Sampling{}, `{` + hello + `}`, -32602, "maxTokens is missing"},
		{"null tokens", Sampling{}, `{` + hello + `,"maxTokens":null}`, -32602, "maxTokens is missing"},
		{"zero tokens", Sampling{}, `{` + hello + `,"maxTokens":0}`, -32602, "whole number"},
		{"half a token", Sampling{}, `{` + hello + `,"maxTokens":1.5}`, -32602, "whole number"},
		{"text for tokens", Sampling{}, `{` + hello + `,"maxTokens":"5"}`, -32602, "whole number"},
		{"far too many tokens", Sampling{}, `{` + hello + `,"maxTokens":1e999}`, -32602, "whole number"},

		{"model replaces", Sampling{Model: "m"}, `{"modelPreferences":{"hints":[{"name":"x"},{"name":"y"}],"costPriority":0.30},` + hello + `,"maxTokens":1}`, 0,
			`{"modelPreferences":{"hints":[{"name":"m"}],"costPriority":0.30},` + hello + `,"maxTokens":1}`},
		{"model replaces junk", Sampling{Model: "m"}, `{"modelPreferences":{"hints":7},` + hello + `,"maxTokens":1}`, 0, `{"modelPreferences":{"hints":[{"name":"m"}]},` + hello + `,"maxTokens":1}`},
		{"model where none is", Sampling{Model: `"m"`}, `{` + hello + `,"maxTokens":1}`, 0, `{"modelPreferences":{"hints":[{"name":"\"m\""}]},` + hello + `,"maxTokens":1}`},
		{"hints are relayed", Sampling{}, `{"modelPreferences":{"hints":[{"name":"x","why":1}]},` + hello + `,"maxTokens":1}`, 0, `{"modelPreferences":{"hints":[{"name":"x","why":1}]},` + hello + `,"maxTokens":1}`},
		{"preferences are no object", Sampling{}, `{"modelPreferences":[],` + hello + `,"maxTokens":1}`, -32602, "modelPreferences"},
		{"hints are no list", Sampling{}, `{"modelPreferences":{"hints":{}},` + hello + `,"maxTokens":1}`, -32602, "hints is not a list"},
		{"a hint is no object", Sampling{}, `{"modelPreferences":{"hints":["x"]},` + hello + `,"maxTokens":1}`, -32602, "hints must hold objects"},
		{"many hints", Sampling{}, `{"modelPreferences":{"hints":[` + strings.Repeat(`{"name":"x"},`, 64) + `{"name":"x"}]},` + hello + `,"maxTokens":1}`, -32602, "more than 64 hints"},
		{"allowed", models, `{"modelPreferences":{"hints":[{},{"name":"b"},{"name":"x"},{"name":"a"}]},` + hello + `,"maxTokens":1}`, 0,
			`{"modelPreferences":{"hints":[{"name":"b"},{"name":"a"}]},` + hello + `,"maxTokens":1}`},
		{"not allowed", models, `{"modelPreferences":{"hints":[{"name":"A"},{"name":"a"}]},` + hello + `,"maxTokens":1}`, -1, `model "A" is not allowed`},
		{"allowed, none asked for", models, `{` + hello + `,"maxTokens":1}`, 0, `{"modelPreferences":{"hints":[{"name":"a"},{"name":"b"}]},` + hello + `,"maxTokens":1}`},
		{"allowed, the endpoint's first", Sampling{AllowedModels: []string{"a", "b"}, Endpoint: Endpoint{Model: "b"}}, `{` + hello + `,"maxTokens":1}`, 0,
			`{"modelPreferences":{"hints":[{"name":"b"},{"name":"a"}]},` + hello + `,"maxTokens":1}`},
		{"allowed, after the replacement", Sampling{Model: "a", AllowedModels: []string{"a"}}, `{"modelPreferences":{"hints":[{"name":"x"}]},` + hello + `,"maxTokens":1}`, 0,
			`{"modelPreferences":{"hints":[{"name":"a"}]},` + hello + `,"maxTokens":1}`},
		{"replacement not allowed", Sampling{Model: "m", AllowedModels: []string{"a"}}, `{"modelPreferences":{"hints":[{"name":"a"}]},` + hello + `,"maxTokens":1}`, -1, `model "m" is not allowed`},

		{"no context", Sampling{}, `{"includeContext":"none",` + hello + `,"maxTokens":1}`, 0, `{"includeContext":"none",` + hello + `,"maxTokens":1}`},
		{"this server's context", Sampling{}, `{"includeContext":"thisServer",` + hello + `,"maxTokens":1}`, -32602, "includeContext"},
		{"all context", Sampling{}, `{"includeContext":"allServers",` + hello + `,"maxTokens":1}`, -32602, "includeContext"},
		{"odd context", Sampling{}, `{"includeContext":["none"],` + hello + `,"maxTokens":1}`, -32602, "includeContext"},

		{"system is no text", Sampling{}, `{"systemPrompt":{},` + hello + `,"maxTokens":1}`, -32602, "systemPrompt"},
		{"twice", Sampling{}, `{` + hello + `,"maxTokens":1,"maxTokens":1000000}`, -32602, "comes twice"},
		{"twice below", Sampling{}, `{` + hello + `,"maxTokens":1,"modelPreferences":{"hints":[{"name":"a","name":"x"}]}}`, -32602, "comes twice"},
		{"another case", Sampling{}, `{` + hello + `,"maxTokens":1,"MaxTokens":1000000}`, -32602, `"MaxTokens" differs from "maxTokens" only in case`},
		{"large", Sampling{}, `{` + hello + `,"maxTokens":1,"x":"` + strings.Repeat("x", 2<<20) + `"}`, -32602, "more than 2097152 bytes"},
		{"hop only", Sampling{}, `{"task":{"ttl":1},` + hello + `,"maxTokens":1,"_meta":{"progressToken":1,"a.b/c":2}}`, 0, `{` + hello + `,"maxTokens":1,"_meta":{"a.b/c":2}}`},
		{"hidden characters", Sampling{}, `{"messages":[{"role":"user","content":{"type":"text","text":"a\u200bb"}}],"systemPrompt":"c\u202ed","maxTokens":1}`, 0,
			`{"messages":[{"role":"user","content":{"type":"text","text":"ab"}}],"systemPrompt":"cd","maxTokens":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := screen(t, NewAsker("s", tc.set, Elicitation{}, Roots{}), askSampling, tc.params)
			wantVerdict(t, v, err, tc.code, tc.want)
			if err == nil && v.Kind != AnswerSampling {
				t.Errorf("got kind %b", v.Kind)
			}
		})
	}
}

func message1(role, content string) string {
	return fmt.Sprintf(`{"role":%q,"content":%s}`, role, content)
}

const (
	text1 = `{"type":"text","text":"x"}`
	use1  = `{"type":"tool_use","id":"1","name":"t","input":{}}`
	use2  = `{"type":"tool_use","id":"2","name":"t","input":{}}`
	res1  = `{"type":"tool_result","toolUseId":"1","content":[]}`
	res2  = `{"type":"tool_result","toolUseId":"2","content":[]}`
)

func TestScreenMessages(t *testing.T) {
	user, model := func(c string) string { return message1("user", c) }, func(c string) string { return message1("assistant", c) }
	for _, tc := range []struct{ name, messages, want string }{
		{"plain", user(text1) + "," + model(text1) + "," + user("["+text1+`,{"type":"image","data":"","mimeType":"image/png"}]`), ""},
		{"an unknown kind of block", user(`{"type":"hologram"}`), ""},
		{"one call", user(text1) + "," + model(use1) + "," + user(res1), ""},
		{"two calls", user(text1) + "," + model("["+text1+","+use1+","+use2+"]") + "," + user("["+res2+","+res1+"]") + "," + model(text1), ""},
		{"the same id later", model(use1) + "," + user(res1) + "," + model(use1) + "," + user(res1), ""},

		{"none", "", "there are no messages"},
		{"no object", "7", "message 1: the role"},
		{"no role", `{"content":{}}`, "the role"},
		{"a role of its own", message1("system", text1), "the role"},
		{"no content", `{"role":"user"}`, "no content"},
		{"text for content", user(`"hi"`), "no content"},
		{"no type", user(`{"text":"hi"}`), "a block has no type"},
		{"no text", user(`{"type":"text"}`), "a text block has no text"},
		{"no data", user(`{"type":"audio"}`), "a block has no data"},
		{"the user calls", user(use1), "only the assistant calls tools"},
		{"the assistant has results", model(use1) + "," + model(res1), "results of tools come from the user"},
		{"mixed", model(use1) + "," + user("["+res1+","+text1+"]"), "mixed"},
		{"a result is missing", model("["+use1+","+use2+"]") + "," + user(res1), "do not match"},
		{"another result", model(use1) + "," + user(res2), "do not match"},
		{"a result too many", model(use1) + "," + user("["+res1+","+res2+"]"), "do not match"},
		{"a result without a call", user(text1) + "," + user(res1), "do not match"},
		{"no result at all", model(use1) + "," + user(text1), "do not match"},
		{"a call comes last", user(text1) + "," + model(use1), "a tool call has no result"},
		{"an id twice", model("[" + use1 + "," + use1 + "]"), "or that of another"},
		{"a result twice", model(use1) + "," + user("["+res1+","+res1+"]"), "or that of another"},
		{"a call without an id", model(`{"type":"tool_use","name":"t","input":{}}`), "no id"},
		{"a call without input", model(`{"type":"tool_use","id":"1","name":"t"}`), "no input"},
		{"many", strings.Repeat(user(text1)+",", 1000) + user(text1), "more than 1000 messages"},
		{"large", user(`{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}`), "more than 1048576 bytes"},
		{"many blocks", user("[" + strings.Repeat(text1+",", 1000) + text1 + "]"), "too many blocks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			params := `{"messages":[` + tc.messages + `],"maxTokens":1}`
			v, err := screen(t, NewAsker("s", withTools(5), Elicitation{}, Roots{}), askSampling, params)
			if tc.want == "" {
				wantVerdict(t, v, err, 0, params)
				return
			}
			wantVerdict(t, v, err, wire.CodeInvalidParams, tc.want)
		})
	}
}

func TestScreenTools(t *testing.T) {
	const tools = `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`
	for _, tc := range []struct {
		name string
		set  Sampling
		more string
		want string // of the error; empty for a verdict that needs tools
	}{
		{"exposed", withTools(1), tools, ""},
		{"a choice alone", withTools(1), `"toolChoice":{"mode":"none"}`, ""},
		{"not exposed", Sampling{}, tools, "tools are not offered"},
		{"not exposed, a choice alone", Sampling{}, `"toolChoice":{"mode":"none"}`, "tools are not offered"},
		{"no rounds", withTools(0), tools, "max_tool_rounds is 0"},
		{"choice", withTools(1), tools + `,"toolChoice":{"mode":"required"}`, ""},
		{"odd choice", withTools(1), tools + `,"toolChoice":{"mode":"any"}`, "toolChoice.mode"},
		{"no object for a choice", withTools(1), tools + `,"toolChoice":"auto"`, "toolChoice.mode"},
		{"no list", withTools(1), `"tools":{}`, "tools is not a list"},
		{"no name", withTools(1), `"tools":[{"inputSchema":{}}]`, "tool 1 has no name"},
		{"no schema", withTools(1), `"tools":[{"name":"t"}]`, `tool "t" has no inputSchema`},
		{"no tool", withTools(1), `"tools":[7]`, "tool 1 has no name"},
		{"many", withTools(1), `"tools":[` + strings.Repeat(`{"name":"t","inputSchema":{}},`, 256) + `{"name":"t","inputSchema":{}}]`, "more than 256 tools"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			params := `{` + hello + `,"maxTokens":1,` + tc.more + `}`
			v, err := screen(t, NewAsker("s", tc.set, Elicitation{}, Roots{}), askSampling, params)
			if tc.want != "" {
				wantVerdict(t, v, err, wire.CodeInvalidParams, tc.want)
				return
			}
			wantVerdict(t, v, err, 0, params)
			if v.Kind != AnswerSampling|AnswerSamplingTools {
				t.Errorf("got kind %b", v.Kind)
			}
		})
	}
}

// TestToolRounds holds that answers with tool calls are counted per conversation,
// that a text answer or a refusal starts anew, and that no tools can be called
// ends a loop.
func TestToolRounds(t *testing.T) {
	a := NewAsker("s", Sampling{ExposeClientTools: true, MaxToolRounds: rounds(2), MaxRPM: 1000}, Elicitation{}, Roots{})
	conversation := func(first, more string) string {
		return `{"messages":[` + message1("user", `{"type":"text","text":"`+first+`"}`) + `],"maxTokens":1,"tools":[{"name":"t","inputSchema":{}}]` + more + `}`
	}
	const calls, says = `{"role":"assistant","model":"m","content":[` + use1 + `],"stopReason":"toolUse"}`, `{"role":"assistant","model":"m","content":` + text1 + `}`
	for i, step := range []struct {
		first, more, answer string // an empty answer stands for a refusal
	}{
		{"a", "", calls}, {"b", "", calls}, {"a", "", calls}, {"a", `,"toolChoice":{"mode":"none"}`, ""}, // see below
		{"a", "", "refused"}, {"a", "", calls}, {"a", "", says}, {"a", "", calls}, {"a", "", calls}, {"a", "", "refused"},
		{"b", "", calls}, {"b", "", "refused"},
	} {
		params := conversation(step.first, step.more)
		v, err := screen(t, a, askSampling, params)
		if (err != nil) != (step.answer == "refused") {
			t.Fatalf("step %d: got error %v", i, err)
		}
		if err != nil {
			wantVerdict(t, v, err, codeRefused, "more than 2 rounds with tools in a row")
			continue
		}
		if step.answer == "" {
			continue // it passes, since no tools can be called, and gets no answer
		}
		if _, log, err := a.Review("", askSampling, v.Params, []byte(step.answer)); err != nil || log != "" {
			t.Fatalf("step %d: got %q, %v", i, log, err)
		}
	}
	if got := a.Counts().Sampling; got != (SamplingCounts{Requests: 12, Errors: 3, ToolRounds: 7}) {
		t.Errorf("got %+v", got)
	}
}

// TestManyLoops holds that conversations that never end take no memory.
func TestManyLoops(t *testing.T) {
	a := NewAsker("s", withTools(5), Elicitation{}, Roots{})
	for i := range 3 * maxLoops {
		a.round("c", uint64(i))
	}
	if n := a.loops.n; n != maxLoops || len(a.loops.m["c"]) != n {
		t.Errorf("got %d loops, want %d", a.loops.n, maxLoops)
	}
}

func TestRate(t *testing.T) {
	a := NewAsker("s", Sampling{MaxRPM: 2}, Elicitation{}, Roots{})
	params := []byte(`{` + hello + `,"maxTokens":1}`)
	for _, tc := range []struct {
		after time.Duration
		ok    bool
	}{{0, true}, {30 * time.Second, true}, {59 * time.Second, false}, {time.Minute, true}, {89 * time.Second, false}, {90 * time.Second, true}, {91 * time.Second, false}, {time.Hour, true}} {
		v, err := a.Screen(noon.Add(tc.after), askSampling, params, 0, Audience{})
		if tc.ok != (err == nil) {
			t.Errorf("after %v: got %v", tc.after, err)
		}
		if err != nil {
			wantVerdict(t, v, err, codeRefused, "more than 2 requests in a minute")
		}
	}
	if got := a.Counts().Sampling; got != (SamplingCounts{Requests: 8, Errors: 3}) {
		t.Errorf("got %+v", got)
	}
}

func TestScreenNamed(t *testing.T) {
	a := NewAsker("a \"b\"\u202e", Sampling{}, Elicitation{}, Roots{})
	for _, tc := range []struct{ method, params, want string }{
		{askSampling, `{` + hello + `,"maxTokens":1}`, `{"systemPrompt":"This request comes from the MCP server \"a \\\"b\\\"\".",` + hello + `,"maxTokens":1}`},
		{askSampling, `{` + hello + `,"maxTokens":1,"systemPrompt":"Be brief."}`, `{` + hello + `,"maxTokens":1,"systemPrompt":"This request comes from the MCP server \"a \\\"b\\\"\".\n\nBe brief."}`},
		{askElicitation, `{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}`, `{"message":"[a \"b\"] Who?","requestedSchema":{"type":"object","properties":{}}}`},
		{askElicitation, `{"mode":"url","message":"Go","url":"https://e.example/"}`, `{"mode":"url","message":"[a \"b\"] Go","url":"https://e.example/"}`},
		{askRoots, `{}`, `{}`},
	} {
		v, err := a.Screen(noon, tc.method, []byte(tc.params), 0, Audience{Named: true})
		wantVerdict(t, v, err, 0, tc.want)
	}
}

func TestScreenRoots(t *testing.T) {
	a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
	v, err := a.Screen(noon, askRoots, nil, 0, Audience{Named: true})
	if err != nil || v.Params != nil || v.Kind != AnswerRoots {
		t.Errorf("got %+v, %v", v, err)
	}
	v, err = screen(t, a, askRoots, `{"_meta":{"progressToken":7}}`)
	wantVerdict(t, v, err, 0, `{}`)
	_, err = screen(t, NewAsker("s", Sampling{}, Elicitation{}, Roots{Enabled: no()}), askRoots, `{}`)
	wantVerdict(t, v, err, wire.CodeMethodNotFound, "roots is disabled")
	_, err = screen(t, a, "ping", `{}`)
	wantVerdict(t, v, err, wire.CodeMethodNotFound, `method not found: "ping"`)
	if got := a.Counts(); got != (AskCounts{Roots: RootsCounts{Requests: 2}}) {
		t.Errorf("got %+v", got)
	}
}

func TestTimeouts(t *testing.T) {
	a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
	b := NewAsker("s", Sampling{Timeout: time.Second}, Elicitation{Timeout: 2 * time.Second}, Roots{})
	for method, want := range map[string][2]time.Duration{
		askSampling: {30 * time.Second, time.Second}, askElicitation: {300 * time.Second, 2 * time.Second}, askRoots: {rootsTimeout, rootsTimeout},
	} {
		if got := [2]time.Duration{a.Timeout(method), b.Timeout(method)}; got != want {
			t.Errorf("%s: got %v, want %v", method, got, want)
		}
	}
}

func TestOffers(t *testing.T) {
	for _, tc := range []struct {
		s    Sampling
		e    Elicitation
		r    Roots
		want string
	}{
		{Sampling{}, Elicitation{}, Roots{}, `{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}`},
		{withTools(1), Elicitation{}, Roots{}, `{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{}}`},
		{withTools(0), Elicitation{}, Roots{}, `{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}`},
		{Sampling{Enabled: no(), ExposeClientTools: true}, Elicitation{Enabled: no()}, Roots{Enabled: no()}, `{}`},
	} {
		if got := string(NewAsker("s", tc.s, tc.e, tc.r).Offers().Capabilities()); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// TestAskerConcurrent is for the race detector; no count gets lost.
func TestAskerConcurrent(t *testing.T) {
	a := NewAsker("s", Sampling{ExposeClientTools: true, MaxRPM: 50}, Elicitation{}, Roots{})
	params := []byte(`{` + hello + `,"maxTokens":1,"tools":[{"name":"t","inputSchema":{}}]}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if v, err := a.Screen(noon, askSampling, params, 0, Audience{Named: true}); err == nil {
					a.Review("", askSampling, v.Params, []byte(`{"role":"assistant","content":`+text1+`,"model":"m","usage":{"total_tokens":2}}`))
				}
			}
		})
	}
	wg.Wait()
	if got := a.Counts().Sampling; got != (SamplingCounts{Requests: 160, Errors: 110, Tokens: 100}) {
		t.Errorf("got %+v", got)
	}
}

func TestLogLevel(t *testing.T) {
	for word, want := range map[string]slog.Level{
		"": slog.LevelInfo, "info": slog.LevelInfo, "debug": slog.LevelDebug, "warning": slog.LevelWarn, "warn": slog.LevelWarn,
	} {
		if got := NewAsker("s", Sampling{LogLevel: word}, Elicitation{}, Roots{}).LogLevel(); got != want {
			t.Errorf("%q: got %v, want %v", word, got, want)
		}
	}
}
