package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

const parkDone = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"structuredContent":[%s]}}`

// TestParkRounds: a legacy server's questions of all kinds, one after another, reach
// a modern agent as the answers to its requests, and its answers the server.
func TestParkRounds(t *testing.T) {
	kinds := []struct{ method, params, answer string }{
		{methodElicit, formQuestion, formAnswer},
		{methodSampling, sampleQuestion, sampleAnswer},
		{methodRoots, "", rootsAnswer},
	}
	for n := 1; n <= 3; n++ {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			var questions [][2]string
			var answers []string
			for _, k := range kinds[:n] {
				questions, answers = append(questions, [2]string{k.method, k.params}), append(answers, k.answer)
			}
			w.answer = serverAsks(questions...)
			r := w.run(slowCall(""))
			for i, k := range kinds[:n] {
				key := fmt.Sprintf("q%d", i+1)
				p := w.asks(r, key)
				if got := p.InputRequests[key].Method; got != k.method {
					t.Errorf("round %d asks %s, want %s", i+1, got, k.method)
				}
				if s := w.front.Stats(); s.Parked != 1 || s.ParkedTotal != 1 {
					t.Errorf("round %d: %d parked, %d in all", i+1, s.Parked, s.ParkedTotal)
				}
				r = w.run(p.retry(slowCall(""), `{"`+key+`":`+k.answer+`,"other":5}`))
			}
			wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, strings.Join(answers, ",")))
			if n := len(w.seen()); n != 1 {
				t.Errorf("the server got %d calls, want 1", n)
			}
			if s := w.front.Stats(); s.Parked != 0 || s.ParkedExpired != 0 {
				t.Errorf("in the end %d parked, %d expired", s.Parked, s.ParkedExpired)
			}
		})
	}
}

// What the agent reads is the server's question, and nothing that only the older
// versions have.
func TestParkedQuestionCrosses(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks([2]string{methodElicit, `{"mode":"url","elicitationId":"e","message":"m","url":"https://example.com/x"}`})
		a := slowCall("")
		a.path, a.name, a.params = "/mcp/files", "slow", `{"name":"slow"}`
		r := w.run(a)
		p := w.asks(r, "q1")
		if got, want := string(p.InputRequests["q1"].Params), `{"mode":"url","message":"m","url":"https://example.com/x"}`; got != want {
			t.Errorf("params:\n got %s\nwant %s", got, want)
		}
		r = w.run(p.retry(a, `{"q1":{"action":"accept"}}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, `{"action":"accept"}`))
	})
}

// Two questions at once are asked together; one that gets no answer is asked
// again, with the one that came meanwhile.
func TestQuestionsTogether(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			var got [3]string
			second := make(chan struct{})
			go func() {
				defer close(second)
				got[1], _ = putTo(ctx, c, methodRoots, "")
			}()
			got[0], _ = putTo(ctx, c, methodElicit, formQuestion)
			got[2], _ = putTo(ctx, c, methodElicit, formQuestion)
			<-second
			return result(`{"content":[],"structuredContent":[` + strings.Join(got[:], ",") + `]}`), nil
		}
		p := w.asks(w.run(slowCall("")), "q1", "q2")
		form, roots := "q1", "q2"
		if p.InputRequests["q1"].Method == methodRoots {
			form, roots = roots, form
		}
		for range 2 { // without answers, all are asked again
			p = w.asks(w.run(p.retry(slowCall(""), "")), "q1", "q2")
		}
		p = w.asks(w.run(p.retry(slowCall(""), `{"`+form+`":`+formAnswer+`}`)), roots, "q3")
		r := w.run(p.retry(slowCall(""), `{"q3":{"action":"decline"},"`+roots+`":`+rootsAnswer+`,"`+form+`":{"action":"cancel"}}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, formAnswer+","+rootsAnswer+`,{"action":"decline"}`))
	})
}

// The other methods that may ask, and a tool that wraps one of them, which is
// another request to the agent than to the server.
func TestEveryMethodMayAsk(t *testing.T) {
	for _, a := range []modernAsk{
		{method: "prompts/get", name: "mcp_files_greet", params: `{"name":"mcp_files_greet","arguments":{"who":"x"}}`},
		{method: "resources/read", name: "file:///a.txt", params: `{"uri":"file:///a.txt"}`},
		{method: "tools/call", name: "mcp_files_read_resource", params: `{"name":"mcp_files_read_resource","arguments":{"uri":"file:///a.txt"}}`},
		{method: "tools/call", name: "mcp_files_get_prompt", params: `{"name":"mcp_files_get_prompt","arguments":{"name":"greet"}}`},
	} {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
				if strings.Contains(string(c.Params), "requestState") {
					t.Errorf("the server got %s", c.Params)
				}
				told, err := putTo(ctx, c, methodElicit, formQuestion)
				if err != nil {
					return upstream.Response{}, err
				}
				return result(`{"contents":[{"uri":"file:///a.txt","text":"t"}],"messages":[],"told":` + told + `}`), nil
			}
			p := w.asks(w.run(a), "q1")
			other := p.retry(slowCall(""), `{"q1":`+formAnswer+`}`)
			if r := w.run(other); code(r.body) != -32602 {
				t.Errorf("%s: for another request: %s", a.name, r.body)
			}
			r := w.run(p.retry(a, `{"q1":`+formAnswer+`}`))
			if r.status != 200 || !strings.Contains(r.body, `"resultType":"complete"`) || strings.Contains(r.body, "isError") {
				t.Errorf("%s: got %s", a.name, r.body)
			}
		})
	}
}

// A call that waits in vain ends after limits.parked_time, at the server too.
func TestParkedCallExpires(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		why := make(chan error, 1)
		w.answer = tellsEnd([2]string{methodElicit, formQuestion}, why)
		start := time.Now()
		p := w.asks(w.run(slowCall("")), "q1")
		if err := <-why; err != context.Canceled {
			t.Errorf("the call ended with %v", err)
		}
		if d := time.Since(start).Round(time.Second); d != time.Minute {
			t.Errorf("expired after %v", d)
		}
		synctest.Wait()
		if s := w.front.Stats(); s.Parked != 0 || s.ParkedExpired != 1 {
			t.Errorf("%d parked, %d expired", s.Parked, s.ParkedExpired)
		}
		r := w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		if code(r.body) != -32602 || !strings.Contains(r.body, "has expired") {
			t.Errorf("a late answer: %s", r.body)
		}
	}, func(o *Options) { o.Limits.ParkedTime = time.Minute })
}

// A question whose time is over is gone; the retry gets what came of the call.
func TestParkedQuestionTimesOut(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks(formAsked)
		p := w.asks(w.run(slowCall("")), "q1")
		time.Sleep(301 * time.Second)
		r := w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, `"no answer to elicitation/create within 5m0s"`))
	})
}

// A question that the server takes back is not asked again.
func TestParkedQuestionWithdrawn(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			putTo(short, c, methodElicit, formQuestion)
			told, _ := putTo(ctx, c, methodRoots, "")
			return result(`{"content":[],"structuredContent":[` + told + `]}`), nil
		}
		p := w.asks(w.run(slowCall("")), "q1")
		time.Sleep(2 * time.Second)
		p = w.asks(w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`)), "q2")
		r := w.run(p.retry(slowCall(""), `{"q2":`+rootsAnswer+`}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, rootsAnswer))
	})
}

// An agent that hangs up while its request waits cancels the call; between two
// requests there is nothing to hang up.
func TestHangUpCancels(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		cancelled := make(chan error, 1)
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			if _, err := putTo(ctx, c, methodElicit, formQuestion); err != nil {
				t.Errorf("the question: %v", err)
			}
			<-ctx.Done()
			cancelled <- ctx.Err()
			return upstream.Response{}, ctx.Err()
		}
		first, hangUp := context.WithCancel(context.Background())
		p := w.asks(w.send(first, slowCall("")), "q1")
		hangUp()
		w.http.CloseIdleConnections()
		time.Sleep(time.Second)
		second, hangUp := context.WithTimeout(context.Background(), time.Second)
		defer hangUp()
		w.send(second, p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		<-cancelled
		synctest.Wait()
		if s := w.front.Stats(); s.Parked != 0 {
			t.Errorf("%d parked", s.Parked)
		}
	})
}

// Draining ends what waits for an agent, and lets the rest end; who asks from
// then on is refused.
func TestDrainEndsParkedCalls(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		why := make(chan error, 1)
		w.answer = tellsEnd([2]string{methodElicit, formQuestion}, why)
		p := w.asks(w.run(slowCall("")), "q1")
		later := make(chan struct{})
		w.mu.Lock()
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			<-later
			return serverAsks(formAsked)(ctx, c)
		}
		w.mu.Unlock()
		last := make(chan came)
		go func() { last <- w.run(slowCall("")) }()
		synctest.Wait()
		w.front.Drain()
		if err := <-why; err != context.Canceled {
			t.Errorf("the call that waits ended with %v", err)
		}
		close(later)
		wantJSON(t, "the other", (<-last).body, fmt.Sprintf(parkDone, `"mcp-sidecar stops; nobody is asked any more"`))
		r := w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		if code(r.body) != -32602 || !strings.Contains(r.body, "no call waits") {
			t.Errorf("after the drain: %s", r.body)
		}
	})
}

// At a limit a new question is refused, by its name; old calls stay.
func TestParkedLimits(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks(formAsked)
		from := func(caller string) modernAsk {
			a := slowCall("")
			a.caller = caller
			return a
		}
		a1 := w.asks(w.run(from("a")), "q1")
		w.asks(w.run(from("a")), "q1")
		r := w.run(from("a"))
		wantJSON(t, "per caller", r.body, fmt.Sprintf(parkDone, `"too many calls wait for answers of agents: limits.parked_per_caller is 2"`))
		w.asks(w.run(from("b")), "q1")
		r = w.run(from("b"))
		wantJSON(t, "in all", r.body, fmt.Sprintf(parkDone, `"too many calls wait for answers of agents: limits.parked is 3"`))
		r = w.run(a1.retry(from("a"), `{"q1":`+formAnswer+`}`))
		wantJSON(t, "the first", r.body, fmt.Sprintf(parkDone, formAnswer))
		w.asks(w.run(from("b")), "q1")
		if s := w.front.Stats(); s.Parked != 3 || s.ParkedTotal != 4 {
			t.Errorf("%d parked, %d in all", s.Parked, s.ParkedTotal)
		}
	}, func(o *Options) { o.Limits.Parked, o.Limits.ParkedPerCaller = 3, 2 })
}

// What parked calls hold is bounded in bytes, and the share of one caller too.
func TestParkedBytes(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks(formAsked)
		w.front.parking.room = 64 << 10
		big := slowCall(`,"x":"` + strings.Repeat("x", 12<<10) + `"`)
		for range 2 {
			w.asks(w.run(big), "q1")
		}
		r := w.run(big)
		wantJSON(t, "the third", r.body, fmt.Sprintf(parkDone, `"too many calls wait for answers of agents: the bound in bytes is 67108864"`))
		big.caller = "another"
		w.asks(w.run(big), "q1")
	})
}

// A question that waits is held twice: in the server's words and in the agent's.
func TestQuestionsWeighTwice(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		long := strings.Replace(formQuestion, "Which?", strings.Repeat("w", 9<<10), 1)
		w.answer = serverAsks([2]string{methodElicit, long})
		w.front.parking.room = 80 << 10
		for range 2 {
			w.asks(w.run(slowCall("")), "q1")
		}
		if n := w.front.parking.bytes; n < 36<<10 || n > 40<<10 {
			t.Errorf("%d bytes are held for two questions of 9 KiB", n)
		}
		r := w.run(slowCall(""))
		wantJSON(t, "the third", r.body, fmt.Sprintf(parkDone, `"too many calls wait for answers of agents: the bound in bytes is 67108864"`))
	})
}

// While a call waits, what the server says of it is lost; a retry hears it under
// its own token and at its own level.
func TestNotificationsFollowTheRetry(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		ask := make(chan string)
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			tell := func(n int) {
				c.Notify("notifications/progress", fmt.Appendf(nil, `{"progress":%d,"progressToken":%s}`, n, c.ProgressToken))
				c.Notify("notifications/message", fmt.Appendf(nil, `{"level":"info","data":%d}`, n))
			}
			tell(1)
			go func() { <-ask; tell(2); ask <- "told" }()
			putTo(ctx, c, methodElicit, formQuestion)
			tell(3)
			return result(`{"content":[]}`), nil
		}
		a := slowCall("")
		a.meta = `,"progressToken":"first","io.modelcontextprotocol/logLevel":"debug"`
		r := w.run(a)
		if got := strings.Join(r.notes, "\n"); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":"first"}}`+"\n"+
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}` {
			t.Errorf("while the first request waits: %s", got)
		}
		p := w.asks(r, "q1")
		ask <- "tell"
		<-ask
		a.meta = `,"progressToken":7,"io.modelcontextprotocol/logLevel":"warning"`
		r = w.run(p.retry(a, `{"q1":`+formAnswer+`}`))
		if got := strings.Join(r.notes, "\n"); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":3,"progressToken":7}}` {
			t.Errorf("while the retry waits: %s", got)
		}
	})
}

// A retry that cannot answer what the first request could is not asked.
func TestRetryThatCanLess(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks(formAsked, [2]string{methodRoots, ""})
		p := w.asks(w.run(slowCall("")), "q1")
		a := slowCall("")
		a.caps = `{"elicitation":{}}`
		r := w.run(p.retry(a, `{"q1":`+formAnswer+`}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, formAnswer+`,"the agent did not declare roots"`))
	})
}

// A call that waits does not keep the agent's others out of a server that takes
// one at a time.
func TestParkedCallYieldsItsTurn(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = serverAsks(formAsked)
		p := w.asks(w.run(slowCall("")), "q1")
		q := w.asks(w.run(slowCall("")), "q1")
		r := w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, formAnswer))
		r = w.run(q.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		wantJSON(t, "result", r.body, fmt.Sprintf(parkDone, formAnswer))
	}, func(o *Options) { o.Serial = func(string) bool { return true } })
}

// A fault of ours in the background fails its call and nothing else.
func TestPanicWhileParked(t *testing.T) {
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			putTo(ctx, c, methodElicit, formQuestion)
			panic(errTest)
		}
		p := w.asks(w.run(slowCall("")), "q1")
		r := w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		if code(r.body) != -32603 || strings.Contains(r.body, errTest.Error()) || w.front.Stats().Panics != 1 {
			t.Errorf("got %s, %d panics", r.body, w.front.Stats().Panics)
		}
	})
}

// An answer that comes while nobody waits is kept for the retry if it fits.
func TestAnswerWhileNobodyWaits(t *testing.T) {
	for size, want := range map[int]string{1 << 10: `"resultType":"complete"`, 32<<10 + 1: "MCPS-TOO-LARGE"} {
		parkBubble(t, func(t *testing.T, w *parkWorld) {
			w.front.parking.room = 64 << 10
			w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				putTo(short, c, methodElicit, formQuestion)
				return result(`{"content":[],"x":"` + strings.Repeat("x", size) + `"}`), nil
			}
			p := w.asks(w.run(slowCall("")), "q1")
			time.Sleep(2 * time.Second)
			if r := w.run(p.retry(slowCall(""), "{}")); !strings.Contains(r.body, want) {
				t.Errorf("%d bytes: got %.300s", size, r.body)
			}
		})
	}
}
