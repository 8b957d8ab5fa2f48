package matrix

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A feature is one row of the matrix.
type feature struct {
	name string
	// impossible says why a pair cannot have it; empty if it can. If nil, all can.
	impossible func(p *pair) string
	try        func(t *testing.T, p *pair)
}

var features = []feature{
	{"call", nil, call},
	{"progress", nil, progress},
	{"log message", nil, logMessage},
	{"elicitation, 1 round", noElicitation, elicit(1)},
	{"elicitation, 2 rounds", noElicitation, elicit(2)},
	{"elicitation, 3 rounds", noElicitation, elicit(3)},
	{"sampling", nil, sample},
	{"roots", nil, roots},
	{"two questions at once", noElicitation, both},
	{"list_changed", noSharedList, listChanged},
	{"resource update", noSharedUpdate, resourceUpdate},
	{"cancel", nil, cancel},
	{"time-out", nil, timeOut},
	{"task", noTask, task},
}

func noElicitation(p *pair) string {
	if p.agentVersion < "2025-06-18" || p.serverVersion < "2025-06-18" {
		return "elicitation came with 2025-06-18"
	}
	return ""
}

func noSharedList(p *pair) string {
	if p.isolated && p.stdioServer {
		return "lists are those of the process that all agents share"
	}
	return ""
}

func noSharedUpdate(p *pair) string {
	if p.isolated && p.stdioServer && p.serverVersion == mcptest.Modern {
		return "servers of 2026-07-28 are listened to in the process that all agents share"
	}
	return ""
}

func noTask(p *pair) string {
	switch {
	case p.agentVersion < "2025-11-25" || p.serverVersion < "2025-11-25":
		return "tasks came with 2025-11-25"
	case p.agentVersion != p.serverVersion:
		return "the tasks of 2025-11-25 and those of 2026-07-28 are different protocols; the call runs without a task"
	}
	return ""
}

func call(t *testing.T, p *pair) {
	p.says(t, "echo", `{"n":9007199254740993,"s":"\u00e4"}`, `{"n":9007199254740993,"s":"\u00e4"}`)
}

func progress(t *testing.T, p *pair) {
	r, _ := p.call(t, "steps", `{}`, `"progressToken":"tok"`)
	var got []string
	for _, n := range r.Notes {
		m := mcptest.Parse(n)
		if m.Method == "notifications/progress" {
			got = append(got, mcptest.Text(m.Params, "progressToken")+string(mcptest.Member(m.Params, "progress")))
		}
	}
	if strings.Join(got, " ") != "tok1 tok2" {
		t.Errorf("got progress %q of %q", got, r.Notes)
	}
}

func logMessage(t *testing.T, p *pair) {
	r, _ := p.call(t, "chatty", `{}`, `"io.modelcontextprotocol/logLevel":"info"`)
	if all := string(bytes.Join(r.Notes, nil)); !strings.Contains(all, `"data":"heard"`) {
		t.Errorf("no log message in %q", all)
	}
}

const accepted = `{"action":"accept","content":{"n":1.50}}`

func elicit(rounds int) func(t *testing.T, p *pair) {
	return func(t *testing.T, p *pair) {
		want := strings.TrimSuffix(strings.Repeat(accepted+" ", rounds), " ")
		n := p.says(t, "elicit"+strconv.Itoa(rounds), `{}`, want)
		if p.modernAgent() && n != rounds {
			t.Errorf("%d rounds, want %d", n, rounds)
		}
	}
}

func sample(t *testing.T, p *pair) {
	p.says(t, "sample", `{"n":7}`, `{"role":"assistant","content":{"type":"text","text":"said"},"model":"m","stopReason":"endTurn"}`)
}

const rootsAnswer = `{"roots":[{"uri":"file:///home/ada","name":"w"}]}`

func roots(t *testing.T, p *pair) { p.says(t, "roots", `{}`, rootsAnswer) }

func both(t *testing.T, p *pair) { p.says(t, "both", `{}`, accepted+" "+rootsAnswer) }

// hear opens what the agent hears news on, and returns a function that waits
// for a notification that holds text.
func (p *pair) hear(t *testing.T, want string) (await func(method, text string, again ...func())) {
	t.Helper()
	lines := make(chan []byte, 1000)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	switch {
	case p.modernAgent():
		p.listen(t, ctx, want, lines)
	case p.stdioAgent:
		go forward(ctx, p.agent.Said(), lines)
	default:
		resp, err := p.agent.Get(ctx)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET: %v %v", resp, err)
		}
		go scan(resp.Body, lines)
	}
	return func(method, text string, again ...func()) {
		t.Helper()
		after, tick := time.After(limit), time.NewTicker(limit/5)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				for _, f := range again {
					f()
				}
			case b := <-lines:
				if m := mcptest.Parse(b); m.Method == method && strings.Contains(string(m.Params), text) {
					return
				}
			case <-after:
				t.Fatalf("no %s with %q", method, text)
			}
		}
	}
}

func forward(ctx context.Context, from <-chan []byte, to chan<- []byte) {
	for {
		select {
		case b := <-from:
			to <- b
		case <-ctx.Done():
			return
		}
	}
}

func scan(body io.ReadCloser, to chan<- []byte) {
	defer body.Close()
	for ev := mcptest.NewEvents(body); ev.Next(); {
		to <- bytes.Clone(ev.Data)
	}
}

// listen opens a subscriptions/listen of a modern agent and awaits its
// acknowledgement.
func (p *pair) listen(t *testing.T, ctx context.Context, want string, lines chan []byte) {
	t.Helper()
	id := `"listen-` + strconv.FormatInt(time.Now().UnixNano(), 36) + `"`
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":` + want + `,` + p.agent.Meta("") + `}}`
	if p.stdioAgent {
		if _, err := p.agent.Post(ctx, []byte(body), nil, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.agent.Notify(context.Background(), "notifications/cancelled", `"requestId":`+id)
		})
		go forward(ctx, p.agent.Said(), lines)
	} else {
		go scan(p.stream(t, ctx, body, "subscriptions/listen"), lines)
	}
	after := time.After(limit)
	for {
		select {
		case b := <-lines:
			if m := mcptest.Parse(b); m.Method == "notifications/subscriptions/acknowledged" && strings.Contains(string(b), id) {
				return
			}
		case <-after:
			t.Fatal("the subscription is not acknowledged")
		}
	}
}

// stream posts a request of a modern agent and returns its open answer.
func (p *pair) stream(t *testing.T, ctx context.Context, body, method string) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.agent.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": mcptest.Modern, "Mcp-Method": method} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		t.Fatalf("%s: %d %s", method, resp.StatusCode, b)
	}
	return resp.Body
}

func listChanged(t *testing.T, p *pair) {
	before := p.grown(t)
	await := p.hear(t, `{"toolsListChanged":true}`)
	p.says(t, "grow", `{}`, "grown")
	await("notifications/tools/list_changed", "")
	eventually(t, "the new tool", func() bool { return len(news(p.grown(t), before)) > 0 })
}

// news are the names that were not there before. What there was may be gone: agents
// see the lists of one process of several.
func news(now, before []string) []string {
	return slices.DeleteFunc(now, func(name string) bool { return slices.Contains(before, name) })
}

// grown returns the tools that grow added.
func (p *pair) grown(t *testing.T) (names []string) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	all, err := p.agent.List(ctx, "tools/list", "tools")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range all {
		if name := mcptest.Text(tool, "name"); strings.HasPrefix(name, p.tool("grown-")) {
			names = append(names, name)
		}
	}
	return names
}

func resourceUpdate(t *testing.T, p *pair) {
	await := p.hear(t, `{"resourceSubscriptions":["`+p.doc()+`"]}`)
	if !p.modernAgent() {
		p.do(t, "resources/subscribe", `"uri":"`+p.doc()+`"`)
		defer p.do(t, "resources/unsubscribe", `"uri":"`+p.doc()+`"`)
	}
	touch := func() { p.says(t, "touch", `{}`, "touched") }
	touch()
	// A busy server may hear of the subscription after the first touch.
	await("notifications/resources/updated", p.doc(), touch)
}

func (p *pair) do(t *testing.T, method, members string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r, err := p.agent.Do(ctx, method, members)
	if err != nil || r.Result == nil {
		t.Fatalf("%s: %v %.400s", method, err, r.Body)
	}
	return r.Result
}

// cancel has the agent give up a call, which the server must hear of.
func cancel(t *testing.T, p *pair) {
	before := p.cancelled(t)
	id := `"c-` + strconv.FormatInt(time.Now().UnixNano(), 36) + `"`
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":` + jsonOf(p.tool("wait")) + `,"arguments":{"n":60000},` + p.agent.Meta("") + `}}`
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	switch {
	case p.modernAgent() && !p.stdioAgent:
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.agent.URL, strings.NewReader(body))
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": mcptest.Modern, "Mcp-Method": "tools/call", "Mcp-Name": p.tool("wait")} {
			req.Header.Set(k, v)
		}
		go http.DefaultClient.Do(req)
		time.Sleep(300 * time.Millisecond) // the call is under way
		stop()
	default:
		go p.agent.Post(ctx, []byte(body), p.headers(), id)
		time.Sleep(300 * time.Millisecond)
		if err := p.agent.Notify(t.Context(), "notifications/cancelled", `"requestId":`+id); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the server to hear of the cancellation", func() bool { return p.cancelled(t) > before })
}

func (p *pair) headers() http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {p.agentVersion}, "Mcp-Session-Id": {p.agent.Session}}
}

func (p *pair) cancelled(t *testing.T) int {
	t.Helper()
	r, _ := p.call(t, "cancelled", `{}`, "")
	n, err := strconv.Atoi(r.Content())
	if err != nil {
		t.Fatalf("cancelled: %s", r.Body)
	}
	return n
}

// timeOut lets a call run into the server's own limit.
func timeOut(t *testing.T, p *pair) {
	before := p.cancelled(t)
	r, _ := p.call(t, "wait", `{"n":60000}`, "")
	if !r.IsToolError() || !strings.Contains(r.Content(), "MCPS-TIMEOUT") {
		t.Errorf("got %.400s", r.Body)
	}
	eventually(t, "the server to hear that nobody waits", func() bool { return p.cancelled(t) > before })
}

// task runs a call as a task and fetches what came of it.
func task(t *testing.T, p *pair) {
	if p.modernAgent() {
		modernTask(t, p)
		return
	}
	made := p.do(t, "tools/call", `"name":`+jsonOf(p.tool("job"))+`,"arguments":{},"task":{"ttl":60000}`)
	id := mcptest.Text(mcptest.Member(made, "task"), "taskId")
	if id == "" || strings.HasPrefix(id, "job-") {
		t.Fatalf("got task %s", made)
	}
	state := p.do(t, "tasks/get", `"taskId":`+jsonOf(id))
	if mcptest.Text(state, "status") != "completed" || mcptest.Text(state, "taskId") != id {
		t.Errorf("got state %s", state)
	}
	if done := p.do(t, "tasks/result", `"taskId":`+jsonOf(id)); !strings.Contains(string(done), `"job done"`) || !strings.Contains(string(done), id) {
		t.Errorf("got result %s", done)
	}
	p.do(t, "tasks/cancel", `"taskId":`+jsonOf(id))
}

func modernTask(t *testing.T, p *pair) {
	made := p.do(t, "tools/call", `"name":`+jsonOf(p.tool("job"))+`,"arguments":{}`)
	id := mcptest.Text(made, "taskId")
	if mcptest.Text(made, "resultType") != "task" || id == "" || strings.HasPrefix(id, "job-") {
		t.Fatalf("got task %s", made)
	}
	state := p.do(t, "tasks/get", `"taskId":`+jsonOf(id))
	if mcptest.Text(state, "status") != "completed" || mcptest.Text(state, "taskId") != id || !strings.Contains(string(state), `"job done"`) {
		t.Errorf("got state %s", state)
	}
	p.do(t, "tasks/cancel", `"taskId":`+jsonOf(id))
}

// eventually polls what another process comes to know.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}
