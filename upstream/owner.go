package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// Numbers of an owner's life.
const (
	wakeEvery   = time.Second            // calls wake a failed server no more often
	relistPause = 200 * time.Millisecond // gathers bursts of list_changed
	relistAgain = time.Second            // and one that goes on within a second costs two reads
	relistMost  = 30 * time.Second       // a server that keeps changing is read no more often
	relistRetry = 30 * time.Second
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
	files  atomic.Pointer[tls.Source]          // of the connection; nil when the settings name none
	secure atomic.Bool                         // TLS is spoken
	turn   chan struct{}                       // of one, for serialize
	lift   func()                              // ends what the child may reach; nil when nothing fences it
	scrub  atomic.Pointer[func(string) string] // of the settings last resolved
	seen   atomic.Pointer[stamp]               // the credentials when the last attempt began

	mu      sync.Mutex
	attempt chan struct{} // closed when the attempt under way, or the next, ends
	lastErr error
	quiet   time.Time // until then calls do not wake the server

	caller atomic.Pointer[string] // whose it is; nil before its first call, and for discovery's

	use  use                    // of an owner beside discovery's
	told atomic.Pointer[mirror] // nil while no connection is kept subscribed
}

func newOwner(s *server, r route) *owner {
	return &owner{srv: s, route: r, wake: make(chan struct{}, 1), relist: make(chan struct{}, 1), attempt: make(chan struct{}), turn: make(chan struct{}, 1)}
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

// connect makes one attempt: resolve, start or dial, handshake, read the lists.
func (o *owner) connect(ctx context.Context) (*held, error) {
	ctx, cancel := o.connectWithin(ctx)
	defer cancel()
	c, err := o.dial(ctx)
	if err != nil {
		err = o.explain(ctx, err)
		o.end(err)
		return nil, err
	}
	h := o.open(c)
	if err := o.list(ctx, c); err != nil && o.srv.listing.Load() == nil {
		o.conn.Store(nil)
		err = o.lost(o.explain(ctx, err))
		h.finish(ctx, 0)
		return nil, err
	}
	o.sendLogLevel(ctx)
	o.srv.lookAsking()
	return h, nil
}

// connectWithin bounds one attempt.
func (o *owner) connectWithin(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := o.srv.settings.connectTimeout()
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("connect_timeout of %v passed", limit))
}

// explain puts the limit that was hit in the place of "deadline exceeded".
func (o *owner) explain(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		cause, late := context.Cause(ctx), (*lateError)(nil)
		if errors.As(err, &late) && late.unsent {
			cause = fmt.Errorf("no connection%s: %w", late.via, cause)
		}
		return &Error{Server: o.srv.name, Op: "connect", Kind: Timeout, Err: cause}
	}
	if KindOf(err) == 0 {
		return &Error{Server: o.srv.name, Op: "connect", Kind: Unreachable, Err: err}
	}
	if e, ok := err.(*Error); ok && settled(err) {
		out := *e
		out.Kind = Config
		return &out
	}
	return err
}

// settled reports whether another attempt will end as this one did, until somebody
// changes a setting: the server is elsewhere, or wants a certificate of ours.
func settled(err error) bool {
	var to *redirectError
	return errors.As(err, &to) || strings.Contains(err.Error(), "tls: certificate required")
}

// dial makes a connection with what the settings say now.
func (o *owner) dial(ctx context.Context) (conn, error) {
	r, err := o.prepare()
	if err != nil {
		return nil, err
	}
	switch {
	case r.Settings.Builtin != "":
		b := o.srv.set.opt.Builtins[r.Settings.Builtin]
		if b == nil {
			return nil, &Error{Server: o.srv.name, Kind: Config, Err: fmt.Errorf("no builtin server %q", r.Settings.Builtin)}
		}
		return dialBuiltin(ctx, r, b, o.env())
	case r.URL != nil:
		return dialHTTP(ctx, r, o.env())
	}
	return o.spawn(ctx, r)
}

// prepare resolves the settings, and loads what they name. Nothing is dialled.
func (o *owner) prepare() (*Resolved, error) {
	r, err := o.resolve()
	if err != nil {
		return nil, err
	}
	scrub := r.scrub
	o.scrub.Store(&scrub)
	if err := r.leave(o.srv.set.opt.Egress, o.toldOfTLS); err != nil {
		return nil, err
	}
	if err := r.Starts(); err != nil {
		return nil, err
	}
	o.files.Store(r.tls)
	o.secure.Store(r.URL != nil && strings.EqualFold(r.URL.Scheme, "https"))
	if r.tokens, err = o.srv.set.tokensOf(r, o.route.profile); err != nil {
		return nil, err
	}
	o.seen.Store(stampOf(r.tokens))
	r.EraHint, r.Once = o.srv.firstWords()
	r.Way = httpWay(o.srv.way.Load())
	if o.route.mode == Asking {
		r.Protocol = LegacyOnly // in the other era what an agent can do goes with each request
	}
	o.key.Store(&Key{Server: o.srv.name, Identity: r.Identity(), Isolation: cmp.Or(o.route.isolation, o.route.caller), Mode: o.route.mode})
	return r, nil
}

func (o *owner) env() env {
	opt := &o.srv.set.opt
	e := env{
		log: opt.Log, clientName: opt.ClientName, clientVersion: opt.ClientVersion,
		guard: o.srv.set.guard, limiter: o.srv.set.opt.LimitCommand, gate: o.srv.set.gate, settled: o.srv.recheck, own: o.route.isolation != "",
		notify:  func(method string, params []byte) { o.srv.notified(o, method, params) },
		noise:   func(n int) { o.srv.noise.Add(int64(n)) },
		renewed: o.forgotten, answers: o.srv.answers,
	}
	if o.route.mode == Asking {
		e.offers = o.srv.offers.Capabilities()
	}
	return e
}

// spawn starts a process, behind a fence if it has one.
func (o *owner) spawn(ctx context.Context, r *Resolved) (c conn, err error) {
	o.unfence()
	if o.lift, err = r.fence(o.srv.set.opt.Children); err != nil {
		return nil, err
	}
	if c, err = dialStdio(ctx, r, o.env()); err != nil {
		o.unfence()
	}
	if dies := (*diesAnyway)(nil); errors.As(err, &dies) {
		o.srv.dies.Store(true)
	}
	return c, err
}

// unfence takes back what the last child could reach.
func (o *owner) unfence() {
	if o.lift != nil {
		o.lift()
		o.lift = nil
	}
}

// toldOfTLS logs what is wrong with a file that changed.
func (o *owner) toldOfTLS(err error) {
	o.srv.set.opt.Log.Warn("the files of a server's TLS settings", "server", o.srv.name, "err", err)
}

// open lets calls use the connection, even while the lists are being read.
func (o *owner) open(c conn) *held {
	o.srv.way.Store(uint32(wayOf(c)))
	if o == o.srv.plain {
		o.srv.foundEra(c.Info().Era)
		o.srv.both.Store(c.Info().BothEras)
	}
	if o.srv.settings.SSLVerify.Off && !o.srv.settings.local() {
		o.srv.trusting.Do(o.srv.warnTrust)
	}
	h := newHeld(c, o.label(o.srv.opened.Add(1)), o.lift)
	o.lift = nil
	o.conn.Store(h)
	o.end(nil)
	return h
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
func (o *owner) watch(ctx context.Context, c *held, now func() bool, tick <-chan time.Time) {
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
		case <-c.left:
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
