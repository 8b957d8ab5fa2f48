package proxy

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// sourceOf is a server of an era over HTTP with tools as it lists them.
func sourceOf(server string, era upstream.Era, capabilities string, tools ...string) aggregate.Source {
	l := &upstream.Listing{Info: upstream.Info{Era: era, HTTP: true, Version: upstream.VersionLegacy, Capabilities: []byte(capabilities)}}
	if era == upstream.Modern {
		l.Info.Version = upstream.VersionModern
	}
	for _, tool := range tools {
		l.Tools = append(l.Tools, []byte(tool))
	}
	return aggregate.Source{Server: server, Listing: l}
}

// lead builds the merged view and the views of single servers of the sources.
func (w *world) lead(src ...aggregate.Source) {
	w.build("default", "", src, 0)
	for i := range src {
		w.build("default/"+src[i].Server, src[i].Server, src[i:i+1], 0)
	}
}

func lines(list []upstream.Param) (out []string) {
	for _, p := range list {
		out = append(out, p.Name+": "+p.Value)
	}
	return out
}

const regionTool = `{"name":"q","inputSchema":{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"},
	"on":{"type":"boolean","x-mcp-header":"On"},"o":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}},
	"plain":{"type":"string"}}}}`

func TestParamHeaderChecks(t *testing.T) {
	b64 := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	long := strings.Repeat("x", 9<<10)
	for _, tt := range []struct {
		name, args string
		header     []string
		code       int
		want       []string
	}{
		{"none", `{"plain":"p"}`, nil, 0, nil},
		{"string", `{"region":"us-west1"}`, []string{"Mcp-Param-Region", "us-west1"}, 0, []string{"Mcp-Param-Region: us-west1"}},
		{"name in another case, spaces", `{"region":"us"}`, []string{"mcp-param-REGION", "  us "}, 0, []string{"Mcp-Param-Region: us"}},
		{"base64", `{"region":" Hello, 世界"}`, []string{"Mcp-Param-Region", b64(" Hello, 世界")}, 0, []string{"Mcp-Param-Region:  Hello, 世界"}},
		{"escaped in the body", `{"r\u0065gion":"\u0075s"}`, []string{"Mcp-Param-Region", "us"}, 0, []string{"Mcp-Param-Region: us"}},
		{"half a marker is plain text", `{"region":"=?base64?SGVsbG8="}`, []string{"Mcp-Param-Region", "=?base64?SGVsbG8="}, 0, []string{"Mcp-Param-Region: =?base64?SGVsbG8="}},
		{"empty", `{"region":""}`, []string{"Mcp-Param-Region", b64("")}, 0, []string{"Mcp-Param-Region: "}},
		{"integer", `{"n":42}`, []string{"Mcp-Param-Count", "42"}, 0, []string{"Mcp-Param-Count: 42"}},
		{"integer, other digits", `{"n":42.0}`, []string{"Mcp-Param-Count", "4.2e1"}, 0, []string{"Mcp-Param-Count: 42"}},
		{"negative", `{"n":-7}`, []string{"Mcp-Param-Count", "-7.0"}, 0, []string{"Mcp-Param-Count: -7"}},
		{"beyond float precision", `{"n":9007199254740993}`, []string{"Mcp-Param-Count", "9007199254740993"}, 0, []string{"Mcp-Param-Count: 9007199254740993"}},
		{"boolean", `{"on":false}`, []string{"Mcp-Param-On", "false"}, 0, []string{"Mcp-Param-On: false"}},
		{"nested", `{"o":{"deep":"d"},"deep":"x"}`, []string{"Mcp-Param-Deep", "d"}, 0, []string{"Mcp-Param-Deep: d"}},
		{"null", `{"region":null,"o":null}`, nil, 0, nil},
		{"an object has no header", `{"region":{}}`, nil, 0, nil},
		{"unknown header", `{"plain":"p"}`, []string{"Mcp-Param-Plain", "other"}, 0, nil},

		{"missing", `{"region":"us"}`, nil, -32020, nil},
		{"differs", `{"region":"us"}`, []string{"Mcp-Param-Region", "eu"}, -32020, nil},
		{"differs in case", `{"region":"us"}`, []string{"Mcp-Param-Region", "US"}, -32020, nil},
		{"argument absent", `{}`, []string{"Mcp-Param-Region", "us"}, -32020, nil},
		{"no arguments", ``, []string{"Mcp-Param-Region", "us"}, -32020, nil},
		{"argument null", `{"region":null}`, []string{"Mcp-Param-Region", "null"}, -32020, nil},
		{"bad padding", `{"region":"Hello"}`, []string{"Mcp-Param-Region", "=?base64?SGVsbG8?="}, -32020, nil},
		{"bad alphabet", `{"region":"Hello"}`, []string{"Mcp-Param-Region", "=?base64?SGVs!!!bG8=?="}, -32020, nil},
		{"base64 of another", `{"region":"us"}`, []string{"Mcp-Param-Region", b64("eu")}, -32020, nil},
		{"raw bytes", `{"region":"é"}`, []string{"Mcp-Param-Region", "é"}, -32020, nil},
		{"long", `{"region":"` + long + `"}`, []string{"Mcp-Param-Region", long}, -32020, nil},
		{"another integer", `{"n":42}`, []string{"Mcp-Param-Count", "43"}, -32020, nil},
		{"near, as floats", `{"n":9007199254740993}`, []string{"Mcp-Param-Count", "9007199254740992"}, -32020, nil},
		{"no JSON number", `{"n":42}`, []string{"Mcp-Param-Count", "0x2A"}, -32020, nil},
		{"number as text is not compared as a number", `{"region":"42"}`, []string{"Mcp-Param-Region", "42.0"}, -32020, nil},
		{"another boolean", `{"on":true}`, []string{"Mcp-Param-On", "True"}, -32020, nil},
	} {
		w := newWorld(t)
		w.lead(sourceOf("db", upstream.Modern, `{"tools":{}}`, regionTool))
		last := caught(w, `{"content":[],"resultType":"complete"}`, upstream.Modern)
		params := `{"name":"mcp_db_q"`
		if tt.args != "" {
			params += `,"arguments":` + tt.args
		}
		r := w.post(modernBody("1", "tools/call", params+"}"), append(modernHeader("tools/call", "mcp_db_q"), tt.header...)...)
		status := 200
		if tt.code != 0 {
			status = 400
		}
		if r.status != status || code(r.body) != tt.code || (len(w.seen()) == 0) != (tt.code != 0) {
			t.Errorf("%s: %d %s, %d calls", tt.name, r.status, r.body, len(w.seen()))
		}
		if diff := cmp.Diff(tt.want, lines(last.Header)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestParamHeaderTwice(t *testing.T) {
	w := newWorld(t)
	w.lead(sourceOf("db", upstream.Modern, `{"tools":{}}`, regionTool))
	r := w.request("POST", "/mcp", modernBody("1", "tools/call", `{"name":"mcp_db_q","arguments":{"region":"us"}}`),
		modernHeader("tools/call", "mcp_db_q", "Mcp-Param-Region", "us")...)
	r.Header.Add("Mcp-Param-Region", "us")
	if got := w.do(r); got.status != 400 || code(got.body) != -32020 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// What a legacy agent, or one without HTTP, sends is mirrored all the same, and
// headers of the agent never go along.
func TestParamHeadersOfLegacyAgents(t *testing.T) {
	w := newWorld(t)
	w.lead(sourceOf("db", upstream.Modern, `{"tools":{}}`, regionTool))
	last := caught(w, `{"content":[],"resultType":"complete"}`, upstream.Modern)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_db_q","arguments":{"region":"us","n":1e1}}}`
	if r := w.post(call, "Mcp-Param-Region", "eu", "Mcp-Param-On", "true"); r.status != 200 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	want := []string{"Mcp-Param-Region: us", "Mcp-Param-Count: 10"}
	if diff := cmp.Diff(want, lines(last.Header)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	long := strings.Replace(call, `"us"`, `"`+strings.Repeat("x", 9<<10)+`"`, 1)
	if r := w.post(long); code(r.body) != -32602 || !strings.Contains(r.body, "Mcp-Param-Region") {
		t.Errorf("a long argument: %.300s", r.body)
	}
}

// The annotation is the server's affair only if it is a modern one over HTTP.
func TestNoParamHeadersForOthers(t *testing.T) {
	w := newWorld(t)
	stdio := sourceOf("db", upstream.Modern, `{"tools":{}}`, regionTool)
	stdio.Listing.Info.HTTP = false
	w.lead(stdio)
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		if c.Header != nil {
			t.Errorf("headers %v", c.Header)
		}
		return upstream.Response{Result: []byte(`{"content":[],"resultType":"complete"}`), Era: upstream.Modern}, nil
	}
	r := w.modern("1", "tools/call", "mcp_db_q", `{"name":"mcp_db_q","arguments":{"region":"us"}}`)
	if r.status != 200 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if l := w.modern("2", "tools/list", "", "{}"); strings.Contains(l.body, "x-mcp-header") {
		t.Errorf("the agent is told to send headers: %s", l.body)
	}
}
