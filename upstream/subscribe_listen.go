package upstream

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// listening keeps one stream open on a connection to a modern server, about all
// that is wanted of it. What becomes of it never touches calls.
type listening struct {
	o   *owner
	c   conn
	via listenConn

	cur     *stream // nil when there is none
	pause   time.Duration
	retryAt time.Time // not before, unless zero
	last    time.Time // when a stream was asked for
	gap     bool      // there was no stream: lists may have changed unheard
	idle    *topic    // of which the server granted nothing; nil when there is none
	never   bool      // the server has no such streams

	// apart says that it is not discovery's: its word is nobody's answer.
	apart bool
	shown atomic.Pointer[stream] // cur, for others
	done  stepped
}

// follow goes on until ctx or the connection ends.
func (l *listening) follow(ctx context.Context, kick <-chan struct{}, ready func()) {
	defer l.close(nil)
	l.pause = listenPause
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-kick:
		case <-l.ended():
			l.over()
		case <-l.c.Done():
			return
		case <-ctx.Done():
			return
		}
		wait, later := l.step(ctx)
		if wait > 0 {
			t.Reset(wait)
		}
		if !later {
			ready()
		}
	}
}

// ended is closed when the open stream is over; nil when there is none.
func (l *listening) ended() <-chan struct{} {
	if l.cur == nil {
		return nil
	}
	return l.cur.ended
}

// step brings the stream in line with what is wanted, unless that is for later. It
// returns when to try again; zero when something must happen first.
func (l *listening) step(ctx context.Context) (wait time.Duration, later bool) {
	next := l.wanted()
	if wait, later = l.align(ctx, next); !later {
		l.done.set(next.uris)
	}
	return wait, later
}

func (l *listening) align(ctx context.Context, next topic) (wait time.Duration, later bool) {
	switch {
	case l.never:
		l.refuse(next.uris, errNoUpdates)
		return 0, false
	case l.cur != nil && l.cur.equal(&next), l.idle != nil && l.idle.equal(&next):
		l.settle(next.uris)
		return 0, false
	case next.empty():
		l.close(errReplaced)
		return 0, false
	}
	if wait := time.Until(l.retryAt); !l.retryAt.IsZero() && wait > 0 {
		l.settle(next.uris) // asked for when there is a stream again
		return wait, false
	}
	if wait := listenEvery - time.Since(l.last); wait > 0 {
		return wait, true
	}
	return l.open(ctx, next), false
}

// wanted is what the stream should be about: what the server offers and agents
// have subscribed to.
func (l *listening) wanted() (t topic) {
	info := l.c.Info()
	for i, e := range listEvents {
		t.lists[i] = info.flag(e.capability, "listChanged")
	}
	if info.flag("resources", "subscribe") {
		t.uris = l.o.srv.subs.list()
	}
	return t
}

func (l *listening) settle(uris []string) { l.verdict(nil, uris) }

func (l *listening) refuse(uris []string, err error) {
	l.verdict(l.o.srv.noSubscription(Protocol, err), uris)
}

func (l *listening) verdict(err error, uris []string) {
	if !l.apart {
		l.o.srv.subs.settle(err, uris...)
	}
}

func (l *listening) ensure(ctx context.Context, uri string) { l.done.wait(ctx, uri) }

// tells is asked about what came on a stream, which is about nothing else than
// what was asked for.
func (l *listening) tells(uri string) (asked, agreed bool) {
	s := l.shown.Load()
	return true, s != nil && s.grants(uri) && !over(s.ended)
}

func (l *listening) show(s *stream) {
	l.cur = s
	l.shown.Store(s)
}

// open asks for a stream about next. Over HTTP the one before goes on until the
// new one is acknowledged, so that nothing is missed. Over stdio it ends first:
// there are servers that keep what one connection listens to in one place, and
// drop all of it with the first stream that ends (go-sdk 1.8).
func (l *listening) open(ctx context.Context, next topic) time.Duration {
	l.last, l.retryAt, l.idle = time.Now(), time.Time{}, nil
	if !l.c.Info().HTTP && l.cur != nil {
		l.close(errReplaced)
		l.gap = true
	}
	s := l.start(ctx, next)
	t := time.NewTimer(ackWait)
	defer t.Stop()
	select {
	case <-s.acked:
	case <-s.ended:
	case <-t.C: // late, but it may come
	case <-ctx.Done():
	}
	select {
	case <-s.ended:
		if !s.isAcked() {
			return l.failed(s)
		}
	default:
	}
	l.close(errReplaced)
	l.show(s)
	l.opened(s)
	return 0
}

// start asks for a stream.
func (l *listening) start(ctx context.Context, about topic) *stream {
	s := &stream{topic: about, opened: time.Now(), acked: make(chan struct{}), ended: make(chan struct{})}
	ctx, s.stop = context.WithCancelCause(ctx)
	go l.listen(ctx, s, about)
	return s
}

func (l *listening) listen(ctx context.Context, s *stream, about topic) {
	defer close(s.ended)
	s.err = l.via.Listen(ctx, about.params(), func(method string, params []byte) {
		switch {
		case method == ackMethod:
			s.acknowledged(params)
		case about.has(method, params):
			l.o.srv.notified(l.o, method, params)
		default: // nobody asked for it
			l.o.srv.noise.Add(1)
		}
	})
}

// opened is called with a new stream.
func (l *listening) opened(s *stream) {
	if l.gap && !l.apart { // lists are those of discovery's connection
		l.o.askRelist()
	}
	l.gap = false
	if !s.isAcked() {
		l.settle(s.uris)
		return
	}
	refused := slices.DeleteFunc(slices.Clone(s.uris), func(uri string) bool {
		_, ok := slices.BinarySearch(s.granted, uri)
		return ok
	})
	s.uris = s.granted
	l.settle(s.granted)
	l.refuse(refused, errNoUpdate)
}

// failed handles a stream that never was one; the one before goes on.
func (l *listening) failed(s *stream) time.Duration {
	s.stop(nil)
	var no *refusal
	switch {
	case errors.Is(s.err, errNeverListens):
		l.never = true
		l.refuse(s.uris, errNoUpdates)
		return 0
	case errors.As(s.err, &no):
		l.blame(s, no)
	}
	l.o.srv.set.opt.Log.Debug("no stream of changes", "server", l.o.srv.name, "err", s.err)
	return l.later()
}

// blame takes what was new in a topic that the server refused for the reason.
func (l *listening) blame(s *stream, no *refusal) {
	fresh := s.uris
	if l.cur != nil {
		fresh = slices.DeleteFunc(slices.Clone(fresh), func(uri string) bool {
			_, old := slices.BinarySearch(l.cur.uris, uri)
			return old
		})
	}
	l.verdict(l.o.srv.refused(no.object), fresh)
}

// later plans the next attempt.
func (l *listening) later() time.Duration {
	wait := jitter(l.pause)
	l.pause = min(2*l.pause, listenMost)
	l.retryAt = time.Now().Add(wait)
	l.gap = l.gap || l.cur == nil
	return wait
}

// over handles the end of the open stream.
func (l *listening) over() {
	s := l.cur
	l.show(nil)
	s.stop(nil)
	l.o.srv.set.opt.Log.Debug("stream of changes ended", "server", l.o.srv.name, "err", s.err)
	l.gap = true
	if errors.Is(s.err, errNeverListens) {
		l.never = true
		return
	}
	if s.err == nil && s.isAcked() && s.nothing {
		about := s.topic
		l.idle = &about
		return
	}
	if time.Since(s.opened) > listenGood {
		l.pause = listenPause
	}
	l.later()
}

// close ends the open stream, for the sake of another if why says so.
func (l *listening) close(why error) {
	if l.cur == nil {
		return
	}
	l.cur.stop(why)
	<-l.cur.ended
	l.show(nil)
}
