package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// There are servers that show some of their tools only to clients that declare
// to answer questions. So the lists are read over an asking connection too, once
// an agent has come that would see them.

// askingLists is what a server lists to clients that can be asked.
type askingLists struct {
	expected atomic.Bool // an agent that can answer has come
	due      atomic.Bool // to be read with the next connection
	begun    atomic.Bool // the first reading, at least
	once     sync.Once
	ended    chan struct{} // closed when the first reading ended, well or not
	listing  atomic.Pointer[Listing]
}

// askRoute is that of the connection that reads them. Behind a pipe it is the
// first of the pool, where calls go too; elsewhere no caller's calls do.
var askRoute = route{profile: plainRoute.profile, mode: Asking}

// Expect is told that an agent of a profile has come that can answer questions.
// It never blocks.
func (s *Set) Expect(profile string) {
	for _, srv := range s.servers {
		if !srv.asking.expected.Load() && !srv.asking.expected.Swap(true) {
			srv.lookAsking()
		}
	}
}

// AskingListing returns what a server lists to clients that can be asked; nil
// when that is not known, or no other than what it lists to all.
func (s *Set) AskingListing(name string) *Listing {
	srv := s.byName[name]
	if srv == nil || !srv.canAsk() {
		return nil
	}
	l, plain := srv.asking.listing.Load(), srv.listing.Load()
	if l == plain || l.same(plain) {
		return nil
	}
	return l
}

// AwaitAsking waits until the asking listings of the named servers were read
// that are being read for the first time, at most d.
func (s *Set) AwaitAsking(ctx context.Context, d time.Duration, names ...string) {
	s.await(ctx, d, names, func(srv *server) <-chan struct{} {
		if !srv.asking.begun.Load() {
			return nil
		}
		return srv.asking.ended
	})
}

// canAsk reports whether the server has asking connections: it is legacy and
// may ask something.
func (s *server) canAsk() bool {
	era := s.era.Load()
	apart := s.pool() > 0 || s.settings.Isolation != "" && s.settings.Isolation != "shared"
	return s.offers != 0 && apart && era != nil && *era == Legacy
}

// lookAsking has the asking lists read again, if an agent may see them. It is
// called with each connection of discovery's, and when its lists changed.
func (s *server) lookAsking() {
	if !s.asking.expected.Load() || !s.canAsk() || s.plain.current() == nil {
		return
	}
	s.asking.due.Store(true)
	s.asking.begun.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.apart[askRoute]
	if o == nil {
		o = s.openApart(askRoute)
	}
	if o.current() != nil {
		o.askRelist()
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// relistAll reads all lists again over the connections that are there. It is
// always true.
func (s *server) relistAll() bool {
	s.plain.askRelist()
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.apart[askRoute]; o != nil && o.current() != nil {
		o.askRelist()
	}
	return true
}

// lookedAsking notes that the first reading of the asking lists ended, if o is
// who does that.
func (s *server) lookedAsking(o *owner) {
	if o.lists() && s.asking.begun.Load() {
		s.asking.once.Do(func() { close(s.asking.ended) })
	}
}

// readDue reads the asking lists over a connection that was just made.
func (o *owner) readDue(ctx context.Context, c conn) {
	switch {
	case !o.srv.asking.due.Load():
		return
	case o.route.caller != "":
		o.srv.lookAgain()
		return
	case !o.lists():
		return
	}
	ctx, cancel := o.connectWithin(ctx)
	defer cancel()
	if err := o.list(ctx, c); err != nil && !errors.Is(err, context.Canceled) {
		o.srv.set.opt.Log.Warn("the lists for agents that can be asked were not read", "server", o.srv.name, "err", err)
	}
}

// lookAgain has the asking lists read if the first attempt at that failed.
func (s *server) lookAgain() {
	select {
	case <-s.asking.ended:
		s.lookAsking()
	default:
	}
}

// listAsking reads the lists and publishes them if they differ. Where they are
// the shared ones there is one copy of them.
func (o *owner) listAsking(ctx context.Context, c conn) error {
	defer o.srv.lookedAsking(o)
	a := &o.srv.asking
	a.due.Store(false)
	l, err := walk(ctx, o.srv.name, c, *o.scrub.Load())
	if err != nil {
		a.due.Store(true)
		return err
	}
	if plain := o.srv.listing.Load(); l.same(plain) {
		l = plain
	}
	if old := a.listing.Swap(l); !l.same(old) {
		o.srv.changed()
	}
	return nil
}
