package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// An httpAsker is a legacy server that asks while calls run.
type httpAsker struct {
	*fakeHTTP
	stand chan string // what it says on the standing stream

	mu      sync.Mutex
	waiting map[string]chan rpc // by the question's id
	got     []string            // all answers, in order
}

// newHTTPAsker has call serve tools/call.
func newHTTPAsker(t *testing.T, call func(q *httpAsker, w http.ResponseWriter, r *http.Request, m rpc)) *httpAsker {
	t.Helper()
	q := &httpAsker{stand: make(chan string), waiting: map[string]chan rpc{}}
	f := &fakeHTTP{legacy: true, get: q.serveStanding}
	f.any = func(_ http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.Method == "" && m.ID != nil {
			q.heard(m)
		}
		return false
	}
	f.call = func(w http.ResponseWriter, r *http.Request, m rpc) { call(q, w, r, m) }
	q.fakeHTTP = newFake(t, f)
	return q
}

func (q *httpAsker) serveStanding(w http.ResponseWriter, r *http.Request) {
	send := events(w, rpc{})
	send(": here\n\n")
	for {
		select {
		case text := <-q.stand:
			send(text)
		case <-r.Context().Done():
			return
		}
	}
}

// wait returns where the answer to a question will be heard.
func (q *httpAsker) wait(id string) chan rpc {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[id] == nil {
		q.waiting[id] = make(chan rpc, 1)
	}
	return q.waiting[id]
}

func (q *httpAsker) heard(m rpc) {
	ch := q.wait(string(m.ID))
	q.mu.Lock()
	q.got = append(q.got, string(m.ID)+" "+string(m.Result)+string(m.Error))
	q.mu.Unlock()
	select {
	case ch <- m:
	default:
	}
}

func (q *httpAsker) answers() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	got := slices.Clone(q.got)
	slices.Sort(got)
	return got
}

func askingEvent(id, method, params string) string {
	return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":%q,\"params\":%s}\n\n", id, method, params)
}

func withdrawEvent(id string) string {
	return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%s}}\n\n", id)
}

// askedCall is a call whose questions ask answers.
func askedCall(name string, ask func(ctx context.Context, q Question) ([]byte, *wire.Error)) *Call {
	c := toolCall(name)
	c.Ask = ask
	return c
}

// echoAsked answers a question with its method and parameters.
func echoAsked(_ context.Context, q Question) ([]byte, *wire.Error) {
	return fmt.Appendf(nil, `{"to":%q,"params":%s}`, q.Server+" "+q.Method, orNull(q.Params)), nil
}

func dialHTTPAsker(t *testing.T, q *httpAsker, s *Settings) *httpConn {
	t.Helper()
	return dialed(t, resolved(t, q.URL, s), env{offers: []byte(`{"roots":{}}`)})
}

// A server's questions are answered while the call runs, each under its own id.
func TestHTTPQuestion(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []string
		ids    []string
		ask    func(ctx context.Context, q Question) ([]byte, *wire.Error)
		want   []string
	}{
		{name: "one", events: []string{askingEvent(`7`, "roots/list", `{"a":1.50}`)}, ids: []string{`7`}, ask: echoAsked,
			want: []string{`7 {"to":"fake roots/list","params":{"a":1.50}}`}},
		{name: "text id, unknown method", events: []string{askingEvent(`"a b"`, "x/y", `{}`)}, ids: []string{`"a b"`}, ask: echoAsked,
			want: []string{`"a b" {"to":"fake x/y","params":{}}`}},
		{name: "ping", events: []string{askingEvent(`1`, "ping", `{}`)}, ids: []string{`1`}, ask: echoAsked, want: []string{`1 {}`}},
		{name: "refused", events: []string{askingEvent(`1`, "roots/list", `{}`)}, ids: []string{`1`},
			ask: func(context.Context, Question) ([]byte, *wire.Error) {
				return nil, &wire.Error{Code: -1, Message: "no", Data: []byte(`[1]`)}
			},
			want: []string{`1 {"code":-1,"message":"no","data":[1]}`}},
		{name: "two at once", events: []string{askingEvent(`1`, "roots/list", `{}`), askingEvent(`2`, "roots/list", `{}`)}, ids: []string{`1`, `2`},
			ask: askedTogether(2), want: []string{`1 {}`, `2 {}`}},
		{name: "array as params", events: []string{askingEvent(`1`, "roots/list", `[]`)}, ids: []string{`1`}, ask: echoAsked,
			want: []string{`1 {"code":-32602,"message":"the question's params are not an object"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			q := newHTTPAsker(t, func(q *httpAsker, w http.ResponseWriter, _ *http.Request, m rpc) {
				send := events(w, m)
				for _, e := range tt.events {
					send(e)
				}
				for _, id := range tt.ids {
					<-q.wait(id)
				}
				send(answerEvent)
			})
			c := dialHTTPAsker(t, q, nil)
			resp, err := c.Do(t.Context(), askedCall("x", tt.ask))
			if err != nil || string(resp.Result) != `{"ok":1}` {
				t.Fatalf("got %s, %v", resp.Result, err)
			}
			if diff := cmp.Diff(tt.want, q.answers()); diff != "" {
				t.Errorf("answers:\n%s", diff)
			}
			alive(t, c)
		})
	}
}

// together answers only when n questions are open at once.
func askedTogether(n int32) func(context.Context, Question) ([]byte, *wire.Error) {
	var open atomic.Int32
	all := make(chan struct{})
	return func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
		if open.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
			return []byte(`{}`), nil
		case <-ctx.Done():
			return nil, &wire.Error{Code: -2, Message: "alone"}
		}
	}
}

// askAndEcho asks one question and answers the call with what it heard.
func askAndEcho(q *httpAsker, w http.ResponseWriter, _ *http.Request, m rpc) {
	send := events(w, m)
	id := `"q` + string(m.ID) + `"`
	send(askingEvent(id, "elicitation/create", fmt.Sprintf(`{"message":%q}`, m.Params.Name)))
	a := <-q.wait(id)
	send(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%%s,\"result\":{\"heard\":%s}}\n\n", string(a.Result)+string(a.Error)))
}

// More calls than max_concurrency wait for their agents at once, with the same
// progress token: each question and each answer reaches its own.
func TestHTTPQuestionsOfManyCalls(t *testing.T) {
	leaks(t)
	const calls = 24
	q := newHTTPAsker(t, askAndEcho)
	c := dialHTTPAsker(t, q, &Settings{MaxConcurrency: 4})
	meet := askedTogether(calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			name := fmt.Sprintf("n%d", i)
			call := askedCall(name, func(ctx context.Context, q Question) ([]byte, *wire.Error) {
				if _, fault := meet(ctx, q); fault != nil {
					return nil, fault
				}
				return fmt.Appendf(nil, `{"by":%q,"asked":%s}`, name, q.Params), nil
			})
			call.ProgressToken = []byte(`1`)
			want := fmt.Sprintf(`{"heard":{"by":%q,"asked":{"message":%q}}}`, name, name)
			if resp, err := c.Do(t.Context(), call); err != nil || string(resp.Result) != want {
				t.Errorf("got %s, %v, want %s", resp.Result, err, want)
			}
		})
	}
	wg.Wait()
	alive(t, c)
}

// On the standing stream a question belongs to the only call there is.
func TestHTTPQuestionOnStandingStream(t *testing.T) {
	const several = `{"code":-32603,"message":"several calls are in flight and the question does not say which it is about; isolation: per_session helps"}`
	for _, tt := range []struct {
		calls int
		want  string
	}{
		{0, `{"code":-32601,"message":"nobody is asked outside of a call on a connection that agents share; isolation: per_session helps"}`},
		{1, `{"to":"fake roots/list","params":{}}`},
		{2, several},
	} {
		t.Run(fmt.Sprint(tt.calls), func(t *testing.T) {
			leaks(t)
			running, finish := make(chan bool), make(chan struct{})
			q := newHTTPAsker(t, func(_ *httpAsker, w http.ResponseWriter, _ *http.Request, m rpc) {
				send := events(w, m)
				send(": on\n\n")
				running <- true
				<-finish
				send(answerEvent)
			})
			c := dialHTTPAsker(t, q, nil)
			var wg sync.WaitGroup
			for range tt.calls {
				wg.Go(func() {
					if _, err := c.Do(t.Context(), askedCall("x", echoAsked)); err != nil {
						t.Error(err)
					}
				})
				<-running
			}
			plain := func() {
				if _, err := c.Do(t.Context(), toolCall("x")); err != nil {
					t.Error(err)
				}
			}
			wg.Go(plain) // it answers nothing, so it does not count
			<-running
			q.stand <- askingEvent(`5`, "roots/list", `{}`)
			a := <-q.wait(`5`)
			q.stand <- askingEvent(`6`, "ping", `{}`)
			<-q.wait(`6`)
			close(finish)
			wg.Wait()
			if got := string(a.Result) + string(a.Error); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if n := c.askers.count(); n != 0 {
				t.Errorf("%d calls left in the table", n)
			}
		})
	}
}

// A question that the server withdraws, on whichever stream, gets no answer.
func TestHTTPQuestionWithdrawn(t *testing.T) {
	for _, standing := range []bool{false, true} {
		t.Run(fmt.Sprintf("standing=%v", standing), func(t *testing.T) {
			leaks(t)
			open, ended := make(chan struct{}), make(chan struct{})
			q := newHTTPAsker(t, func(q *httpAsker, w http.ResponseWriter, _ *http.Request, m rpc) {
				send := events(w, m)
				say := send
				if standing {
					say = func(text string) { q.stand <- text }
				}
				say(askingEvent(`1`, "roots/list", `{}`))
				<-open
				say(withdrawEvent(`2`)) // none of ours
				say(withdrawEvent(`1`))
				<-ended
				send(askingEvent(`3`, "ping", `{}`))
				<-q.wait(`3`)
				send(answerEvent)
			})
			c := dialHTTPAsker(t, q, nil)
			_, err := c.Do(t.Context(), askedCall("x", func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
				close(open)
				<-ctx.Done()
				close(ended)
				return []byte(`{}`), nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			c.Close() // waits for what is still to be posted
			if diff := cmp.Diff([]string{`3 {}`}, q.answers()); diff != "" {
				t.Errorf("answers:\n%s", diff)
			}
		})
	}
}

// A call that is cancelled while its question is open is cancelled at the server,
// at once and under our id.
func TestHTTPQuestionCancelled(t *testing.T) {
	leaks(t)
	q := newHTTPAsker(t, func(q *httpAsker, w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, m)(askingEvent(`1`, "roots/list", `{}`))
		<-r.Context().Done()
	})
	c := dialHTTPAsker(t, q, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	_, err := c.Do(ctx, askedCall("x", func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
		cancel()
		<-ctx.Done()
		close(ended)
		return nil, &wire.Error{Code: 1}
	}))
	if !errors.Is(err, context.Canceled) || KindOf(err) != 0 {
		t.Fatalf("got %v", err)
	}
	<-ended
	wantCancelled(t, q)
	if n := c.askers.count(); n != 0 {
		t.Errorf("%d calls left in the table", n)
	}
}

// wantCancelled waits until the server heard that its only call is cancelled.
func wantCancelled(t *testing.T, q *httpAsker) {
	t.Helper()
	eventually(t, "the server hears of it", func() bool { return len(q.fakeHTTP.got(cancelledNote)) == 1 })
	var body struct {
		Params struct{ RequestID json.RawMessage }
	}
	if err := json.Unmarshal([]byte(q.fakeHTTP.got(cancelledNote)[0].Body), &body); err != nil {
		t.Fatal(err)
	}
	if want := q.fakeHTTP.got("tools/call")[0].ID; string(body.Params.RequestID) != string(want) {
		t.Errorf("cancelled %s, want %s", body.Params.RequestID, want)
	}
}

// The call's time-out rests while a question is open, and goes on afterwards.
func TestHTTPQuestionTimeout(t *testing.T) {
	leaks(t)
	const limit = 150 * time.Millisecond
	q := newHTTPAsker(t, func(q *httpAsker, w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, m)(askingEvent(`1`, "roots/list", `{}`))
		<-q.wait(`1`)
		<-r.Context().Done()
	})
	c := dialHTTPAsker(t, q, &Settings{Timeout: limit})
	_, err := c.Do(t.Context(), askedCall("x", func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
		if !sleep(ctx, nil, 3*limit) {
			t.Error("the time-out did not rest")
		}
		return []byte(`{}`), nil
	}))
	if KindOf(err) != Timeout || err.Error() != "upstream fake: tools/call: no answer within 150ms (timeout)" {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{`1 {}`}, q.answers()); diff != "" {
		t.Errorf("answers:\n%s", diff)
	}
	wantCancelled(t, q)
}

// Close ends calls whose questions are open, and waits for who answers them.
func TestHTTPQuestionClosed(t *testing.T) {
	leaks(t)
	q := newHTTPAsker(t, func(_ *httpAsker, w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, m)(askingEvent(`1`, "roots/list", `{}`))
		<-r.Context().Done()
	})
	c := dialHTTPAsker(t, q, nil)
	open, done := make(chan struct{}), make(chan error)
	var ended atomic.Bool
	go func() {
		_, err := c.Do(t.Context(), askedCall("x", func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
			close(open)
			<-ctx.Done()
			ended.Store(true)
			return nil, nil
		}))
		done <- err
	}()
	<-open
	c.Close()
	if !ended.Load() {
		t.Error("the question outlived the connection")
	}
	if err := <-done; KindOf(err) != Closed {
		t.Errorf("got %v", err)
	}
}

// The first call that can be asked about finds the standing stream open: servers
// drop a question for which they find no stream.
func TestHTTPListensFirst(t *testing.T) {
	leaks(t)
	var open atomic.Bool
	f := newFake(t, &fakeHTTP{legacy: true, get: func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		open.Store(true)
		events(w, rpc{})(": here\n\n")
		<-r.Context().Done()
	}})
	f.call = func(w http.ResponseWriter, _ *http.Request, m rpc) { result(w, m, fmt.Sprint(open.Load())) }
	c := dialed(t, resolved(t, f.URL, nil), env{offers: []byte(`{"roots":{}}`)})
	for _, when := range []string{"dialled", "opened again"} {
		if resp, err := c.Do(t.Context(), toolCall("x")); err != nil || string(resp.Result) != "true" {
			t.Errorf("%s: got %s, %v", when, resp.Result, err)
		}
		open.Store(false)
		f.forget()
	}
}

// A session that was opened again offers what the first one did.
func TestHTTPOffers(t *testing.T) {
	leaks(t)
	q := newHTTPAsker(t, nil)
	c := dialHTTPAsker(t, q, nil)
	q.forget()
	alive(t, c)
	var got []string
	for _, m := range q.fakeHTTP.got("initialize") {
		params, _ := wire.Get([]byte(m.Body), "params")
		caps, _ := wire.Get(params, "capabilities")
		got = append(got, string(caps))
	}
	if diff := cmp.Diff([]string{`{"roots":{}}`, `{"roots":{}}`}, got); diff != "" {
		t.Errorf("offers:\n%s", diff)
	}
}

// A modern server cannot ask; its call keeps the plain time-out.
func TestHTTPQuestionModern(t *testing.T) {
	leaks(t)
	f := newFake(t, &fakeHTTP{modern: true, call: func(w http.ResponseWriter, _ *http.Request, m rpc) {
		send := events(w, m)
		send(askingEvent(`1`, "roots/list", `{}`))
		send(answerEvent)
	}})
	var noise atomic.Int64
	c := dialed(t, resolved(t, f.URL, nil), env{noise: func(n int) { noise.Add(int64(n)) }})
	if _, err := c.Do(t.Context(), askedCall("x", echoAsked)); err != nil {
		t.Fatal(err)
	}
	if n := noise.Load(); n != 1 {
		t.Errorf("noise: got %d, want 1", n)
	}
}
