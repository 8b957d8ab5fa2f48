package hermes

import (
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// Line 8: a server that goes down answers fast and by name, its tools stay
// listed, and the other servers' endpoints do not notice.
func TestLine08Down(t *testing.T) {
	good := &mcptest.Upstream{Tools: []string{tool("a", "")}}
	bad := &mcptest.Upstream{Tools: []string{tool("a", "")}}
	dying := httptest.NewServer(bad)
	defer dying.Close()
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {good: {url: %q}, bad: {url: %q}}", good.Start(t), dying.URL))
	atGood, atBad := connect(t, s.URL+"/good", "good"), connect(t, s.URL+"/bad", "bad")
	if _, err := atBad.Call(t.Context(), "a", "{}"); err != nil {
		t.Fatal(err)
	}
	dying.CloseClientConnections()
	dying.Close()
	for range 3 {
		at := time.Now()
		r, err := atBad.Call(t.Context(), "a", "{}")
		if err != nil || !r.IsToolError() || !strings.Contains(r.Content(), "bad") || !strings.Contains(r.Content(), "MCPS-") {
			t.Fatalf("a call to a dead server: %v %v", r, err)
		}
		if d := time.Since(at); d > 5*time.Second {
			t.Errorf("it took %v", d)
		}
	}
	if _, err := atBad.Call(t.Context(), "a", "{}"); err != mcptest.ErrBreakerOpen {
		t.Errorf("Hermes' own breaker: %v", err)
	}
	if r, err := atGood.Call(t.Context(), "a", "{}"); err != nil || r.IsToolError() {
		t.Errorf("the other server: %v", err)
	}
	if tools, err := atBad.Tools(t.Context()); err != nil || len(tools) != 1 {
		t.Errorf("the dead server lists %d tools, %v", len(tools), err)
	}
}

// Line 9: a burst of changes at a server reaches the agent as few
// notifications, after which the list is the new one.
func TestLine09Debounce(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a", "")}, Notes: map[string][]string{
		"a": slices.Repeat([]string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, 30),
	}}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
	a := &mcptest.Agent{URL: s.URL + "/u", Version: mcptest.Legacy}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	resp, err := a.Get(t.Context())
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("GET: %v %v", resp, err)
	}
	defer resp.Body.Close()
	changes := make(chan string, 100)
	go changed(resp.Body, changes)
	u.SetTools(tool("a", ""), tool("b", ""))
	if _, err := a.Call(t.Context(), "a", "{}"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changes:
	case <-time.After(10 * time.Second):
		t.Fatal("no list_changed came")
	}
	waitFor(t, "the new list", func() bool {
		tools, err := a.Tools(t.Context())
		return err == nil && len(tools) == 2
	})
	if n := len(changes) + 1; n > 3 {
		t.Errorf("30 changes in a burst came as %d notifications", n)
	}
}

// TestStandingStream is the same for a change that comes while no call runs.
func TestStandingStream(t *testing.T) {
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a", "")}}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
	waitFor(t, "the sidecar to listen at the server", func() bool {
		return u.Push(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"x"}}`) > 0
	})
	u.SetTools(tool("a", ""), tool("b", ""))
	u.Push(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	a := &mcptest.Agent{URL: s.URL + "/u", Version: mcptest.Legacy}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new list", func() bool {
		tools, err := a.Tools(t.Context())
		return err == nil && len(tools) == 2
	})
}

func changed(body io.Reader, changes chan<- string) {
	for e := mcptest.NewEvents(body); e.Next(); {
		if m := mcptest.Parse(e.Data); m.Method == "notifications/tools/list_changed" {
			changes <- m.Method
		}
	}
}

// waitFor polls what the program gives no event for.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited 10 s for %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Line 10: a question comes while its call runs, on the stream of that call. A
// form that is accepted empty goes on as it is, which the log says; a link is
// declined.
func TestLine10Elicitation(t *testing.T) {
	form := mcptest.Question{Method: "elicitation/create", Params: `{"message":"Deploy?","requestedSchema":{"type":"object","properties":{"env":{"type":"string"}},"required":["env"]}}`}
	link := mcptest.Question{Method: "elicitation/create", Params: `{"mode":"url","message":"Sign in","url":"https://login.example/a","elicitationId":"e1"}`}
	for _, version := range []string{mcptest.Legacy, mcptest.Modern} {
		t.Run(version, func(t *testing.T) {
			u := &mcptest.Upstream{Versions: []string{version}, Tools: []string{tool("form", ""), tool("link", "")},
				Asks: map[string][][]mcptest.Question{"form": {{form}}, "link": {{link}}}}
			s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
			h := connect(t, s.URL+"/u", "u")
			for name, want := range map[string]string{"form": `{"action":"accept","content":{}}`, "link": `{"action":"decline"}`} {
				r, err := h.Call(t.Context(), name, "{}")
				if err != nil || r.Content() != want || asked(r) != 1 {
					t.Errorf("%s: the server was told %q, %d questions came on the call's stream, %v", name, r.Content(), asked(r), err)
				}
			}
			if n := len(h.Asked()); n != 2 {
				t.Errorf("%d questions came, want 2", n)
			}
			waitFor(t, "the log to name what is missing", func() bool { return strings.Contains(s.Log(), "odd answer to a question") })
		})
	}
}

// asked counts the questions that came before an answer.
func asked(r *mcptest.Reply) (n int) {
	for _, note := range r.Notes {
		if m := mcptest.Parse(note); m.ID != nil && m.Method == "elicitation/create" {
			n++
		}
	}
	return n
}

// Line 11: what the program declares to servers has no tools inside sampling.
func TestLine11Sampling(t *testing.T) {
	ask := mcptest.Question{Method: "sampling/createMessage", Params: `{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":10}`}
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a", "")}, Asks: map[string][][]mcptest.Question{"a": {{ask}}}}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
	h := connect(t, s.URL+"/u", "u")
	if r, err := h.Call(t.Context(), "a", "{}"); err != nil || !strings.Contains(r.Content(), "said") {
		t.Errorf("the server was told %q, %v", r.Content(), err)
	}
	offered := 0
	for _, m := range u.Seen("initialize") {
		caps := mcptest.Member(m.Params, "capabilities")
		sampling := mcptest.Member(caps, "sampling")
		if sampling != nil {
			offered++
		}
		if mcptest.Member(sampling, "tools") != nil {
			t.Errorf("declared %s", caps)
		}
	}
	if offered != 2 { // one that reads what agents see that can answer, and the agent's own
		t.Errorf("sampling was offered on %d connections, want 2", offered)
	}
}
