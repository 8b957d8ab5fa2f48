package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func refuses(context.Context, Question) ([]byte, *wire.Error) {
	return nil, &wire.Error{Code: -1, Message: "no"}
}

// What rests add to a clock of 10 s, however often and long they are.
func TestLimitRests(t *testing.T) {
	for _, tt := range []struct {
		name         string
		before, rest time.Duration
		times        int
		want         time.Duration
	}{
		{name: "refused", before: 350 * time.Millisecond, rest: 49 * time.Millisecond, times: 100, want: 10 * time.Second},
		{name: "short", before: 4 * time.Second, rest: 50 * time.Millisecond, times: 2, want: 10*time.Second + 100*time.Millisecond},
		{name: "no more for a short one", before: 9900 * time.Millisecond, rest: time.Second, times: 1, want: 11 * time.Second},
		{name: "a second for a long one", before: 9900 * time.Millisecond, rest: 2 * time.Second, times: 1, want: 9900*time.Millisecond + 3*time.Second},
		{name: "an hour in all", before: time.Second, rest: 10 * time.Minute, times: 20, want: time.Hour + 10*time.Second},
		{name: "an hour at once", before: time.Second, rest: 3 * time.Hour, times: 1, want: time.Hour + 10*time.Second},
		{name: "an hour of seconds", before: 990 * time.Millisecond, rest: 1100 * time.Millisecond, times: 9000, want: time.Hour + 10*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l limit
				start, ended := time.Now(), make(chan time.Time, 9)
				l.begin(10*time.Second, func() { ended <- time.Now() })
				for range tt.times {
					time.Sleep(tt.before)
					l.rest()
					time.Sleep(tt.rest)
					l.goOn()
				}
				if got := (<-ended).Sub(start); got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// asksOnAndOn asks every so often about the call that it got, for ever.
func asksOnAndOn(every time.Duration) Builtin {
	return legacy(func(m request, say func(string, ...any)) error {
		if m.Method == "x" {
			ask := 0
			var next func()
			next = func() {
				ask++
				say(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, ask)
				time.AfterFunc(every, next)
			}
			time.AfterFunc(every, next)
		}
		return nil
	})
}

// A server cannot hold its call by asking what is refused.
func TestStdioQuestionsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := dial(t, asksOnAndOn(350*time.Millisecond))
		defer c.Close()
		start := time.Now()
		_, err := c.Do(t.Context(), &Call{Method: "x", Timeout: 2 * time.Second, Ask: refuses})
		if took := time.Since(start); KindOf(err) != Timeout || took != 2*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

// Nor by asking what somebody thinks about, for longer than an hour.
func TestStdioQuestionsForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := dial(t, asksOnAndOn(5*time.Minute))
		defer c.Close()
		start := time.Now()
		_, err := c.Do(t.Context(), &Call{Method: "x", Timeout: 10 * time.Minute, Ask: func(context.Context, Question) ([]byte, *wire.Error) {
			time.Sleep(290 * time.Second)
			return []byte(`{}`), nil
		}})
		if took := time.Since(start); KindOf(err) != Timeout || took != 70*time.Minute {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

// Too many questions end the call, even one without a time-out.
func TestStdioQuestionsTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan request, 2*mostQuestions)
		c, _, _ := dial(t, legacy(func(m request, say func(string, ...any)) error {
			switch m.Method {
			case "x":
				go func() {
					for i := range mostQuestions + 1 {
						say(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i)
						time.Sleep(time.Second)
					}
				}()
			case "", cancelledNote:
				heard <- m
			}
			return nil
		}))
		c.settings = &Settings{Timeout: -1}
		defer c.Close()
		_, err := c.Do(t.Context(), &Call{Method: "x", Ask: refuses})
		if KindOf(err) != Protocol || !errors.Is(err, errTooMany) || err.Error() != "upstream srv: x: more than 1000 questions about one call" {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		var got []string
		for range mostQuestions + 2 {
			m := <-heard
			got = append(got, m.Method+string(m.ID)+string(m.Error))
		}
		want := []string{`999{"code":-1,"message":"no"}`, `1000{"code":-32603,"message":"more than 1000 questions about one call"}`, cancelledNote}
		if diff := cmp.Diff(want, got[len(got)-3:]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute) // for the server's goroutine
	})
}

func TestHTTPQuestionsRefused(t *testing.T) {
	leaks(t)
	const limit = 200 * time.Millisecond
	q := newHTTPAsker(t, func(q *httpAsker, w http.ResponseWriter, r *http.Request, m rpc) {
		send := events(w, m)
		for i := 0; sleep(r.Context(), nil, limit/8); i++ {
			send(askingEvent(fmt.Sprint(i), "roots/list", `{}`))
		}
	})
	c := dialHTTPAsker(t, q, &Settings{Timeout: limit})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	_, err := c.Do(ctx, askedCall("x", refuses))
	if ctx.Err() != nil || KindOf(err) != Timeout || !strings.Contains(err.Error(), "no answer within 200ms") {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
	wantCancelled(t, q)
}

func TestHTTPQuestionsTooMany(t *testing.T) {
	leaks(t)
	q := newHTTPAsker(t, func(q *httpAsker, w http.ResponseWriter, r *http.Request, m rpc) {
		send := events(w, m)
		for i := range mostQuestions + 1 {
			send(askingEvent(fmt.Sprint(i%openPerCall), "roots/list", `{}`))
			<-q.wait(fmt.Sprint(i % openPerCall))
		}
		<-r.Context().Done()
	})
	c := dialHTTPAsker(t, q, &Settings{Timeout: -1})
	_, err := c.Do(t.Context(), askedCall("x", refuses))
	if KindOf(err) != Protocol || err.Error() != "upstream fake: tools/call: more than 1000 questions about one call" {
		t.Errorf("got %v", err)
	}
	wantCancelled(t, q)
	alive(t, c)
}

// A server that ends stream after stream while its question is open is followed
// neither quickly nor without end.
func TestHTTPResumeBoundWithQuestion(t *testing.T) {
	leaks(t)
	p := newPollServer(t, &pollServer{parts: map[string]string{
		"":   primed + "id: e2\n" + askingEvent(`1`, "roots/list", `{}`),
		"e2": "",
	}})
	c := dialed(t, resolved(t, p.URL, nil), env{})
	x := exchange{c: c, s: c.session.Load(), waits: maxWaits - 1, call: askedCall("x", func(ctx context.Context, _ Question) ([]byte, *wire.Error) {
		<-ctx.Done()
		return nil, nil
	})}
	start := time.Now()
	if _, err := x.run(t.Context(), 0); KindOf(err) != Uncertain {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took < firstResume {
		t.Errorf("took %v", took)
	}
	if diff := cmp.Diff([]string{"e2"}, p.gets()); diff != "" {
		t.Errorf("GET:\n%s", diff)
	}
}
