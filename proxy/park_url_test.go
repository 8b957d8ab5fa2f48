package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

const urlError = `{"code":-32042,"message":"log in first","data":{"elicitations":[` +
	`{"mode":"url","elicitationId":"e1","url":"https://example.com/1","message":"One"},{"mode":"url","elicitationId":"e2","message":"Two","url":"https://example.com/2"}]}}`

// needsURLs is a legacy server whose calls fail until pages were visited.
func needsURLs(w *parkWorld, failures int, e string) {
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
		if len(w.seen()) <= failures {
			return upstream.Response{Error: []byte(e)}, nil
		}
		return result(`{"content":[]}`), nil
	}
}

// The error of 2025-11-25 becomes questions; when all pages are visited the call
// is made anew.
func TestURLsAreAsked(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		needsURLs(w, 2, urlError)
		r := w.run(oneServer(""))
		for range 2 { // once more, because the server is not content yet
			p := w.asks(r, "q1", "q2")
			for key, want := range map[string]string{
				"q1": `{"mode":"url","message":"One","url":"https://example.com/1"}`, "q2": `{"mode":"url","message":"Two","url":"https://example.com/2"}`,
			} {
				if q := p.InputRequests[key]; q.Method != methodElicit || string(q.Params) != want {
					t.Errorf("%s: got %s %s, want %s", key, q.Method, q.Params, want)
				}
			}
			calls := len(w.seen())
			p = w.asks(w.run(p.retry(oneServer(""), `{"q1":{"action":"accept"}}`)), "q1", "q2") // one is missing
			if n := len(w.seen()); n != calls {
				t.Errorf("the server was called %d times", n)
			}
			r = w.run(p.retry(oneServer(""), `{"q2":{"action":"accept"},"q1":{"action":"accept"}}`))
		}
		wantJSON(t, "result", r.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`)
		if got := w.seen(); len(got) != 3 || got[2].Params != got[0].Params {
			t.Errorf("the server got %+v", got)
		}
	})
}

func TestURLsDeclined(t *testing.T) {
	for _, action := range []string{"decline", "cancel"} {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			needsURLs(w, 9, urlError)
			p := w.asks(w.run(oneServer("")), "q1", "q2")
			r := w.run(p.retry(oneServer(""), `{"q2":{"action":"`+action+`"},"q1":{"action":"accept"}}`))
			if !strings.Contains(r.body, `"isError":true`) || !strings.Contains(r.body, "the user declined") || len(w.seen()) != 1 {
				t.Errorf("%s: %d calls, got %s", action, len(w.seen()), r.body)
			}
			r = w.run(p.retry(oneServer(""), `{"q1":{"action":"accept"},"q2":{"action":"accept"}}`))
			if code(r.body) != -32602 || len(w.seen()) != 1 {
				t.Errorf("%s, again: %s", action, r.body)
			}
		})
	}
}

// Who cannot be asked hears which capability it lacks; the old code never comes
// to a modern agent, and stays for a legacy one.
func TestURLsThatCannotBeAsked(t *testing.T) {
	const lacks = `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"log in first","data":{"requiredCapabilities":{"elicitation":{"url":{}}},"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/1",`
	for _, tt := range []struct {
		name, caps, err string
		status          int
		want            string
	}{
		{"nothing declared", `{}`, urlError, 400, lacks},
		{"forms declared", `{"elicitation":{}}`, urlError, 400, lacks},
		{"no list", allOf, `{"code":-32042,"message":"m"}`, 200, "MCPS-PROTOCOL"},
		{"no url", allOf, `{"code":-32042,"message":"m","data":{"elicitations":[{"message":"m"}]}}`, 200, "MCPS-UNSUPPORTED"},
		{"a script", allOf, `{"code":-32042,"message":"m","data":{"elicitations":[{"message":"m","url":"javascript:alert(1)"}]}}`, 200, "MCPS-UNSUPPORTED"},
		{"no object", allOf, `{"code":-32042,"message":"m","data":{"elicitations":[5]}}`, 200, "MCPS-UNSUPPORTED"},
		{"too many", allOf, `{"code":-32042,"message":"m","data":{"elicitations":[` + strings.Repeat(`{"message":"m","url":"https://example.com"},`, 16) + `{"message":"m","url":"https://example.com"}]}}`, 200, "MCPS-UNSUPPORTED"},
	} {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			needsURLs(w, 9, tt.err)
			a := oneServer("")
			a.caps = tt.caps
			r := w.run(a)
			if r.status != tt.status || !strings.Contains(r.body, tt.want) || strings.Contains(r.body, "-32042") || len(w.seen()) != 1 {
				t.Errorf("%s: %d calls, got %d %s", tt.name, len(w.seen()), r.status, r.body)
			}
		})
	}
	asker := policy.NewAsker("files", policy.Sampling{}, policy.Elicitation{Enabled: new(bool)}, policy.Roots{})
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		needsURLs(w, 9, urlError)
		if r := w.run(oneServer("")); r.status != 200 || !strings.Contains(r.body, "MCPS-UNSUPPORTED") {
			t.Errorf("elicitation is off: got %d %s", r.status, r.body)
		}
	}, func(o *Options) { o.Askers = func(string) *policy.Asker { return asker } })
}

// A server that asks and then wants pages visited: both, one after the other.
func TestURLsAfterAQuestion(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			told, _ := putTo(ctx, c, methodElicit, formQuestion)
			if len(w.seen()) == 1 {
				return upstream.Response{Error: []byte(urlError)}, nil
			}
			return result(`{"content":[],"structuredContent":[` + told + `]}`), nil
		}
		p := w.asks(w.run(slowCall("")), "q1")
		p = w.asks(w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`)), "q1", "q2")
		p = w.asks(w.run(p.retry(slowCall(""), `{"q1":{"action":"accept"},"q2":{"action":"accept"}}`)), "q1")
		r := w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, formAnswer))
	})
}
