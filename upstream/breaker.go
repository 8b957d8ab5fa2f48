package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A breaker keeps calls from one server after several in a row found it unwell.
// A new connection, or a probe that is answered, begins with a closed one.
type breaker struct {
	set  Breaker
	cb   atomic.Pointer[gobreaker.TwoStepCircuitBreaker[struct{}]]
	name string
	// state is a copy that can be read under gobreaker's own lock.
	state   atomic.Int32
	tripped atomic.Int64 // when, in Unix nanoseconds
	// kick holds a token when it opened; the pulse probes the server then.
	kick chan struct{}

	mu   sync.Mutex
	last error // the failure that counted last
	// eased is when a probe closed it last. If calls fail again soon, probes say
	// nothing about them.
	eased time.Time
}

// errNeither is an outcome that says nothing about the server's health.
var errNeither = errors.New("neither well nor unwell")

func newBreaker(name string, set Breaker) *breaker {
	b := &breaker{name: name, set: set, kick: make(chan struct{}, 1)}
	b.renew()
	return b
}

// renew closes the breaker and forgets what was counted.
func (b *breaker) renew() {
	if b.set.Failures < 0 {
		return
	}
	var cb *gobreaker.TwoStepCircuitBreaker[struct{}]
	cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      b.set.Open,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= b.set.Failures },
		IsExcluded:   func(err error) bool { return errors.Is(err, errNeither) },
		IsSuccessful: func(err error) bool { return err == nil },
		// It runs under gobreaker's lock, where its State would wait for itself.
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if b.cb.Load() == cb {
				b.turned(to)
			}
		},
	})
	b.cb.Store(cb)
	b.state.Store(int32(gobreaker.StateClosed))
}

func (b *breaker) turned(to gobreaker.State) {
	b.state.Store(int32(to))
	if to != gobreaker.StateOpen {
		return
	}
	b.tripped.Store(time.Now().UnixNano())
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// closed reports whether calls pass without more ado.
func (b *breaker) closed() bool { return b.state.Load() == int32(gobreaker.StateClosed) }

// String is closed, open or half-open.
func (b *breaker) String() string {
	cb := b.cb.Load()
	if cb == nil {
		return gobreaker.StateClosed.String()
	}
	return cb.State().String()
}

// ease closes the breaker because a probe was answered. Where calls were answered
// too, by a failure, that proves little: then it does not if one did so shortly
// before.
func (b *breaker) ease() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if answered(b.last) && !b.eased.IsZero() && now.Sub(b.eased) < b.set.Open {
		return false
	}
	b.eased = now
	b.renew()
	return true
}

// A pass is the leave of one call to go to the server. It is given back once.
type pass struct {
	b     *breaker
	done  func(error)
	timer *time.Timer // of a call that is let through as a probe
	once  sync.Once
}

// allow lets a call pass, or says why not. probe is for the one call that is let
// through while the breaker is half open: it is called when that call takes long,
// and says whether the server is well nevertheless.
func (b *breaker) allow(probe func() error) (*pass, error) {
	cb := b.cb.Load()
	if cb == nil {
		return nil, nil
	}
	done, err := cb.Allow()
	if err != nil {
		return nil, b.refusal()
	}
	p := &pass{b: b, done: done}
	if !b.closed() {
		p.timer = time.AfterFunc(math.MaxInt64, func() { p.report(probe()) })
		p.timer.Reset(b.set.ProbeTimeout) // now that report can find it
	}
	return p, nil
}

// report gives the pass back: nil is that the server is well, errNeither that
// nobody knows. It may be called more than once, and on nil.
func (p *pass) report(err error) {
	if p == nil {
		return
	}
	p.once.Do(func() {
		if p.timer != nil {
			p.timer.Stop()
		}
		if err != nil && !errors.Is(err, errNeither) {
			p.b.mu.Lock()
			p.b.last = err
			p.b.mu.Unlock()
		}
		p.done(err)
	})
}

// An openError is why calls do not pass.
type openError struct {
	failures int
	last     error
}

func (e *openError) Error() string {
	text := fmt.Sprintf("its breaker is open: %d calls in a row found it unwell, so none is sent for a while", e.failures)
	if e.last == nil {
		return text
	}
	return text + "; the last: " + e.last.Error()
}

func (e *openError) Unwrap() error { return e.last }

// easeSoon is what a call is told to wait where a probe may close the breaker.
const easeSoon = 5 * time.Second

func (b *breaker) refusal() *Error {
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	if e := (*Error)(nil); errors.As(last, &e) {
		last = e.Err
	}
	left := time.Until(time.Unix(0, b.tripped.Load()).Add(b.set.Open))
	if !answered(last) {
		left = min(left, easeSoon)
	}
	return &Error{Server: b.name, Kind: Open, Err: &openError{b.set.Failures, last}, RetryAfter: max(left, time.Second)}
}

// verdict says what a call's outcome tells of the server's health. What the caller
// did, what our limits say, and what a proxy or a login is to blame for, says
// nothing of it; any answer says that it is well.
func verdict(err error) error {
	switch KindOf(err) {
	case Unreachable, Uncertain:
		return err
	}
	if err == nil {
		return nil
	}
	return errNeither
}

// A suspicion is the one question at a time whether a server that let a call time
// out is there at all.
type suspicion struct {
	done chan struct{} // closed by resolve
	err  error         // set before
}

// suspectWait bounds the answer to that question.
const suspectWait = 5 * time.Second

// timedOut judges a call without an answer: if the server answered anything since
// the call began, or answers now, it is well.
func (s *server) timedOut(p *pass, o *owner, began time.Time, err error) {
	if time.Unix(0, s.heard.Load()).After(began) {
		p.report(errNeither)
		return
	}
	q := s.suspect(o)
	if q == nil {
		p.report(errNeither)
		return
	}
	<-q.done
	if q.err == nil {
		err = errNeither
	}
	p.report(s.anew(began, err))
	s.noteBreaker()
}

// suspect asks, or joins who asks already; nil when all ends.
func (s *server) suspect(o *owner) *suspicion {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.suspected[o]; q != nil {
		return q
	}
	q := &suspicion{done: make(chan struct{})}
	if !s.set.background(func(ctx context.Context) { s.resolve(ctx, o, q) }) {
		return nil
	}
	if s.suspected == nil {
		s.suspected = map[*owner]*suspicion{}
	}
	s.suspected[o] = q
	return q
}

func (s *server) resolve(ctx context.Context, o *owner, q *suspicion) {
	if c := o.current(); c != nil {
		q.err = o.alive(ctx, c, suspectWait)
		if q.err != nil && ctx.Err() == nil {
			o.declareDead(c, q.err)
		}
	}
	s.mu.Lock()
	delete(s.suspected, o)
	s.mu.Unlock()
	close(q.done)
}

// noteBreaker shows in the status what the breaker says.
func (s *server) noteBreaker() {
	s.changeIf(func(st *Status) bool {
		open, shown := !s.breaker.closed(), st.State == Degraded && KindOf(st.Err) == Open
		switch {
		case open && (st.State == Ready || st.State == Degraded) && !shown:
			st.State, st.Err = Degraded, s.breaker.refusal()
		case !open && shown:
			st.State, st.Err = Ready, nil
		default:
			return false
		}
		return true
	})
}
