// Package upstream is the back: it starts or dials the servers, keeps one
// connection per key alive, and gets answers to calls.
//
// A Set holds all servers. Each connection has one owner, a goroutine that
// makes it, reads its lists, watches it and replaces it.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
)

// A Server is one entry of the configuration.
type Server struct {
	Name     string
	Settings *Settings
	// Err is a fault of the entry: the server is listed as failed, never dialled.
	Err error
}

// Options are what a Set needs of the program around it.
type Options struct {
	// Log gets state changes and the servers' own words. If nil, discarded.
	Log *slog.Logger
	// ClientName and ClientVersion introduce us to servers.
	ClientName, ClientVersion string
	// Vars gives references their values, anew at every connect. If nil, none is set.
	Vars func(server, profile string) Vars
	// Environ is the environment that children's baseline is cut from.
	Environ []string
	// Builtins are the in-process servers by name.
	Builtins map[string]Builtin
	// GuardCommand starts the guard process. If nil, children are not guarded
	// against a SIGKILL of this program.
	GuardCommand []string
	// LimitCommand calls RunLimited with the arguments that are put behind it. If nil,
	// servers with rlimits do not start.
	LimitCommand []string
	// Egress decides how connections to servers leave. If nil, all are direct.
	Egress *egress.Egress
	// Children is the proxy of servers that may reach certain hosts only. If nil,
	// such servers do not start.
	Children *egress.Children
	// Cache keeps what servers listed, for those that start with their first call.
	// If nil, they start at once.
	Cache *Cache
	// Shows reports whether anything of what a server listed is shown to anybody. If
	// nothing is, no call would ever start it: it does not wait for one then. If nil,
	// all is shown. It may be called by several goroutines.
	Shows func(server string, l *Listing) bool
	// Tokens returns the credentials of a profile for a server with OAuth, the same
	// ones each time. It may be called by several goroutines. If nil, such servers do
	// not connect.
	Tokens func(r *Resolved, profile string) (Tokens, error)
	// OnChange is called after a server's status or listing changed. It must not
	// block. It may be nil.
	OnChange func(server string)
	// OnNotify gets what a server says outside of any call. It must neither block
	// nor keep params. It may be nil.
	OnNotify func(from Origin, method string, params []byte)
	// SeveralCallers reports whether more than one caller can come. No caller gets
	// all places of a server then. If nil, that holds once several came. It must
	// not block.
	SeveralCallers func() bool
}

// A Set is all servers of one configuration.
type Set struct {
	opt     Options
	servers []*server
	byName  map[string]*server
	gate    *spawnGate
	guard   *Guard
	owners  chan *owner   // new ones, for Run to start
	done    chan struct{} // closed when Run returns
	aside   background
}

// NewSet prepares the servers; nothing starts before Run.
func NewSet(servers []Server, opt Options) (*Set, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{opt: opt, byName: map[string]*server{}, gate: newSpawnGate(), owners: make(chan *owner), done: make(chan struct{})}
	if opt.GuardCommand != nil {
		s.guard = newGuard(opt.GuardCommand, opt.Log)
	}
	for _, spec := range servers {
		if s.byName[spec.Name] != nil {
			return nil, fmt.Errorf("server %q is defined twice", spec.Name)
		}
		srv := newServer(s, spec)
		s.servers = append(s.servers, srv)
		s.byName[spec.Name] = srv
	}
	return s, nil
}

// Run starts all servers at once and keeps them until ctx ends; it returns
// when every connection is closed and every child is gone.
func (s *Set) Run(ctx context.Context) error {
	defer close(s.done)
	g, gctx := errgroup.WithContext(ctx)
	for _, srv := range s.servers {
		if srv.err != nil || srv.status.Load().State == Disabled {
			srv.settle()
			continue
		}
		g.Go(func() error { return srv.plain.run(gctx) })
	}
	g.Go(func() error { return s.startOwners(gctx, g) })
	s.aside.begin(gctx)
	err := g.Wait()
	s.aside.end()
	if s.guard != nil {
		s.guard.Close()
	}
	return err
}

// startOwners runs the owners of keys that calls ask for later.
func (s *Set) startOwners(ctx context.Context, g *errgroup.Group) error {
	for {
		select {
		case o := <-s.owners:
			g.Go(func() error { return o.runApart(ctx) })
		case <-ctx.Done():
			return nil
		}
	}
}

// Names returns the servers in configuration order.
func (s *Set) Names() []string {
	names := make([]string, len(s.servers))
	for i, srv := range s.servers {
		names[i] = srv.name
	}
	return names
}

// Status returns a server's state; ok is false when there is no such server.
func (s *Set) Status(name string) (st Status, ok bool) {
	srv := s.byName[name]
	if srv == nil {
		return Status{}, false
	}
	st = *srv.status.Load()
	st.Noise, st.Breaker, st.Lazy = srv.noise.Load(), srv.breaker.String(), srv.settings.Lazy
	st.InFlight, st.Queued = len(srv.slots), int(max(srv.queued.Load(), 0))
	if f := srv.plain.files.Load(); f != nil && srv.plain.secure.Load() {
		st.CertificateUntil, _ = f.Certificate()
	}
	return st, true
}

// Listing returns the last good listing of a server; nil before the first.
func (s *Set) Listing(name string) *Listing {
	if srv := s.byName[name]; srv != nil {
		return srv.listing.Load()
	}
	return nil
}

// Settled is closed once a server's first attempt to connect and list ended,
// well or not. It is nil for an unknown server.
func (s *Set) Settled(name string) <-chan struct{} {
	if srv := s.byName[name]; srv != nil {
		return srv.settled
	}
	return nil
}

// AwaitFirst waits until every named server is settled, at most d.
func (s *Set) AwaitFirst(ctx context.Context, d time.Duration, names ...string) {
	s.await(ctx, d, names, func(srv *server) <-chan struct{} { return srv.settled })
}

// await waits until what of returns for each named server is closed, at most d.
func (s *Set) await(ctx context.Context, d time.Duration, names []string, of func(*server) <-chan struct{}) {
	var timer *time.Timer
	for _, n := range names {
		srv := s.byName[n]
		if srv == nil {
			continue
		}
		ch := of(srv)
		select {
		case <-ch:
			continue
		default:
		}
		if ch == nil {
			continue
		}
		if timer == nil {
			timer = time.NewTimer(d)
			defer timer.Stop()
		}
		select {
		case <-ch:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Do gets the answer to one call. A failure is an *Error, or ctx's error when
// the caller gave up. A call is sent a second time only if the first one cannot
// have run, or if c.Safe says that it does no harm.
func (s *Set) Do(ctx context.Context, t Target, c *Call) (Response, error) {
	srv := s.byName[t.Server]
	if srv == nil {
		return Response{}, &Error{Server: t.Server, Kind: Config, Err: errors.New("no such server")}
	}
	if err := srv.callable(); err != nil {
		return Response{}, err
	}
	if srv.parts(t, c) {
		return srv.doApart(ctx, t, c)
	}
	return srv.doPlain(ctx, c)
}

// Wake waits until a server has listed what it has, and starts it for that if need
// be. An error says why it cannot; it is as those of Do.
func (s *Set) Wake(ctx context.Context, name string) error {
	srv := s.byName[name]
	if srv == nil {
		return &Error{Server: name, Kind: Config, Err: errors.New("no such server")}
	}
	if err := srv.callable(); err != nil {
		return err
	}
	c, err := srv.plain.acquire(ctx)
	if err != nil {
		return err
	}
	select {
	case <-srv.firstList:
		return nil
	case <-c.Done():
		return srv.plain.why()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// doPlain sends a call over the connection that most share.
func (s *server) doPlain(ctx context.Context, c *Call) (Response, error) {
	v, err := s.admit(ctx, s.plain, c)
	if err != nil {
		return Response{}, err
	}
	r, sent, err := s.plain.do(ctx, c)
	if err == nil && s.settings.recycles() {
		s.houses(s.plain, c, &r)
	}
	v.end(s.plain, sent, err)
	return r, err
}

// SetLogLevel asks every server that logs for at least this level, now and
// after each reconnect. Failures are the servers' own affair.
func (s *Set) SetLogLevel(ctx context.Context, level string) {
	var wg sync.WaitGroup
	for _, srv := range s.servers {
		srv.logLevel.Store(&level)
		for _, o := range srv.live() {
			wg.Go(func() { o.sendLogLevel(ctx) })
		}
	}
	wg.Wait()
}
