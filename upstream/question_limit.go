package upstream

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// What a server gains by its questions. Together they keep it from holding a call
// for ever: what is refused at once, and what nobody thought about, counts for
// nothing, and what counts is bounded.
const (
	// leastAsked is how long a question is open at least that somebody was really
	// asked: what is over sooner was refused by policy, and the clock went on.
	leastAsked = 50 * time.Millisecond
	// leastLeft is what a call has at least after a question that was open for
	// longer than this: an answer in the last moment would be in vain otherwise.
	leastLeft = time.Second
	// mostRest is what all questions about one call add to its time-out at most.
	mostRest = time.Hour
)

var (
	errCallOver      = errors.New("the call that the question is about is over")
	errTooMany       = fmt.Errorf("more than %d questions about one call", mostQuestions)
	errNobodyAnswers = errors.New("nobody answers questions about this call")
)

// A limit is a call's own time-out, which can rest. Its zero value never expires,
// and so does nil.
type limit struct {
	whole time.Duration
	timer *time.Timer // nil when there is no bound

	mu    sync.Mutex
	until time.Time
	since time.Time     // when it began to rest; zero while it runs
	added time.Duration // of mostRest
	over  bool
}

// begin starts the clock. If expire is nil, expired's channel tells the end, else
// expire is called then, in a goroutine, once or more. A bound of zero is none.
func (l *limit) begin(bound time.Duration, expire func()) {
	if bound <= 0 {
		return
	}
	l.whole, l.until = bound, time.Now().Add(bound)
	if expire != nil {
		l.timer = time.AfterFunc(bound, expire)
		return
	}
	l.timer = time.NewTimer(bound)
}

// expired is nil when there is no bound.
func (l *limit) expired() <-chan time.Time {
	if l == nil || l.timer == nil {
		return nil
	}
	return l.timer.C
}

// rest halts the clock until goOn, or until all that it may rest is used up.
func (l *limit) rest() {
	if l == nil || l.timer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if left := l.until.Sub(now); left > 0 && !l.over {
		l.since = now
		l.timer.Reset(left + mostRest - l.added)
	}
}

// goOn adds the rest that counts to the clock.
func (l *limit) goOn() {
	if l == nil || l.timer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.since.IsZero() {
		return
	}
	now := time.Now()
	more := min(worth(now.Sub(l.since), l.until.Sub(l.since)), mostRest-l.added)
	l.since = time.Time{}
	l.added += more
	l.until = l.until.Add(more)
	l.timer.Reset(l.until.Sub(now))
}

// worth is what a rest adds to a clock that had left when it began.
func worth(rested, left time.Duration) time.Duration {
	switch {
	case rested < leastAsked:
		return 0
	case rested > leastLeft:
		return rested + max(0, leastLeft-left)
	}
	return rested
}

// stop ends the clock for good.
func (l *limit) stop() {
	if l == nil || l.timer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.timer.Stop()
}
