package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func request(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}

// TestRouting: what is asked under exposed names reaches its server under the
// server's own, and what is not there reaches none.
func TestRouting(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		method, params string
		server, want   string // the params that the server gets
		code           int
		says           string
	}{
		{"prompts/get", `{"name":"mcp_github_greet","arguments":{"who":"x"}}`, "github", `{"name":"greet","arguments":{"who":"x"}}`, 0, ""},
		{"prompts/get", `{"name":"greet"}`, "", "", -32602, "Unknown prompt: greet"},
		{"prompts/get", `{"name":"mcp_github_greet","arguments":[]}`, "", "", -32602, "arguments"},
		{"resources/read", `{"uri":"file:///a.txt"}`, "files", `{"uri":"file:///a.txt"}`, 0, ""},
		{"resources/read", `{"uri":"file:///b.txt","_meta":{"x":1}}`, "files", `{"uri":"file:///b.txt"}`, 0, ""},
		{"resources/read", `{"uri":"other://x"}`, "", "", -32002, `"data":{"uri":"other://x"}`},
		{"resources/read", `{"uri":7}`, "", "", -32602, "lacks uri"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"mcp_files_greet"},"argument":{"name":"who","value":"a"},"context":{"arguments":{}}}`,
			"files", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"a"},"context":{"arguments":{}}}`, 0, ""},
		{"completion/complete", `{"argument":{"name":"path","value":"a"},"_meta":{},"ref":{"uri":"file:///{path}","type":"ref/resource"}}`,
			"files", `{"argument":{"name":"path","value":"a"},"ref":{"uri":"file:///{path}","type":"ref/resource"}}`, 0, ""},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"nope"},"argument":{}}`, "", "", -32602, "Unknown prompt: nope"},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x://{a}"},"argument":{}}`, "", "", -32602, "Unknown resource template"},
		{"completion/complete", `{"ref":{"type":"ref/x"}}`, "", "", -32602, "ref is neither"},
		{"completion/complete", `{}`, "", "", -32602, "ref is neither"},
		{"completion/complete", `{"ref":{"type":"ref/prompt"}}`, "", "", -32602, "ref lacks name"},
	} {
		before := len(w.seen())
		r := w.post(request(tt.method, tt.params))
		calls := w.seen()[before:]
		if code(r.body) != tt.code || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s %s: %s", tt.method, tt.params, r.body)
		}
		if tt.server == "" {
			if len(calls) != 0 {
				t.Errorf("%s %s: a server saw %+v", tt.method, tt.params, calls)
			}
			continue
		}
		if len(calls) != 1 || calls[0].Server != tt.server || calls[0].Params != tt.want {
			t.Errorf("%s %s: servers saw %+v", tt.method, tt.params, calls)
		}
	}
	r := w.modern("1", "resources/read", "other://x", `{"uri":"other://x"}`)
	if code(r.body) != -32602 {
		t.Errorf("modern: %s", r.body)
	}
}

func TestReadHasCachingHints(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		resp upstream.Response
		want string
	}{
		{result(`{"contents":[]}`), `{"ttlMs":0,"cacheScope":"private","contents":[]}`},
		{upstream.Response{Result: []byte(`{"resultType":"complete","ttlMs":700,"cacheScope":"public","contents":[]}`), Era: upstream.Modern},
			`{"ttlMs":700,"cacheScope":"private","resultType":"complete","contents":[]}`},
	} {
		w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) { return tt.resp, nil }
		r := w.modern("1", "resources/read", "file:///a.txt", `{"uri":"file:///a.txt"}`)
		want := strings.Replace(tt.want, `{"ttlMs":0`, `{"resultType":"complete","ttlMs":0`, 1)
		if r.body != `{"jsonrpc":"2.0","id":1,"result":`+want+`}` {
			t.Errorf("got %s, want %s", r.body, want)
		}
	}
}

// TestLinksOfResults: a link that a tool gave can be read by who got it.
func TestLinksOfResults(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		return result(`{"content":[{"type":"text","text":"x"},{"type":"resource_link","uri":"made://up","name":"n"}]}`), nil
	}
	read := request("resources/read", `{"uri":"made://up"}`)
	if r := w.post(read); code(r.body) != -32002 {
		t.Errorf("before: %s", r.body)
	}
	w.post(request("tools/call", `{"name":"mcp_github_create_issue"}`))
	w.post(read)
	if calls := w.seen(); len(calls) != 2 || calls[1].Server != "github" || calls[1].Name != "made://up" {
		t.Errorf("servers saw %+v", calls)
	}
	if r := w.post(read, "Authorization", "Bearer "+token+"-2"); code(r.body) != -32002 {
		t.Errorf("another caller: %s", r.body)
	}
}

// TestLongURIs: no server is asked for a URI that none can have listed.
func TestLongURIs(t *testing.T) {
	w := newWorld(t)
	uri := "file:///" + strings.Repeat("x", maxURI)
	for name, tt := range map[string]struct{ body, want string }{
		"read":    {request("resources/read", `{"uri":"`+uri+`"}`), `"code":-32602,"message":"uri is longer`},
		"wrapper": {request("tools/call", `{"name":"mcp_files_read_resource","arguments":{"uri":"`+uri+`"}}`), `"text":"uri is longer`},
		"complete": {request("completion/complete", `{"ref":{"type":"ref/resource","uri":"`+uri+`"},"argument":{"name":"a","value":""}}`),
			`"code":-32602,"message":"uri is longer`},
	} {
		if r := w.post(tt.body); !strings.Contains(r.body, tt.want) {
			t.Errorf("%s: %.200s", name, r.body)
		}
	}
	if n := len(w.seen()); n != 0 {
		t.Errorf("servers saw %d calls", n)
	}
}

// A link of one server cannot be taken over by another.
func TestLinksKeepTheirServer(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		return result(`{"content":[{"type":"resource_link","uri":"made://up","name":"n"}]}`), nil
	}
	w.post(request("tools/call", `{"name":"mcp_github_create_issue"}`))
	w.post(request("tools/call", `{"name":"mcp_files_slow"}`))
	w.post(request("resources/read", `{"uri":"made://up"}`))
	if calls := w.seen(); len(calls) != 3 || calls[2].Server != "github" {
		t.Errorf("servers saw %+v", calls)
	}
}

// TestUtilityTools checks the texts that the wrappers give.
func TestUtilityTools(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		switch {
		case c.Name == "bad":
			return upstream.Response{Error: []byte(`{"code":-1,"message":"no such thing"}`)}, nil
		case c.Method == "resources/read":
			return result(`{"contents":[{"uri":"u","text":"one"},{"uri":"file:///b","mimeType":"image/png","blob":"aGk="},{"text":"two\n"}]}`), nil
		}
		return result(`{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":{"type":"image","data":"aGk="}}]}`), nil
	}
	for _, tt := range []struct {
		name, args string
		isError    bool
		text       string
		sent       string // the params that the server gets
	}{
		{"mcp_files_list_resources", `{}`, false, `{"resources":[{"uri":"file:///a.txt","name":"a","mimeType":"text/plain"}]}`, ""},
		{"mcp_github_list_resources", `{}`, false, `{"resources":[]}`, ""},
		{"mcp_github_list_prompts", `{}`, false, `{"prompts":[{"name":"greet","description":"d","arguments":[{"name":"who","required":false}]}]}`, ""},
		{"mcp_files_read_resource", `{"uri":"file:///a.txt"}`, false,
			`{"result":"one\n[binary resource file:///b (image/png) is not shown as text]\ntwo\n"}`, `{"uri":"file:///a.txt"}`},
		{"mcp_files_read_resource", `{}`, true, "Missing required parameter 'uri'", ""},
		{"mcp_files_read_resource", `{"uri":""}`, true, "Missing required parameter 'uri'", ""},
		{"mcp_files_read_resource", `{"uri":"bad"}`, true, "MCP server 'files' answered: no such thing", `{"uri":"bad"}`},
		{"mcp_files_get_prompt", `{"name":"greet","arguments":{"who":5,"x":null,"y":{"z":1},"a\"b":"c"}}`, false,
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":{"type":"image","data":"aGk="}}],"description":"d"}`,
			`{"name":"greet","arguments":{"who":"5","y":"{\"z\":1}","a\"b":"c"}}`},
		{"mcp_files_get_prompt", `{"arguments":{}}`, true, "Missing required parameter 'name'", ""},
		{"mcp_files_get_prompt", `{"name":"hidden"}`, true, "Unknown prompt: hidden", ""},
	} {
		before := len(w.seen())
		r := w.post(request("tools/call", `{"name":"`+tt.name+`","arguments":`+tt.args+`}`))
		var got struct {
			Result struct {
				Content []struct{ Type, Text string }
				IsError bool
			}
		}
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Result.Content) != 1 {
			t.Errorf("%s %s: %s", tt.name, tt.args, r.body)
			continue
		}
		if c := got.Result.Content[0]; c.Type != "text" || c.Text != tt.text || got.Result.IsError != tt.isError {
			t.Errorf("%s %s:\n got %s (%v)\nwant %s", tt.name, tt.args, c.Text, got.Result.IsError, tt.text)
		}
		calls := w.seen()[before:]
		if tt.sent == "" && len(calls) != 0 || tt.sent != "" && (len(calls) != 1 || calls[0].Params != tt.sent) {
			t.Errorf("%s %s: servers saw %+v", tt.name, tt.args, calls)
		}
	}
}

// TestResultsAreCleaned: what a model cannot see does not reach it, also in
// errors and notifications.
func TestResultsAreCleaned(t *testing.T) {
	w := newWorld(t)
	const hidden = "a\U000E0041\u202eb"
	flagged := func(s string) upstream.Response {
		return upstream.Response{Result: []byte(s), Flags: 1}
	}
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		c.Notify("notifications/message", []byte(`{"level":"error","data":"`+hidden+`"}`))
		return flagged(`{"content":[{"type":"text","text":"` + hidden + `"}]}`), nil
	}
	r := w.post(fmt.Sprintf(callSlow, 1))
	if strings.Contains(r.body, hidden) || strings.Count(r.body, `"ab"`) != 2 {
		t.Errorf("got %q", r.body)
	}
	if n := w.front.Stats().Cleaned; n == 0 {
		t.Error("nothing was counted")
	}
}

// TestOneServerView: the table of one view is never asked about another.
func TestOneServerView(t *testing.T) {
	w := newWorld(t)
	for name, wantCode := range map[string]int{"read-file": 0, "mcp_files_read_file": -32602, "create-issue": -32602, "mcp_files_list_prompts": -32602} {
		r := w.send("POST", "/mcp/files", request("tools/call", `{"name":"`+name+`"}`))
		if code(r.body) != wantCode {
			t.Errorf("%s: %s", name, r.body)
		}
	}
	for _, c := range w.seen() {
		if c.Server != "files" {
			t.Errorf("%+v", c)
		}
	}
}
