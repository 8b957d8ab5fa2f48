package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A logbook takes log lines from several goroutines.
type logbook struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// about returns the lines with a message.
func (l *logbook) about(msg string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, `msg="`+msg+`"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (l *logbook) into(o *Options) {
	o.Log = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// wantLine wants one line with a message, with all of some texts in it.
func (l *logbook) wantLine(t *testing.T, msg string, texts ...string) {
	t.Helper()
	lines := l.about(msg)
	if len(lines) != 1 {
		t.Errorf("%d lines of %s, want 1: %v", len(lines), msg, lines)
		return
	}
	for _, s := range texts {
		if !strings.Contains(lines[0], s) {
			t.Errorf("lacks %s in\n%s", s, lines[0])
		}
	}
}

// Questions that are refused by the thousand take a few lines, which say how many
// there were.
func TestRefusedQuestionsDoNotFloodTheLog(t *testing.T) {
	piped(t, func(w *world, a pipeAgent) {
		book := new(logbook)
		book.into(&w.front.opt)
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			for range 2 {
				for range 1000 {
					asks("elicitation/create", `{"mode":"form"}`)(ctx, c)
				}
				time.Sleep(time.Second)
			}
			return result(`{"content":[]}`), nil
		}
		a.say(fmt.Sprintf(callSlow, 1))
		a.hear()
		lines := book.about("question refused")
		if len(lines) != 2*linesPerSecond {
			t.Fatalf("%d lines, want %d", len(lines), 2*linesPerSecond)
		}
		for i, line := range lines {
			if got := strings.Contains(line, " suppressed=995"); got != (i == linesPerSecond) {
				t.Errorf("line %d: %s", i, line)
			}
		}
	})
}

func TestThrottleTellsServersApart(t *testing.T) {
	var th throttle
	now := time.Unix(100, 0)
	for _, server := range []string{"a", "b"} {
		for i := range linesPerSecond + 3 {
			if _, ok := th.pass(server, wasRefused, now); ok != (i < linesPerSecond) {
				t.Errorf("%s, line %d: %v", server, i, ok)
			}
		}
	}
	if _, ok := th.pass("a", wasAnswered, now); !ok {
		t.Error("another kind is held back")
	}
	if n, ok := th.pass("a", wasRefused, now.Add(time.Second)); !ok || n != 3 {
		t.Errorf("the next second: %d, %v", n, ok)
	}
	for i := range 3 * maxThrottled {
		th.pass(fmt.Sprint(i), wasRefused, now)
	}
	if n := len(th.m); n > maxThrottled {
		t.Errorf("%d are told apart", n)
	}
}

// The log says who was asked, by which call, and why there is no answer; it never
// repeats what an agent said.
func TestLogOfQuestions(t *testing.T) {
	for _, tt := range []struct {
		name, method, params, answer string
		put                          bool
		msg                          string
		texts                        []string
	}{
		{"answered", "elicitation/create", form, said42, true, "question answered", []string{"by=agent", "session=", "tool=mcp_files_slow", "dur="}},
		{"refused", "elicitation/create", `{"mode":"form"}`, "", false, "question refused", []string{"why=refused", "err=", "session=", "tool=mcp_files_slow", "code="}},
		{"the agent's error", "elicitation/create", form, `"error":{"code":-5,"message":"classified"}`, true, "question not answered", []string{`why="agent's error"`, "code=-5", `err="the agent answered with an error"`}},
		{"timed out", "elicitation/create", form, "", true, "question not answered", []string{"why=timeout", `err="no answer to elicitation/create within 10ms"`}},
		{"unusable", "roots/list", "{}", `"result":{"roots":5}`, true, "answer refused", []string{"err="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			book := new(logbook)
			w := newWorld(t, curious(policy.Sampling{}, policy.Elicitation{Timeout: 10 * time.Millisecond}), book.into)
			if tt.answer != "" {
				anything(&w.front.opt)
			}
			w.answer = asks(tt.method, tt.params)
			a := w.webAgent("2025-11-25", allCaps)
			a.call(fmt.Sprintf(callSlow, 1), func(string, string) string { return tt.answer })
			book.wantLine(t, tt.msg, append(tt.texts, "server=files", "op="+tt.method, "caller=")...)
			if n := len(book.about("question put")); n != map[bool]int{true: 1}[tt.put] {
				t.Errorf("put %d times", n)
			}
			if all := book.b.String(); strings.Contains(all, "classified") || strings.Contains(all, "Which") {
				t.Errorf("it tells too much:\n%s", all)
			}
		})
	}
}

// Between two modern ends, too, the log says what was asked and answered.
func TestLogOfModernQuestions(t *testing.T) {
	book := new(logbook)
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
			if strings.Contains(string(c.Params), "inputResponses") {
				return upstream.Response{Result: []byte(`{"resultType":"complete","content":[]}`), Era: upstream.Modern}, nil
			}
			return upstream.Response{Era: upstream.Modern, Result: []byte(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":` + formQuestion + `}}}`)}, nil
		}
		p := w.asks(w.run(slowCall("")), "a")
		time.Sleep(7 * time.Second)
		w.run(p.retry(slowCall(""), `{"a":`+formAnswer+`}`))
		book.wantLine(t, "question put", "level=DEBUG", "server=files", "tool=mcp_files_slow")
		book.wantLine(t, "question answered", "level=INFO", "by=agent", "dur=7s", "tool=mcp_files_slow")
	}, book.into)
	parkBubble(t, func(t *testing.T, w *parkWorld) {
		book := new(logbook)
		book.into(&w.front.opt)
		w.answer = serverAsks(formAsked)
		p := w.asks(w.run(slowCall("")), "q1")
		w.run(p.retry(slowCall(""), `{"q1":`+formAnswer+`}`))
		synctest.Wait()
		book.wantLine(t, "question answered", "by=agent", "tool=mcp_files_slow")
	})
}

// What outsiders call things is logged without what a terminal would act upon: the
// method of a question, of a request, the name of a tool and the texts of errors.
func TestLinesAreClean(t *testing.T) {
	const evil = "x/\u202ey\u009bz\u200b"
	var book logbook
	json := func(o *Options) {
		o.Log = slog.New(slog.NewJSONHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Cleaner = &policy.Cleaner{Off: true}
	}
	w := newWorld(t, anything, json)
	x := &exchange{f: w.front, tool: evil}
	x.msg.Method = evil
	a := w.front.asker("files")
	for _, what := range []string{wasPut, wasAnswered, wasRefused, wasNot, wasUnusable} {
		x.logAsked(a, about{server: "files", method: evil}, what, x.reasonFor(failing, badParams(evil))...)
	}
	x.panicked("boom")
	x.panickedOver("boom", &upstream.Question{Server: "files", Method: evil})
	x.troubled(context.Background(), "files", &upstream.Error{Server: "files", Kind: upstream.Timeout})
	x.judge(a, about{server: "files", method: "elicitation/create"}, nil, []byte(`{"action":"`+evil+`"}`), byAgent)
	p := parked{x: *x, cancel: func() {}, timer: time.NewTimer(time.Hour)}
	p.drop("late")
	lines := book.b.String()
	if strings.ContainsAny(lines, "\u202e\u009b\u200b") {
		t.Errorf("logged:\n%s", lines)
	}
	if n := strings.Count(lines, "\n"); n != 11 {
		t.Errorf("%d lines:\n%s", n, lines)
	}
}
