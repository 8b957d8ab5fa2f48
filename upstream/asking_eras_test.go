package upstream

import (
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A server that says it speaks both eras is asked in that of the agent, and in
// its own if that turns out not to be so.
func TestBothEras(t *testing.T) {
	for name, opens := range map[string]bool{"it does": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := &script{early: func(m *wire.Message) (string, string) {
					switch {
					case m.Method == "server/discover":
						return `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}`, ""
					case m.Method == "initialize" && !opens:
						return "", `{"code":-32601,"message":"no such method"}`
					}
					return "", ""
				}}
				w := newSetWorld(t, map[string]*script{"a": a}, Options{}, nil)
				defer w.stop()
				w.AwaitFirst(t.Context(), time.Minute, "a")
				for _, legacy := range []bool{false, true} {
					target := Target{Server: "a", Session: "s", Answers: policy.AnswerForm, Legacy: legacy}
					r, err := w.Do(t.Context(), target, &Call{Method: "tools/call", Name: "x", Params: []byte(`{"name":"x"}`)})
					if err != nil {
						t.Fatal(err)
					}
					if want := !legacy || !opens; (r.Era == Modern) != want {
						t.Errorf("legacy agent %v: answered in era %v", legacy, r.Era)
					}
				}
			})
		})
	}
}
