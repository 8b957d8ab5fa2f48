package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// run is the supervisor of discovery's connection: it connects, serves, and
// connects again, until ctx ends. Each turn of the loop leaves one state.
func (o *owner) run(ctx context.Context) error {
	b := newBackoff(o.srv.settings.lifecycle())
	asleep := o.wakesLater()
	for ctx.Err() == nil {
		if asleep && !o.sleep(ctx) {
			break
		}
		c, err := o.connect(ctx)
		if err == nil {
			b.connected()
			o.serve(ctx, c)
			if o.proven.Swap(false) {
				b.reset()
			}
			if over(c.left) {
				o.lost(nil)
				asleep = c.recycled.Load() != nil
				continue
			}
			err = o.lost(c.lost())
		}
		if ctx.Err() != nil {
			break
		}
		asleep = false
		o.pause(ctx, err, b)
	}
	o.end(&Error{Server: o.srv.name, Kind: Closed, Err: errStopping})
	o.srv.settle()
	return nil
}

// wakesLater reports whether the server starts with its first call: its lists are
// known from an earlier life. So are those of a server with OAuth, whose tools stay
// listed while a login is missing.
func (o *owner) wakesLater() bool {
	s := o.srv
	if !s.settings.remembered() {
		return false
	}
	l := s.set.opt.Cache.load(s)
	if l == nil || s.set.opt.Shows != nil && !s.set.opt.Shows(s.name, l) {
		return false
	}
	era := l.Info.Era
	s.era.CompareAndSwap(nil, &era)
	s.listed(l)
	s.change(func(st *Status) { st.Tools = len(l.Tools) })
	return s.settings.Lazy
}

// remembered reports whether lists are kept for another life.
func (s *Settings) remembered() bool { return s.Lazy || s.Auth == "oauth" }

// sleep waits for a call; false when ctx ends instead.
func (o *owner) sleep(ctx context.Context) bool {
	o.srv.change(func(st *Status) {
		st.State, st.Err, st.RetryAt = Recycled, nil, time.Time{}
		if l := o.srv.listing.Load(); l != nil {
			st.Tools, st.Info = len(l.Tools), l.Info
		}
		if o.srv.settings.Lazy {
			st.State = Lazy
		}
	})
	o.srv.settle()
	select {
	case <-o.wake:
		return true
	case <-ctx.Done():
		return false
	}
}

// serve stays until the connection dies, is recycled, or ctx ends.
func (o *owner) serve(ctx context.Context, c *held) {
	defer o.finish(ctx, c)
	defer o.conn.CompareAndSwap(c, nil)
	defer o.keepTold(ctx, c.conn)()
	o.srv.breaker.renew()
	o.srv.change(func(st *Status) {
		st.State, st.Err, st.RetryAt, st.Info, st.Attempts = Ready, nil, time.Time{}, *c.Info(), 0
	})
	o.srv.settle()
	defer o.keepPulse(ctx, c)()
	again, stop := every(o.srv.settings.RelistInterval)
	defer stop()
	o.watch(ctx, c, o.srv.relistAll, again)
}

// finish ends a connection. If calls are on it that another took over from, it goes
// on beside that one until they end.
func (o *owner) finish(ctx context.Context, c *held) {
	longest := max(o.srv.settings.callTimeout(nil), longestTask)
	if c.calls() > 0 && over(c.left) && o.srv.set.background(func(ctx context.Context) { c.finish(ctx, longest) }) {
		return
	}
	c.finish(ctx, 0)
}

// credentialsEvery is how often the files that settings refer to are looked at
// while a login or a setting is what is missing.
const credentialsEvery = 2 * time.Second

// pause shows a failure and waits for the next attempt's time, for a call that
// wants one now, or for other credentials. After a first failure a call may wake
// the server at once; after repeated ones not before wakeEvery has passed.
func (o *owner) pause(ctx context.Context, err error, b *backoff) {
	d := b.next(err)
	at := time.Now().Add(d)
	o.srv.change(func(st *Status) {
		st.State, st.Err, st.RetryAt, st.Attempts = b.state(err), err, at, b.tries
	})
	o.srv.settle()
	if b.tries > 1 {
		quiet := min(wakeEvery, d)
		if KindOf(err) == Unauthorized {
			quiet = min(loginQuiet, d)
		}
		o.hush(time.Now().Add(quiet))
		if !o.await(ctx, err, quiet, nil) {
			return
		}
	}
	o.await(ctx, err, time.Until(at), o.wake)
}

// loginQuiet is how seldom calls wake a server that refused our login.
const loginQuiet = 30 * time.Second

// await waits for d, or for a token of wake, or, where that may help, for other
// credentials or settings. It returns false when there is a reason to try now.
func (o *owner) await(ctx context.Context, err error, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	var look <-chan time.Time
	if k := KindOf(err); k == Unauthorized || k == Config {
		tick := time.NewTicker(credentialsEvery)
		defer tick.Stop()
		look = tick.C
	}
	for {
		select {
		case <-t.C:
			return true
		case <-wake:
			return false
		case <-ctx.Done():
			return false
		case <-look:
			if o.differs(err) {
				return false
			}
		}
	}
}

// differs reports whether the settings resolve to something else than when they led
// to err: a file of credentials was written, or is sound at last.
func (o *owner) differs(err error) bool {
	r, rerr := o.resolve()
	if rerr != nil { // what was refused is lost, which has to be told
		return KindOf(err) == Unauthorized
	}
	if place := (*placeError)(nil); errors.As(err, &place) {
		return r.Starts() == nil
	}
	if keeping := (*keepingError)(nil); errors.As(err, &keeping) {
		_, kerr := o.srv.set.tokensOf(r, o.route.profile)
		return kerr == nil
	}
	var file *tls.FileError
	if errors.As(err, &file) {
		_, terr := r.loadTLS(nil)
		return terr == nil
	}
	if lerr := r.leave(o.srv.set.opt.Egress, nil); lerr != nil {
		return false
	}
	if o.seen.Load().other() {
		return true
	}
	k := o.key.Load()
	return k == nil || k.Identity != r.Identity()
}

// resolve replaces the references in the settings.
func (o *owner) resolve() (*Resolved, error) {
	set := o.srv.set
	var vars Vars
	if set.opt.Vars != nil {
		vars = set.opt.Vars(o.srv.name, o.route.profile)
	}
	return o.srv.settings.Resolve(o.srv.name, o.route.profile, vars, set.opt.Environ)
}
