//go:build npm

package parts

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A party is an agent that answers what servers ask.
type party struct {
	*mcptest.Agent

	mu    sync.Mutex
	asked []string
}

// join opens an agent of a version at a server's own endpoint.
func join(t *testing.T, s *mcptest.Sidecar, server, version string) *party {
	t.Helper()
	p := &party{}
	p.Agent = &mcptest.Agent{URL: s.URL + "/" + server, Version: version, Capabilities: `{"sampling":{},"elicitation":{"form":{}},"roots":{}}`, Answer: p.answer}
	if _, err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *party) answer(method string, _ []byte) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, method)
	switch method {
	case "elicitation/create":
		return `"result":{"action":"accept","content":{"name":"Ada","integer":7}}`
	case "sampling/createMessage":
		return `"result":{"role":"assistant","content":{"type":"text","text":"said by the agent"},"model":"m","stopReason":"endTurn"}`
	case "roots/list":
		return `"result":{"roots":[{"uri":"file:///home/ada/w","name":"w"}]}`
	}
	return `"error":{"code":-32601,"message":"no such question"}`
}

// says calls a tool through all questions; its result must hold want.
func (p *party) says(t *testing.T, tool, arguments, want string, more ...string) *mcptest.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	members := strings.Join(append([]string{`"name":` + jsonOf(tool) + `,"arguments":` + arguments}, more...), ",")
	r, _, err := p.Converse(ctx, "tools/call", members)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if r.IsToolError() || !strings.Contains(string(r.Result), want) {
		t.Errorf("%s: no %q in %.600s", tool, want, r.Raw)
	}
	return r
}

// TestOldTransport: the reference server over HTTP with SSE, of 2024-11-05, as the
// TypeScript SDK serves it; named as such, and found out.
func TestOldTransport(t *testing.T) {
	t.Parallel()
	port := newPort(t)
	server := startEverything(t, "sse", port)
	url := "http://" + server.addr + "/sse"
	s := mcptest.StartSidecar(t, fmt.Sprintf(`list_wait: 30s
mcp_servers:
  named: {url: %[1]q, transport: sse, connect_timeout: 30s, %[2]s}
  found: {url: %[1]q, connect_timeout: 30s, %[2]s}
  alone: {url: %[1]q, transport: sse, isolation: per_session, connect_timeout: 30s, %[2]s}
`, url, "lifecycle: {retry_pause: 0.1, retry_pause_max: 1, probe_interval: 1}, sampling: {max_rpm: 1000}"))
	for _, name := range []string{"named", "found", "alone"} {
		for _, version := range []string{mcptest.Legacy, mcptest.Modern} {
			t.Run(name+"/"+version, func(t *testing.T) { oldFeatures(t, s, name, version) })
		}
	}
	t.Run("restart", func(t *testing.T) {
		old := join(t, s, "named", mcptest.Legacy)
		server.kill()
		for _, name := range []string{"named", "found"} {
			if r := call(t, &mcptest.Agent{URL: s.URL}, "mcp_"+name+"_echo", `{"message":"x"}`); !r.IsToolError() {
				t.Errorf("%s answers, but is dead: %.600s", name, r.Body)
			}
		}
		startEverything(t, "sse", port)
		a := &mcptest.Agent{URL: s.URL}
		for _, name := range []string{"named", "found"} {
			began := time.Now()
			served(t, a, "mcp_"+name+"_echo", `{"message":"back"}`, "Echo: back")
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s is served after %v, want its probe interval of 1s", name, took)
			}
		}
		old.says(t, "echo", `{"message":"same session"}`, "Echo: same session")
	})
}

func oldFeatures(t *testing.T, s *mcptest.Sidecar, server, version string) {
	p := join(t, s, server, version)
	tools, err := p.Tools(t.Context())
	if err != nil || len(tools) < 15 {
		t.Errorf("%v: %d tools", err, len(tools))
	}
	p.says(t, "echo", `{"message":"grüße"}`, "Echo: grüße")
	progresses(t, &mcptest.Agent{URL: p.URL, Version: version})
	p.says(t, "trigger-elicitation-request", `{}`, "- Name: Ada")
	p.says(t, "trigger-sampling-request", `{"prompt":"x"}`, "said by the agent")
	if got := strings.Join(p.asked, " "); !strings.Contains(got, "elicitation/create") || !strings.Contains(got, "sampling/createMessage") {
		t.Errorf("asked %q", got)
	}
	subscribes(t, p)
}

// progresses follows a call of an agent that is asked nothing: of one that is, some
// progress may belong to an earlier answer.
func progresses(t *testing.T, a *mcptest.Agent) {
	t.Helper()
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := a.Do(t.Context(), "tools/call", `"name":"trigger-long-running-operation","arguments":{"duration":0.2,"steps":4},`+a.Meta(`"progressToken":"tok"`))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(bytes.Join(r.Notes, nil), []byte(`"notifications/progress"`)); n != 4 || !strings.Contains(r.Content(), "Steps: 4") {
		t.Errorf("%d notifications of progress: %s", n, r.Body)
	}
}

// subscribes hears of an update that the server sends when it is told to.
func subscribes(t *testing.T, p *party) {
	t.Helper()
	const uri = "demo://resource/static/document/features.md"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp := p.listen(t, ctx, uri)
	defer resp.Body.Close()
	events := mcptest.NewEvents(resp.Body)
	if p.Version == mcptest.Modern {
		for events.Next() && !bytes.Contains(events.Data, []byte("subscriptions/acknowledged")) {
		}
	}
	p.says(t, "toggle-subscriber-updates", `{}`, "Started simulated")
	defer p.says(t, "toggle-subscriber-updates", `{}`, "Stopped")
	for events.Next() {
		if m := mcptest.Parse(events.Data); m.Method == "notifications/resources/updated" && mcptest.Text(m.Params, "uri") == uri {
			return
		}
	}
	t.Errorf("no update came: %v", ctx.Err())
}

// listen subscribes to a resource and returns the stream that updates come on.
func (p *party) listen(t *testing.T, ctx context.Context, uri string) *http.Response {
	t.Helper()
	if p.Version != mcptest.Modern {
		resp, err := p.Get(ctx)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET: %v %v", resp, err)
		}
		if r, err := p.Do(ctx, "resources/subscribe", `"uri":`+jsonOf(uri)); err != nil || r.Result == nil {
			t.Fatalf("subscribe: %v %s", err, r.Raw)
		}
		return resp
	}
	body := `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[` + jsonOf(uri) + `]},` + p.Meta("") + `}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": p.Version, "Mcp-Method": "subscriptions/listen"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("subscriptions/listen: %v %v", resp, err)
	}
	return resp
}
