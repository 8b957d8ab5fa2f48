package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// nextRelist grows the pause for a server that says again and again that its
// lists changed, and forgets that once it was quiet for twice as long.
func nextRelist(pause, quiet time.Duration) time.Duration {
	if quiet > 2*pause {
		return relistPause
	}
	return min(max(2*pause, relistAgain), relistMost)
}

// listAgain reads the lists once for all requests that came meanwhile. It
// returns false when the connection is over.
func (o *owner) listAgain(ctx context.Context, c conn, pause time.Duration) bool {
	if !sleep(ctx, c.Done(), pause) {
		return false
	}
	select {
	case <-o.relist:
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, o.srv.settings.connectTimeout())
	defer cancel()
	before := o.srv.listing.Load()
	if err := o.list(ctx, c); err != nil && !errors.Is(err, context.Canceled) {
		o.srv.set.opt.Log.Warn("listing again failed, the last good list stays", "server", o.srv.name, "err", err)
		time.AfterFunc(relistRetry, o.askRelist)
	}
	if o == o.srv.plain && o.srv.listing.Load() != before {
		o.srv.lookAsking()
	}
	return true
}

// list reads the lists and publishes them if they differ.
func (o *owner) list(ctx context.Context, c conn) error {
	if o.route.mode == Asking {
		return o.listAsking(ctx, c)
	}
	l, err := walk(ctx, o.srv.name, c, *o.scrub.Load())
	if err != nil {
		return err
	}
	o.srv.heard.Store(time.Now().UnixNano())
	for _, f := range l.Faults {
		o.srv.set.opt.Log.Warn("list is not whole", "server", o.srv.name, "err", f)
	}
	same := l.same(o.srv.listing.Load())
	if !same {
		o.srv.listed(l)
	}
	if !same || l.TTL > 0 { // what is kept is good for another TTL
		o.srv.set.opt.Cache.store(o.srv, l)
	}
	if !same {
		o.srv.change(func(st *Status) { st.Tools = len(l.Tools) })
	}
	return nil
}

func (o *owner) askRelist() {
	select {
	case o.relist <- struct{}{}:
	default:
	}
}

// sendLogLevel tells a legacy server that logs which level is wanted.
func (o *owner) sendLogLevel(ctx context.Context) {
	level, c := o.srv.logLevel.Load(), o.current()
	if level == nil || c == nil || c.Info().Era != Legacy || !c.Info().Has("logging") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	params := append(wire.AppendQuote([]byte(`{"level":`), *level), '}')
	if _, err := c.Do(ctx, &Call{Method: "logging/setLevel", Params: params}); err != nil {
		o.srv.set.opt.Log.Debug("setting the log level failed", "server", o.srv.name, "err", err)
	}
}
