package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// piped runs f with a legacy agent on stdio, on the fake clock.
func piped(t *testing.T, f func(w *world, a pipeAgent), opts ...option) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, keeper: new(Keeper)}
		w.build("default", "", sources(), 0)
		o := Options{Views: w.keeper, Upstreams: w, Version: "1"}
		anything(&o)
		for _, opt := range opts {
			opt(&o)
		}
		w.front = New(o)
		a := w.pipeAgent(t, "2025-11-25", allCaps)
		f(w, a)
		a.leave()
		if n := len(w.front.lanes.m); n != 0 {
			t.Errorf("%d lanes left", n)
		}
	})
}

// hearQuestion reads a question and returns its id.
func (a pipeAgent) hearQuestion() string {
	msg := a.hear()
	if !strings.Contains(msg, `"method":"elicitation/create"`) {
		a.t.Fatalf("got %s", msg)
	}
	_, after, _ := strings.Cut(msg, `"id":"`)
	id, _, _ := strings.Cut(after, `"`)
	return id
}

func withdrawn(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + id + `","reason":"nobody waits for the answer any more"}}`
}

// An agent that does not answer is waited for as long as the settings say.
func TestQuestionTimesOut(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		w.answer = asks("elicitation/create", form)
		a.say(fmt.Sprintf(callSlow, 1))
		id, start := a.hearQuestion(), time.Now()
		if got := a.hear(); got != withdrawn(id) {
			t.Errorf("got %s", got)
		}
		if d := time.Since(start); d != 90*time.Second {
			t.Errorf("waited for %v", d)
		}
		a.say(`{"jsonrpc":"2.0","id":"` + id + `",` + said42 + `}`) // too late
		if got := heardIn(t, a.hear()); got != "-32603 no answer to elicitation/create within 1m30s" {
			t.Errorf("the server heard %s", got)
		}
		if c := w.front.asker("files").Counts().Elicitation; c.Requests != 1 || c.Errors != 1 || c.Accepted != 0 {
			t.Errorf("counted %+v", c)
		}
	}, curious(policy.Sampling{}, policy.Elicitation{Timeout: 90 * time.Second}))
}

// When the agent cancels its call, the question is withdrawn and nothing answered.
func TestCallCancelledWhileAsking(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		ended := make(chan string, 1)
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			_, err := asks("elicitation/create", form)(ctx, c)
			ended <- fmt.Sprint(ctx.Err())
			return upstream.Response{}, err
		}
		a.say(fmt.Sprintf(callSlow, 1))
		id := a.hearQuestion()
		a.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if got := a.hear(); got != withdrawn(id) {
			t.Errorf("got %s", got)
		}
		if got := <-ended; got != "context canceled" {
			t.Errorf("the server's call ended with %s", got)
		}
		synctest.Wait()
		a.say(pingBody)
		if got := a.hear(); !strings.Contains(got, `"result":{}`) {
			t.Errorf("after it: %s", got)
		}
	})
}

// A server that answers its call though a question is open takes it back.
func TestServerThatDoesNotWaitForItsAnswer(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		over := make(chan string, 1)
		w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
			go func() {
				over <- heard(c.Ask(context.Background(), upstream.Question{Server: "files", Method: "elicitation/create", Params: []byte(form)}))
			}()
			synctest.Wait()
			return result(`{"content":[]}`), nil
		}
		a.say(fmt.Sprintf(callSlow, 1))
		id := a.hearQuestion()
		if got := a.hear(); got != withdrawn(id) {
			t.Errorf("got %s", got)
		}
		if got := a.hear(); got != `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` {
			t.Errorf("got %s", got)
		}
		if got := <-over; got != "-32603 the call is over" {
			t.Errorf("heard %s", got)
		}
	})
}

// When the agent's input ends, nobody can answer any more.
func TestStdioEndsWhileAsking(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		w.answer = asks("elicitation/create", form)
		a.say(fmt.Sprintf(callSlow, 1))
		a.hearQuestion()
		start := time.Now()
		a.in.Close()
		if got := heardIn(t, a.hear()); got != "-32603 the agent is gone" {
			t.Errorf("heard %s", got)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("after %v", d)
		}
	})
}

// While a person thinks, the other calls of the agent go to the serial server;
// then the call waits for its turn again.
func TestOpenQuestionsHoldNoTurn(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		ask, inside, release := asks("elicitation/create", form), 0, make(chan struct{})
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			if c.Name == "slow" {
				return ask(ctx, c)
			}
			inside++
			<-release
			inside--
			return result(`{"content":[]}`), nil
		}
		a.say(fmt.Sprintf(callSlow, 1))
		id := a.hearQuestion()
		a.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp_files_read_file"}}`)
		synctest.Wait()
		if inside != 1 {
			t.Fatal("the second call waits for a person")
		}
		a.say(`{"jsonrpc":"2.0","id":"` + id + `",` + said42 + `}`)
		time.Sleep(time.Minute)
		close(release)
		if got := a.hear(); got != `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}` {
			t.Errorf("first came %s", got)
		}
		if got := heardIn(t, a.hear()); got != `{"action":"accept","content":{"n":42}}` {
			t.Errorf("heard %s", got)
		}
	}, func(o *Options) { o.Serial = func(string) bool { return true } })
}

// A turn is taken again once, with the last answer, and not while a new question
// is open.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lanes
		ctx := t.Context()
		k := laneKey{"a", 1}
		one, err := l.take(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		held := func() bool { return len(one.lane.turn) == 1 }
		one.pause()
		one.pause()
		one.retake(ctx)
		if held() {
			t.Error("taken again while a question is open")
		}
		two, _ := l.take(ctx, k)
		go one.retake(ctx)
		synctest.Wait()
		one.pause() // a new question, while the last answer waits for the turn
		two.end()
		synctest.Wait()
		if held() {
			t.Error("held with a question open")
		}
		gone, cancel := context.WithCancel(ctx)
		three, _ := l.take(ctx, k)
		cancel()
		one.retake(gone)
		if one.held {
			t.Error("held by two")
		}
		three.end()
		one.pause()
		one.retake(ctx)
		if !one.held || !held() {
			t.Error("not taken again")
		}
		one.end()
		if len(l.m) != 0 {
			t.Error("a lane is left")
		}
	})
}

// bubbleClient is an HTTP client into a bubble.
func bubbleClient(l *pipeListener) *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }
	return &http.Client{Transport: &http.Transport{DialContext: dial}}
}

// An agent that hangs up while it is asked may answer for a while: it does so in its
// session, not on the connection. After that it is gone.
func TestAgentHangsUpWhileAsked(t *testing.T) {
	for _, answers := range []bool{true, false} {
		bubble(t, func(t *testing.T, w *world, l *pipeListener) {
			client := bubbleClient(l)
			defer client.CloseIdleConnections()
			got := make(chan string, 1)
			w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
				r, err := asks("elicitation/create", form)(ctx, c)
				got <- heardIn(t, `{"result":`+string(r.Result)+`}`)
				return r, err
			}
			s := w.bubbleSession(allCaps)
			sse := w.bubbleCall(client, s)
			id := questionID(t, sse.next())
			time.Sleep(20 * time.Second)
			sse.resp.Body.Close()
			synctest.Wait()
			start := time.Now()
			want := "-32603 the agent is gone"
			if answers {
				want = `{"action":"accept","content":{"n":42}}`
				r := w.bubblePost(client, s, `{"jsonrpc":"2.0","id":"`+id+`",`+said42+`}`)
				if r.StatusCode != 202 {
					t.Errorf("status %d", r.StatusCode)
				}
				r.Body.Close()
			}
			if got := <-got; got != want {
				t.Errorf("heard %s, want %s", got, want)
			}
			if d := time.Since(start); !answers && d != awayTime {
				t.Errorf("it took %v", d)
			}
		}, anything)
	}
}

// When the session ends, its questions do.
func TestSessionEndsWhileAsking(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		client := bubbleClient(l)
		defer client.CloseIdleConnections()
		w.answer = asks("elicitation/create", form)
		s := w.bubbleSession(allCaps)
		sse := w.bubbleCall(client, s)
		defer sse.resp.Body.Close()
		questionID(t, sse.next())
		start := time.Now()
		r, _ := http.NewRequest("DELETE", "http://localhost/mcp", nil)
		r.Header.Set("Mcp-Session-Id", s.id)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := heardIn(t, sse.next()); got != "-32603 the agent is gone" {
			t.Errorf("heard %s", got)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("after %v", d)
		}
	}, anything)
}

func (w *world) bubbleSession(caps string) *session {
	caller, err := w.front.opt.Callers.Identify(httpPost("", ""))
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.front.sessions.open(caller, mustView(w), "2025-11-25", readCapabilities([]byte(caps), "2025-11-25"))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func httpPost(session, body string) *http.Request {
	r, err := http.NewRequest("POST", "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	return r
}

func (w *world) bubblePost(client *http.Client, s *session, body string) *http.Response {
	resp, err := client.Do(httpPost(s.id, body))
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

func (w *world) bubbleCall(client *http.Client, s *session) *sseReader {
	resp := w.bubblePost(client, s, fmt.Sprintf(callSlow, 1))
	return &sseReader{nil, resp, bufio.NewReader(resp.Body)}
}

func questionID(t *testing.T, msg string) string {
	_, after, ok := strings.Cut(msg, `"id":"`)
	if !ok {
		t.Fatalf("no question: %s", msg)
	}
	id, _, _ := strings.Cut(after, `"`)
	return id
}
