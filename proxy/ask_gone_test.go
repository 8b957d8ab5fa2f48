package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// When the sidecar drains, what legacy agents are asked is withdrawn at once, and
// nothing more is asked.
func TestDrainWhileAsking(t *testing.T) {
	const stops = "-32603 mcp-sidecar stops; nobody is asked any more"
	piped(t, func(w *world, a pipeAgent) {
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			if r, err := asks("elicitation/create", form)(ctx, c); heardIn(t, `{"result":`+string(r.Result)+`}`) != stops {
				return r, err
			}
			return asks("elicitation/create", form)(ctx, c)
		}
		a.say(fmt.Sprintf(callSlow, 1))
		id, start := a.hearQuestion(), time.Now()
		w.front.Drain()
		if got := a.hear(); got != withdrawn(id) {
			t.Errorf("got %s", got)
		}
		if got := heardIn(t, a.hear()); got != stops {
			t.Errorf("the server heard %s", got)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("after %v", d)
		}
	})
}

// A stream that another connection took over has its reader: the question waits.
func TestAgentComesBackForAQuestion(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		w.answer = asks("elicitation/create", form)
		s := openSession(w, "2025-11-25")
		s.caps = readCapabilities([]byte(allCaps), "2025-11-25")
		c := listenTo(t, l, asCaller(token, fmt.Sprintf(callSlow, 5), "Mcp-Session-Id", s.id))
		id := questionID(t, c.next())
		c.hangUp()
		time.Sleep(awayTime - time.Second)
		again := listenTo(t, l, resumed(s.id, c.last))
		time.Sleep(5 * time.Second)
		r := listenTo(t, l, asCaller(token, `{"jsonrpc":"2.0","id":"`+id+`",`+said42+`}`, "Mcp-Session-Id", s.id))
		if r.resp.StatusCode != http.StatusAccepted {
			t.Errorf("status %d", r.resp.StatusCode)
		}
		if got := heardIn(t, again.next()); got != `{"action":"accept","content":{"n":42}}` {
			t.Errorf("heard %s", got)
		}
		for _, n := range []*line{c, again, r} {
			n.conn.Close()
		}
	}, anything)
}

// A response that is none ends the question that it is meant for, on every way.
func TestAnswersThatAreNotValid(t *testing.T) {
	for _, members := range []string{
		`"result":{"action":"cancel"},"error":{"code":1,"message":"m"}`,
		`"x":1`,
		`"result":{"a":1,"a":2}`,
	} {
		for over, version := range map[string]string{"http": "2025-11-25", "stdio": "2025-11-25", "batch": versionBatches} {
			w := newWorld(t, anything)
			w.answer = asks("roots/list", "{}")
			var body string
			switch over {
			case "stdio":
				a := w.pipeAgent(t, version, allCaps)
				a.say(fmt.Sprintf(callSlow, 1))
				a.say(`{"jsonrpc":"2.0","id":"` + questionID(t, a.hear()) + `",` + members + `}`)
				if body = a.hear(); strings.Contains(body, "-32600") {
					body = a.hear()
				}
				a.leave()
			default:
				a := w.webAgent(version, allCaps)
				sse := a.open(fmt.Sprintf(callSlow, 1))
				msg := `{"jsonrpc":"2.0","id":"` + questionID(t, sse.next()) + `",` + members + `}`
				if over == "batch" {
					msg = "[" + msg + "]"
				}
				w.post(msg, "Mcp-Session-Id", a.session)
				body = sse.next()
				sse.resp.Body.Close()
			}
			if got := heardIn(t, body); got != "-32603 the agent's answer is not valid" {
				t.Errorf("%s over %s: heard %s", members, over, got)
			}
		}
	}
}

// deafWriter fails every write.
type deafWriter struct{ http.ResponseWriter }

func (deafWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

// A call whose questions could not be written to its agent is given up.
func TestQuestionsThatAreNotWritten(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		why := make(chan error, 1)
		w.answer = tellsEnd(formAsked, why)
		r := w.request(t.Context(), slowCall(""))
		r.RequestURI, r.RemoteAddr = "/mcp", "127.0.0.1:1"
		w.front.ServeHTTP(deafWriter{httptest.NewRecorder()}, r)
		synctest.Wait()
		select {
		case err := <-why:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v", err)
			}
		default:
			t.Error("the call goes on")
		}
	})
}
