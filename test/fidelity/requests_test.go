package fidelity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func nameOf(i int) string { return fmt.Sprintf("tool%02d", i) }

func named(s, name string) string { return strings.ReplaceAll(s, "$N", name) }

// arguments must reach the server byte for byte.
var arguments = []string{
	`{}`,
	`{"n":9007199254740993,"d":1.0,"e":1e3,"f":-0,"long":3.14159265358979323846264338327950288}`,
	`{"z":1,"a":{"y":[],"b":null}}`,
	`{ "spaced" : [ 1 , 2 ] }`,
	`{"text":"\u0041\/ <>& Grüße 日本語"}`,
	`{"__proto__":{"x":1},"constructor":2}`,
	`{"_meta":{"mcp.dev/x":1},"name":"not the tool"}`,
}

// TestArguments compares what servers of every kind received.
func TestArguments(t *testing.T) {
	fake := &mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}
	eachPair(t, fake, func(t *testing.T, a *mcptest.Agent, _ string, _ bool) {
		for _, args := range arguments {
			r, err := a.Call(t.Context(), "echo", args)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Content(); got != args {
				t.Errorf("the server got %s, want %s", got, args)
			}
		}
	})
}

// TestUnknownParams holds that members beside name and arguments cross too.
func TestUnknownParams(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
	for _, v := range agentVersions {
		a := &mcptest.Agent{URL: s.URL, Version: v}
		if _, err := a.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		members := `"name":"mcp_u_echo","arguments":{"a":1},"x-vendor":{"n":9007199254740993,"d":1.0}`
		if _, err := a.Do(t.Context(), "tools/call", members); err != nil {
			t.Fatal(err)
		}
		seen := u.Seen("tools/call")
		got := string(mcptest.Member(seen[len(seen)-1].Params, "x-vendor"))
		if want := `{"n":9007199254740993,"d":1.0}`; got != want {
			t.Errorf("%s: x-vendor: got %q, want %q", v, got, want)
		}
	}
}

// TestIDs holds that an agent finds its answer whatever ids it uses.
func TestIDs(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
	for _, v := range agentVersions {
		a := &mcptest.Agent{URL: s.URL, Version: v}
		if _, err := a.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{`0`, `-1`, `9007199254740993`, `9223372036854775807`, `""`, `"a b"`, `"\u0041"`, `"é"`} {
			r, err := a.DoID(t.Context(), id, "tools/call", `"name":"mcp_u_echo","arguments":{}`)
			if err != nil || r.Content() != "{}" {
				t.Errorf("%s: id %s: %v, %s", v, id, err, r.Body)
			}
		}
	}
}

// TestNothingOfTheAgent holds that no header, token or cookie of the agent
// reaches a server.
func TestNothingOfTheAgent(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q, headers: {X-Ours: ours}}}", u.Start(t)))
	for _, v := range agentVersions {
		a := &mcptest.Agent{URL: s.URL, Version: v, Token: "canary-token", Header: map[string][]string{
			"Cookie": {"canary=1"}, "X-Canary": {"canary"}, "X-Forwarded-For": {"canary"}, "User-Agent": {"canary"},
			"Connection": {"X-Ours"}, "X-Ours": {"canary"}, "Traceparent": {"canary"},
		}}
		if _, err := a.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := a.Call(t.Context(), "mcp_u_echo", `{}`); err != nil || r.Content() != "{}" {
			t.Fatalf("%v %v", r, err)
		}
	}
	for _, r := range u.Seen("") {
		if got := fmt.Sprint(r.Header); strings.Contains(got, "canary") {
			t.Errorf("%s arrived with %s", r.Method, got)
		}
		if r.Header.Get("X-Ours") != "ours" {
			t.Errorf("%s arrived with X-Ours %q", r.Method, r.Header.Get("X-Ours"))
		}
	}
}
