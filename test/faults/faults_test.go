package faults

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

func TestMain(m *testing.M) {
	os.Setenv(canaryEnv, canary)
	flag.Parse()
	flag.Set("test.parallel", "8") // the tests wait for servers more than they compute
	os.Exit(evil.Run(m))
}

// cases are all single faults, by the name of the tool that shows each.
func cases(t *testing.T) map[string]mcptest.Fault {
	all := map[string]mcptest.Fault{}
	for name, f := range mcptest.Faults {
		all[name] = f
	}
	for _, code := range mcptest.HTTPFailures {
		all[fmt.Sprintf("status %d", code)] = mcptest.Status(code, "no such luck")
	}
	elsewhere := (&mcptest.Upstream{Tools: []string{tool("x")}}).Start(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		all[fmt.Sprintf("redirect %d", code)] = mcptest.Redirect(code, elsewhere)
	}
	all["metadata redirect"] = mcptest.Redirect(307, "http://169.254.169.254/latest/meta-data/")
	return all
}

func tool(name string) string {
	return `{"name":"` + name + `","inputSchema":{"type":"object"}}`
}

// TestOneCall injects every fault into one call, for servers of both eras. The
// next call of the same server works, and so does the other server throughout.
func TestOneCall(t *testing.T) {
	for era, versions := range map[string][]string{"modern": {mcptest.Modern}, "legacy": mcptest.LegacyVersions} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			all := cases(t)
			bad := &mcptest.Upstream{Versions: versions, Tools: []string{tool("fine")}, Faults: map[string]mcptest.Fault{}}
			for name, f := range all {
				bad.Tools = append(bad.Tools, tool(plain(name)))
				bad.Faults[plain(name)] = f
			}
			good := &mcptest.Upstream{Tools: []string{tool("fine")}}
			s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers:\n  good: {url: %q}\n  bad: {url: %q, timeout: 10s}\n", good.Start(t), bad.Start(t)))
			a := &mcptest.Agent{URL: s.URL}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				t.Run(name, func(t *testing.T) { inject(t, a, name) })
			}
		})
	}
}

func inject(t *testing.T, a *mcptest.Agent, name string) {
	at := time.Now()
	r, err := a.Call(t.Context(), "mcp_bad_"+plain(name), "{}")
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(at); d > 12*time.Second {
		t.Errorf("it took %v", d)
	}
	if !r.IsToolError() || !strings.Contains(r.Content(), "bad") {
		t.Errorf("HTTP %d %.300s, want a tool error that names the server", r.Status, r.Body)
	}
	if len(r.Body) > 10_000 {
		t.Errorf("the agent gets %d bytes: %.300s", len(r.Body), r.Body)
	}
	if r, err := a.Call(t.Context(), "mcp_good_fine", "{}"); err != nil || r.Content() != "{}" {
		t.Errorf("the other server: %v %v", r, err)
	}
	waitFine(t, a)
}

// waitFine gives the server the time that a Retry-After or a reconnect takes.
func waitFine(t *testing.T, a *mcptest.Agent) {
	t.Helper()
	var last *mcptest.Reply
	for limit := time.Now().Add(15 * time.Second); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		r, err := a.Call(t.Context(), "mcp_bad_fine", "{}")
		if err != nil {
			t.Fatal(err)
		}
		if r.Content() == "{}" {
			return
		}
		last = r
	}
	t.Errorf("15 s later the server still answers %s", last.Raw)
}

// plain makes a tool's name of a fault's.
func plain(name string) string { return mcptest.HermesName(name) }

// TestEcho holds that a server which repeats what we sent it does not carry our
// credentials to the agent, nor into the log.
func TestEcho(t *testing.T) {
	const secret = "s3cret-for-the-server-only"
	u := &mcptest.Upstream{Faults: map[string]mcptest.Fault{}}
	for _, code := range []int{400, 401, 403, 500} {
		name := fmt.Sprintf("status%d", code)
		u.Tools = append(u.Tools, tool(name))
		u.Faults[name] = func(w http.ResponseWriter, r *http.Request, _ *mcptest.Message) {
			w.Header().Set("WWW-Authenticate", `Bearer error_description="`+r.Header.Get("Authorization")+`"`)
			http.Error(w, "refused: "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Key"), code)
		}
	}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q, headers: {Authorization: \"Bearer %s\", X-Key: %s}}}", u.Start(t), secret, secret), "-v")
	a := &mcptest.Agent{URL: s.URL}
	for name := range u.Faults {
		r, err := a.Call(t.Context(), "mcp_u_"+name, "{}")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(r.Body), secret) {
			t.Errorf("%s: the agent gets %s", name, r.Body)
		}
	}
	for line := range strings.SplitSeq(s.Log(), "\n") {
		if strings.Contains(line, secret) {
			t.Errorf("the log has %.300s", line)
		}
	}
}

// TestBulkhead holds that a server which never answers delays no other.
func TestBulkhead(t *testing.T) {
	hung := &mcptest.Upstream{Tools: []string{tool("hang")}, Faults: map[string]mcptest.Fault{"hang": mcptest.Hang}}
	good := &mcptest.Upstream{Tools: []string{tool("fine")}}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers:\n  good: {url: %q, supports_parallel_tool_calls: true}\n  hung: {url: %q, timeout: 5s, supports_parallel_tool_calls: true}\n", good.Start(t), hung.Start(t)))
	a := &mcptest.Agent{URL: s.URL}
	done := make(chan *mcptest.Reply, 80)
	for range cap(done) {
		go func() {
			r, _ := a.Call(t.Context(), "mcp_hung_hang", "{}")
			done <- r
		}()
	}
	for range 100 {
		at := time.Now()
		if r, err := a.Call(t.Context(), "mcp_good_fine", "{}"); err != nil || r.Content() != "{}" {
			t.Fatalf("%v %v", r, err)
		}
		if d := time.Since(at); d > 3*time.Second {
			t.Errorf("a call to the healthy server took %v", d)
		}
	}
	for range cap(done) {
		if r := <-done; r == nil || !r.IsToolError() {
			t.Fatalf("a call to the hung server: %v", r)
		}
	}
}

// TestAtMostOnce holds that a call which may have run is not sent again unless
// the tool says that this does no harm.
func TestAtMostOnce(t *testing.T) {
	u := &mcptest.Upstream{Faults: map[string]mcptest.Fault{}}
	for _, name := range []string{"reset", "reset in headers", "reset in body"} {
		u.Tools = append(u.Tools, tool(plain(name)))
		u.Faults[plain(name)] = mcptest.Faults[name]
	}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
	a := &mcptest.Agent{URL: s.URL}
	for name := range u.Faults {
		if _, err := a.Call(t.Context(), "mcp_u_"+name, `{"n":1}`); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range u.Seen("tools/call") {
			if r.Name() == name {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: the server got the call %d times", name, n)
		}
	}
}

// TestStreams are event streams as odd as the standard allows.
func TestStreams(t *testing.T) {
	answer := `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"here"}],"resultType":"complete"}}`
	streams := map[string]string{
		"plain":           "data: " + answer + "\n\n",
		"no_space":        "data:" + answer + "\n\n",
		"carriage":        "data: " + answer + "\r\r",
		"crlf":            "event: message\r\ndata: " + answer + "\r\n\r\n",
		"bom":             "\ufeffdata: " + answer + "\n\n",
		"two_data_lines":  "data: " + strings.Replace(answer, `,"result"`, "\ndata: ,\"result\"", 1) + "\n\n",
		"unknown_fields":  "x: y\nfoo\nretry: 999999999\nid: a\x00b\ndata: " + answer + "\n\n",
		"comments_before": strings.Repeat(": x\n", 10_000) + "\ndata: " + answer + "\n\n",
		"empty_events":    "data:\n\ndata: \n\nevent: ping\n\ndata: " + answer + "\n\n",
		"second_answer":   "data: " + answer + "\n\ndata: " + answer + "\n\n",
	}
	u := &mcptest.Upstream{Faults: map[string]mcptest.Fault{}}
	for name, raw := range streams {
		u.Tools = append(u.Tools, tool(name))
		u.Faults[name] = mcptest.Stream(raw)
	}
	s := mcptest.StartSidecar(t, fmt.Sprintf("mcp_servers: {u: {url: %q}}", u.Start(t)))
	a := &mcptest.Agent{URL: s.URL}
	for name := range streams {
		r, err := a.Call(t.Context(), "mcp_u_"+name, "{}")
		if err != nil || r.Content() != "here" {
			t.Errorf("%s: %v, %.300s", name, err, jsonOf(r))
		}
	}
}

func jsonOf(r *mcptest.Reply) string {
	if r == nil {
		return "nothing"
	}
	b, _ := json.Marshal(string(r.Body))
	return string(b)
}
