package proxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// modernResult is what a modern server says.
func modernResult(s string) upstream.Response {
	return upstream.Response{Result: []byte(s), Era: upstream.Modern}
}

// oneServer is a call at the endpoint of one server, where texts do not name it.
func oneServer(more string) modernAsk {
	a := slowCall(more)
	a.path, a.name, a.params = "/mcp/files", "slow", strings.Replace(a.params, "mcp_files_slow", "slow", 1)
	return a
}

// TestModernCrossesUnchanged: between a modern server and a modern agent only the
// requestState is another one.
func TestModernCrossesUnchanged(t *testing.T) {
	const (
		weird = `{"k 1": { "params" : {"message":"m","requestedSchema":{"type":"object","properties":{"n":{"type":"number","minimum":1.0e2}}},"x":9007199254740993 }, "method":"elicitation/create","vendor":[1.0] },` +
			`"s":{"method":"sampling/createMessage","params":{"maxTokens":10,"messages":[{"role":"user","content":{"type":"text","text":"a\/b"}}]}},"r":{"method":"roots/list"}}`
		answers = `{"r":{"roots":[]},"k 1": {"content":{"n":1.50},"action":"accept","x":9007199254740993},"s":` + sampleAnswer + `,"more":[1.0]}`
	)
	args := `"arguments":{"b":[1,{"x":"é"}],"a":1.0}`
	for _, tt := range []struct {
		name, result, want, responses, retry string
		keys                                 []string
	}{
		{"all", `{"vendor":1.0,"requestState":"a\/bé", "inputRequests":` + weird + `,"resultType":"input_required","_meta":{"com.example/x":1e2}}`,
			`{"vendor":1.0,"requestState":STATE, "inputRequests":` + weird + `,"resultType":"input_required","_meta":{"com.example/x":1e2}}`,
			answers, `{"inputResponses":` + answers + `,"requestState":"a\/bé","name":"slow",` + args + `}`, []string{"k 1", "s", "r"}},
		{"no requestState", `{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list","params":{}}}}`,
			`{"requestState":STATE,"resultType":"input_required","inputRequests":{"r":{"method":"roots/list","params":{}}}}`,
			`{"r":{"roots":[]}}`, `{"inputResponses":{"r":{"roots":[]}},"name":"slow",` + args + `}`, []string{"r"}},
		{"requestState alone", `{"resultType":"input_required","requestState":""}`, `{"resultType":"input_required","requestState":STATE}`,
			``, `{"requestState":"","name":"slow",` + args + `}`, nil},
		{"null for absent", `{"resultType":"input_required","requestState":"x","inputRequests":null}`,
			`{"resultType":"input_required","requestState":STATE,"inputRequests":null}`,
			`{}`, `{"inputResponses":{},"requestState":"x","name":"slow",` + args + `}`, nil},
	} {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
				if len(w.seen()) == 1 {
					return modernResult(tt.result), nil
				}
				return modernResult(`{"resultType":"complete","content":[]}`), nil
			}
			r := w.run(oneServer(""))
			p := w.asks(r, tt.keys...)
			want := `{"jsonrpc":"2.0","id":1,"result":` + strings.Replace(tt.want, "STATE", `"`+*p.RequestState+`"`, 1) + `}`
			if r.body != want {
				t.Errorf("%s:\n got %s\nwant %s", tt.name, r.body, want)
			}
			if s := w.front.Stats(); s.Parked != 0 {
				t.Errorf("%s: %d calls are parked", tt.name, s.Parked)
			}
			again := p.retry(oneServer(""), tt.responses)
			r = w.run(again)
			wantJSON(t, tt.name, r.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
			if got := w.seen()[1].Params; got != tt.retry {
				t.Errorf("%s, the retry:\n got %s\nwant %s", tt.name, got, tt.retry)
			}
			r = w.run(again)
			if code(r.body) != -32602 || !strings.Contains(r.body, "used before") || len(w.seen()) != 2 {
				t.Errorf("%s, again: %s, %d calls", tt.name, r.body, len(w.seen()))
			}
		})
	}
}

// A modern server's questions of several rounds, each with its own state.
func TestModernRounds(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
			n := len(w.seen())
			if n == 4 {
				return modernResult(`{"resultType":"complete","content":[]}`), nil
			}
			return modernResult(fmt.Sprintf(`{"resultType":"input_required","requestState":"s%d","inputRequests":{"k%d":{"method":"roots/list"}}}`, n, n)), nil
		}
		r := w.run(slowCall(""))
		for n := 1; n <= 3; n++ {
			key := fmt.Sprintf("k%d", n)
			p := w.asks(r, key)
			r = w.run(p.retry(slowCall(""), `{"`+key+`":`+rootsAnswer+`}`))
			want := fmt.Sprintf(`{"inputResponses":{"%s":%s},"requestState":"s%d",`, key, rootsAnswer, n)
			if got := w.seen()[n].Params; !strings.HasPrefix(got, want) {
				t.Errorf("round %d: the server got %s, want %s", n, got, want)
			}
		}
		wantJSON(t, "result", r.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
	})
}

// A modern server that asks once what it may not, and then is content.
func askOnce(w *parkWorld, requests string) {
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		if len(w.seen()) > 1 {
			return modernResult(`{"resultType":"complete","content":[]}`), nil
		}
		return modernResult(`{"resultType":"input_required","requestState":"s","inputRequests":` + requests + `}`), nil
	}
}

const secretForm = `{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"api_key":{"type":"string"}}}}}`

// Questions that a server may not ask are answered in the agent's place: at once
// if they are all, else together with the agent's answers.
func TestModernQuestionsRefused(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		askOnce(w, `{"a":`+secretForm+`}`)
		r := w.run(oneServer(""))
		wantJSON(t, "all refused", r.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
		if got := w.seen()[1].Params; !strings.HasPrefix(got, `{"inputResponses":{"a":{"action":"decline"}},"requestState":"s",`) {
			t.Errorf("the server got %s", got)
		}
	})
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		askOnce(w, `{"a":`+secretForm+`,"b":{"method":"roots/list"},"c":`+secretForm+`}`)
		p := w.asks(w.run(oneServer("")), "b")
		w.run(p.retry(oneServer(""), `{"c":{"action":"accept"},"b":`+rootsAnswer+`}`))
		want := `{"inputResponses":{"c":{"action":"decline"},"a":{"action":"decline"},"b":` + rootsAnswer + `},"requestState":"s",`
		if got := w.seen()[1].Params; !strings.HasPrefix(got, want) {
			t.Errorf("some refused: the server got %s\nwant %s", got, want)
		}
	})
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
			return modernResult(`{"resultType":"input_required","inputRequests":{"a":` + secretForm + `}}`), nil
		}
		r := w.run(oneServer(""))
		if !strings.Contains(r.body, `"isError":true`) || len(w.seen()) != maxSettled+1 {
			t.Errorf("for ever: %d calls, %s", len(w.seen()), r.body)
		}
	})
}

// A state for a modern server expires, and is refused where it cannot be remembered
// as used.
func TestModernStateIsRefused(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		askOnce(w, `{"r":{"method":"roots/list"}}`)
		p := w.asks(w.run(oneServer("")), "r")
		again := p.retry(oneServer(""), `{"r":`+rootsAnswer+`}`)
		for _, tt := range []struct {
			has  map[string]int
			want string
		}{
			{map[string]int{"caller ": maxSpent}, "too many calls of this caller were retried (65536) within 10m0s (limits.parked_time)"},
			{nil, "too many calls of all callers were retried within 10m0s"},
		} {
			w.front.spent.has = tt.has
			if tt.has == nil {
				w.front.spent.m = fullOf("other")
			}
			if r := w.run(again); code(r.body) != -32602 || !strings.Contains(r.body, tt.want) {
				t.Errorf("no room: %s", r.body)
			}
		}
		w.front.spent.m = nil
		w.front.spent.has = nil
		time.Sleep(10*time.Minute - time.Second)
		w.http.CloseIdleConnections()
		time.Sleep(time.Second)
		if r := w.run(again); code(r.body) != -32602 || !strings.Contains(r.body, "has expired") {
			t.Errorf("late: %s", r.body)
		}
		if n := len(w.seen()); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}

// A tool that wraps a read asks as the read does.
func TestModernServerBehindUtility(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		askOnce(w, `{"r":{"method":"roots/list"}}`)
		a := modernAsk{method: "tools/call", name: "mcp_files_read_resource", params: `{"name":"mcp_files_read_resource","arguments":{"uri":"file:///a.txt"}}`}
		p := w.asks(w.run(a), "r")
		r := w.run(p.retry(a, `{"r":`+rootsAnswer+`}`))
		if !strings.Contains(r.body, `"resultType":"complete"`) || strings.Contains(r.body, "isError") {
			t.Errorf("got %s", r.body)
		}
		want := `{"inputResponses":{"r":` + rootsAnswer + `},"requestState":"s","uri":"file:///a.txt"}`
		if got := w.seen()[1]; got.Method != "resources/read" || got.Params != want {
			t.Errorf("the server got %s %s, want %s", got.Method, got.Params, want)
		}
	})
}

// Without an answer that a modern server could read, the call fails.
func TestModernQuestionsThatFail(t *testing.T) {
	for _, tt := range []struct{ name, result, caps, says string }{
		{"sampling refused", `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"maxTokens":0,"messages":[]}}}}`, allOf, "MCPS-UNSUPPORTED"},
		{"roots not declared", `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`, `{"elicitation":{}}`, "did not declare roots"},
		{"sampling not declared", `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":` + sampleQuestion + `}}}`, `{"elicitation":{}}`, "did not declare sampling"},
		{"mode not declared", `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com"}}}}`, `{"elicitation":{}}`, "did not declare elicitation by URL"},
		{"unknown method", `{"resultType":"input_required","inputRequests":{"a":{"method":"x/y"}}}`, allOf, "MCPS-UNSUPPORTED"},
		{"no method", `{"resultType":"input_required","inputRequests":{"a":5}}`, allOf, "what it asks for under \\\"a\\\" is no question"},
		{"nothing asked", `{"resultType":"input_required","inputRequests":{}}`, allOf, "MCPS-PROTOCOL"},
		{"requests no object", `{"resultType":"input_required","inputRequests":[],"requestState":"x"}`, allOf, "MCPS-PROTOCOL"},
		{"state no string", `{"resultType":"input_required","requestState":5}`, allOf, "MCPS-PROTOCOL"},
		{"a key twice", `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}}`, allOf, "MCPS-PROTOCOL"},
		{"a hidden key", `{"resultType":"input_required","inputRequests":{"a` + "\u202e" + `":{"method":"roots/list"}}}`, allOf, "MCPS-PROTOCOL"},
		{"state too long", `{"resultType":"input_required","requestState":"` + strings.Repeat("x", maxState) + `"}`, allOf, "MCPS-TOO-LARGE"},
		{"too many", `{"resultType":"input_required","inputRequests":{` + manyKeys(maxInputs+1) + `}}`, allOf, "MCPS-UNSUPPORTED"},
	} {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) { return modernResult(tt.result), nil }
			a := oneServer("")
			a.caps = tt.caps
			r := w.run(a)
			if r.status != 200 || !strings.Contains(r.body, `"isError":true`) || !strings.Contains(r.body, tt.says) || len(w.seen()) != 1 {
				t.Errorf("%s: %d calls, got %.500s", tt.name, len(w.seen()), r.body)
			}
		})
	}
}

func manyKeys(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"k%d":{"method":"roots/list"}`, i))
	}
	return strings.Join(all, ",")
}

// Where an endpoint samples, agents that cannot are not asked.
func TestModernSamplingByEndpoint(t *testing.T) {
	asker := policy.NewAsker("files", policy.Sampling{Endpoint: policy.Endpoint{URL: "https://llm.example"}}, policy.Elicitation{}, policy.Roots{})
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		askOnce(w, `{"s":{"method":"sampling/createMessage","params":`+sampleQuestion+`},"r":{"method":"roots/list"}}`)
		a := oneServer("")
		a.caps = `{"roots":{}}`
		p := w.asks(w.run(a), "r")
		w.run(p.retry(a, `{"r":`+rootsAnswer+`}`))
		want := `{"inputResponses":{"s":` + sampleAnswer + `,"r":` + rootsAnswer + `},"requestState":"s",`
		if got := w.seen()[1].Params; !strings.HasPrefix(got, want) {
			t.Errorf("the server got %s\nwant %s", got, want)
		}
	}, func(o *Options) {
		o.Askers = func(string) *policy.Asker { return asker }
		o.Sampler = samples(sampleAnswer)
	})
}

type samples string

func (s samples) Sample(context.Context, string, []byte) ([]byte, error) { return []byte(s), nil }

// In a view of several servers the text says which one asks; its answer goes to
// that server alone.
func TestModernQuestionNamesServer(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		askOnce(w, `{"a":{"method":"elicitation/create","params":`+formQuestion+`}}`)
		p := w.asks(w.run(slowCall("")), "a")
		if got := string(p.InputRequests["a"].Params); !strings.Contains(got, "files") || !strings.Contains(got, "Which?") {
			t.Errorf("asked %s", got)
		}
		r := w.run(p.retry(slowCall(""), `{"a":{"action":5}}`))
		if code(r.body) != -32602 || len(w.seen()) != 1 {
			t.Errorf("a malformed answer: %s", r.body)
		}
		w.run(p.retry(slowCall(""), `{"a":`+formAnswer+`}`)) // the state is still good
		if n := len(w.seen()); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

// fullOf is a table of used states without room.
func fullOf(caller string) map[nonce]use {
	m := make(map[nonce]use, maxSpent)
	for i := range maxSpent {
		n := nonce{}
		binary.BigEndian.PutUint32(n[:], uint32(i))
		m[n] = use{caller, math.MaxInt64}
	}
	return m
}
