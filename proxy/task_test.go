package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/seal"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

const (
	legacyTaskCaps = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	modernTaskCaps = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	slowTool       = `{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`
)

// taskWorld has one server with tasks of an era, beside one without, and answers
// as such a server does.
func taskWorld(t *testing.T, era upstream.Era) (*world, *[]upstream.Call) {
	t.Helper()
	w := newWorld(t)
	caps := legacyTaskCaps
	if era == upstream.Modern {
		caps = modernTaskCaps
	}
	w.lead(sourceOf("jobs", era, caps, slowTool), sourceOf("plain", upstream.Legacy, `{"tools":{}}`, `{"name":"t","inputSchema":{"type":"object"}}`))
	calls := new([]upstream.Call)
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		kept := *c
		kept.Params = []byte(string(c.Params))
		*calls = append(*calls, kept)
		r := upstream.Response{Era: era, Via: "conn\x00 1"}
		switch {
		case c.Method == "tools/call" && era == upstream.Modern:
			r.Result = []byte(`{"resultType":"task","taskId":"own-1","status":"working","ttlMs":1.50e3,"x":[1,2]}`)
		case c.Method == "tools/call" && strings.Contains(string(c.Params), `"task"`):
			r.Result = []byte(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own-1","x":1},"mcp.dev/z":1},"task":{"status":"working","taskId":"own-1","ttl":60000}}`)
		case c.Method == "tools/call":
			r.Result = []byte(`{"content":[{"type":"text","text":"at once"}]}`)
		case c.Method == "tasks/result":
			r.Result = []byte(`{"content":[{"type":"resource_link","uri":"job://out","name":"o"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own-1"},"progressToken":1}}`)
		case c.Method == "tasks/update", c.Method == "tasks/cancel" && era == upstream.Modern:
			r.Result = []byte(`{"resultType":"complete"}`)
		case era == upstream.Modern:
			r.Result = []byte(`{"resultType":"complete","taskId":"own-1","status":"completed","result":{"content":[{"type":"resource_link","uri":"job://out","name":"o"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"own-1"}}}}`)
		default:
			r.Result = []byte(`{"taskId":"own-1","status":"cancelled"}`)
		}
		return r, nil
	}
	return w, calls
}

func member(t *testing.T, body string, path ...string) string {
	t.Helper()
	raw := json.RawMessage(body)
	for _, name := range append([]string{"result"}, path...) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil || m[name] == nil {
			t.Fatalf("no %s in %s: %v", name, body, err)
		}
		raw = m[name]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

func taskRPC(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}

func TestLegacyTask(t *testing.T) {
	w, calls := taskWorld(t, upstream.Legacy)
	sid := []string{"Mcp-Session-Id", w.open("2025-11-25")}
	r := w.post(taskRPC("tools/call", `{"name":"mcp_jobs_slow","arguments":{},"task":{"ttl":60000}}`), sid...)
	token := member(t, r.body, "task", "taskId")
	wantJSON(t, "create", r.body, `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+token+`","x":1}},"task":{"status":"working","taskId":"`+token+`","ttl":60000}}}`)
	if token == "own-1" || strings.Contains(r.body, "own-1") {
		t.Errorf("the server's own id is out: %s", r.body)
	}
	params := `{"taskId":"` + token + `"}`
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		wantJSON(t, method, w.post(taskRPC(method, params), sid...).body, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"`+token+`","status":"cancelled"}}`)
	}
	wantJSON(t, "result", w.post(taskRPC("tasks/result", params), sid...).body, `{"jsonrpc":"2.0","id":1,"result":{
		"content":[{"type":"resource_link","uri":"job://out","name":"o"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+token+`"}}}}`)
	for _, c := range (*calls)[1:] {
		if c.Via != "conn\x00 1" || c.Name != "own-1" || string(c.Params) != `{"taskId":"own-1"}` {
			t.Errorf("%s went out as %q %q %s", c.Method, c.Via, c.Name, c.Params)
		}
	}
	if server, _ := w.front.links.find(linkKey{callerOf(w).ID, "default"}, "job://out"); server != "jobs" {
		t.Errorf("the link in the result belongs to %q", server)
	}
}

func TestModernTask(t *testing.T) {
	w, calls := taskWorld(t, upstream.Modern)
	r := w.modernTasks("tools/call", "mcp_jobs_slow", `{"name":"mcp_jobs_slow"}`)
	token := member(t, r.body, "taskId")
	wantJSON(t, "create", r.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"`+token+`","status":"working","ttlMs":1.50e3,"x":[1,2]}}`)
	params := `{"taskId":"` + token + `"}`
	wantJSON(t, "get", w.modernTasks("tasks/get", token, params).body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"`+token+`","status":"completed",
		"result":{"content":[{"type":"resource_link","uri":"job://out","name":"o"}]}}}`)
	update := w.modernTasks("tasks/update", token, `{"taskId":"`+token+`","inputResponses":{"k":{"action":"accept"}}}`)
	wantJSON(t, "update", update.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
	wantJSON(t, "cancel", w.modernTasks("tasks/cancel", token, params).body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
	if got := string((*calls)[2].Params); got != `{"taskId":"own-1","inputResponses":{"k":{"action":"accept"}}}` {
		t.Errorf("update went out as %s", got)
	}
	if got := string((*calls)[0].Capabilities); got != `{"extensions":{"io.modelcontextprotocol/tasks":{}}}` {
		t.Errorf("the server was told of %s", got)
	}
	for _, c := range (*calls)[1:] {
		if c.Via != "conn\x00 1" || c.Name != "own-1" {
			t.Errorf("%s went out over %q for %q", c.Method, c.Via, c.Name)
		}
	}
	if r := w.modernTasks("tasks/get", "other", params); r.status != 400 || code(r.body) != -32020 {
		t.Errorf("a wrong Mcp-Name: %d %s", r.status, r.body)
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		if r := w.modernTasks(method, token, params); r.status != 404 || code(r.body) != -32601 {
			t.Errorf("%s: %d %s", method, r.status, r.body)
		}
	}
	undeclared := w.modern("1", "tasks/get", token, params)
	if undeclared.status != 400 || code(undeclared.body) != -32021 || !strings.Contains(undeclared.body, `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
		t.Errorf("not declared: %d %s", undeclared.status, undeclared.body)
	}
	sync := w.modern("1", "tools/call", "mcp_jobs_slow", `{"name":"mcp_jobs_slow"}`)
	if !strings.Contains(sync.body, "MCPS-UNSUPPORTED") || strings.Contains(sync.body, "own-1") {
		t.Errorf("a task for an agent that declared none: %s", sync.body)
	}
}

// modernTasks sends a request of an agent that knows tasks.
func (w *world) modernTasks(method, name, params string) httpReply {
	w.t.Helper()
	body := strings.Replace(modernBody("1", method, params), `clientCapabilities":{}`,
		`clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	return w.post(body, modernHeader(method, name)...)
}

func TestTaskIDsAreRefused(t *testing.T) {
	w, calls := taskWorld(t, upstream.Legacy)
	create := taskRPC("tools/call", `{"name":"mcp_jobs_slow","task":{}}`)
	token := member(t, w.post(create).body, "task", "taskId")
	n := len(*calls)
	other := []string{"Authorization", "Bearer " + bearer + "-2"}
	altered := token[:40] + string(token[40]^1) + token[41:]
	foreign := seal.Random().Seal(sealedTask, nil, []byte("x"))
	cursor := w.front.opt.Sealer.Seal(sealedCursor, []byte("x"), []byte("x"))
	for _, tt := range []struct {
		name, path, id string
		header         []string
		want           string
	}{
		{"another caller", "/mcp", token, other, "Unknown task: "},
		{"another view", "/mcp/jobs", token, nil, "Unknown task: "},
		{"altered", "/mcp", altered, nil, "Unknown task: "},
		{"garbage", "/mcp", "own-1", nil, "Unknown task: own-1"},
		{"empty", "/mcp", "", nil, "Unknown task: "},
		{"another kind", "/mcp", cursor, nil, "Unknown task: "},
		{"long", "/mcp", strings.Repeat("A", 100_000), nil, "Unknown task: "},
		{"another instance", "/mcp", foreign, nil, "the task is of another instance of mcp-sidecar"},
	} {
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			r := w.send("POST", tt.path, taskRPC(method, `{"taskId":"`+tt.id+`"}`), tt.header...)
			if code(r.body) != -32602 || !strings.Contains(r.body, `"message":"`+tt.want) {
				t.Errorf("%s, %s: %.300s", tt.name, method, r.body)
			}
		}
	}
	if r := w.post(taskRPC("tasks/get", `{}`)); code(r.body) != -32602 {
		t.Errorf("no id: %s", r.body)
	}
	if r := w.post(taskRPC("tasks/list", `{}`)); code(r.body) != -32601 {
		t.Errorf("list: %s", r.body)
	}
	if len(*calls) != n {
		t.Errorf("%d requests got through", len(*calls)-n)
	}
	w.lead(sourceOf("more", upstream.Legacy, legacyTaskCaps, slowTool))
	if r := w.post(taskRPC("tasks/get", `{"taskId":"`+token+`"}`)); code(r.body) != -32602 || !strings.Contains(r.body, "Unknown task: ") {
		t.Errorf("of a server that is hidden by now: %s", r.body)
	}
}

const bearer = token // not to be hidden by task ids

// A task ends with the connection that made it.
func TestTaskIsGone(t *testing.T) {
	w, _ := taskWorld(t, upstream.Legacy)
	id := member(t, w.post(taskRPC("tools/call", `{"name":"mcp_jobs_slow","task":{}}`)).body, "task", "taskId")
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
		return upstream.Response{}, &upstream.Error{Server: "jobs", Kind: upstream.Gone, Err: errors.New("x")}
	}
	r := w.post(taskRPC("tasks/get", `{"taskId":"`+id+`"}`))
	wantJSON(t, "gone", r.body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"the task is lost: server \"jobs\" ended the connection that ran it"}}`)
}

// The wish for a task reaches only servers that know it as the agent means it.
func TestTaskParameter(t *testing.T) {
	for _, tt := range []struct {
		name    string
		era     upstream.Era
		caps    string
		version string // of the agent
		passes  bool
	}{
		{"legacy to legacy", upstream.Legacy, legacyTaskCaps, "2025-11-25", true},
		{"older agent", upstream.Legacy, legacyTaskCaps, "2025-06-18", false},
		{"server without tasks", upstream.Legacy, `{"tools":{}}`, "2025-11-25", false},
		{"server with tasks of something else", upstream.Legacy, `{"tools":{},"tasks":{"requests":{}}}`, "2025-11-25", false},
		{"legacy to modern", upstream.Modern, modernTaskCaps, "2025-11-25", false},
		{"modern to legacy", upstream.Legacy, legacyTaskCaps, versionModern, false},
		{"modern to modern", upstream.Modern, modernTaskCaps, versionModern, true},
	} {
		w := newWorld(t)
		w.lead(sourceOf("jobs", tt.era, tt.caps, slowTool))
		last := caught(w, `{"content":[],"resultType":"complete"}`, tt.era)
		var r httpReply
		params := `{"task":{"ttl":1},"name":"mcp_jobs_slow","arguments":{"task":2}}`
		if tt.version == versionModern {
			r = w.modern("1", "tools/call", "mcp_jobs_slow", params)
		} else {
			r = w.post(taskRPC("tools/call", params), "Mcp-Session-Id", w.open(tt.version))
		}
		want := `{"name":"slow","arguments":{"task":2}}`
		if tt.passes {
			want = `{"task":{"ttl":1},"name":"slow","arguments":{"task":2}}`
		}
		if r.status != 200 || string(last.Params) != want {
			t.Errorf("%s: went out as %s, want %s (%s)", tt.name, last.Params, want, r.body)
		}
		if caps := string(last.Capabilities); strings.Contains(caps, "tasks") {
			t.Errorf("%s: the server was told of %s", tt.name, caps)
		}
	}
}

// A server that makes a task without an id, or one beyond reason, is at fault.
func TestBadTaskIDs(t *testing.T) {
	for _, id := range []string{`5`, `""`, `"` + strings.Repeat("x", maxTaskID+1) + `"`} {
		w, _ := taskWorld(t, upstream.Legacy)
		caught(w, `{"task":{"taskId":`+id+`}}`, upstream.Legacy)
		if r := w.post(taskRPC("tools/call", `{"name":"mcp_jobs_slow","task":{}}`)); !strings.Contains(r.body, "MCPS-PROTOCOL") {
			t.Errorf("%.20s: %.300s", id, r.body)
		}
	}
	w, _ := taskWorld(t, upstream.Legacy)
	caught(w, `{"task":{"taskId":"`+strings.Repeat("x", maxTaskID)+`"}}`, upstream.Legacy)
	id := member(t, w.post(taskRPC("tools/call", `{"name":"mcp_jobs_slow","task":{}}`)).body, "task", "taskId")
	if len(id) > maxNameHeader {
		t.Errorf("an id of %d bytes does not fit Mcp-Name", len(id))
	}
}

// Another task in an answer is sealed too.
func TestOtherTaskInAnswer(t *testing.T) {
	w, _ := taskWorld(t, upstream.Legacy)
	id := member(t, w.post(taskRPC("tools/call", `{"name":"mcp_jobs_slow","task":{}}`)).body, "task", "taskId")
	last := caught(w, `{"taskId":"own-2"}`, upstream.Legacy)
	second := member(t, w.post(taskRPC("tasks/get", `{"taskId":"`+id+`"}`)).body, "taskId")
	if second == "own-2" || second == id {
		t.Fatalf("got id %q", second)
	}
	if w.post(taskRPC("tasks/get", `{"taskId":"`+second+`"}`)); string(last.Params) != `{"taskId":"own-2"}` {
		t.Errorf("went out as %s", last.Params)
	}
}

func FuzzOpenTask(f *testing.F) {
	f.Add([]byte("\x04jobs\x01vid"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		server, rest, ok := cutText(b)
		if ok && len(server)+len(rest) >= len(b) {
			t.Errorf("%q gave %q and %q", b, server, rest)
		}
	})
}
