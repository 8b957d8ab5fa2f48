package upstream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slotWait bounds how long a call queues for one of max_concurrency slots.
const slotWait = 30 * time.Second

// A route is what of a Target decides the connection before references are
// resolved; the identity completes it to a Key.
type route struct {
	profile, isolation string
	mode               Mode
}

// A server is the state that all connections of one entry share.
type server struct {
	set      *Set
	name     string
	settings *Settings
	err      error

	slots    chan struct{}
	noise    atomic.Int64
	status   atomic.Pointer[Status]
	listing  atomic.Pointer[Listing]
	era      atomic.Pointer[Era]
	logLevel atomic.Pointer[string]
	settled  chan struct{} // closed by settle
	once     sync.Once

	mu     sync.Mutex
	owners map[route]*owner
}

func newServer(set *Set, spec Server) *server {
	n := spec.Settings.MaxConcurrency
	if n <= 0 {
		n = 64
	}
	s := &server{
		set: set, name: spec.Name, settings: spec.Settings, err: spec.Err,
		slots: make(chan struct{}, n), settled: make(chan struct{}), owners: map[route]*owner{},
	}
	st := Status{Server: spec.Name, State: Connecting, Since: time.Now()}
	switch {
	case spec.Settings.Enabled != nil && !*spec.Settings.Enabled:
		st.State = Disabled
	case spec.Err != nil:
		st.State, st.Err = Failed, spec.Err
	}
	s.status.Store(&st)
	return s
}

func (s *server) settle() { s.once.Do(func() { close(s.settled) }) }

// plainRoute is that of discovery, whose owner Run starts by itself.
var plainRoute = route{profile: "default"}

// owner returns the owner of the connection that t needs, and has Run start it
// if it is a new one beside discovery's.
func (s *server) owner(t Target) *owner {
	r := s.route(t)
	s.mu.Lock()
	o := s.owners[r]
	fresh := o == nil
	if fresh {
		o = newOwner(s, r)
		s.owners[r] = o
	}
	s.mu.Unlock()
	if fresh && r != plainRoute {
		go o.enlist()
	}
	return o
}

// route applies what the settings say about sharing.
func (s *server) route(t Target) route {
	r := route{profile: t.Profile}
	if r.profile == "" {
		r.profile = "default"
	}
	return r
}

// live returns the owners that have a connection.
func (s *server) live() []*owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Collect(maps.Values(s.owners))
	return slices.DeleteFunc(out, func(o *owner) bool { return o.current() == nil })
}

// slot takes one of max_concurrency places.
func (s *server) slot(ctx context.Context) (release func(), err error) {
	release = s.leave
	select {
	case s.slots <- struct{}{}:
		return release, nil
	default:
	}
	t := time.NewTimer(slotWait)
	defer t.Stop()
	select {
	case s.slots <- struct{}{}:
		return release, nil
	case <-t.C:
		return nil, &Error{Server: s.name, Kind: Busy, Err: errors.New("max_concurrency calls are in flight"), RetryAfter: slotWait}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *server) leave() { <-s.slots }

// change makes a new status of the old one and tells who listens.
func (s *server) change(f func(*Status)) {
	old := s.status.Load()
	st := *old
	f(&st)
	if st.State != old.State {
		st.Since = time.Now()
	}
	s.status.Store(&st)
	s.changed()
}

func (s *server) changed() {
	if f := s.set.opt.OnChange; f != nil {
		f(s.name)
	}
}

// notified handles what a server says outside of calls.
func (s *server) notified(o *owner, method string, params []byte) {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		o.askRelist()
	}
	if f := s.set.opt.OnNotify; f != nil {
		f(Origin{Server: s.name, Isolation: o.route.isolation}, method, params)
	}
}
