package upstream

import (
	"errors"
	"sync"
	"time"
)

// leastLeft is what a call has at least after a question was answered: an answer
// that came in the last moment would be in vain otherwise.
const leastLeft = time.Second

var (
	errCallOver      = errors.New("the call that the question is about is over")
	errNobodyAnswers = errors.New("nobody answers questions about this call")
)

// A limit is a call's own time-out, which can rest. Its zero value never expires,
// and so does nil.
type limit struct {
	whole time.Duration
	timer *time.Timer // nil when there is no bound

	mu    sync.Mutex
	until time.Time
	left  time.Duration // while it rests
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

// rest halts the clock until goOn.
func (l *limit) rest() {
	if l == nil || l.timer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	l.left = max(time.Until(l.until), leastLeft)
}

func (l *limit) goOn() {
	if l == nil || l.timer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.until = time.Now().Add(l.left)
	l.timer.Reset(l.left)
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
