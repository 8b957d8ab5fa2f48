package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func TestReview(t *testing.T) {
	const (
		form   = `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}}`
		link   = `{"mode":"url","message":"m","url":"https://e.example/"}`
		sample = `{` + hello + `,"maxTokens":1}`
		tools  = `{` + hello + `,"maxTokens":1,"tools":[]}`
	)
	type sc = SamplingCounts
	type ec = ElicitationCounts
	for _, tc := range []struct {
		name, method, params, result string
		want                         string // the answer; where it is empty, an error
		log                          string
		counts                       AskCounts
	}{
		{"sampling", askSampling, sample, `{ "role":"assistant","content":` + text1 + `,"model":"m","x":1.0}`, `{ "role":"assistant","content":` + text1 + `,"model":"m","x":1.0}`, "", AskCounts{}},
		{"sampling list", askSampling, sample, `{"role":"assistant","content":[` + text1 + `],"model":"m"}`, `{"role":"assistant","content":[` + text1 + `],"model":"m"}`, "", AskCounts{}},
		{"no role", askSampling, sample, `{"content":` + text1 + `,"model":"m"}`, "", "no role", AskCounts{Sampling: sc{Errors: 1}}},
		{"no content", askSampling, sample, `{"role":"assistant","content":"x","model":"m"}`, "", "no content", AskCounts{Sampling: sc{Errors: 1}}},
		{"no model", askSampling, sample, `{"role":"assistant","content":{}}`, "", "no model", AskCounts{Sampling: sc{Errors: 1}}},
		{"no object", askSampling, sample, `[]`, "", "not an object", AskCounts{Sampling: sc{Errors: 1}}},
		{"no JSON", askSampling, sample, `{`, "", "not an object", AskCounts{Sampling: sc{Errors: 1}}},
		{"calls", askSampling, tools, `{"role":"assistant","content":` + use1 + `,"model":"m"}`, `{"role":"assistant","content":` + use1 + `,"model":"m"}`, "", AskCounts{Sampling: sc{ToolRounds: 1}}},
		{"calls nobody offered", askSampling, sample, `{"role":"assistant","content":[` + use1 + `],"model":"m"}`, `{"role":"assistant","content":[` + use1 + `],"model":"m"}`, "nobody offered",
			AskCounts{Sampling: sc{ToolRounds: 1}}},
		{"stop reason", askSampling, tools, `{"role":"assistant","content":[],"model":"m","stopReason":"toolUse"}`, `{"role":"assistant","content":[],"model":"m","stopReason":"toolUse"}`, "",
			AskCounts{Sampling: sc{ToolRounds: 1}}},

		{"tokens of ours", askSampling, sample, `{"role":"assistant","content":{},"model":"m","_meta":{"mcp-sidecar/tokens":12}}`, `{"role":"assistant","content":{},"model":"m"}`, "", AskCounts{Sampling: sc{Tokens: 12}}},
		{"tokens of ours and more", askSampling, sample, `{"role":"assistant","content":{},"model":"m","_meta":{"a":1,"mcp-sidecar/tokens":12}}`, `{"role":"assistant","content":{},"model":"m","_meta":{"a":1}}`, "",
			AskCounts{Sampling: sc{Tokens: 12}}},
		{"usage", askSampling, sample, `{"role":"assistant","content":{},"model":"m","usage":{"input_tokens":3,"output_tokens":4}}`, `{"role":"assistant","content":{},"model":"m","usage":{"input_tokens":3,"output_tokens":4}}`, "",
			AskCounts{Sampling: sc{Tokens: 7}}},
		{"usage in _meta", askSampling, sample, `{"role":"assistant","content":{},"model":"m","_meta":{"usage":{"totalTokens":5}}}`, `{"role":"assistant","content":{},"model":"m","_meta":{"usage":{"totalTokens":5}}}`, "",
			AskCounts{Sampling: sc{Tokens: 5}}},
		{"absurd usage", askSampling, sample, `{"role":"assistant","content":{},"model":"m","usage":{"total_tokens":18446744073709551615}}`, `{"role":"assistant","content":{},"model":"m","usage":{"total_tokens":18446744073709551615}}`, "",
			AskCounts{Sampling: sc{Tokens: 1 << 30}}},
		{"negative usage", askSampling, sample, `{"role":"assistant","content":{},"model":"m","usage":{"total_tokens":-1}}`, `{"role":"assistant","content":{},"model":"m","usage":{"total_tokens":-1}}`, "", AskCounts{}},

		{"accept", askElicitation, form, `{"action":"accept","content":{"a":"1","b":1.0}}`, `{"action":"accept","content":{"a":"1","b":1.0}}`, "", AskCounts{Elicitation: ec{Accepted: 1}}},
		{"accept in part", askElicitation, form, `{"action":"accept","content":{"a":"1"}}`, `{"action":"accept","content":{"a":"1"}}`, `lacks required fields: "b"`, AskCounts{Elicitation: ec{Accepted: 1, Incomplete: 1}}},
		{"accept with nothing", askElicitation, form, `{"action":"accept","content":{}}`, `{"action":"accept","content":{}}`, `lacks required fields: "a", "b"`, AskCounts{Elicitation: ec{Accepted: 1, Incomplete: 1}}},
		{"accept without content", askElicitation, form, `{"action":"accept"}`, `{"content":{},"action":"accept"}`, `"a", "b"`, AskCounts{Elicitation: ec{Accepted: 1, Incomplete: 1}}},
		{"accept with no object", askElicitation, form, `{"action":"accept","content":["a"]}`, `{"action":"accept","content":{}}`, `"a", "b"`, AskCounts{Elicitation: ec{Accepted: 1, Incomplete: 1}}},
		{"accept a link", askElicitation, link, `{"action":"accept"}`, `{"action":"accept"}`, "", AskCounts{Elicitation: ec{Accepted: 1}}},
		{"decline", askElicitation, form, `{"action":"decline","content":{"a":"typed"},"x":1}`, `{"action":"decline","x":1}`, "", AskCounts{Elicitation: ec{Declined: 1}}},
		{"cancel", askElicitation, form, `{"action":"cancel"}`, `{"action":"cancel"}`, "", AskCounts{Elicitation: ec{Cancelled: 1}}},
		{"another action", askElicitation, form, `{"action":"ACCEPT\n","content":{"a":"1"}}`, `{"action":"cancel"}`, `unknown action "ACCEPT\n"`, AskCounts{Elicitation: ec{Cancelled: 1}}},
		{"no action", askElicitation, form, `{}`, `{"action":"cancel"}`, `unknown action ""`, AskCounts{Elicitation: ec{Cancelled: 1}}},

		{"roots", askRoots, `{}`, `{"roots":[{"uri":"file:///a","name":"A"}],"x":1.0}`, `{"roots":[{"uri":"file:///a","name":"A"}],"x":1.0}`, "", AskCounts{}},
		{"odd roots", askRoots, `{}`, `{"roots":[{"uri":"https://e.example/"},{"uri":"file:///a"},7,{"uri":"file:///b\n"},{"uri":"file:///c"},{}]}`, `{"roots":[{"uri":"file:///a"},{"uri":"file:///c"}]}`, "4 roots", AskCounts{}},
		{"no roots", askRoots, `{}`, `{"roots":{}}`, "", "has no roots", AskCounts{Roots: RootsCounts{Errors: 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
			out, log, err := a.Review("c", tc.method, []byte(tc.params), []byte(tc.result))
			if tc.want == "" {
				if err == nil || err.Code != wire.CodeInternal || out != nil || !strings.Contains(err.Message, tc.log) {
					t.Errorf("got %s, error %v", out, err)
				}
			} else if err != nil {
				t.Errorf("got error %v", err)
			} else if diff := cmp.Diff(tc.want, string(out)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if !strings.Contains(log, tc.log) || (log == "") != (tc.log == "") || strings.Contains(log, "\n") {
				t.Errorf("got log %q, want %q", log, tc.log)
			}
			if diff := cmp.Diff(tc.counts, a.Counts()); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailed(t *testing.T) {
	a := NewAsker("s", Sampling{}, Elicitation{}, Roots{})
	for _, m := range []string{askSampling, askElicitation, askRoots, "other"} {
		a.Failed(m)
	}
	want := AskCounts{SamplingCounts{Errors: 1}, ElicitationCounts{Errors: 1}, RootsCounts{Errors: 1}}
	if got := a.Counts(); got != want {
		t.Errorf("got %+v", got)
	}
}

// FuzzAsker holds that no question and no answer makes the limits panic or write
// what is no JSON, and that a verdict passes a second time unchanged.
func FuzzAsker(f *testing.F) {
	for _, s := range []string{
		`{` + hello + `,"maxTokens":1e3,"tools":[{"name":"t","inputSchema":{}}],"modelPreferences":{"hints":[{"name":"a"}]},"systemPrompt":"x","_meta":{"progressToken":1}}`,
		`{"message":"m\u200b","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},"task":{}}`,
		`{"mode":"url","message":"m","url":"https://xn--a.example/"}`, `{ }`, `{"_meta":{}}`,
	} {
		for _, r := range []string{`{"role":"assistant","content":[` + use1 + `],"model":"m","_meta":{"mcp-sidecar/tokens":1}}`, `{"action":"accept","content":null}`, `{"roots":[{"uri":"file:///a"},1]}`} {
			f.Add([]byte(s), []byte(r))
		}
	}
	f.Fuzz(func(t *testing.T, params, result []byte) {
		for _, method := range []string{askSampling, askElicitation, askRoots} {
			a := NewAsker("s", Sampling{ExposeClientTools: true, AllowedModels: []string{"a"}}, Elicitation{}, Roots{})
			v, err := a.Screen(noon, method, params, 0, Audience{Named: true})
			if err != nil {
				continue
			}
			fuzzVerdict(t, a, method, v)
			out, _, err := a.Review("c", method, v.Params, result)
			if _, bad := wire.Valid(out, wire.Limits{}); err == nil && bad != nil {
				t.Errorf("%s: got %s: %v", method, out, bad)
			}
		}
	})
}

func fuzzVerdict(t *testing.T, a *Asker, method string, v Verdict) {
	if _, bad := wire.Valid(v.Params, wire.Limits{}); bad != nil {
		t.Fatalf("%s: got %s: %v", method, v.Params, bad)
	}
	again, err := a.Screen(noon, method, v.Params, 0, Audience{})
	if err != nil {
		return // the name that was put in front may have made a text too long
	}
	if method != askElicitation && string(again.Params) != string(v.Params) {
		t.Errorf("%s: got %s, then %s", method, v.Params, again.Params)
	}
}
