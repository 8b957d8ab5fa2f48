package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Numbers of an owner's life.
const (
	wakeWait    = 15 * time.Second       // how long a call waits for a connection
	wakeEvery   = time.Second            // calls wake a failed server no more often
	relistPause = 200 * time.Millisecond // gathers bursts of list_changed
	relistAgain = time.Second            // and one that goes on within a second costs two reads
	relistMost  = 30 * time.Second       // a server that keeps changing is read no more often
	relistRetry = 30 * time.Second
	provenAfter = 60 * time.Second // a connection of this age resets the backoff
)

// An owner is the only one who makes, watches and replaces the connection of
// one route.
type owner struct {
	srv    *server
	route  route
	wake   chan struct{} // asks for an attempt before its time
	relist chan struct{} // asks for the lists to be read again

	conn   atomic.Pointer[held]
	key    atomic.Pointer[Key]
	proven atomic.Bool
	scrub  atomic.Pointer[func(string) string] // of the settings last resolved

	mu      sync.Mutex
	attempt chan struct{} // closed when the attempt under way, or the next, ends
	lastErr error
	quiet   time.Time // until then calls do not wake the server

	caller atomic.Pointer[string] // whose it is; nil before its first call, and for discovery's

	use  use    // of an owner beside discovery's
	told *asked // on its connection; nil without one that is subscribed
}

// held is a connection and the name by which later calls find it again. It
// wraps the interface so that it fits an atomic pointer.
type held struct {
	conn
	via string
}

func newOwner(s *server, r route) *owner {
	return &owner{srv: s, route: r, wake: make(chan struct{}, 1), relist: make(chan struct{}, 1), attempt: make(chan struct{})}
}

// enlist hands a late owner to Run.
func (o *owner) enlist() {
	select {
	case o.srv.set.owners <- o:
	case <-o.srv.set.done:
		o.depart(true)
	}
}

var errStopping = errors.New("the sidecar is stopping")

// run connects, serves and reconnects until ctx ends.
func (o *owner) run(ctx context.Context) error {
	var b backoff
	for ctx.Err() == nil {
		start := time.Now()
		c, err := o.connect(ctx)
		if err == nil {
			o.srv.settle()
			if o.serve(ctx, c); o.proven.Swap(false) || time.Since(start) > provenAfter {
				b.reset()
			}
			err = o.lost(c.Err())
		}
		if ctx.Err() != nil {
			break
		}
		o.pause(ctx, err, b.next(err), b.tries > 1)
	}
	o.end(&Error{Server: o.srv.name, Kind: Closed, Err: errStopping})
	o.srv.settle()
	return nil
}

// connect makes one attempt: resolve, start or dial, handshake, read the lists.
func (o *owner) connect(ctx context.Context) (conn, error) {
	ctx, cancel := o.connectWithin(ctx)
	defer cancel()
	start := time.Now()
	c, err := o.dial(ctx)
	if err != nil {
		err = o.explain(ctx, err)
		o.end(err)
		return nil, err
	}
	o.open(c)
	if err := o.list(ctx, c); err != nil && o.srv.listing.Load() == nil {
		o.conn.Store(nil)
		c.Close()
		return nil, o.lost(o.explain(ctx, err))
	}
	o.sendLogLevel(ctx)
	o.srv.lookAsking()
	l := o.srv.listing.Load()
	o.srv.set.opt.Log.Info("server ready", "server", o.srv.name, "version", c.Info().Version,
		"tools", len(l.Tools), "prompts", len(l.Prompts), "resources", len(l.Resources), "dur", time.Since(start).Round(time.Millisecond))
	return c, nil
}

// connectWithin bounds one attempt.
func (o *owner) connectWithin(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := o.srv.settings.connectTimeout()
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("connect_timeout of %v passed", limit))
}

// explain puts the limit that was hit in the place of "deadline exceeded".
func (o *owner) explain(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return &Error{Server: o.srv.name, Op: "connect", Kind: Timeout, Err: context.Cause(ctx)}
	}
	if KindOf(err) == 0 {
		return &Error{Server: o.srv.name, Op: "connect", Kind: Unreachable, Err: err}
	}
	return err
}

func (o *owner) dial(ctx context.Context) (conn, error) {
	set := o.srv.set
	var vars Vars
	if set.opt.Vars != nil {
		vars = set.opt.Vars(o.srv.name, o.route.profile)
	}
	r, err := o.srv.settings.Resolve(o.srv.name, o.route.profile, vars, set.opt.Environ)
	if err != nil {
		return nil, err
	}
	r.EraHint = o.srv.era.Load()
	if o.route.mode == Asking {
		r.Protocol = LegacyOnly // in the other era what an agent can do goes with each request
	}
	scrub := r.scrub
	o.scrub.Store(&scrub)
	o.key.Store(&Key{Server: o.srv.name, Identity: r.Identity(), Isolation: cmp.Or(o.route.isolation, o.route.caller), Mode: o.route.mode})
	e := env{
		log: set.opt.Log, clientName: set.opt.ClientName, clientVersion: set.opt.ClientVersion,
		guard: set.guard, gate: set.gate, settled: o.srv.recheck, own: o.route.isolation != "",
		notify:  func(method string, params []byte) { o.srv.notified(o, method, params) },
		noise:   func(n int) { o.srv.noise.Add(int64(n)) },
		renewed: o.forgotten,
	}
	if o.route.mode == Asking {
		e.offers = o.srv.offers.Capabilities()
	}
	switch {
	case r.Settings.Builtin != "":
		b := set.opt.Builtins[r.Settings.Builtin]
		if b == nil {
			return nil, &Error{Server: o.srv.name, Kind: Config, Err: fmt.Errorf("no builtin server %q", r.Settings.Builtin)}
		}
		return dialBuiltin(ctx, r, b, e)
	case r.URL != nil:
		return dialHTTP(ctx, r, e)
	}
	return dialStdio(ctx, r, e)
}

// open lets calls use the connection, even while the lists are being read.
func (o *owner) open(c conn) {
	if o == o.srv.plain {
		era := c.Info().Era
		o.srv.era.Store(&era)
	}
	o.conn.Store(&held{c, o.label(o.srv.opened.Add(1))})
	o.end(nil)
}

// serve stays until the connection dies or ctx ends.
func (o *owner) serve(ctx context.Context, c conn) {
	defer c.Close()
	defer o.conn.Store(nil)
	defer o.keepTold(ctx, c)()
	o.srv.change(func(st *Status) {
		st.State, st.Err, st.RetryAt, st.Info = Ready, nil, time.Time{}, *c.Info()
	})
	again, stop := every(o.srv.settings.RelistInterval)
	defer stop()
	o.watch(ctx, c, o.srv.relistAll, again)
}

// every returns a ticker's channel; nil when d is zero.
func every(d time.Duration) (tick <-chan time.Time, stop func()) {
	if d <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// watch reads the lists when that is asked for, and calls now at each tick,
// until that returns false, the connection dies or ctx ends.
func (o *owner) watch(ctx context.Context, c conn, now func() bool, tick <-chan time.Time) {
	pause, last := relistPause, time.Time{}
	for {
		select {
		case <-o.relist:
			if pause = nextRelist(pause, time.Since(last)); !o.listAgain(ctx, c, pause) {
				return
			}
			last = time.Now()
		case <-tick:
			if !now() {
				return
			}
		case <-c.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// lost records that a connection which was open is no more. Calls that come now
// wait for the attempt that follows.
func (o *owner) lost(err error) error {
	if err == nil {
		err = &Error{Server: o.srv.name, Kind: Unreachable, Err: errors.New("the connection ended")}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastErr, o.quiet = err, time.Time{}
	return err
}

// pause shows a failure and waits for the next attempt's time, or for a call
// that wants one now. After a first failure a call may wake the server at once;
// after repeated ones not before wakeEvery has passed.
func (o *owner) pause(ctx context.Context, err error, d time.Duration, slow bool) {
	at := time.Now().Add(d)
	o.srv.change(func(st *Status) {
		st.State, st.Err, st.RetryAt = Failed, err, at
		if KindOf(err) == Unauthorized {
			st.State = NeedsLogin
		}
	})
	o.srv.set.opt.Log.Warn("server down", "server", o.srv.name, "err", err, "retry", d.Round(100*time.Millisecond))
	o.srv.settle()
	if slow {
		o.hush(time.Now().Add(wakeEvery))
		sleep(ctx, nil, min(wakeEvery, d))
	}
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
	case <-o.wake:
	case <-ctx.Done():
	}
}

// hush makes calls fail at once until t, with the last error.
func (o *owner) hush(t time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.quiet = t
}

// end tells the calls that wait how the attempt ended.
func (o *owner) end(err error) {
	select {
	case <-o.wake: // of a call that waited for this attempt
	default:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastErr, o.quiet = err, time.Time{}
	close(o.attempt)
	o.attempt = make(chan struct{})
}

func (s *Settings) connectTimeout() time.Duration {
	if s.ConnectTimeout <= 0 {
		return 60 * time.Second
	}
	return s.ConnectTimeout
}

// sleep waits for d; it returns false when ctx or done came first.
func sleep(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
	case <-ctx.Done():
	}
	return false
}
