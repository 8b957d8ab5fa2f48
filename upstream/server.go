package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

// slotWait bounds how long a call queues for a process that can ask.
const slotWait = 30 * time.Second

// A route is what of a Target decides the connection before references are
// resolved; the identity completes it to a Key.
type route struct {
	profile, isolation string
	// caller is whose connection it is; empty for one that callers share and for
	// the processes of a pool, which are given to a caller later.
	caller string
	mode   Mode
	n      int // tells the processes of one pool apart, from zero on
}

// plainRoute is that of discovery, whose owner Run starts by itself.
var plainRoute = route{profile: "default"}

// A server is the state that all connections of one entry share.
type server struct {
	set      *Set
	name     string
	settings *Settings
	err      error
	offers   policy.Answers // what it may ask of agents
	plain    *owner         // discovery's connection, which most calls share

	slots     chan struct{}
	queued    atomic.Int64 // calls that wait for one of slots
	answers   *byteBudget  // of answers over HTTP; those of a pipe come one at a time
	bytes     *byteBudget  // of requests
	breaker   *breaker
	noise     atomic.Int64
	heard     atomic.Int64 // when the server answered last, in Unix nanoseconds
	failed    atomic.Int64 // when a call last found it unwell, in Unix nanoseconds
	noPing    atomic.Bool  // it gives signs of life by lists only
	restUntil atomic.Int64 // the server asked for a pause until then, in Unix nanoseconds
	status    atomic.Pointer[Status]
	listing   atomic.Pointer[Listing]
	era       atomic.Pointer[Era]
	dies      atomic.Bool   // its process ended upon whichever message was its first
	guessed   atomic.Bool   // era is what a server that dies was taken for
	both      atomic.Bool   // discovery's last connection said that it speaks both eras
	oneEra    atomic.Bool   // it does not speak both, whatever it says
	way       atomic.Uint32 // the httpWay of its last connection
	logLevel  atomic.Pointer[string]
	settled   chan struct{} // closed by settle
	once      sync.Once
	firstList chan struct{} // closed by listed
	listOnce  sync.Once
	opened    atomic.Int64 // connections so far; numbers them
	asking    askingLists
	subs      subscriptions

	trusting sync.Once // of warnTrust

	turning sync.Mutex // one change of status at a time

	mu    sync.Mutex
	apart map[route]*owner  // every owner but plain
	last  map[string]*owner // of a pool: who was where
	queue []*waiter         // calls that wait for one of apart
	seen  callers           // who came lately for one of apart
	// suspected are the owners whose server is being asked whether it is there.
	suspected map[*owner]*suspicion
}

func newServer(set *Set, spec Server) *server {
	n := spec.Settings.MaxConcurrency
	if n <= 0 {
		n = 64
	}
	s := &server{
		set: set, name: spec.Name, settings: spec.Settings, err: spec.Err, offers: spec.Settings.offers(),
		slots: make(chan struct{}, n), settled: make(chan struct{}), firstList: make(chan struct{}), apart: map[route]*owner{}, last: map[string]*owner{},
	}
	s.bytes, s.answers = newByteBudget(spec.Name, spec.Settings), newByteBudget(spec.Name, spec.Settings)
	s.breaker = newBreaker(spec.Name, spec.Settings.breaker())
	s.plain = newOwner(s, plainRoute)
	s.asking.ended = make(chan struct{})
	s.asking.always = s.offers&policy.AnswerSampling != 0 && spec.Settings.Sampling.Endpoint.URL != ""
	s.asking.expected.Store(s.asking.always)
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

// offers is what a server with these settings may ask of agents. A legacy
// handshake declares all of it, so that no agent chooses what is declared.
func (s *Settings) offers() policy.Answers {
	return policy.Offers(&s.Sampling, &s.Elicitation, &s.Roots)
}

func (s *server) settle() { s.once.Do(func() { close(s.settled) }) }

// listed publishes what the server lists.
func (s *server) listed(l *Listing) {
	s.listing.Store(l)
	s.listOnce.Do(func() { close(s.firstList) })
}

// callable says why no call can be made at all, if so.
func (s *server) callable() error {
	switch {
	case s.err != nil:
		return &Error{Server: s.name, Kind: Config, Err: s.err}
	case s.status.Load().State == Disabled:
		return &Error{Server: s.name, Kind: Config, Err: errors.New("disabled")}
	}
	return nil
}

// live returns the owners that have a connection.
func (s *server) live() []*owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := append(slices.Collect(maps.Values(s.apart)), s.plain)
	return slices.DeleteFunc(out, func(o *owner) bool { return o.current() == nil })
}

// enter takes one of max_concurrency places, for leave to give back. It waits for
// one if not too many do.
func (s *server) enter(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	most, wait := s.settings.queue()
	defer s.queued.Add(-1)
	if n := s.queued.Add(1); n > int64(most) {
		return &Error{Server: s.name, Kind: Busy, RetryAfter: wait,
			Err: fmt.Errorf("%d calls are in flight (max_concurrency), and as many wait as may (max_queue is %d)", cap(s.slots), most)}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-t.C:
		return &Error{Server: s.name, Kind: Busy, RetryAfter: wait,
			Err: fmt.Errorf("%d calls are in flight (max_concurrency), and none ended within %v (queue_wait)", cap(s.slots), wait)}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) leave() { <-s.slots }

// change makes a new status of the old one, tells who listens, and logs what it
// is now. Nothing else changes a server's state.
func (s *server) change(f func(*Status)) {
	s.changeIf(func(st *Status) bool { f(st); return true })
}

// changeIf is change, unless f finds that there is nothing to change after all.
func (s *server) changeIf(f func(*Status) bool) bool {
	s.turning.Lock()
	old := s.status.Load()
	st := *old
	if !f(&st) {
		s.turning.Unlock()
		return false
	}
	if st.State != old.State {
		st.Since = time.Now()
	}
	s.status.Store(&st)
	s.turning.Unlock()
	s.changed()
	if st.State != old.State || st.Attempts != old.Attempts || KindOf(st.Err) == Open && KindOf(old.Err) != Open {
		s.logState(old, &st)
	}
	return true
}

// logState is the one place where a server's life is logged.
func (s *server) logState(old, st *Status) {
	log := s.set.opt.Log.With("server", s.name, "was", old.State)
	switch st.State {
	case Ready:
		tools, prompts, resources := 0, 0, 0
		if l := s.listing.Load(); l != nil {
			tools, prompts, resources = len(l.Tools), len(l.Prompts), len(l.Resources)
		}
		if KindOf(old.Err) == Open {
			log = log.With("breaker", "closed")
		}
		log.Info("server ready", "version", st.Info.Version, "tools", tools, "prompts", prompts, "resources", resources)
	case Failed, Parked, NeedsLogin:
		if !st.RetryAt.IsZero() {
			log = log.With("attempts", st.Attempts, "retry", time.Until(st.RetryAt).Round(100*time.Millisecond))
		}
		log.Warn("server down", "state", st.State, "err", st.Err)
	case Degraded:
		log.Warn("server degraded", "err", st.Err)
	default:
		log.Info("server state", "state", st.State)
	}
}

// warnTrust says that nobody knows who the server is.
func (s *server) warnTrust() {
	s.set.opt.Log.Warn("the server's certificate is not checked (ssl_verify: false): whoever is on the way can read and change what is sent, credentials too", "server", s.name)
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
		s.listsChanged(o)
	}
	if f := s.set.opt.OnNotify; f != nil {
		from := Origin{Server: s.name, Isolation: o.apartFor()}
		if method == updateMethod {
			from.Hears = s.hearers(o, params)
		}
		f(from, method, params)
	}
}
