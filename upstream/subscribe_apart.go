package upstream

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// firstPass bounds how long a process of its own is told what to tell of before
// its first call.
const firstPass = 2 * time.Second

// mirrors reports whether a connection beside discovery's must be subscribed
// too: behind a pipe it is another process, where things change by its own calls.
// Of an HTTP server there is one, which tells on discovery's connection.
func (o *owner) mirrors(c conn) bool {
	return o.srv.settings.local() && c.Info().Era == Legacy && c.Info().flag("resources", "subscribe")
}

// mirror subscribes a connection to what is wanted so far. It returns nil where
// that is not needed.
func (o *owner) mirror(ctx context.Context, c conn) *asked {
	if !o.mirrors(c) {
		return nil
	}
	a := &asked{o: o, c: c, uris: map[string]bool{}, apart: true}
	ctx, cancel := context.WithTimeout(ctx, firstPass)
	defer cancel()
	a.pass(ctx)
	return a
}

// keep follows what is wanted until the connection or ctx ends.
func (a *asked) keep(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	kick, leave := a.o.srv.subs.follow(a)
	defer leave()
	for {
		a.pass(ctx)
		select {
		case <-kick:
		case <-a.c.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// keepMirror runs keep; the function that it returns ends that.
func (a *asked) keepMirror(ctx context.Context) (stop func()) {
	if a == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go a.keep(ctx, done)
	return func() { cancel(); <-done }
}

// everywhere subscribes to a resource in every process of its own, so that what
// an agent does there next is told. What keeps silent is passed over.
func (s *subscriptions) everywhere(ctx context.Context, uri string) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.followers))
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstPass)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(subscribeAtOnce)
	for _, a := range all {
		g.Go(func() error { a.ensure(ctx, uri); return nil })
	}
	g.Wait()
}

// ensure subscribes unless that was done.
func (a *asked) ensure(ctx context.Context, uri string) {
	a.mu.Lock()
	done := a.uris[uri]
	a.mu.Unlock()
	if !done {
		a.subscribe(ctx, uri)
	}
}

// follow returns a channel that holds a token after each change of what is
// wanted.
func (s *subscriptions) follow(a *asked) (kick <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers == nil {
		s.followers = map[chan struct{}]*asked{}
	}
	s.followers[c] = a
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followers, c)
	}
}
