package proxy

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	parentA = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	parentB = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// caught has every call answered and keeps the last one.
func caught(w *world, result string, era upstream.Era) *upstream.Call {
	w.t.Helper()
	last := new(upstream.Call)
	flags, err := wire.Valid([]byte(result), wire.Limits{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		*last = *c
		last.Params = []byte(string(c.Params)) // the bytes are not ours to keep
		return upstream.Response{Result: []byte(result), Flags: flags, Era: era}, nil
	}
	return last
}

func TestTrace(t *testing.T) {
	for _, tt := range []struct {
		name, meta    string
		header        []string
		parent, state string
	}{
		{"none", "", nil, "", ""},
		{"meta", `"traceparent":"` + parentA + `","tracestate":"a=1,b=2"`, nil, parentA, "a=1,b=2"},
		{"escaped", `"traceparent":"\u0030` + parentA[1:] + `"`, nil, parentA, ""},
		{"header", "", []string{"traceparent", parentA, "tracestate", "a=1"}, parentA, "a=1"},
		{"meta wins", `"traceparent":"` + parentA + `"`, []string{"traceparent", parentB, "tracestate", "a=1"}, parentA, ""},
		{"malformed in meta", `"traceparent":"00-x"`, []string{"traceparent", parentB}, "", ""},
		{"no string", `"traceparent":5,"tracestate":{}`, nil, "", ""},
		{"only a state", `"tracestate":"a=1"`, nil, "", ""},
		{"state without parent in meta", `"tracestate":"a=1"`, []string{"traceparent", parentB}, parentB, ""},
		{"malformed header", "", []string{"traceparent", strings.ToUpper(parentA)}, "", ""},
		{"version ff", `"traceparent":"ff` + parentA[2:] + `"`, nil, "", ""},
		{"version 01", `"traceparent":"01` + parentA[2:] + `"`, nil, "", ""},
		{"zero trace", `"traceparent":"00-` + strings.Repeat("0", 32) + parentA[35:] + `"`, nil, "", ""},
		{"zero span", `"traceparent":"` + parentA[:36] + strings.Repeat("0", 16) + parentA[52:] + `"`, nil, "", ""},
		{"long", `"traceparent":"` + parentA + `0"`, nil, "", ""},
		{"bad state", `"traceparent":"` + parentA + `","tracestate":"a"`, nil, parentA, ""},
		{"bad key", `"traceparent":"` + parentA + `","tracestate":"A=1"`, nil, parentA, ""},
		{"bad value", `"traceparent":"` + parentA + `","tracestate":"a=\u00e9"`, nil, parentA, ""},
		{"quotes in a value", "", []string{"traceparent", parentA, "tracestate", `a="1"`}, parentA, `a="1"`},
		{"long state", `"traceparent":"` + parentA + `","tracestate":"a=` + strings.Repeat("x", 250) + `,b=` + strings.Repeat("x", 250) + `,c=` + strings.Repeat("x", 20) + `"`, nil, parentA, ""},
		{"too many parts", `"traceparent":"` + parentA + `","tracestate":"` + strings.Repeat("a=1,", 33) + `"`, nil, parentA, ""},
		{"baggage", `"baggage":"secret=1"`, []string{"baggage", "secret=2"}, "", ""},
	} {
		w := newWorld(t)
		last := caught(w, `{"content":[]}`, upstream.Legacy)
		meta := `,"com.example/x":1`
		if tt.meta != "" {
			meta = "," + tt.meta
		}
		modern := w.post(modernBody("1", "tools/call", `{"name":"mcp_files_slow"}`, meta), append(modernHeader("tools/call", "mcp_files_slow"), tt.header...)...)
		check := func(era string, r httpReply) {
			want := ""
			if tt.parent != "" {
				want = `"traceparent":"` + tt.parent + `"`
			}
			if tt.state != "" {
				want += `,"tracestate":"` + strings.ReplaceAll(tt.state, `"`, `\"`) + `"`
			}
			if r.status != 200 || code(r.body) != 0 || last.Traceparent != tt.parent || last.Tracestate != tt.state || string(last.Meta) != want {
				t.Errorf("%s, %s: %d %s, went out as %q %q and %s", tt.name, era, r.status, r.body, last.Traceparent, last.Tracestate, last.Meta)
			}
		}
		check("modern", modern)
		legacy := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow","_meta":{`+meta[1:]+`}}}`, tt.header...)
		check("legacy", legacy)
	}
}

// Two headers are no trace, and a state may be spread over several.
func TestTraceOfSeveralHeaders(t *testing.T) {
	w := newWorld(t)
	last := caught(w, `{"content":[]}`, upstream.Legacy)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow"}}`
	r := w.request("POST", "/mcp", body, "traceparent", parentA)
	r.Header.Add("tracestate", "a=1")
	r.Header.Add("tracestate", "b=2")
	if w.do(r); last.Traceparent != parentA || last.Tracestate != "a=1,b=2" {
		t.Errorf("got %q %q", last.Traceparent, last.Tracestate)
	}
	r = w.request("POST", "/mcp", body, "traceparent", parentA)
	r.Header.Add("traceparent", parentB)
	if w.do(r); last.Traceparent != "" || last.Meta != nil {
		t.Errorf("got %q %s", last.Traceparent, last.Meta)
	}
}

func FuzzTracestate(f *testing.F) {
	f.Add("a=1,b=2")
	f.Add("tenant@system=x , ,")
	f.Fuzz(func(t *testing.T, s string) {
		if out := tracestateOf(s); out != "" && (len(out) > maxTracestate || strings.ContainsFunc(out, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' })) {
			t.Errorf("accepted %q", s)
		}
	})
}
