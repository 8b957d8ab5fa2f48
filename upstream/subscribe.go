package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// maxSubscribed bounds the resources of one server that it is to tell about.
	maxSubscribed = 1000
	// subscribeWait bounds how long a Subscribe waits for the server's word.
	subscribeWait = 15 * time.Second
)

// subscriptions are the resources of one server that somebody wants to hear of,
// whether it is there or not. The zero value is empty.
type subscriptions struct {
	mu    sync.Mutex
	wants map[string]*subscription // by URI
	kick  chan struct{}            // of who keeps them on a connection; nil without one
	lost  bool                     // the server has forgotten what it was asked
	// mirrors are woken besides: of the connections beside discovery's.
	mirrors map[*mirror]struct{}
}

// A subscription is to one resource.
type subscription struct {
	refs  int
	known chan struct{} // closed once it is known what the server says to it
	done  bool          // known is closed
	err   error         // its refusal
}

// Subscribe has a server tell when a resource changes: OnNotify hears of it.
// Every Subscribe that succeeds is paired with one Unsubscribe; the server is
// asked once, and again with each connection. If it is down, it is asked when it
// is back.
func (s *Set) Subscribe(ctx context.Context, server, uri string) error {
	srv := s.byName[server]
	if srv == nil {
		return &Error{Server: server, Kind: Config, Err: errors.New("no such server")}
	}
	if err := srv.callable(); err != nil {
		return err
	}
	if err := srv.tells(); err != nil {
		return err
	}
	w, known, err := srv.subs.add(uri)
	if err != nil {
		return srv.noSubscription(TooLarge, err)
	}
	if srv.plain.current() == nil {
		return nil
	}
	if err := srv.answered(ctx, w, known); err != nil {
		srv.subs.release(uri, w)
		return err
	}
	srv.subs.everywhere(ctx, uri)
	return nil
}

// Unsubscribe ends what a Subscribe began. It does not block.
func (s *Set) Unsubscribe(server, uri string) {
	if srv := s.byName[server]; srv != nil {
		srv.subs.release(uri, nil)
	}
}

// tells says why the server will never tell of a change, if so.
func (s *server) tells() error {
	info := s.known()
	switch {
	case info == nil:
		return s.noSubscription(Unreachable, errors.New("was never connected"))
	case !info.flag("resources", "subscribe"):
		return s.noSubscription(Protocol, errNoUpdates)
	}
	return nil
}

var (
	errNoUpdates = errors.New("offers no updates of its resources, it lacks the capability resources.subscribe")
	errNoUpdate  = errors.New("offers no updates of this resource")
)

// known is what the server said of itself last; nil when it never did.
func (s *server) known() *Info {
	if c := s.plain.current(); c != nil {
		return c.Info()
	}
	if l := s.listing.Load(); l != nil {
		return &l.Info
	}
	return nil
}

// flag reports whether a capability has a member that is true.
func (i *Info) flag(capability, member string) bool {
	c, _ := wire.Get(i.Capabilities, capability)
	v, _ := wire.Get(c, member)
	return string(v) == "true"
}

func (s *server) noSubscription(k Kind, err error) *Error {
	return &Error{Server: s.name, Op: "resources/subscribe", Kind: k, Err: err}
}

// answered waits for what the server says to a subscription.
func (s *server) answered(ctx context.Context, w *subscription, known <-chan struct{}) error {
	t := time.NewTimer(subscribeWait)
	defer t.Stop()
	select {
	case <-known:
		return s.subs.verdict(w)
	case <-t.C:
		return s.noSubscription(Timeout, fmt.Errorf("no answer within %v", subscribeWait))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *subscriptions) verdict(w *subscription) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.err
}

// add counts one more who wants to hear of a resource. One that the server
// refused is asked for again.
func (s *subscriptions) add(uri string) (*subscription, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wants[uri]
	switch {
	case w == nil && len(s.wants) >= maxSubscribed:
		return nil, nil, fmt.Errorf("more than %d of its resources are subscribed to", maxSubscribed)
	case w == nil:
		if s.wants == nil {
			s.wants = map[string]*subscription{}
		}
		w = &subscription{known: make(chan struct{})}
		s.wants[uri] = w
		s.poke()
	case w.err != nil:
		w.known, w.done, w.err = make(chan struct{}), false, nil
		s.poke()
	}
	w.refs++
	return w, w.known, nil
}

// release ends what add began; w is what add returned, or nil for the current one.
func (s *subscriptions) release(uri string, w *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.wants[uri]
	if now == nil || w != nil && w != now {
		return
	}
	if now.refs--; now.refs == 0 {
		delete(s.wants, uri)
		s.poke()
	}
}

// poke wakes who keeps the subscriptions; s.mu is held.
func (s *subscriptions) poke() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
	for m := range s.mirrors {
		select {
		case m.kick <- struct{}{}:
		default:
		}
	}
}

// forget notes that the server lost what it was asked, though it is the same
// connection.
func (s *subscriptions) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	s.poke()
}

// begin is called with each connection, whose server knows of nothing yet. What
// one refused another may accept.
func (s *subscriptions) begin() (kick <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kick, s.lost = make(chan struct{}, 1), false
	for _, w := range s.wants {
		w.err = nil
	}
	return s.kick
}

// end is called when the connection is over. Nobody waits for its word any more.
func (s *subscriptions) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kick = nil
	for _, w := range s.wants {
		w.close()
	}
}

// settle notes what the server says to some resources; nil is consent.
func (s *subscriptions) settle(err error, uris ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uri := range uris {
		if w := s.wants[uri]; w != nil {
			w.err = err
			w.close()
		}
	}
}

func (w *subscription) close() {
	if !w.done {
		w.done = true
		close(w.known)
	}
}

// list returns the resources that the server is to tell of, in their order.
func (s *subscriptions) list() (uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, w := range s.wants {
		if w.err == nil {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	return uris
}

// wanted reports whether anybody wants to hear of a resource.
func (s *subscriptions) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wants) > 0
}

// wasLost reports, once, whether forget was called.
func (s *subscriptions) wasLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.lost
	s.lost = false
	return lost
}

// keepTold keeps, while the connection lives, what its server is to tell of. The
// function that it returns ends that.
func (o *owner) keepTold(ctx context.Context, c conn) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go o.tellOf(ctx, c, done)
	return func() { cancel(); <-done }
}

func (o *owner) tellOf(ctx context.Context, c conn, done chan<- struct{}) {
	defer close(done)
	subs := &o.srv.subs
	kick := subs.begin()
	defer subs.end()
	lc, ok := c.(listenConn)
	switch {
	case c.Info().Era == Legacy:
		o.tellLegacy(ctx, c, kick)
	case ok:
		l := &listening{o: o, c: c, via: lc}
		l.follow(ctx, kick, func() {})
	}
}
