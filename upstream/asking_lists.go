package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// There are servers that show some of their tools only to clients that declare
// to answer questions, and where processes that can ask have a state of their own
// their lists differ too. So the lists are read over an asking connection as well,
// once an agent has come that would see them.

// A Viewer is a kind of agents, which may see more of a server than others do.
type Viewer struct {
	Answers bool // they can be asked something
	Legacy  bool // they are of the older era
}

// askingLists is what a server lists to clients that can be asked.
type askingLists struct {
	always   bool        // an endpoint answers, in place of every agent
	expected atomic.Bool // an agent that can answer has come
	older    atomic.Bool // one of the older era has
	due      atomic.Bool // to be read with the next connection
	begun    atomic.Bool // the first reading, at least
	once     sync.Once
	ended    chan struct{} // closed when the first reading ended, well or not
	listing  atomic.Pointer[Listing]
	reader   atomic.Pointer[owner] // who read them last; nil once that connection is gone
}

// askRoute is that of the connection that reads them. Behind a pipe it is the
// first of the pool, where calls go too; elsewhere no caller's calls do.
var askRoute = route{profile: plainRoute.profile, mode: Asking}

// Expect is told that an agent of a profile has come. It never blocks.
func (s *Set) Expect(profile string, who Viewer) {
	for _, srv := range s.servers {
		if (who.Answers || srv.asking.always) && srv.asking.expect(who.Legacy) {
			srv.lookAsking()
		}
	}
}

// expect reports whether such an agent is the first.
func (a *askingLists) expect(legacy bool) (first bool) {
	if !a.expected.Load() {
		first = !a.expected.Swap(true)
	}
	if legacy && !a.older.Load() {
		first = !a.older.Swap(true) || first
	}
	return first
}

// AskingListing returns what a server lists to such agents, read over a connection
// that can ask; nil when that is not known, or no other than what it lists to all.
func (s *Set) AskingListing(name string, who Viewer) *Listing {
	srv := s.byName[name]
	if srv == nil || !srv.canAsk(who) {
		return nil
	}
	l, plain := srv.asking.listing.Load(), srv.listing.Load()
	if l == plain || l.same(plain) {
		return nil
	}
	return l
}

// AwaitAsking waits until what the named servers list to such agents was read that
// is being read for the first time, at most d.
func (s *Set) AwaitAsking(ctx context.Context, d time.Duration, who Viewer, names ...string) {
	s.await(ctx, d, names, func(srv *server) <-chan struct{} {
		if !srv.asking.begun.Load() || !srv.canAsk(who) {
			return nil
		}
		return srv.asking.ended
	})
}

// canAsk reports whether calls of such agents go to connections that can ask: the
// server may ask something, and is legacy, or both it and the agents can be.
func (s *server) canAsk(who Viewer) bool {
	if s.offers == 0 || !who.Answers && !s.asking.always {
		return false
	}
	apart := s.pool() > 0 || s.settings.Isolation != "" && s.settings.Isolation != "shared"
	era := s.era.Load()
	return apart && era != nil && (*era == Legacy || who.Legacy && s.bothEras())
}

// awaited reports whether an agent has come that would see the asking lists.
func (s *server) awaited() bool {
	a := &s.asking
	return a.expected.Load() && s.canAsk(Viewer{Answers: true, Legacy: a.older.Load()})
}

// lookAsking has the asking lists read again, if an agent may see them. It is
// called with each connection of discovery's, and when its lists changed.
func (s *server) lookAsking() {
	if !s.awaited() || s.plain.current() == nil {
		return
	}
	s.asking.due.Store(true)
	s.asking.begun.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.asker()
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

// asker is who reads the asking lists again: who did so last, else the first of
// the pool; nil when there is none. The server's lock is held.
func (s *server) asker() *owner {
	if o := s.asking.reader.Load(); o != nil && !o.use.leaving && o.current() != nil && s.mayRead(o) {
		return o
	}
	return s.apart[askRoute]
}

// mayRead reports whether the asking lists may be those of o. They are the first's
// of the pool, or those of a later one of the same caller: agents of one caller go
// to either, and no other caller's process changes what they see. The server's lock
// is held.
func (s *server) mayRead(o *owner) bool {
	first := s.apart[askRoute]
	if o == first || first == nil {
		return o.lists()
	}
	c := first.caller.Load()
	return o.lists() && (c == nil || o.of(*c))
}

// listsChanged has the lists read again that a connection says have changed.
func (s *server) listsChanged(o *owner) {
	s.plain.askRelist()
	switch {
	case o.route.mode == Asking && !s.settings.local():
		s.lookAsking()
	case o.lists():
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mayRead(o) {
			o.askRelist()
		}
	}
}

// relistAll reads all lists again over the connections that are there. It is
// always true.
func (s *server) relistAll() bool {
	s.plain.askRelist()
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.asker(); o != nil && o.current() != nil {
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
	a.reader.Store(o)
	plain := o.srv.listing.Load()
	if plain != nil && o.translates() {
		l.Info = plain.Info // what it is does not change with who looks at its lists
	}
	if l.same(plain) {
		l = plain
	}
	if old := a.listing.Swap(l); !l.same(old) {
		o.srv.changed()
	}
	return nil
}

// unread has the asking lists read anew when the process is gone whose lists they
// are: those of the first, or of the next that starts.
func (o *owner) unread() {
	s := o.srv
	if !s.asking.reader.CompareAndSwap(o, nil) || !s.settings.local() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.apart[askRoute]; first != nil && first != o && first.current() != nil {
		first.askRelist()
		return
	}
	s.asking.due.Store(true)
}
