package upstream

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A question under an id that MCP does not allow is refused before anybody is
// asked, whatever it comes over.
func TestQuestionIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		`"a"`: true, `""`: true, `7`: true, `-1`: true, `0`: true,
		`null`: false, `[1]`: false, `{}`: false, `true`: false, `1.5`: false, `1e3`: false, `99999999999999999999`: false,
	} {
		asked, said := false, make(chan string, 1)
		call := &Call{Ask: func(context.Context, Question) ([]byte, *wire.Error) { asked = true; return []byte(`{}`), nil }}
		q := newQuestions(call, &limit{}, slog.New(slog.DiscardHandler), func(f func()) { f() })
		m, err := wire.ParseServer([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"roots/list"}`), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		q.start(call, "s", &m, func(msg []byte) { said <- string(msg) })
		want := `"id":` + id + `,"result":{}`
		if !ok {
			want = `"id":null,"error":{"code":-32600`
		}
		if got := <-said; asked != ok || !strings.Contains(got, want) {
			t.Errorf("id %s: asked %t, answered %s", id, asked, got)
		}
	}
}
