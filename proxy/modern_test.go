package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

const serverInfoMeta = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcp-sidecar","version":"1.2.3"}}`

func TestDiscover(t *testing.T) {
	w := newWorld(t)
	r := w.modern("1", "server/discover", "", "{}")
	wantJSON(t, "discover", r.body, `{"jsonrpc":"2.0","id":1,"result":{
		"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],
		"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true},"completions":{},"logging":{}},
		"resultType":"complete","ttlMs":60000,"cacheScope":"private",`+serverInfoMeta+`}}`)
}

// TestModernHeaders holds H20 and H21, and the statuses of the specification.
func TestModernHeaders(t *testing.T) {
	w := newWorld(t)
	call := modernBody("7", "tools/call", `{"name":"mcp_files_slow"}`)
	b64 := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	noCaps := strings.Replace(call, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1)
	old := strings.Replace(call, "2026-07-28", "1900-01-01", 1)
	for _, tt := range []struct {
		name, body string
		header     []string
		status     int
		code       int
	}{
		{"good", call, modernHeader("tools/call", "mcp_files_slow"), 200, 0},
		{"lower-case names, spaces", call, []string{"mcp-protocol-version", " 2026-07-28 ", "mcp-method", " tools/call", "mcp-name", "mcp_files_slow "}, 200, 0},
		{"base64", call, modernHeader("tools/call", b64("mcp_files_slow")), 200, 0},
		{"base64 of another", call, modernHeader("tools/call", b64("mcp_files_other")), 400, -32020},
		{"bad base64", call, modernHeader("tools/call", "=?base64?***?="), 400, -32020},
		{"upper-case marker", call, modernHeader("tools/call", strings.Replace(b64("mcp_files_slow"), "base64", "BASE64", 1)), 400, -32020},
		{"name of another", call, modernHeader("tools/call", "echo"), 400, -32020},
		{"name in other case", call, modernHeader("tools/call", "MCP_files_slow"), 400, -32020},
		{"no name", call, modernHeader("tools/call", ""), 400, -32020},
		{"huge name", call, modernHeader("tools/call", strings.Repeat("x", 9<<10)), 400, -32020},
		{"method of another", call, modernHeader("tools/list", "mcp_files_slow"), 400, -32020},
		{"method in other case", call, modernHeader("Tools/Call", "mcp_files_slow"), 400, -32020},
		{"no method", call, modernHeader("", "mcp_files_slow"), 400, -32020},
		{"no version", call, modernHeader("tools/call", "mcp_files_slow", "MCP-Protocol-Version", ""), 400, -32020},
		{"older version than the body", call, modernHeader("tools/call", "mcp_files_slow", "MCP-Protocol-Version", "2025-11-25"), 400, -32020},
		{"version only in the header", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, modernHeader("tools/list", ""), 400, -32602},
		{"unknown version", old, modernHeader("tools/call", "mcp_files_slow", "MCP-Protocol-Version", "1900-01-01"), 400, -32022},
		{"unknown version, header alone", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, []string{"MCP-Protocol-Version", "2027-01-01"}, 400, -32022},
		{"no capabilities", noCaps, modernHeader("tools/call", "mcp_files_slow"), 400, -32602},
		{"capabilities no object", strings.Replace(call, "clientCapabilities\":{}", "clientCapabilities\":[]", 1), modernHeader("tools/call", "mcp_files_slow"), 400, -32602},
		{"unknown method", modernBody("7", "rpc.x", "{}"), modernHeader("rpc.x", ""), 404, -32601},
		{"ping", modernBody("7", "ping", "{}"), modernHeader("ping", ""), 404, -32601},
		{"initialize", modernBody("7", "initialize", "{}"), modernHeader("initialize", ""), 404, -32601},
		{"set level", modernBody("7", "logging/setLevel", `{"level":"info"}`), modernHeader("logging/setLevel", ""), 404, -32601},
		{"subscribe", modernBody("7", "resources/subscribe", `{"uri":"x"}`), modernHeader("resources/subscribe", ""), 404, -32601},
		{"bad log level", strings.Replace(call, `{}}`, `{},"io.modelcontextprotocol/logLevel":"loud"}`, 1), modernHeader("tools/call", "mcp_files_slow"), 400, -32602},
		{"progress token object", strings.Replace(call, `{}}`, `{},"progressToken":{}}`, 1), modernHeader("tools/call", "mcp_files_slow"), 400, -32602},
		{"progress token float", strings.Replace(call, `{}}`, `{},"progressToken":1.5}`, 1), modernHeader("tools/call", "mcp_files_slow"), 400, -32602},
		{"response", `{"jsonrpc":"2.0","id":7,"result":{}}`, []string{"MCP-Protocol-Version", "2026-07-28"}, 400, -32600},
		{"batch", "[" + call + "]", modernHeader("tools/call", "mcp_files_slow"), 400, -32600},
		{"forged state", modernBody("7", "tools/call", `{"name":"mcp_files_slow","requestState":"x"}`), modernHeader("tools/call", "mcp_files_slow"), 200, -32602},
	} {
		r := w.post(tt.body, tt.header...)
		if r.status != tt.status || code(r.body) != tt.code {
			t.Errorf("%s: got %d %s, want %d and %d", tt.name, r.status, r.body, tt.status, tt.code)
		}
		if !json.Valid([]byte(r.body)) {
			t.Errorf("%s: the body is no JSON: %q", tt.name, r.body)
		}
		if tt.code != -32601 && !strings.Contains(r.body, `"id":7`) && tt.name != "batch" && tt.name != "response" {
			t.Errorf("%s: the id is missing: %s", tt.name, r.body)
		}
	}
}

func TestUnsupportedVersionNamesOurs(t *testing.T) {
	w := newWorld(t)
	body := strings.Replace(modernBody("1", "tools/list", "{}"), "2026-07-28", "2099-01-01", 1)
	r := w.post(body, modernHeader("tools/list", "", "MCP-Protocol-Version", "2099-01-01")...)
	wantJSON(t, "error", r.body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version",
		"data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"}}}`)
}

// TestModernIgnoresSessions is H16.
func TestModernIgnoresSessions(t *testing.T) {
	w := newWorld(t)
	r := w.post(modernBody("1", "tools/call", `{"name":"mcp_files_slow"}`),
		modernHeader("tools/call", "mcp_files_slow", "Mcp-Session-Id", "nope", "Last-Event-ID", "5")...)
	if r.status != 200 || r.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("got %d %q %s", r.status, r.header.Get("Mcp-Session-Id"), r.body)
	}
	if got := w.seen()[0].Session; got != "" {
		t.Errorf("the server was given session %q", got)
	}
	for _, method := range []string{"GET", "DELETE"} {
		r := w.send(method, "/mcp", "", "Mcp-Session-Id", "nope", "MCP-Protocol-Version", "2026-07-28")
		if r.status != 405 {
			t.Errorf("%s: got %d, want 405", method, r.status)
		}
	}
}

func TestModernNotificationsAreAccepted(t *testing.T) {
	w := newWorld(t)
	r := w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "MCP-Protocol-Version", "2026-07-28")
	if r.status != 202 || r.body != "" {
		t.Errorf("got %d %q", r.status, r.body)
	}
}

// TestCallCrossesUnchanged compares what goes to the server and what comes
// back, byte for byte (go-sdk#1236 and its kind).
func TestCallCrossesUnchanged(t *testing.T) {
	w := newWorld(t)
	args := `{"id":9007199254740993, "f":1.0,"e":1e3,"__proto__":{"x":1},"s":"\u00e9é</script>"}`
	in := `{"name":"mcp_files_read_file","task":{"ttl":5},"arguments":` + args + `,"x-vendor":[1]}`
	want := `{"name":"read-file","task":{"ttl":5},"arguments":` + args + `,"x-vendor":[1]}`
	r := w.modern("1", "tools/call", "mcp_files_read_file", in, `,"com.example/secret":"s","progressToken":9007199254740993,
		"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b"`)
	c := w.seen()[0]
	if c.Params != want {
		t.Errorf("params:\n got %s\nwant %s", c.Params, want)
	}
	if c.Name != "read-file" || c.Server != "files" || c.Profile != "default" {
		t.Errorf("target %+v", c)
	}
	if c.Token != "9007199254740993" {
		t.Errorf("token %q", c.Token)
	}
	if c.Meta != `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b"` {
		t.Errorf("meta %q", c.Meta)
	}
	if got := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"structuredContent":` + want + `}}`; r.body != got {
		t.Errorf("result:\n got %s\nwant %s", r.body, got)
	}
}

func TestMetaIsCutWhereverItStands(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"_meta":{"a":1},"name":"x","arguments":{}}`, `{"name":"y","arguments":{}}`},
		{`{"name":"x","_meta":{"a":1},"arguments":{}}`, `{"name":"y","arguments":{}}`},
		{`{"name":"x","_meta":{}}`, `{"name":"y"}`},
		{`{"name":"x","arguments":null,"_meta":{}}`, `{"name":"y"}`},
		{`{"_meta":{},"arguments":null,"name":"x"}`, `{"name":"y"}`},
		{`{"name":"x"}`, `{"name":"y"}`},
		{`{"name":"y"}`, `{"name":"y"}`},
		{`{ "arguments" : null , "name" : "x" }`, `{ "name" : "y" }`},
	} {
		x := &exchange{params: readParams([]byte(tt.in))}
		if err := x.checkCall(); err != nil {
			t.Errorf("%s: %v", tt.in, err)
		}
		if got := string(x.params.forward(nil, "name", "y")); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

// TestCallMistakes: what is hidden is unknown (R4), whatever the spelling, and
// mistakes of the caller never reach a server (J14, J19).
func TestCallMistakes(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		params string
		code   int
		says   string
	}{
		{`{"name":"nope"}`, -32602, "Unknown tool: nope"},
		{`{"name":"mcp_github_delete_repo"}`, -32602, "Unknown tool: mcp_github_delete_repo"},
		{`{"name":"delete_repo"}`, -32602, "Unknown tool: delete_repo"},
		{`{"name":"MCP_GITHUB_CREATE_ISSUE"}`, -32602, "Unknown tool"},
		{`{"name":"create-issue"}`, -32602, "Unknown tool"},
		{`{"name":"a\"b\u0000"}`, -32602, `Unknown tool: a\"b\u0000`},
		{`{"name":5}`, -32602, "lacks name"},
		{`{"x":1}`, -32602, "lacks name"},
		{`{"name":"mcp_files_slow","arguments":[]}`, -32602, "arguments is not an object"},
		{`{"name":"mcp_files_slow","arguments":"{}"}`, -32602, "arguments is not an object"},
		{`{"name":"mcp_files_slow","arguments":7}`, -32602, "arguments is not an object"},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, tt.params)
		r := w.post(body)
		if r.status != 200 || code(r.body) != tt.code || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s: got %d %s", tt.params, r.status, r.body)
		}
	}
	r := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow","_meta":[]}}`)
	if code(r.body) != -32602 {
		t.Errorf("_meta array: %s", r.body)
	}
	if len(w.seen()) != 0 {
		t.Errorf("servers saw %+v", w.seen())
	}
}

// TestAnswersOfServers: results and errors of both eras towards agents of both.
func TestAnswersOfServers(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name   string
		resp   upstream.Response
		legacy string // what follows the id; the same as the server's when empty
		modern string
	}{
		{"legacy result", result(`{"content":[{"type":"video","x":1.0}]}`),
			`"result":{"content":[{"type":"video","x":1.0}]}`, `"result":{"resultType":"complete","content":[{"type":"video","x":1.0}]}`},
		{"empty result", result(`{ }`), `"result":{ }`, `"result":{"resultType":"complete" }`},
		{"isError without structuredContent", result(`{"content":[],"isError":true}`),
			`"result":{"content":[],"isError":true}`, `"result":{"resultType":"complete","content":[],"isError":true}`},
		{"modern result", upstream.Response{Result: []byte(`{"resultType":"complete","content":[],"ttlMs":5}`), Era: upstream.Modern},
			`"result":{"content":[]}`, `"result":{"resultType":"complete","content":[],"ttlMs":5}`},
		{"identity of the server", result(`{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"com.example/a":1}}`),
			`"result":{"content":[],"_meta":{"com.example/a":1}}`, `"result":{"resultType":"complete","content":[],"_meta":{"com.example/a":1}}`},
		{"legacy task", result(`{"task":{"taskId":"t"}}`),
			`"result":{"task":{"taskId":"t"}}`, `"result":{"resultType":"complete","task":{"taskId":"t"}}`},
		{"error with data", upstream.Response{Error: []byte(`{"code":-1,"message":"m","data":{"n":9007199254740993},"x":1}`)},
			`"error":{"code":-1,"message":"m","data":{"n":9007199254740993},"x":1}`, `"error":{"code":-1,"message":"m","data":{"n":9007199254740993},"x":1}`},
		{"not found", upstream.Response{Error: []byte(`{"code":-32002,"message":"m"}`)},
			`"error":{"code":-32002,"message":"m"}`, `"error":{"code":-32602,"message":"m"}`},
		{"url elicitation", upstream.Response{Error: []byte(`{"code":-32042,"message":"m","data":{"u":1}}`)},
			`"error":{"code":-32042,"message":"m","data":{"u":1}}`,
			`"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"elicitation":{"url":{}}},"u":1}}`},
		{"url elicitation of a modern server", upstream.Response{Error: []byte(`{"code":-32042,"message":"m","data":{"requiredCapabilities":5,"u":1}}`), Era: upstream.Modern},
			`"error":{"code":-32042,"message":"m","data":{"requiredCapabilities":5,"u":1}}`,
			`"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"elicitation":{"url":{}}},"u":1}}`},
		{"header mismatch behind us", upstream.Response{Error: []byte(`{"code":-32020,"message":"m"}`)},
			`"error":{"code":-32603,"message":"m"}`, `"error":{"code":-32603,"message":"m"}`},
		{"version behind us", upstream.Response{Error: []byte(`{"message":"m","code":-32022}`)},
			`"error":{"message":"m","code":-32603}`, `"error":{"message":"m","code":-32603}`},
		{"no code", upstream.Response{Error: []byte(`{"message":"m"}`)},
			`"error":{"code":-32603,"message":"m"}`, `"error":{"code":-32603,"message":"m"}`},
		{"odd code", upstream.Response{Error: []byte(`{"code":"x","message":"m"}`)},
			`"error":{"code":-32603,"message":"m"}`, `"error":{"code":-32603,"message":"m"}`},
		{"no message", upstream.Response{Error: []byte(`{"code":-1,"data":{"n":1.0}}`)},
			`"error":{"message":"the server gave no message","code":-1,"data":{"n":1.0}}`, `"error":{"message":"the server gave no message","code":-1,"data":{"n":1.0}}`},
		{"odd message", upstream.Response{Error: []byte(`{"code":-32002,"message":5}`)},
			`"error":{"code":-32002,"message":"the server gave no message"}`, `"error":{"code":-32602,"message":"the server gave no message"}`},
		{"an empty error", upstream.Response{Error: []byte(`{}`)},
			`"error":{"code":-32603,"message":"the server gave no message"}`, `"error":{"code":-32603,"message":"the server gave no message"}`},
		{"no content", result(`{"structuredContent":{}}`),
			`"result":{"structuredContent":{}}`, `"result":{"resultType":"complete","structuredContent":{}}`},
	} {
		w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) { return tt.resp, nil }
		const head = `{"jsonrpc":"2.0","id":"i",`
		r := w.post(`{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":"mcp_files_slow"}}`)
		if r.body != head+tt.legacy+"}" {
			t.Errorf("%s, legacy:\n got %s\nwant %s", tt.name, r.body, head+tt.legacy+"}")
		}
		r = w.modern(`"i"`, "tools/call", "mcp_files_slow", `{"name":"mcp_files_slow"}`)
		if r.body != head+tt.modern+"}" {
			t.Errorf("%s, modern:\n got %s\nwant %s", tt.name, r.body, head+tt.modern+"}")
		}
	}
}

func TestQuestionsOfServersAreDeclined(t *testing.T) {
	w := newWorld(t)
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
		return upstream.Response{Result: []byte(`{"resultType":"input_required","inputRequests":{}}`), Era: upstream.Modern}, nil
	}
	r := w.modern("1", "tools/call", "mcp_files_slow", `{"name":"mcp_files_slow"}`)
	if !strings.Contains(r.body, `"isError":true`) || !strings.Contains(r.body, "MCPS-UNSUPPORTED") {
		t.Errorf("tools/call: %s", r.body)
	}
	r = w.modern("1", "prompts/get", "mcp_files_greet", `{"name":"mcp_files_greet"}`)
	if code(r.body) != -32603 || !strings.Contains(r.body, `"code":"MCPS-UNSUPPORTED"`) {
		t.Errorf("prompts/get: %s", r.body)
	}
}

// TestTroubleOfServers is R30: a result with isError for tools, an error with
// data elsewhere, each naming the server and a code.
func TestTroubleOfServers(t *testing.T) {
	w := newWorld(t)
	for kind, tr := range troubles {
		w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
			return upstream.Response{}, &upstream.Error{Server: "files", Op: "call", Kind: kind, Err: errors.New("because \x1b[31m\u202e\"of\"")}
		}
		r := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow"}}`)
		for _, want := range []string{`"isError":true`, tr.code, `server \"files\" ` + tr.says, `because \"of\"`} {
			if !strings.Contains(r.body, want) {
				t.Errorf("%s: %s lacks %q", tr.code, r.body, want)
			}
		}
		r = w.post(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"mcp_files_greet"}}`)
		if code(r.body) != -32603 || !strings.Contains(r.body, `"data":{"server":"files","code":"`+tr.code+`"}`) {
			t.Errorf("%s: %s", tr.code, r.body)
		}
	}
}

// Agents refuse a content that is no list, and then the model learns nothing.
func TestContentThatIsNoList(t *testing.T) {
	w := newWorld(t)
	for _, content := range []string{`null`, `"text"`, `{}`, `5`} {
		w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
			return result(`{"content":` + content + `}`), nil
		}
		r := w.post(fmt.Sprintf(callSlow, 1))
		if !strings.Contains(r.body, `"isError":true`) || !strings.Contains(r.body, "MCPS-PROTOCOL") {
			t.Errorf("content %s: %s", content, r.body)
		}
	}
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) { return result(`{"content":5}`), nil }
	r := w.post(request("prompts/get", `{"name":"mcp_files_greet"}`))
	wantJSON(t, "elsewhere", r.body, `{"jsonrpc":"2.0","id":1,"result":{"content":5}}`)
}

func TestAnswerOverTheLimit(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.AnswerBytes = 1000 })
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + `"}]}`), nil
	}
	r := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow"}}`)
	if !strings.Contains(r.body, "MCPS-TOO-LARGE") || !strings.Contains(r.body, "limits.answer_bytes is 1000") {
		t.Errorf("got %s", r.body)
	}
}

func TestPanicFailsOneCall(t *testing.T) {
	w := newWorld(t)
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) { panic("boom") }
	id := w.open("2025-11-25")
	for range 2 { // the id is free again
		r := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow"}}`, "Mcp-Session-Id", id)
		if code(r.body) != -32603 || strings.Contains(r.body, "boom") {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
	if n := w.front.Stats().Panics; n != 2 {
		t.Errorf("%d panics counted, want 2", n)
	}
	if r := w.post(pingBody); r.status != 200 {
		t.Errorf("ping afterwards: %d", r.status)
	}
}

// TestCodesHavePages: an agent's user can look every code up.
func TestCodesHavePages(t *testing.T) {
	all := []trouble{internalTrouble, unsupportedTrouble}
	for _, tr := range troubles {
		all = append(all, tr)
	}
	for _, tr := range all {
		b, err := os.ReadFile("../docs/errors/" + tr.code + ".md")
		if err != nil || !strings.HasPrefix(string(b), "# "+tr.code+": ") {
			t.Errorf("%s: %v", tr.code, err)
		}
	}
	pages, err := os.ReadDir("../docs/errors")
	if err != nil || len(pages) != len(all) {
		t.Errorf("%d pages for %d codes (%v)", len(pages), len(all), err)
	}
}

// A capability that a server misses concerns the agent that did not declare it:
// it gets the server's own error, as one of its own hop.
func TestMissingCapability(t *testing.T) {
	missing := `{"code":-32021,"message":"needs sampling","data":{"requiredCapabilities":{"sampling":{}}}}`
	w := newWorld(t)
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
		return upstream.Response{Error: []byte(missing)}, nil
	}
	r := w.modern("1", "tools/call", "mcp_files_slow", `{"name":"mcp_files_slow","arguments":{}}`)
	wantJSON(t, "not declared", r.body, `{"jsonrpc":"2.0","id":1,"error":`+missing+`}`)
	if r.status != 400 {
		t.Errorf("status %d, want 400", r.status)
	}
	body := strings.Replace(modernBody("1", "tools/call", `{"name":"mcp_files_slow","arguments":{}}`),
		`clientCapabilities":{}`, `clientCapabilities":{"sampling":{}}`, 1)
	r = w.post(body, modernHeader("tools/call", "mcp_files_slow")...)
	if r.status != 200 || !strings.Contains(r.body, "MCPS-UNSUPPORTED") {
		t.Errorf("declared: got %d %s", r.status, r.body)
	}
	r = w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow"}}`)
	if r.status != 200 || code(r.body) != -32603 {
		t.Errorf("legacy: got %d %s", r.status, r.body)
	}
}
