package hermes

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func TestMain(m *testing.M) { os.Exit(mcptest.Run(m)) }

func tool(name, extra string) string {
	return `{"name":"` + name + `","inputSchema":{"type":"object"}` + extra + `}`
}

// connect opens a session as Hermes does.
func connect(t *testing.T, url, server string) *mcptest.Hermes {
	t.Helper()
	h := &mcptest.Hermes{URL: url, Server: server}
	if err := h.Preflight(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// Line 1: HEAD and GET before any session are no HTML page, and an entry with
// static headers gets in without an auth challenge.
func TestLine01Preflight(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("a", "")}}
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	token := filepath.Join(dir, "token")
	for name, text := range map[string]string{file: "mcp_servers: {u: {url: \"" + u.Start(t) + "\"}}", token: "s3cret-token-of-this-test\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mcptest.StartServe(t, "--config", file, "--token-file", token)
	for _, tok := range []string{"", "s3cret-token-of-this-test"} {
		if err := (&mcptest.Hermes{URL: s.URL, Token: tok}).Preflight(t.Context()); err != nil {
			t.Errorf("token %q: %v", tok, err)
		}
	}
	h := &mcptest.Hermes{URL: s.URL + "/u", Token: "s3cret-token-of-this-test", Server: "u"}
	if _, err := h.Connect(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := (&mcptest.Hermes{URL: s.URL}).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without the token: %v, want 401", err)
	}
}

// Line 2: initialize with the version header on the very first POST is accepted,
// with every handshake version, and with one that nobody knows.
func TestLine02Initialize(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("a", "")}}
	s := mcptest.StartSidecar(t, "mcp_servers: {u: {url: \""+u.Start(t)+"\"}}")
	for _, v := range append([]string{"2025-01-01"}, mcptest.LegacyVersions...) {
		a := &mcptest.Agent{URL: s.URL, Version: v, Header: http.Header{"Mcp-Protocol-Version": {v}}}
		r, err := a.Do(t.Context(), "initialize", `"protocolVersion":"`+v+`","capabilities":{},"clientInfo":{"name":"h","version":"1"}`)
		if err != nil {
			t.Fatal(err)
		}
		got := mcptest.Text(r.Result, "protocolVersion")
		known := v != "2025-01-01"
		if known && got != v || !known && got != mcptest.Legacy && r.Code() != -32022 {
			t.Errorf("initialize %s: HTTP %d %s", v, r.Status, r.Body)
		}
	}
}

// Line 3: a ping is answered although every server is down or silent.
func TestLine03Ping(t *testing.T) {
	t.Parallel() // it starts slowly: one server never answers
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {down: {url: %q}, silent: {url: %q}, broken: {command: /does/not/exist}}", mcptest.Refused(t), mcptest.Blackhole(t)))
	for _, url := range []string{s.URL, s.URL + "/down", s.URL + "/silent", s.URL + "/broken"} {
		h := connect(t, url, "x")
		at := time.Now()
		if err := h.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if d := time.Since(at); d > 3*time.Second {
			t.Errorf("%s: ping took %v", url, d)
		}
	}
}

// Line 4: pages well under 10 MiB, at most 50 of them; readOnlyHint as the
// server said; ttlMs over 0 in the era that has it.
func TestLine04Lists(t *testing.T) {
	u := &mcptest.Upstream{}
	for i := range 900 {
		u.Tools = append(u.Tools, tool(fmt.Sprintf("t%03d", i), `,"description":"`+strings.Repeat("d", 30_000)+`"`))
	}
	u.Tools = append(u.Tools, tool("reads", `,"annotations":{"readOnlyHint":true}`), tool("writes", `,"annotations":{"readOnlyHint":false}`), tool("silent", `,"annotations":{}`), tool("bare", ""))
	u.PageSize = 100
	s := mcptest.StartSidecar(t, "list_wait: 30s\nmcp_servers: {u: {url: \""+u.Start(t)+"\"}}")
	h := connect(t, s.URL+"/u", "u")
	tools, err := h.Tools(t.Context())
	if err != nil || len(tools) != len(u.Tools) {
		t.Fatalf("%d tools, want %d: %v", len(tools), len(u.Tools), err)
	}
	sent := map[string]bool{}
	for _, def := range u.Tools {
		sent[def] = true
	}
	for _, got := range tools {
		if !sent[string(got.Raw)] {
			t.Errorf("%s is not as the server sent it: %.200s", got.Own, got.Raw)
		}
	}
	a := &mcptest.Agent{URL: s.URL + "/u"}
	r, err := a.Do(t.Context(), "tools/list", "")
	if err != nil || len(r.Body) > mcptest.HermesMaxBody/2 {
		t.Errorf("one page has %d bytes (%v)", len(r.Body), err)
	}
	if ttl := string(mcptest.Member(r.Result, "ttlMs")); ttl == "" || strings.HasPrefix(ttl, "0") || ttl[0] == '-' {
		t.Errorf("ttlMs is %q", ttl)
	}
}

// Line 5: no result is larger than what Hermes reads: it would tear down the
// whole session. A larger one is an error of that call, and says so.
func TestLine05Sizes(t *testing.T) {
	u := &mcptest.Upstream{
		Tools: []string{tool("large", ""), tool("fits", "")},
		Answers: map[string]string{
			"large": `"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 12<<20) + `"}]}`,
			"fits":  `"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1_900_000) + `"}]}`,
		},
	}
	s := mcptest.StartSidecar(t, "mcp_servers: {u: {url: \""+u.Start(t)+"\"}}")
	h := connect(t, s.URL+"/u", "u")
	r, err := h.Call(t.Context(), "large", "{}")
	if err != nil || !r.IsToolError() {
		t.Errorf("a result of 12 MiB: %v", err)
	}
	if r, err = h.Call(t.Context(), "fits", "{}"); err != nil || len(r.Content()) != 1_900_000 {
		t.Errorf("a result that fits: %v", err)
	}
}

// longEnv asks for tests that take longer than make test may.
const longEnv = "MCP_SIDECAR_LONG"

// Line 6: a long call is never silent for more than 30 seconds.
func TestLine06Silence(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("part of make test-long: it takes a minute of real time")
	}
	u := &mcptest.Upstream{Tools: []string{tool("slow", "")}, Delays: map[string]time.Duration{"slow": 65 * time.Second}}
	s := mcptest.StartSidecar(t, "mcp_servers: {u: {url: \""+u.Start(t)+"\"}}")
	h := connect(t, s.URL+"/u", "u")
	if d, err := h.Silence(t.Context(), "slow", "{}"); err != nil || d > 32*time.Second {
		t.Errorf("silent for %v, %v", d, err)
	}
}

// Line 7: an unknown session is a 404 whose text says "session not found".
func TestLine07LostSession(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("a", "")}}
	s := mcptest.StartSidecar(t, "mcp_servers: {u: {url: \""+u.Start(t)+"\"}}")
	h := connect(t, s.URL+"/u", "u")
	gone := &mcptest.Agent{URL: s.URL + "/u", Version: mcptest.Legacy, Session: h.Session()}
	if resp, err := gone.Delete(t.Context()); err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("DELETE: %v %v", resp, err)
	}
	if _, err := h.Call(t.Context(), "a", "{}"); !errors.Is(err, mcptest.ErrSessionExpired) {
		t.Errorf("got %v, want what tells Hermes to reconnect", err)
	}
	if _, err := h.Connect(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err := h.Call(t.Context(), "a", "{}"); err != nil || r.IsToolError() {
		t.Errorf("after the reconnect: %v", err)
	}
}

var golden = []struct{ server, tool, want string }{
	{"filesystem", "read_file", "mcp_filesystem_read_file"},
	{"github", "create-issue", "mcp_github_create_issue"},
	{"my-api", "query.data", "mcp_my_api_query_data"},
	{"my-api", "list-items.v2", "mcp_my_api_list_items_v2"},
}

// goldenWorld serves the golden servers and tools.
func goldenWorld(t *testing.T, head string) *mcptest.Sidecar {
	t.Helper()
	ups := map[string]*mcptest.Upstream{}
	y := head + "mcp_servers:\n"
	for _, g := range golden {
		if ups[g.server] == nil {
			ups[g.server] = &mcptest.Upstream{}
			y += fmt.Sprintf("  %s: {url: %q}\n", g.server, ups[g.server].Start(t))
		}
		ups[g.server].Tools = append(ups[g.server].Tools, tool(g.tool, ""))
	}
	return mcptest.StartSidecar(t, y)
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

// Line 12: names of the aggregate are such that Hermes' own mapping changes
// nothing, and stay unique after it.
func TestLine12Names(t *testing.T) {
	s := goldenWorld(t, "")
	tools, err := connect(t, s.URL, "sidecar").Tools(t.Context())
	if err != nil || len(tools) != len(golden) {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	seen := map[string]bool{}
	for _, tl := range tools {
		if !plain.MatchString(tl.Own) || seen[tl.Name] {
			t.Errorf("%s becomes %s", tl.Own, tl.Name)
		}
		seen[tl.Name] = true
	}
}

// Line 13: the seed's names, as the aggregate shows them, and as Hermes makes
// them from one entry per server.
func TestLine13GoldenNames(t *testing.T) {
	for _, tt := range []struct{ naming, head string }{
		{"mcp_", ""},
		{"mcp__", "naming: \"mcp__{server}__{tool}\"\n"},
	} {
		s := goldenWorld(t, tt.head)
		a := &mcptest.Agent{URL: s.URL}
		all, err := a.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range golden {
			want := g.want
			if tt.naming == "mcp__" {
				want = "mcp__" + mcptest.HermesName(g.server) + "__" + mcptest.HermesName(g.tool)
			}
			if all[want] == nil {
				t.Errorf("%s of %s is not listed as %s", g.tool, g.server, want)
			}
			if tt.head == "" {
				ownNames(t, s, g.server, g.want)
			}
		}
	}
}

// ownNames holds that one entry per server yields the seed's name.
func ownNames(t *testing.T, s *mcptest.Sidecar, server, want string) {
	t.Helper()
	tools, err := connect(t, s.URL+"/"+server, server).Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tl := range tools {
		if tl.Name == want {
			return
		}
	}
	t.Errorf("Hermes at /mcp/%s finds no %s", server, want)
}
