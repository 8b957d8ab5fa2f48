package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// questioner is a legacy server that says lines when it is called, and hands on
// what comes back. ID in a line stands for the call's id, TOKEN for its token.
type questioner struct {
	lines map[string][]string // by method of the call
	got   chan string         // what is no request, one line each
}

func newQuestioner(lines map[string][]string) *questioner {
	return &questioner{lines: lines, got: make(chan string, 64)}
}

func (s *questioner) script(m request, say func(string, ...any)) error {
	switch {
	case m.Method == "": // the answer to a question
		s.got <- string(m.ID) + " " + string(m.Result) + string(m.Error)
	case m.ID == nil:
		s.got <- m.Method + " " + string(m.Params)
	default:
		lines := s.lines[m.Method]
		go func() { // a server that answers may not block on us
			for _, l := range lines {
				say("%s", strings.ReplaceAll(l, "ID", string(m.ID)))
			}
		}()
	}
	return nil
}

const (
	askForm = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"n":1.10,"message":"é"}}`
	done    = `{"jsonrpc":"2.0","id":ID,"result":{}}`
)

// A question goes to the only call that answers questions, and its answer back
// under the server's own id, byte for byte.
func TestStdioQuestion(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  string
		ask  func(context.Context, Question) ([]byte, *wire.Error)
		want string
	}{
		{"result", askForm, func(context.Context, Question) ([]byte, *wire.Error) {
			return []byte(`{"action":"accept","content":{"n":1.10}}`), nil
		}, `"q" {"action":"accept","content":{"n":1.10}}`},
		{"error", askForm, func(context.Context, Question) ([]byte, *wire.Error) {
			return nil, &wire.Error{Code: -1, Message: "the user rejected it", Data: []byte(`{"n":1.10}`)}
		}, `"q" {"code":-1,"message":"the user rejected it","data":{"n":1.10}}`},
		{"what was asked", askForm, func(_ context.Context, q Question) ([]byte, *wire.Error) {
			return fmt.Appendf(nil, `[%q,%q,%s]`, q.Server, q.Method, q.Params), nil
		}, `"q" ["srv","elicitation/create",{"n":1.10,"message":"é"}]`},
		{"number as id, no params", `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`, func(_ context.Context, q Question) ([]byte, *wire.Error) {
			return fmt.Appendf(nil, `[%q,%t]`, q.Method, q.Params == nil), nil
		}, `7 ["roots/list",true]`},
		{"no answer", askForm, func(context.Context, Question) ([]byte, *wire.Error) { return nil, nil },
			`"q" {"code":-32603,"message":"nobody answered the question"}`},
		{"panic", askForm, func(context.Context, Question) ([]byte, *wire.Error) { panic("oh") },
			`"q" {"code":-32603,"message":"the question could not be answered"}`},
		{"params are a list", `{"jsonrpc":"2.0","id":"q","method":"roots/list","params":[]}`, nil,
			`"q" {"code":-32602,"message":"the question's params are not an object"}`},
		{"too large", `{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"x":"` + strings.Repeat("x", largestAsk) + `"}}`, nil,
			`"q" {"code":-32603,"message":"the question is over 1048576 bytes"}`},
		{"ping needs nobody", `{"jsonrpc":"2.0","id":"q","method":"ping"}`, nil, `"q" {}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newQuestioner(map[string][]string{"x": {tt.say}, "end": {done}})
				c, _, _ := dial(t, legacy(s.script))
				defer c.Close()
				ask := tt.ask
				if ask == nil {
					ask = func(context.Context, Question) ([]byte, *wire.Error) {
						t.Error("the call was asked")
						return nil, nil
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.Do(ctx, &Call{Method: "x", Ask: ask})
				}()
				if got := <-s.got; got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				cancel()
				<-ended
				call(t, c, "end", "{}") // the connection lives
			})
		})
	}
}

// An id that is too long to repeat gets no answer; the connection goes on.
func TestStdioQuestionLongID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := `"` + strings.Repeat("x", longestID) + `"`
		s := newQuestioner(map[string][]string{"x": {`{"jsonrpc":"2.0","id":` + id + `,"method":"roots/list"}`, done}})
		c, noise, _ := dial(t, legacy(s.script))
		defer c.Close()
		if _, err := c.Do(t.Context(), &Call{Method: "x", Ask: answers(`{}`)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(s.got) != 0 || noise.Load() != 1 {
			t.Errorf("got %d answers and %d noise", len(s.got), noise.Load())
		}
	})
}

func answers(result string) func(context.Context, Question) ([]byte, *wire.Error) {
	return func(context.Context, Question) ([]byte, *wire.Error) { return []byte(result), nil }
}

// untilWithdrawn waits for the end of the question's context, and tells of both.
func untilWithdrawn(begun, ended chan<- string) func(context.Context, Question) ([]byte, *wire.Error) {
	return func(ctx context.Context, q Question) ([]byte, *wire.Error) {
		begun <- q.Method
		<-ctx.Done()
		ended <- q.Method
		return []byte(`"late"`), nil
	}
}

// Nobody answers for another call, and over stdio a question names none.
func TestStdioWhoIsAsked(t *testing.T) {
	const declined = `"q" {"code":-32601,"message":"this client did not declare elicitation"}`
	for _, tt := range []struct {
		name  string
		with  func(lineScript) Builtin
		plain int // calls in flight that answer nothing
		ask   int // calls in flight that answer
		want  string
	}{
		{"nobody", legacy, 1, 0, declined},
		{"one", legacy, 0, 1, `"q" {"who":0}`},
		{"one besides plain calls", legacy, 2, 1, `"q" {"who":0}`},
		{"two", legacy, 0, 2, `"q" {"code":-32603,"message":"several calls are in flight and the question does not say which it is about"}`},
		{"modern", modern, 0, 1, declined},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newQuestioner(map[string][]string{"now": {askForm}})
				c, _, _ := dial(t, tt.with(s.script))
				defer c.Close()
				for range tt.plain {
					go c.Do(t.Context(), &Call{Method: "wait"})
				}
				for i := range tt.ask {
					go c.Do(t.Context(), &Call{Method: "wait", Ask: answers(fmt.Sprintf(`{"who":%d}`, i))})
				}
				synctest.Wait()
				go c.Do(t.Context(), &Call{Method: "now"})
				if got := <-s.got; got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// Between calls a server is declined: many ask for roots right after the handshake.
func TestStdioQuestionBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan request, 1)
		c, _, _ := dial(t, scripted(func(m request, say func(string, ...any)) error {
			switch m.Method {
			case "initialize":
				say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, legacyHello)
			case "notifications/initialized":
				say(`{"jsonrpc":"2.0","id":0,"method":"roots/list"}`)
			case "":
				got <- m
			default:
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, m.ID)
			}
			return nil
		}))
		defer c.Close()
		m := <-got
		if code, _, _ := errorParts(m.Error); string(m.ID) != "0" || code != wire.CodeMethodNotFound {
			t.Errorf("got id %s, error %s", m.ID, m.Error)
		}
	})
}

// A question that the server withdraws ends, without an answer; its id may come again.
func TestStdioQuestionWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQuestioner(map[string][]string{
			"x": {askForm},
			"stray": {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, done},
			"withdraw": {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"enough"}}`, done},
			"again":    {`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`, done},
		})
		c, _, heard := dial(t, legacy(s.script))
		defer c.Close()
		begun, ended := make(chan string, 2), make(chan string, 2)
		go c.Do(t.Context(), &Call{Method: "x", Ask: untilWithdrawn(begun, ended)})
		<-begun
		call(t, c, "stray", "{}")
		synctest.Wait()
		if len(ended) != 0 {
			t.Fatal("another question's end ended this one")
		}
		call(t, c, "withdraw", "{}")
		<-ended
		call(t, c, "again", "{}")
		if got := <-begun; got != "roots/list" {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		if len(s.got) != 0 || len(heard.list()) != 0 {
			t.Errorf("got %d answers, and outside of calls %v", len(s.got), heard.list())
		}
	})
}

// The end of a call ends its questions: the server hears that, and what had it called off.
func TestStdioQuestionOutlivesCall(t *testing.T) {
	const over = `"q" {"code":-32603,"message":"the call that the question is about is over"}`
	for _, tt := range []struct {
		name  string
		lines []string
		end   func(cancel context.CancelFunc)
		kind  Kind
		want  []string // what the server hears
	}{
		{"answered", []string{askForm, done}, func(context.CancelFunc) {}, 0, []string{over}},
		{"cancelled", []string{askForm}, func(cancel context.CancelFunc) { cancel() }, 0,
			[]string{`notifications/cancelled {"requestId":ID,"reason":"cancelled by the client"}`, over}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newQuestioner(map[string][]string{"x": tt.lines})
				c, _, _ := dial(t, legacy(s.script))
				defer c.Close()
				begun, ended := make(chan string, 1), make(chan string, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				res := make(chan error, 1)
				go func() {
					_, err := c.Do(ctx, &Call{Method: "x", Ask: untilWithdrawn(begun, ended)})
					res <- err
				}()
				<-begun
				tt.end(cancel)
				if err := <-res; KindOf(err) != tt.kind {
					t.Errorf("got %v", err)
				}
				<-ended
				for _, want := range tt.want {
					want = strings.ReplaceAll(want, "ID", fmt.Sprint(c.last-1)) // a ping followed
					if got := <-s.got; got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				}
			})
		})
	}
}

// While a question is open the call's time-out rests, and goes on with what was
// left. When it ends, the server is told with the id that it knows.
func TestStdioQuestionTimeout(t *testing.T) {
	for _, tt := range []struct {
		name        string
		after, open time.Duration // when the question comes, and how long it stays open
		want        time.Duration // when the call ends
		withdrawn   bool          // it ends by the server's withdrawal
	}{
		{name: "goes on", after: 4 * time.Second, open: time.Minute, want: 70 * time.Second},
		{name: "last moment", after: 9900 * time.Millisecond, open: time.Minute, want: 9900*time.Millisecond + time.Minute + time.Second},
		{name: "withdrawn", after: 4 * time.Second, open: time.Minute, want: 70 * time.Second, withdrawn: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cancelled := make(chan string, 1)
				var id json.RawMessage
				c, _, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
					switch m.Method {
					case "x":
						id = m.ID
						time.AfterFunc(tt.after, func() { say("%s", askForm) })
						if tt.withdrawn {
							time.AfterFunc(tt.after+tt.open, func() {
								say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
							})
						}
					case "notifications/cancelled":
						cancelled <- string(m.Params)
					}
					return nil
				}))
				defer c.Close()
				start := time.Now()
				_, err := c.Do(t.Context(), &Call{Method: "x", Timeout: 10 * time.Second, Ask: func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
					if tt.withdrawn {
						<-ctx.Done()
						return nil, nil
					}
					time.Sleep(tt.open)
					return []byte(`{}`), nil
				}})
				if took := time.Since(start); KindOf(err) != Timeout || took != tt.want || !strings.Contains(err.Error(), "no answer within 10s") {
					t.Errorf("got %v after %v, want %v", err, took, tt.want)
				}
				if got, want := <-cancelled, fmt.Sprintf(`{"requestId":%s,"reason":"timeout"}`, id); got != want {
					t.Errorf("the server heard %s, want %s", got, want)
				}
			})
		})
	}
}

// Two questions at once: the time-out rests until the second is answered.
func TestStdioQuestionsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQuestioner(map[string][]string{"x": {`{"jsonrpc":"2.0","id":1,"method":"quick"}`, `{"jsonrpc":"2.0","id":2,"method":"slow"}`}})
		c, _, _ := dial(t, legacy(s.script))
		defer c.Close()
		start := time.Now()
		_, err := c.Do(t.Context(), &Call{Method: "x", Timeout: 10 * time.Second, Ask: func(_ context.Context, q Question) ([]byte, *wire.Error) {
			d := 20 * time.Second
			if q.Method == "slow" {
				d = 50 * time.Second
			}
			time.Sleep(d)
			return []byte(`{}`), nil
		}})
		if took := time.Since(start); KindOf(err) != Timeout || took != time.Minute {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

// Only so many questions of one call are open at once; one that is repeated counts once.
func TestStdioQuestionsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		for i := range openPerCall {
			lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i))
		}
		lines = append(lines, lines[0], `{"jsonrpc":"2.0","id":"more","method":"roots/list"}`)
		s := newQuestioner(map[string][]string{"x": lines, "ping": {done}})
		c, _, _ := dial(t, legacy(s.script))
		defer c.Close()
		begun, ended := make(chan string, 32), make(chan string, 32)
		ctx, cancel := context.WithCancel(t.Context())
		res := make(chan error, 1)
		go func() {
			_, err := c.Do(ctx, &Call{Method: "x", Ask: untilWithdrawn(begun, ended)})
			res <- err
		}()
		if got, want := <-s.got, `"more" {"code":-32603,"message":"16 questions about one call are open already"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		synctest.Wait()
		if len(begun) != openPerCall || len(s.got) != 0 {
			t.Errorf("%d were asked, %d answered", len(begun), len(s.got))
		}
		call(t, c, "ping", "{}") // they hold nothing up
		cancel()
		if err := <-res; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if len(ended) != openPerCall {
			t.Errorf("%d ended", len(ended))
		}
	})
}

// What the server says about the call goes on while a question is open.
func TestStdioQuestionAndProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQuestioner(map[string][]string{"x": {askForm,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hm"}}`}})
		c, _, _ := dial(t, legacy(s.script))
		defer c.Close()
		begun, ended := make(chan string, 1), make(chan string, 1)
		notes := make(chan string, 4)
		go c.Do(t.Context(), &Call{Method: "x", ProgressToken: []byte(`"mine"`), Ask: untilWithdrawn(begun, ended),
			Notify: func(_ string, params []byte) { notes <- string(params) }})
		<-begun
		got := []string{<-notes, <-notes}
		want := []string{`{"progressToken":"mine","progress":1}`, `{"level":"info","data":"hm"}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(ended) != 0 {
			t.Error("the question ended")
		}
	})
}

// Neither the server's end nor ours leaves a question behind.
func TestStdioQuestionAndEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(c *lineConn)
		kind Kind
	}{
		{"close", func(c *lineConn) { c.Close() }, Closed},
		{"death", func(c *lineConn) { c.post([]byte("no JSON")) }, Uncertain}, // the script ends
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newQuestioner(map[string][]string{"x": {askForm}})
				c, _, _ := dial(t, legacy(s.script))
				begun, ended := make(chan string, 1), make(chan string, 1)
				res := make(chan error, 1)
				go func() {
					_, err := c.Do(t.Context(), &Call{Method: "x", Ask: untilWithdrawn(begun, ended)})
					res <- err
				}()
				<-begun
				tt.end(c)
				if err := <-res; KindOf(err) != tt.kind {
					t.Errorf("got %v", err)
				}
				<-ended
				c.Close()
			})
		})
	}
}

// The limit by itself: what HTTP uses.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan time.Time, 4)
		var l limit
		start := time.Now()
		l.begin(10*time.Second, func() { fired <- time.Now() })
		time.Sleep(3 * time.Second)
		l.rest()
		time.Sleep(time.Hour)
		l.goOn()
		if got, want := (<-fired).Sub(start), time.Hour+10*time.Second; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		l.stop()
		l.goOn()
		time.Sleep(time.Minute)
		if len(fired) != 0 {
			t.Error("a limit that was stopped went on")
		}
		var none limit
		none.begin(0, nil)
		none.rest()
		none.goOn()
		none.stop()
		if none.expired() != nil {
			t.Error("no bound, yet it expires")
		}
	})
}

// Calls that use the same token at the same time hear their own progress only.
func TestStdioEqualTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4
		var calls []request
		c, _, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
			if calls = append(calls, m); len(calls) < n {
				return nil
			}
			for i := range 10 {
				for _, c := range calls {
					say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"of":%s}}`, c.ID, i, c.Params)
				}
			}
			for _, c := range calls {
				say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, c.Params)
			}
			return nil
		}))
		defer c.Close()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				heard := 0
				who := fmt.Sprintf(`"who":%d}`, i)
				r, err := c.Do(t.Context(), &Call{Method: "x", Params: []byte("{" + who), ProgressToken: []byte(`"p"`), Notify: func(_ string, params []byte) {
					heard++
					if !strings.HasPrefix(string(params), `{"progressToken":"p",`) || !strings.Contains(string(params), who) {
						t.Errorf("call %d heard %s", i, params)
					}
				}})
				if err != nil || !strings.Contains(string(r.Result), who) || heard != 10 {
					t.Errorf("call %d: got %s, %v and %d notifications", i, r.Result, err, heard)
				}
			})
		}
		wg.Wait()
	})
}
