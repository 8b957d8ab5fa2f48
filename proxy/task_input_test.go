package proxy

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	askName   = `"n":{"method":"elicitation/create","params":{"mode":"form","message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	askSecret = `"s":{"method":"elicitation/create","params":{"mode":"form","message":"Log in","requestedSchema":{"type":"object","properties":{"password":{"type":"string"}}}}}`
	askRoots  = `"r":{"method":"roots/list"}`
)

// An inputWorld is a modern server with one task that asks something.
type inputWorld struct {
	*world
	token   string
	asks    string // members of inputRequests
	made    string // more members of the task when it is made
	updates []string
	asker   *policy.Asker

	sampling bool // the agent declares it
}

func newInputWorld(t *testing.T, e policy.Elicitation) *inputWorld {
	t.Helper()
	off := false
	w := &inputWorld{asker: policy.NewAsker("jobs", policy.Sampling{}, e, policy.Roots{Enabled: &off})}
	w.world = newWorld(t, func(o *Options) { o.Askers = func(string) *policy.Asker { return w.asker } })
	w.lead(sourceOf("jobs", upstream.Modern, modernTaskCaps, slowTool))
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		r := upstream.Response{Era: upstream.Modern, Via: "v", Result: []byte(`{"resultType":"task","taskId":"own-1","status":"working"` + w.made + `}`)}
		switch c.Method {
		case "tasks/update":
			w.updates = append(w.updates, string(c.Params))
			r.Result = []byte(`{"resultType":"complete"}`)
		case "tasks/get":
			r.Result = []byte(`{"resultType":"complete","taskId":"own-1","status":"input_required","inputRequests":{` + w.asks + `}}`)
		}
		r.Flags, _ = wire.Valid(r.Result, wire.Limits{})
		return r, nil
	}
	w.token = member(t, w.ask("tools/call", "mcp_jobs_slow", `{"name":"mcp_jobs_slow"}`).body, "taskId")
	return w
}

// ask sends a request of an agent that knows tasks and fills in forms.
func (w *inputWorld) ask(method, name, params string) httpReply {
	w.t.Helper()
	more := ""
	if w.sampling {
		more = `"sampling":{},`
	}
	body := strings.Replace(modernBody("1", method, params), `clientCapabilities":{}`,
		`clientCapabilities":{`+more+`"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	return w.post(body, modernHeader(method, name)...)
}

func (w *inputWorld) poll() httpReply {
	return w.ask("tasks/get", w.token, `{"taskId":"`+w.token+`"}`)
}

func (w *inputWorld) update(responses string) httpReply {
	return w.ask("tasks/update", w.token, `{"taskId":"`+w.token+`","inputResponses":`+responses+`}`)
}

// A question is screened like any other, is counted once however often the agent
// polls, and so is its answer.
func TestTaskInput(t *testing.T) {
	w := newInputWorld(t, policy.Elicitation{})
	w.asks = askName
	first := w.poll().body
	if got := member(t, first, "inputRequests", "n", "params", "message"); !strings.Contains(got, "Your name?") || !strings.Contains(got, "jobs") {
		t.Errorf("the agent is asked %q", got)
	}
	for range 3 {
		if again := w.poll().body; again != first {
			t.Errorf("polled\n%s\nthen\n%s", first, again)
		}
	}
	for _, bad := range []string{`{"n":5}`, `{"n":{"action":"maybe"}}`, `5`} {
		if r := w.update(bad); code(r.body) != -32602 {
			t.Errorf("%s: %s", bad, r.body)
		}
	}
	for range 2 {
		if r := w.update(`{"n":{"action":"accept","content":{"name":"x"}},"never-asked":{"ignored":true}}`); code(r.body) != 0 {
			t.Errorf("update: %s", r.body)
		}
	}
	want := `{"taskId":"own-1","inputResponses":{"n":{"action":"accept","content":{"name":"x"}},"never-asked":{"ignored":true}}}`
	if len(w.updates) != 2 || w.updates[0] != want {
		t.Errorf("the server was told %q", w.updates)
	}
	if n := w.asker.Counts().Elicitation; n.Requests != 2 || n.Accepted != 2 { // one for each answer that went to the server
		t.Errorf("counted %+v", n)
	}
}

// What the agent must not be asked is declined for it, once.
func TestTaskInputRefused(t *testing.T) {
	w := newInputWorld(t, policy.Elicitation{})
	w.asks = askSecret + "," + askName
	for range 2 {
		r := w.poll().body
		if strings.Contains(r, "password") || !strings.Contains(r, "Your name?") {
			t.Errorf("the agent is asked %s", r)
		}
	}
	if len(w.updates) != 1 || w.updates[0] != `{"taskId":"own-1","inputResponses":{"s":{"action":"decline"}}}` {
		t.Errorf("the server was told %q", w.updates)
	}
	if r := w.update(`{"s":{"action":"accept","content":{"password":"x"}}}`); code(r.body) != -32602 || len(w.updates) != 1 {
		t.Errorf("an answer to what was not asked: %s", r.body)
	}
	w.asks = askRoots
	if r := w.poll(); !strings.Contains(r.body, "MCPS-UNSUPPORTED") {
		t.Errorf("a question that cannot be answered at all: %s", r.body)
	}
}

// A question that is shown once more after its answer is as open as before, and
// counts as another one when it is answered.
func TestTaskInputTwice(t *testing.T) {
	w := newInputWorld(t, policy.Elicitation{})
	w.asks = askName
	w.poll()
	w.update(`{"n":{"action":"accept","content":{"name":"x"}}}`)
	w.poll()
	for _, bad := range []string{`{"n":null}`, `{"n":{"action":"yes"}}`, `{"n":{"content":{"name":"x"}}}`} {
		if r := w.update(bad); code(r.body) != -32602 {
			t.Errorf("%s: %s", bad, r.body)
		}
	}
	w.update(`{"n":{"action":"decline","content":{"name":"typed"}}}`)
	if len(w.updates) != 2 || strings.Contains(w.updates[1], "typed") {
		t.Errorf("the server was told %q", w.updates)
	}
	if n := w.asker.Counts().Elicitation; n.Requests != 2 || n.Accepted != 1 || n.Declined != 1 {
		t.Errorf("counted %+v", n)
	}
}

const askModel = `"m":{"method":"sampling/createMessage","params":{"maxTokens":5,"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}}`

// Answers to what is not known, or no more, are held to the form that they have.
func TestTaskInputUnknown(t *testing.T) {
	for _, tt := range []struct{ give, want string }{
		{`null`, ""}, {`5`, ""}, {`[]`, ""}, {`"accept"`, ""},
		{`{"action":"maybe"}`, ""}, {`{"action":null}`, ""}, {`{"Action":"accept"}`, ""},
		{`{"content":{"a":"typed"},"action":"decline"}`, `{"action":"decline"}`},
		{`{"action":"cancel","content":{"a":"typed"}}`, `{"action":"cancel"}`},
		{`{"action":"accept","content":{"a":"typed"}}`, `{"action":"accept","content":{"a":"typed"}}`},
		{`{"roots":[{"uri":"file:///a"}]}`, ""}, // switched off
		{`{"role":"assistant"}`, ""},
		{`{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`},
		{`{"other":true}`, `{"other":true}`},
	} {
		w := newInputWorld(t, policy.Elicitation{})
		r := w.update(`{"k":` + tt.give + `}`)
		switch want := `{"taskId":"own-1","inputResponses":{"k":` + tt.want + `}}`; {
		case tt.want == "" && (code(r.body) != -32602 || len(w.updates) > 0):
			t.Errorf("%s: %s, the server was told %q", tt.give, r.body, w.updates)
		case tt.want != "" && (len(w.updates) != 1 || w.updates[0] != want):
			t.Errorf("%s: %s, the server was told %q", tt.give, r.body, w.updates)
		}
	}
}

// A question whose parameters were forgotten is the same at each poll, and counts
// once; an answer that is given twice counts twice, towards max_rpm too.
func TestTaskInputForgotten(t *testing.T) {
	w := newInputWorld(t, policy.Elicitation{})
	w.sampling = true
	w.asks = askModel
	first := w.poll().body
	if !strings.Contains(first, `"maxTokens":5`) {
		t.Fatalf("the agent is asked %s", first)
	}
	for i := range 30 {
		for _, c := range w.front.recall.of {
			w.front.recall.thin(c)
		}
		if i == 29 {
			break
		}
		if again := w.poll().body; again != first {
			t.Fatalf("polled\n%s\nthen\n%s", first, again)
		}
	}
	if n := w.asker.Counts().Sampling; n.Requests != 1 || n.Errors != 0 {
		t.Errorf("counted %+v", n)
	}
	const answer = `{"m":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}}`
	if r := w.update(answer); code(r.body) != 0 {
		t.Errorf("the first answer: %s", r.body)
	}
	if r := w.update(answer); code(r.body) != -32602 || !strings.Contains(r.body, "get the task's state first") {
		t.Errorf("another one: %s", r.body)
	}
	w.poll()
	var last httpReply
	for range 30 {
		last = w.update(answer)
	}
	if len(w.updates) != 10 || code(last.body) != -32602 || !strings.Contains(last.body, "requests in a minute") {
		t.Errorf("%d answers went to the server; the last: %s", len(w.updates), last.body)
	}
}

// What a task brings when it is made is screened like the rest: at the first poll.
func TestTaskInputAtOnce(t *testing.T) {
	w := newInputWorld(t, policy.Elicitation{})
	w.made = `,"inputRequests":{` + askSecret + `}`
	r := w.ask("tools/call", "mcp_jobs_slow", `{"name":"mcp_jobs_slow"}`)
	if member(t, r.body, "taskId") == "" || strings.Contains(r.body, "inputRequests") {
		t.Errorf("got %s", r.body)
	}
}

func TestRecallIsBounded(t *testing.T) {
	var r recall
	name := func(i int) digest { return inputKey(task{id: "x"}, strconv.Itoa(i)) }
	const each = 4 << 10
	r.put(name(-1), recalled{caller: "b", params: make([]byte, each)})
	for i := range 2 * maxRecalled {
		r.put(name(i), recalled{caller: "a", params: make([]byte, each)})
	}
	sum, fat := 0, 0
	for _, q := range r.known {
		if sum += len(q.params); !q.thin {
			fat++
		}
	}
	if n := len(r.known); n != maxRecalled || n != len(r.of["a"].keys)+1 || fat != maxRecalledBytes/each || r.bytes != sum || sum != r.of["a"].bytes+each {
		t.Errorf("%d known, %d with their parameters, %d bytes", n, fat, r.bytes)
	}
	if q, ok := r.find(name(-1)); !ok || q.thin {
		t.Error("one caller's questions pushed out another's")
	}
	last := name(2*maxRecalled - 1)
	r.put(last, recalled{caller: "a", params: make([]byte, maxRecalledBytes+1)})
	if q, ok := r.find(last); !ok || !q.thin || r.bytes > maxRecalledBytes {
		t.Error("one that is too long is kept whole, or not at all")
	}
	for k := range r.known {
		r.forget(k)
	}
	if r.bytes != 0 || len(r.of) != 0 {
		t.Errorf("%d bytes of %d callers are left", r.bytes, len(r.of))
	}
}
