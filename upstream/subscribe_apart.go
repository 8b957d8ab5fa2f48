package upstream

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// firstPass bounds how long a connection beside discovery's is told what to tell
// of before its first call.
const firstPass = 2 * time.Second

// A follower keeps a connection subscribed to what is wanted.
type follower interface {
	// follow does so until ctx or the connection ends, again with each token in
	// kick. It calls ready once all that was wanted at first is asked for.
	follow(ctx context.Context, kick <-chan struct{}, ready func())
	// ensure waits until a resource is asked for, or refused.
	ensure(ctx context.Context, uri string)
	// tells reports whether the server was asked to tell of a resource, and
	// whether it agreed and is heard.
	tells(uri string) (asked, agreed bool)
}

// A mirror has a follower on a connection beside discovery's: there are servers
// that tell only the session, or the process, that a change was made in.
type mirror struct {
	follower
	o    *owner
	c    conn
	kick chan struct{}
	stop context.CancelFunc
	done chan struct{}
}

// follower returns what keeps a connection subscribed; nil where nothing should.
// Behind a pipe it is another process. Over HTTP it is another session, unless
// there are none; that which only reads the lists has no calls.
func (o *owner) follower(c conn) follower {
	lines, info := o.srv.settings.local(), c.Info()
	switch lc, listens := c.(listenConn); {
	case info.Era == Modern && lines && listens:
		return &listening{o: o, c: c, via: lc, apart: true}
	case info.Era == Modern || !info.flag("resources", "subscribe"):
		return nil
	case lines, (o.route.isolation != "" || o.route.caller != "") && !sessionless(c):
		a := newAsked(o, c)
		a.apart = true
		return a
	}
	return nil
}

// mirror subscribes a connection to what is wanted, and keeps that up until life
// ends or unmirror is called. It waits a little for the server.
func (o *owner) mirror(life, ctx context.Context, c conn) {
	f := o.follower(c)
	if f == nil {
		return
	}
	m := &mirror{follower: f, o: o, c: c, kick: make(chan struct{}, 1), done: make(chan struct{})}
	life, m.stop = context.WithCancel(life)
	o.told.Store(m)
	ready := make(chan struct{})
	go m.keep(life, sync.OnceFunc(func() { close(ready) }))
	t := time.NewTimer(firstPass)
	defer t.Stop()
	select {
	case <-ready:
	case <-t.C:
	case <-c.Done():
	case <-ctx.Done():
	}
}

// unmirror ends what mirror began, if it did.
func (o *owner) unmirror() {
	if m := o.told.Swap(nil); m != nil {
		m.stop()
		<-m.done
	}
}

func (m *mirror) keep(ctx context.Context, ready func()) {
	defer close(m.done)
	subs := &m.o.srv.subs
	subs.enter(m)
	defer subs.leave(m)
	m.follow(ctx, m.kick, ready)
}

func (s *subscriptions) enter(m *mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mirrors == nil {
		s.mirrors = map[*mirror]struct{}{}
	}
	s.mirrors[m] = struct{}{}
}

func (s *subscriptions) leave(m *mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mirrors, m)
}

// mirrored are the mirrors that there are.
func (s *subscriptions) mirrored() []*mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mirrors) == 0 {
		return nil
	}
	return slices.Collect(maps.Keys(s.mirrors))
}

// everywhere subscribes to a resource on every connection beside discovery's, so
// that what an agent does there next is told. What keeps silent is passed over.
func (s *subscriptions) everywhere(ctx context.Context, uri string) {
	all := s.mirrored()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstPass)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(subscribeAtOnce)
	for _, m := range all {
		g.Go(func() error { m.ensure(ctx, uri); return nil })
	}
	g.Wait()
	if ctx.Err() != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.poke() // to try again, with more time
	}
}

// forgotten is called when the server lost a session that was opened again: it
// does not know any more what it was asked to tell of.
func (o *owner) forgotten() {
	if o == o.srv.plain {
		o.srv.subs.forget()
		return
	}
	m := o.told.Load()
	if m == nil {
		return
	}
	if a, ok := m.follower.(*asked); ok {
		a.forget()
	}
	select {
	case m.kick <- struct{}{}:
	default:
	}
}
