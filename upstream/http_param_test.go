package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Arguments that a modern server wants repeated stand in headers of that request
// alone, and so does the trace; configured ones of those names do not.
func TestHTTPCallHeaders(t *testing.T) {
	interesting := func(h http.Header) map[string]string {
		got := map[string]string{}
		for k, v := range h {
			if strings.HasPrefix(k, paramPrefix) || strings.HasPrefix(k, "Trace") {
				got[k] = strings.Join(v, "|")
			}
		}
		return got
	}
	configured := map[string]string{"Traceparent": "old", "Tracestate": "old=1"}
	for _, tt := range []struct {
		name           string
		call           Call
		modern, legacy map[string]string
	}{
		{"params", Call{Header: []Param{{"Mcp-Param-Region", "us-west1"}, {"tenant-ID", " padded "}, {"Bad Name", "x"}, {"Empty", ""}}},
			map[string]string{"Mcp-Param-Region": "us-west1", "Mcp-Param-Tenant-Id": "=?base64?IHBhZGRlZCA=?=", "Mcp-Param-Empty": "", "Traceparent": "old", "Tracestate": "old=1"}, configured},
		{"injection", Call{Header: []Param{{"X", "a\r\nEvil: 1"}}, Traceparent: "a\r\nEvil: 1", Tracestate: strings.Repeat("x", maxTraceState+1)},
			map[string]string{"Mcp-Param-X": "=?base64?YQ0KRXZpbDogMQ==?=", "Traceparent": "old", "Tracestate": "old=1"}, configured},
		{"trace", Call{Traceparent: traceparent, Tracestate: "a=b"},
			map[string]string{"Traceparent": traceparent, "Tracestate": "a=b"}, map[string]string{"Traceparent": traceparent, "Tracestate": "a=b"}},
		{"parent only", Call{Traceparent: traceparent},
			map[string]string{"Traceparent": traceparent, "Tracestate": "old=1"}, map[string]string{"Traceparent": traceparent, "Tracestate": "old=1"}},
		{"none", Call{}, configured, configured},
	} {
		for era, want := range map[Era]map[string]string{Modern: tt.modern, Legacy: tt.legacy} {
			t.Run(fmt.Sprint(tt.name, era), func(t *testing.T) {
				leaks(t)
				f := newFake(t, &fakeHTTP{modern: era == Modern, legacy: era == Legacy})
				c := dialed(t, resolved(t, f.URL, nil, "Traceparent", "old", "Tracestate", "old=1", "mcp-param-region", "stale"), env{})
				call := tt.call
				call.Method, call.Name, call.Params = "tools/call", "alive", []byte(`{"name":"alive"}`)
				if _, err := c.Do(t.Context(), &call); err != nil {
					t.Fatal(err)
				}
				alive(t, c) // the same tool, with nothing of its own
				got := f.got("tools/call")
				if diff := cmp.Diff(want, interesting(got[0].Header)); diff != "" {
					t.Errorf("first call:\n%s", diff)
				}
				if diff := cmp.Diff(configured, interesting(got[1].Header)); diff != "" {
					t.Errorf("second call:\n%s", diff)
				}
			})
		}
	}
}

func TestHTTPParamBounds(t *testing.T) {
	many := func(n, size int) (out []Param) {
		for i := range n {
			out = append(out, Param{fmt.Sprintf("P%d", i), strings.Repeat("x", size)})
		}
		return out
	}
	for _, tt := range []struct {
		params []Param
		want   string
	}{
		{many(maxParams, 10), ""},
		{many(maxParams+1, 0), "Mcp-Param-P32 is one Mcp-Param-* header too many, at most 32"},
		{many(1, maxParamValue), ""},
		{many(1, maxParamValue+1), "an argument of 8193 bytes does not fit the Mcp-Param-P0 header, at most 8192"},
		{[]Param{{"A", strings.Repeat("\n", 7<<10)}}, "an argument of 9571 bytes does not fit the Mcp-Param-A header, at most 8192"},
		{many(2, maxParamValue), "the Mcp-Param-* headers are over 16384 bytes in all with Mcp-Param-P1"},
	} {
		f := newFake(t, &fakeHTTP{modern: true})
		c := dialed(t, resolved(t, f.URL, nil), env{})
		call := toolCall("alive")
		call.Header = tt.params
		_, err := c.Do(t.Context(), call)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("got %v", err)
		case tt.want != "" && (KindOf(err) != TooLarge || !strings.HasSuffix(err.Error(), ": "+tt.want)):
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// A server that misses a header has its tools listed again, but not with each call.
func TestHTTPHeaderMismatch(t *testing.T) {
	for name, status := range map[string]int{"400": 400, "200": 200} {
		t.Run(name, func(t *testing.T) {
			leaks(t)
			f := newFake(t, &fakeHTTP{modern: true, call: func(w http.ResponseWriter, _ *http.Request, m rpc) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Mcp-Param-Region is missing"}}`, m.ID)
			}})
			var relists atomic.Int64
			c := dialed(t, resolved(t, f.URL, nil), env{notify: func(m string, _ []byte) {
				if m == "notifications/tools/list_changed" {
					relists.Add(1)
				}
			}})
			for range 3 {
				if _, err := c.Do(t.Context(), toolCall("x")); KindOf(err) != Protocol || !strings.Contains(err.Error(), "Mcp-Param-Region is missing") {
					t.Errorf("got %v", err)
				}
			}
			if n := relists.Load(); n != 1 {
				t.Errorf("asked for %d listings, want 1", n)
			}
			if now := time.Now(); c.mayRelist(now.Add(relistGap-time.Second)) || !c.mayRelist(now.Add(relistGap)) {
				t.Error("the gap between listings does not hold")
			}
		})
	}
}
