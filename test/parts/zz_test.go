//go:build npm

package parts

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func TestZZ(t *testing.T) {
	plain := startOrigin(t, toolsHost, nil)
	_, tiny := startTinyproxy(t)
	s := mcptest.StartSidecar(t, "list_wait: 20s\nmcp_servers:\n"+entry("plain", "http://"+toolsName+":"+plain.port()+"/mcp", "supports_parallel_tool_calls: true", "egress: {proxy: \"http://"+tiny+"\"}", "breaker: {failures: -1}"))
	for _, n := range []int{1, 8} {
		l := underLoad(t, s.URL, "mcp_plain_echo", n)
		time.Sleep(5 * time.Second)
		close(l.stop)
		l.callers.Wait()
		seen := map[string]int{}
		for _, f := range l.failed {
			if len(f) > 260 {
				f = f[:260]
			}
			seen[f[30:]]++
		}
		fmt.Println(n, l.calls.Load(), len(l.failed))
		i := 0
		for k, v := range seen {
			if i++; i < 4 {
				fmt.Println(v, k)
			}
		}
	}
}
