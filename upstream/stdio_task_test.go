package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A question that names a task is for the call that waits for its result, and
// for no other.
func TestStdioQuestionOfTask(t *testing.T) {
	const say = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"job-1"}}}}`
	for _, tt := range []struct {
		name, method, params string
		asked                bool
	}{
		{"another call", "tools/call", `{"name":"x"}`, false},
		{"another task", "tasks/result", `{"taskId":"job-2"}`, false},
		{"the task", "tasks/result", `{"taskId":"job-1"}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newQuestioner(map[string][]string{tt.method: {say}})
				c, _, _ := dial(t, legacy(s.script))
				defer c.Close()
				ctx, cancel := context.WithCancel(t.Context())
				asked := make(chan struct{}, 1)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.Do(ctx, &Call{Method: tt.method, Params: []byte(tt.params), Ask: func(context.Context, Question) ([]byte, *wire.Error) {
						asked <- struct{}{}
						return []byte(`{"action":"accept"}`), nil
					}})
				}()
				got := <-s.got
				cancel()
				<-ended
				if (len(asked) == 1) != tt.asked || strings.Contains(got, "nobody waits") == tt.asked {
					t.Errorf("asked %d times, the server got %s", len(asked), got)
				}
			})
		})
	}
}
