package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A pulse looks after one connection that is there: whether its server is alive
// when no call shows it, whether the breaker can close again, and whether its
// time is over. It never touches a call.
type pulse struct {
	o    *owner
	c    *held
	life Lifecycle
	born time.Time

	beat, limit time.Duration
	pause       time.Duration // before it is asked again whether an open breaker can close
}

// keepPulse runs a pulse; the function that it returns ends that.
func (o *owner) keepPulse(ctx context.Context, c *held) (stop func()) {
	p := &pulse{o: o, c: c, life: o.srv.settings.lifecycle(), born: time.Now()}
	p.beat, p.limit = o.srv.settings.keepalive()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go p.run(ctx, done)
	return func() { cancel(); <-done }
}

func (p *pulse) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	beat := time.NewTicker(p.beat)
	defer beat.Stop()
	ease := time.NewTimer(time.Hour)
	defer ease.Stop()
	recycle, stop := every(p.recycleEvery())
	defer stop()
	var tripped <-chan struct{}
	var look <-chan time.Time
	if p.o == p.o.srv.plain {
		tripped = p.o.srv.breaker.kick
		if !p.o.srv.settings.local() {
			t := time.NewTicker(credentialsEvery)
			defer t.Stop()
			look = t.C
		}
	}
	for {
		select {
		case <-beat.C:
			p.check(ctx)
		case <-tripped:
			p.pause = p.life.RetryPause
			ease.Reset(p.pause)
		case <-ease.C:
			if p.easeBreaker(ctx) {
				p.pause = min(2*p.pause, p.life.RetryPauseMax)
				ease.Reset(p.pause)
			}
		case <-look:
			p.login(ctx)
		case <-recycle:
			if p.recycle() {
				return
			}
		case <-p.c.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// check asks for a sign of life, unless a call just gave one or is about to.
func (p *pulse) check(ctx context.Context) {
	heard := p.c.last.Load()
	if p.o == p.o.srv.plain {
		heard = max(heard, p.o.srv.heard.Load())
	}
	if p.c.calls() > 0 || time.Since(time.Unix(0, heard)) < p.beat {
		return
	}
	err := p.o.alive(ctx, p.c, p.limit)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		p.o.proven.Store(true)
		p.o.recovered(p.c)
	default:
		p.o.declareDead(p.c, err)
	}
}

// login looks, while a server refuses our login, whether there are other
// credentials by now, and now and then whether it takes these again.
func (p *pulse) login(ctx context.Context) {
	st := p.o.srv.status.Load()
	if st.State != NeedsLogin || p.o.renew(p.c, st.Err) || time.Now().Before(st.RetryAt) {
		return
	}
	switch err := p.o.alive(ctx, p.c, p.limit); {
	case ctx.Err() != nil:
	case err == nil:
		p.o.recovered(p.c)
	default:
		p.o.loggedOut(p.c, err)
	}
}

// easeBreaker asks a server whose breaker is open whether it is well again. It
// returns true when it is worth asking once more.
func (p *pulse) easeBreaker(ctx context.Context) bool {
	b := p.o.srv.breaker
	if b.closed() {
		return false
	}
	if p.o.alive(ctx, p.c, suspectWait) != nil {
		return ctx.Err() == nil
	}
	if !b.ease() {
		return false
	}
	p.o.srv.noteBreaker()
	return false
}

// alive asks the server for a sign of life. Silence is confirmed by another
// question before it counts: there are servers that do not know ping, and some
// that never answer it.
func (o *owner) alive(ctx context.Context, c *held, limit time.Duration) error {
	mute := &o.srv.noPing
	if !mute.Load() {
		err := ask(ctx, c, pingMethod(c.Info()), limit)
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
	}
	method := listMethod(c.Info())
	if method == "" {
		return nil // nothing else that it must answer: silence proves nothing
	}
	err := ask(ctx, c, method, limit)
	if err == nil {
		mute.Store(true)
	}
	return err
}

// probed is for the one call that a half-open breaker let through.
func (o *owner) probed() error {
	c := o.current()
	if c == nil {
		return &Error{Server: o.srv.name, Kind: Unreachable, Err: errors.New("no connection")}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*suspectWait)
	defer cancel()
	return o.alive(ctx, c, suspectWait)
}

// final reports whether err leaves no doubt.
func final(err error) bool {
	switch KindOf(err) {
	case Unreachable, Unauthorized, Closed:
		return true
	}
	return false
}

// ask sends one question of ours; any answer in the protocol is a good one, and
// so is that we ask too much.
func ask(ctx context.Context, c conn, method string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no sign of life within %v", limit))
	defer cancel()
	r, err := c.Do(ctx, &Call{Method: method, Safe: true, Timeout: limit})
	switch {
	case err == nil && r.Error != nil && rpcCode(r.Error) == wire.CodeMethodNotFound:
		return errors.New("knows no " + method)
	case KindOf(err) == RateLimited:
		return nil
	case err != nil && ctx.Err() != nil && KindOf(err) != Unreachable:
		return context.Cause(ctx)
	}
	return err
}

// pingMethod is what an era has for the question.
func pingMethod(i *Info) string {
	if i.Era == Modern {
		return "server/discover"
	}
	return "ping"
}

// listMethod is a list that the server must be able to give; empty when there is
// none.
func listMethod(i *Info) string {
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if i.Has(kind) {
			return kind + "/list"
		}
	}
	return ""
}

// declareDead ends a connection whose server gives no sign of life.
func (o *owner) declareDead(c *held, err error) {
	if o.current() != c {
		return
	}
	if KindOf(err) == 0 {
		err = &Error{Server: o.srv.name, Op: "keepalive", Kind: Timeout, Err: err}
	}
	c.dead.CompareAndSwap(nil, &err)
	o.conn.CompareAndSwap(c, nil)
	c.Close()
}

// recycleEvery is how often it is looked whether a process has had its time;
// zero when that never comes.
func (p *pulse) recycleEvery() time.Duration {
	if !p.o.srv.settings.recycles() || p.o != p.o.srv.plain {
		return 0
	}
	least := time.Minute
	for _, d := range []time.Duration{p.life.IdleTimeout, p.life.MaxLifetime} {
		if d > 0 {
			least = min(least, d/4)
		}
	}
	return max(least, 10*time.Millisecond)
}

// recycles reports whether the server is a process of ours that may be ended and
// started again.
func (s *Settings) recycles() bool {
	l := s.lifecycle()
	return s.local() && (l.IdleTimeout > 0 || l.MaxLifetime > 0)
}

// agedGrace is how long a process past its lifetime waits for a moment without a
// call. Then another takes over, and it ends with its last call.
const agedGrace = 30 * time.Second

// recycle ends the process if its time is over, never in the middle of a call or
// of a task.
func (p *pulse) recycle() bool {
	if p.o.houses(time.Now()) {
		return false
	}
	why := ""
	over := time.Since(p.born) - p.life.MaxLifetime
	switch {
	case p.life.MaxLifetime > 0 && over >= 0:
		why = "max_lifetime_seconds"
	case p.life.IdleTimeout > 0 && p.idleFor() >= p.life.IdleTimeout && !p.o.srv.subs.wanted():
		why = "idle_timeout_seconds"
	default:
		return false
	}
	if !p.c.retire(why == "max_lifetime_seconds" && over > agedGrace, &why) {
		return false
	}
	p.o.conn.CompareAndSwap(p.c, nil)
	return true
}

func (p *pulse) idleFor() time.Duration {
	last := time.Unix(0, p.c.last.Load())
	if last.Before(p.born) {
		last = p.born
	}
	return time.Since(last)
}
