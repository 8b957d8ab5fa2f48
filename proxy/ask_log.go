package proxy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// linesPerSecond bounds what is logged of one kind about one server's questions.
	linesPerSecond = 5
	// maxThrottled bounds the kinds and servers that are told apart.
	maxThrottled = 1024
	// maxLogged bounds a text in a line, in bytes.
	maxLogged = 200
)

// A throttle lets a few lines a second through of each kind and server: a server
// asks as often as it likes. The zero value is ready.
type throttle struct {
	mu sync.Mutex
	m  map[throttled]*tally
}

type throttled struct{ server, what string }

type tally struct {
	second int64
	n      int // lines of that second
	left   int // lines left out since the last one
}

// pass reports whether a line may be logged, and how many were left out before.
func (t *throttle) pass(server, what string, now time.Time) (leftOut int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := throttled{server, what}
	l := t.m[k]
	if l == nil {
		if t.m == nil || len(t.m) >= maxThrottled {
			t.m = map[throttled]*tally{}
		}
		l = new(tally)
		t.m[k] = l
	}
	if s := now.Unix(); l.second != s {
		l.second, l.n = s, 0
	}
	if l.n == linesPerSecond {
		l.left++
		return 0, false
	}
	l.n++
	leftOut, l.left = l.left, 0
	return leftOut, true
}

// The words for what became of a question.
const (
	wasPut      = "question put"
	wasAnswered = "question answered"
	wasRefused  = "question refused"
	wasNot      = "question not answered"
	wasUnusable = "answer refused"
	wasOdd      = "odd answer to a question"
)

// An about is the question that a line is about; method is the server's word.
type about struct {
	server, method string
	began          time.Time // zero when that is not known
}

// logAsked logs what became of a question, never what it says. more are further
// facts.
func (x *exchange) logAsked(a *policy.Asker, q about, what string, more ...any) {
	level := slog.LevelInfo
	if q.method == methodSampling {
		level = a.LogLevel()
	}
	switch what {
	case wasPut:
		level = min(level, slog.LevelDebug)
	case wasOdd:
		level = slog.LevelWarn
	}
	log := x.f.opt.Log
	if !log.Enabled(context.Background(), level) {
		return
	}
	leftOut, ok := x.f.throttle.pass(q.server, what, time.Now())
	if !ok {
		return
	}
	facts := append([]any{"server", q.server, "op", x.word(q.method), "caller", x.caller.ID}, x.whose()...)
	if !q.began.IsZero() && what != wasPut {
		facts = append(facts, "dur", time.Since(q.began))
	}
	facts = append(facts, more...)
	if leftOut > 0 {
		facts = append(facts, "suppressed", leftOut)
	}
	log.Log(context.Background(), level, what, facts...)
}

// word is a server's or an agent's word as it may be logged.
func (x *exchange) word(s string) string { return forLog(s, 64) }

// forLog is the beginning of a text from outside, clean whatever policy.cleaning says.
func forLog(s string, n int) string {
	s, _ = (*policy.Cleaner)(nil).Text(clip(s, n))
	return s
}

// whose tells which call of which session a line is about.
func (x *exchange) whose() (facts []any) {
	if x.sess != nil {
		facts = append(facts, "session", x.sess.id[:min(len(x.sess.id), 8)])
	}
	if name := x.toolName(); name != "" {
		facts = append(facts, "tool", forLog(name, maxLogged))
	}
	return facts
}

// toolName is the tool that x calls, as the agent names it; empty when it calls
// none.
func (x *exchange) toolName() string {
	if x.tool != "" || x.msg.Method != "tools/call" {
		return x.tool
	}
	name, _ := wire.Unquote(x.params.name)
	return name
}

// reasonFor are the facts about a question without an answer: the text that the
// server gets, where it is ours, and not an agent's.
func (x *exchange) reasonFor(why cause, err *wire.Error) []any {
	text := err.Message
	if why == declined {
		text = "the agent answered with an error"
	}
	facts := []any{"code", err.Code, "err", forLog(text, maxLogged)}
	if w := why.String(); w != "" {
		facts = append(facts, "why", w)
	}
	return facts
}

// String is the cause in a log.
func (c cause) String() string {
	switch c {
	case refused:
		return "refused"
	case unable:
		return "nobody can"
	case late:
		return "timeout"
	case left:
		return "agent gone"
	case ended:
		return "call over"
	case stopping:
		return "stopping"
	case declined:
		return "agent's error"
	}
	return ""
}
