package field

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A server that was never reached is no reason to call its tools unknown. The first
// call after it came up is served, without waiting for the next attempt's time.
func TestNeverReached(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("one")}}
	var up atomic.Bool
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
		u.ServeHTTP(w, r)
	}))
	defer late.Close()
	s := serve(t, at("late-one", late.URL, "lifecycle: {retry_pause: 10m, retry_pause_max: 10m}"),
		at("broken", "http://127.0.0.1:1/${NOT_SET_ANYWHERE}"))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		fails(t, a, "mcp_late_one_one", `server "late-one" cannot be reached`, "MCPS-UNREACHABLE")
		fails(t, a, "mcp_broken_x", `server "broken"`, "NOT_SET_ANYWHERE", "MCPS-CONFIG")
		refused(t, a, "tools/call", `"name":"mcp_third_x","arguments":{}`, "Unknown tool: mcp_third_x")
		r, err := a.Do(t.Context(), "prompts/get", `"name":"mcp_late_one_p"`)
		if err != nil || r.Code() != -32603 || !bytes.Contains(r.Error, []byte(`"code":"MCPS-UNREACHABLE"`)) {
			t.Errorf("prompts/get: %v, %s", err, r.Body)
		}
		refused(t, a, "prompts/get", `"name":"mcp_third_p"`, "Unknown prompt: mcp_third_p")
	})
	eachEra(t, s.URL+"/late-one", func(t *testing.T, a *mcptest.Agent) {
		fails(t, a, "one", `server "late-one" cannot be reached`, "MCPS-UNREACHABLE")
	})
	up.Store(true)
	time.Sleep(1100 * time.Millisecond) // calls wake a server that failed again and again once a second
	a := &mcptest.Agent{URL: s.URL}
	works(t, a, "mcp_late_one_one")
	refused(t, a, "tools/call", `"name":"mcp_late_one_two","arguments":{}`, "Unknown tool: mcp_late_one_two")
}
