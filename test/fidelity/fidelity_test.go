package fidelity

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func TestMain(m *testing.M) { os.Exit(mcptest.Run(m)) }

// servers are the ways in which one and the same set of answers is served.
var servers = []struct {
	name     string
	versions []string
	sse      bool
	stdio    bool
}{
	{name: "http-modern", versions: []string{mcptest.Modern}},
	{name: "http-legacy", versions: mcptest.LegacyVersions},
	{name: "sse-modern", versions: []string{mcptest.Modern}, sse: true},
	{name: "sse-legacy", versions: mcptest.LegacyVersions, sse: true},
	{name: "stdio-modern", versions: []string{mcptest.Modern}, stdio: true},
	{name: "stdio-legacy", versions: mcptest.LegacyVersions, stdio: true},
}

var agentVersions = []string{mcptest.Modern, mcptest.Legacy, "2024-11-05"}

// world is one sidecar before all servers.
func world(t *testing.T, cleaning bool, fake *mcptest.Upstream) *mcptest.Sidecar {
	t.Helper()
	var y strings.Builder
	fmt.Fprintf(&y, "policy: {cleaning: %v}\nmcp_servers:\n", cleaning)
	for _, s := range servers {
		u := &mcptest.Upstream{Tools: fake.Tools, Answers: fake.Answers, Versions: s.versions, SSE: s.sse}
		fmt.Fprintf(&y, "  %s:\n", s.name)
		if !s.stdio {
			fmt.Fprintf(&y, "    url: %q\n", u.Start(t))
			continue
		}
		command, env := u.Command(t)
		fmt.Fprintf(&y, "    command: %q\n    env: %s\n", command, jsonOf(env))
	}
	return mcptest.StartSidecar(t, y.String())
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// eachPair runs f for every server and agent version, with cleaning on and off.
func eachPair(t *testing.T, fake *mcptest.Upstream, f func(t *testing.T, a *mcptest.Agent, server string, cleaning bool)) {
	for _, cleaning := range []bool{true, false} {
		t.Run(fmt.Sprintf("cleaning=%v", cleaning), func(t *testing.T) {
			s := world(t, cleaning, fake)
			for _, srv := range servers {
				for _, v := range agentVersions {
					t.Run(srv.name+"/"+v, func(t *testing.T) {
						a := &mcptest.Agent{URL: s.URL + "/" + srv.name, Version: v}
						if _, err := a.Open(t.Context()); err != nil {
							t.Fatal(err)
						}
						f(t, a, srv.name, cleaning)
					})
				}
			}
		})
	}
}

// TestResults compares every answer on the wire.
func TestResults(t *testing.T) {
	fake := &mcptest.Upstream{Answers: map[string]string{}}
	for i, c := range crossings {
		name := fmt.Sprintf("case%02d", i)
		fake.Tools = append(fake.Tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		fake.Answers[name] = c.sent
	}
	eachPair(t, fake, func(t *testing.T, a *mcptest.Agent, _ string, cleaning bool) {
		for i, c := range crossings {
			r, err := a.Call(t.Context(), fmt.Sprintf("case%02d", i), `{}`)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if got, want := member(r), completed(c.want(cleaning, a.Version == mcptest.Modern), a); got != want {
				t.Errorf("%s\n got %s\nwant %s", c.name, got, want)
			}
		}
	})
}

// member is the answer as the raw member that a server would have sent.
func member(r *mcptest.Reply) string {
	switch {
	case r.Error != nil:
		return `"error":` + string(r.Error)
	case r.Result != nil:
		return `"result":` + string(r.Result)
	}
	return fmt.Sprintf("HTTP %d %s", r.Status, r.Body)
}

// completed adds the one member that the modern era demands of a result, and
// that servers of the older one do not know.
func completed(want string, a *mcptest.Agent) string {
	rest, ok := strings.CutPrefix(want, `"result":{`)
	if !ok || a.Version != mcptest.Modern || strings.Contains(want, `"resultType"`) {
		return want
	}
	return `"result":{"resultType":"complete",` + rest
}

// TestEraBound are answers that mean something in one era only.
func TestEraBound(t *testing.T) {
	fake := &mcptest.Upstream{
		Tools:   []string{`{"name":"task","inputSchema":{"type":"object"}}`},
		Answers: map[string]string{"task": legacyTask.sent},
	}
	s := world(t, true, fake)
	a := &mcptest.Agent{URL: s.URL + "/http-legacy", Version: mcptest.Legacy}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := a.Call(t.Context(), "task", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := member(r); got != legacyTask.sent && r.Error == nil && !r.IsToolError() {
		t.Errorf("%s: got %s, want it unchanged or refused aloud, never an empty success", legacyTask.name, got)
	}
}
