//go:build npm

package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// blocks are the content of a tool's result.
func (p *party) blocks(t *testing.T, tool, arguments string) []json.RawMessage {
	t.Helper()
	r := p.tool(t, tool, arguments)
	if r.Result == nil || r.IsToolError() {
		t.Fatalf("%s: %.400s", tool, r.Raw)
	}
	return mcptest.Elements(mcptest.Member(r.Result, "content"))
}

func annotated(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	got := p.blocks(t, "get-annotated-message", `{"messageType":"error","includeImage":true}`)
	if len(got) != 2 || string(mcptest.Member(got[0], "annotations")) != `{"audience":["user","assistant"],"priority":1}` ||
		string(mcptest.Member(got[1], "annotations")) != `{"audience":["user"],"priority":0.5}` || mcptest.Text(got[1], "mimeType") != "image/png" {
		t.Errorf("got %.600s", got)
	}
}

func embeds(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	for kind, member := range map[string]string{"Text": "text", "Blob": "blob"} {
		got := p.blocks(t, "get-resource-reference", `{"resourceType":"`+kind+`","resourceId":4}`)
		if len(got) != 3 {
			t.Fatalf("got %s", got)
		}
		res := mcptest.Member(got[1], "resource")
		if mcptest.Text(res, "uri") != "demo://resource/dynamic/"+member+"/4" || mcptest.Text(res, member) == "" {
			t.Errorf("got %s", got[1])
		}
	}
}

// follows reads what the links of a result point to.
func follows(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	n := 0
	for _, b := range p.blocks(t, "get-resource-links", `{"count":3}`) {
		if mcptest.Text(b, "type") == "resource_link" {
			n++
			p.reads(t, mcptest.Text(b, "uri"))
		}
	}
	if n != 3 {
		t.Errorf("%d links", n)
	}
}

// reads reads one resource and returns its only content.
func (p *party) reads(t *testing.T, uri string) json.RawMessage {
	t.Helper()
	r := p.do(t, "resources/read", `"uri":`+jsonOf(uri))
	got := mcptest.Elements(mcptest.Member(r.Result, "contents"))
	if len(got) != 1 || mcptest.Text(got[0], "uri") != uri {
		t.Fatalf("read %s: %.400s", uri, r.Raw)
	}
	return got[0]
}

// zips reads a resource that exists only where the tool ran.
func zips(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	got := p.blocks(t, "gzip-file-as-resource", `{"name":`+jsonOf(p.name+".gz")+`,"data":"data:text/plain,hello"}`)
	if len(got) != 1 || mcptest.Text(got[0], "type") != "resource_link" {
		t.Fatalf("got %s", got)
	}
	if read := p.reads(t, mcptest.Text(got[0], "uri")); !strings.HasPrefix(mcptest.Text(read, "blob"), "H4sI") {
		t.Errorf("got %s", read)
	}
}

func expands(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	all, err := p.List(t.Context(), "resources/templates/list", "resourceTemplates")
	if err != nil || len(all) != 2 {
		t.Errorf("templates: %v %s", err, all)
	}
	if got := p.reads(t, "demo://resource/dynamic/text/12"); !strings.Contains(mcptest.Text(got, "text"), "Resource 12:") {
		t.Errorf("got %s", got)
	}
	if r := p.do(t, "resources/read", `"uri":"demo://resource/dynamic/text/none"`); r.Error == nil {
		t.Errorf("what the template refuses: %s", r.Raw)
	}
}

func completes(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	for _, c := range []struct{ members, want string }{
		{`"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"department","value":"S"}`, `["Sales","Support"]`},
		{`"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"name","value":"E"},"context":{"arguments":{"department":"Sales"}}`, `["Eve"]`},
		{`"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},"argument":{"name":"resourceId","value":"7"}`, `["7"]`},
	} {
		r := p.do(t, "completion/complete", c.members)
		if got := mcptest.Member(mcptest.Member(r.Result, "completion"), "values"); string(got) != c.want {
			t.Errorf("%s: got %s", c.members, r.Raw)
		}
	}
}

func reports(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	r := p.tool(t, "trigger-long-running-operation", `{"duration":0.2,"steps":4}`, p.Meta(`"progressToken":"tok"`))
	var got []string
	for _, n := range r.Notes {
		if m := mcptest.Parse(n); m.Method == "notifications/progress" && mcptest.Text(m.Params, "progressToken") == "tok" {
			got = append(got, string(mcptest.Member(m.Params, "progress")))
		}
	}
	if strings.Join(got, " ") != "1 2 3 4" || !strings.Contains(r.Content(), "Steps: 4") {
		t.Errorf("progress %q, %s", got, r.Raw)
	}
}

// givesUp cancels a call at its first progress, as its era does. The agent hears
// no more of it, and the next call, which may need the same process, need not wait.
func givesUp(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const id = `"long"`
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"trigger-long-running-operation","arguments":{"duration":60,"steps":600},` + p.Meta(`"progressToken":"give-up"`) + `}}`
	stream := p.post(t, ctx, body, "tools/call", "trigger-long-running-operation")
	defer stream.Close()
	ev := mcptest.NewEvents(stream)
	if !nextMessage(ev) || !bytes.Contains(ev.Data, []byte(`"give-up"`)) {
		t.Fatalf("no progress but %s", ev.Data)
	}
	if p.Version == mcptest.Modern {
		cancel()
	} else if err := p.Notify(t.Context(), "notifications/cancelled", `"requestId":`+id); err != nil {
		t.Fatal(err)
	}
	for nextMessage(ev) {
		if m := mcptest.Parse(ev.Data); string(m.ID) == id {
			t.Errorf("a cancelled call is answered: %s", ev.Data)
		}
	}
	start := time.Now()
	p.says(t, "trigger-sampling-request", `{"prompt":"x"}`, "said by "+p.name)
	if d := time.Since(start); d > patience/2 {
		t.Errorf("the next call took %v", d)
	}
	p.questions("")
}

// nextMessage skips the events that only tell where the stream may be resumed.
func nextMessage(ev *mcptest.Events) bool {
	for ev.Next() {
		if len(ev.Data) > 0 {
			return true
		}
	}
	return false
}

// post posts a request and returns its open stream.
func (p *party) post(t *testing.T, ctx context.Context, body, method, name string) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	h := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": p.Version}
	if p.Version == mcptest.Modern {
		h["Mcp-Method"], h["Mcp-Name"] = method, name
	} else {
		h["Mcp-Session-Id"] = p.Session
	}
	for k, v := range h {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		resp.Body.Close()
		t.Fatalf("%s: %d %s", method, resp.StatusCode, b)
	}
	return resp.Body
}

// subscribes hears of updates that the server sends at once when they are
// switched on, and then every five seconds.
//
// It updates only who subscribed in the session, or the process, that it was
// switched on in.
func subscribes(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	const uri = "demo://resource/static/document/features.md"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stream io.ReadCloser
	if p.Version == mcptest.Modern {
		body := `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[` + jsonOf(uri) + `]},` + p.Meta("") + `}}`
		stream = p.post(t, ctx, body, "subscriptions/listen", "")
	} else {
		resp, err := p.Get(ctx)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET: %v %v", resp, err)
		}
		stream = resp.Body
		if r := p.do(t, "resources/subscribe", `"uri":`+jsonOf(uri)); r.Result == nil {
			t.Fatalf("subscribe: %s", r.Raw)
		}
	}
	defer stream.Close()
	ev := mcptest.NewEvents(stream)
	if p.Version == mcptest.Modern && (!nextMessage(ev) || !bytes.Contains(ev.Data, []byte("subscriptions/acknowledged"))) {
		t.Fatalf("not acknowledged: %s", ev.Data)
	}
	p.says(t, "toggle-subscriber-updates", `{}`, "Started simulated")
	defer p.tool(t, "toggle-subscriber-updates", `{}`)
	for nextMessage(ev) {
		if m := mcptest.Parse(ev.Data); m.Method == "notifications/resources/updated" && mcptest.Text(m.Params, "uri") == uri {
			return
		}
	}
	t.Error("no update came")
}

// researches runs a task that asks in the middle. Its id is the program's, and
// the question arrives with the request for the result.
func researches(t *testing.T, _ *mcptest.Sidecar, _ string, p *party) {
	const args = `{"topic":"ice","ambiguous":true}`
	if p.Version == mcptest.Modern {
		// The tasks of the newer era are another protocol: the server says what is missing.
		if r := p.tool(t, "simulate-research-query", args); !r.IsToolError() || !strings.Contains(r.Content(), "task augmentation") {
			t.Errorf("got %s", r.Raw)
		}
		return
	}
	made := p.tool(t, "simulate-research-query", args, `"task":{"ttl":60000}`)
	id := mcptest.Text(mcptest.Member(made.Result, "task"), "taskId")
	if len(id) < 40 {
		t.Fatalf("got %s", made.Raw)
	}
	member := `"taskId":` + jsonOf(id)
	if r := p.do(t, "tasks/get", member); mcptest.Text(r.Result, "status") != "working" || mcptest.Text(r.Result, "taskId") != id {
		t.Errorf("tasks/get: %s", r.Raw)
	}
	if r := p.do(t, "tasks/result", member); !strings.Contains(r.Content(), "# Research Report: ice (historical)") {
		t.Errorf("tasks/result: %.600s", r.Raw)
	}
	if asked := p.questions("elicitation/create"); len(asked) != 1 || strings.Count(asked[0], id) > 1 {
		t.Errorf("asked %s", asked)
	}
	if r := p.do(t, "tasks/get", member); mcptest.Text(r.Result, "status") != "completed" {
		t.Errorf("tasks/get: %s", r.Raw)
	}
	p.cancelsTask(t, fmt.Sprintf(`{"topic":%s}`, jsonOf(p.name)))
}

func (p *party) cancelsTask(t *testing.T, args string) {
	t.Helper()
	made := p.tool(t, "simulate-research-query", args, `"task":{"ttl":60000}`)
	member := `"taskId":` + string(mcptest.Member(mcptest.Member(made.Result, "task"), "taskId"))
	if r := p.do(t, "tasks/cancel", member); mcptest.Text(r.Result, "status") != "cancelled" {
		t.Errorf("tasks/cancel: %s", r.Raw)
	}
}
