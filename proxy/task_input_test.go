package proxy

import (
	"context"
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
	updates []string
	asker   *policy.Asker
}

func newInputWorld(t *testing.T, e policy.Elicitation) *inputWorld {
	t.Helper()
	off := false
	w := &inputWorld{asker: policy.NewAsker("jobs", policy.Sampling{}, e, policy.Roots{Enabled: &off})}
	w.world = newWorld(t, func(o *Options) { o.Askers = func(string) *policy.Asker { return w.asker } })
	w.lead(sourceOf("jobs", upstream.Modern, modernTaskCaps, slowTool))
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		r := upstream.Response{Era: upstream.Modern, Via: "v", Result: []byte(`{"resultType":"task","taskId":"own-1","status":"working"}`)}
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
	body := strings.Replace(modernBody("1", method, params), `clientCapabilities":{}`,
		`clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
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
	if n := w.asker.Counts().Elicitation; n.Requests != 1 || n.Accepted != 1 {
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

func TestRecallIsBounded(t *testing.T) {
	var r recall
	for i := range 2 * maxRecalled {
		r.put(inputKey(task{id: "x"}, strings.Repeat("k", i)), recalled{params: make([]byte, 4<<10)})
	}
	if n := len(r.known); n != len(r.order) || n > maxRecalled || r.bytes > maxRecalledBytes || r.bytes != n*4<<10 {
		t.Errorf("%d known, %d in order, %d bytes", n, len(r.order), r.bytes)
	}
	last := inputKey(task{id: "x"}, strings.Repeat("k", 2*maxRecalled-1))
	r.put(last, recalled{params: make([]byte, maxRecalledBytes+1)})
	if _, ok := r.find(last); ok || r.bytes > maxRecalledBytes {
		t.Error("one that is too long is kept")
	}
}
