// Package proxy is the front: it answers agents of both protocol eras, over
// HTTP and stdio, and routes what they ask to the servers behind.
//
// A message is parsed once, routed by the table of the caller's view, and
// handed on as the bytes it came in; nothing of the agent's connection goes
// with it.
package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/internal/seal"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Upstreams carries calls to servers. Do may be called concurrently; it does
// not keep the call's bytes after it returned.
type Upstreams interface {
	Do(ctx context.Context, t upstream.Target, c *upstream.Call) (upstream.Response, error)
}

// A Sampler makes a model answer a sampling/createMessage request: params is
// what the server asked, the result is a raw CreateMessageResult.
type Sampler interface {
	Sample(ctx context.Context, server string, params []byte) (result []byte, err error)
}

// A Subscriber has a server tell when a resource changes. Every Subscribe that
// succeeds is paired with one Unsubscribe; both may be called concurrently.
type Subscriber interface {
	Subscribe(ctx context.Context, server, uri string) error
	Unsubscribe(server, uri string)
}

// An Identifier tells who sent a request, before its body is read. Its errors
// are *auth.Refusal.
type Identifier interface {
	Identify(r *http.Request) (auth.Caller, error)
}

// Options say what a Front works with. They do not change afterwards.
type Options struct {
	// Views and Upstreams are required.
	Views     Views
	Upstreams Upstreams
	// Callers is required for HTTP; stdio has a caller of its own.
	Callers Identifier
	// Cleaner cleans what models see. If nil, everything is cleaned.
	Cleaner *policy.Cleaner
	// Sealer seals cursors. If nil, one with a random key.
	Sealer *seal.Sealer
	Limits Limits
	// Askers say what each server may ask of agents. If nil, or nil for a server,
	// nothing.
	Askers func(server string) *policy.Asker
	// Sampler answers sampling requests in place of agents that cannot, for
	// servers whose Asker has an endpoint. It may be nil.
	Sampler Sampler
	// Subscriber tells servers which resources agents want to hear of. If nil,
	// nobody can subscribe.
	Subscriber Subscriber
	// AgentCanAnswer, if set, is told that an agent has come that can answer
	// questions. It must not block.
	AgentCanAnswer func(profile string, who upstream.Viewer)
	// SessionEnded, if set, is told which session is over. It must not block.
	SessionEnded func(id string)
	// Version is the program's own, for serverInfo.
	Version string
	// ListWait, if set, waits a bounded time for the servers of a view that are
	// still in their first connect, and for what they list to such agents beyond
	// what all see.
	ListWait func(ctx context.Context, view string, who upstream.Viewer)
	// Wake, if set, waits until a server that has not listed anything yet has done
	// so, or says why it cannot.
	Wake func(ctx context.Context, server string) error
	// Serial, if set, says which servers take one tool call at a time from one
	// agent.
	Serial func(server string) bool
	// LogLevel, if set, is told of the least severe level that any agent wants
	// of servers. It must not block.
	LogLevel func(level string)
	// Log gets what goes wrong. If nil, it is discarded.
	Log *slog.Logger
}

// A Front answers agents. It is an http.Handler; ServeStdio serves the same
// over a pair of pipes.
type Front struct {
	opt      Options
	sessions sessions
	subs     subscribers
	budget   *budget
	outbox   outbox
	lanes    lanes
	links    links
	strays   strays
	replays  replays
	wanted   wanted
	parking  parking
	spent    spent
	recall   recall
	visits   visits
	throttle throttle
	closing  chan struct{} // closed by Drain
	drain    sync.Once
	counts   counts
	// refusedAt is the second in which a refusal was last logged.
	refusedAt atomic.Int64
}

type counts struct{ panics, dropped, cleaned, slow atomic.Int64 }

// Stats are counters since the start.
type Stats struct {
	// Sessions is the number of live legacy sessions.
	Sessions int
	// Panics is how many calls failed by a fault of ours.
	Panics int64
	// Strays is the number of calls that go on though their agents hung up.
	Strays int
	// Dropped is how many notifications readers lost that were slow, or got more
	// than one may weigh.
	Dropped int64
	// Parked is the number of calls that have asked a stateless agent something and
	// are not over; ParkedTotal and ParkedExpired count them since the start, and
	// those of them whose agent did not come back in time.
	Parked                     int
	ParkedTotal, ParkedExpired int64
	// Slow is how many answers were given up because their agents did not read them.
	Slow int64
	// Cleaned is how many messages of servers the cleaner changed.
	Cleaned int64
}

// New returns a Front. It starts nothing.
func New(o Options) *Front {
	if o.Sealer == nil {
		o.Sealer = seal.Random()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Front{opt: o, closing: make(chan struct{}), budget: newBudget(o.Limits.inFlight(), o.Limits.request())}
	f.outbox.most = int64(o.Limits.inFlight())
	f.sessions.max, f.sessions.idle, f.sessions.ended = o.Limits.sessions(), o.Limits.sessionIdle(), f.ended
	f.parking.total, f.parking.each, f.parking.room = o.Limits.parked(), o.Limits.parkedEach(), parkedBytes
	f.replays.each, f.replays.total = o.Limits.replay(), replayTotal
	return f
}

// Run ends idle sessions until ctx does.
func (f *Front) Run(ctx context.Context) error {
	tick := time.NewTicker(max(f.sessions.idle/10, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.sessions.expire(time.Now())
		case <-ctx.Done():
			return nil
		}
	}
}

// Drain ends the streams that wait for news, and the calls that wait for the next
// request of their agent or whose agent is gone, so that a server can shut down.
// Nobody is asked any more. Other calls in flight go on.
func (f *Front) Drain() {
	f.drain.Do(func() { close(f.closing) })
	f.parking.close()
	f.strays.close()
}

// draining reports whether Drain was called.
func (f *Front) draining() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// Stats returns the counters.
func (f *Front) Stats() Stats {
	parked, all, expired := f.parking.stats()
	return Stats{
		Parked: parked, ParkedTotal: all, ParkedExpired: expired,
		Sessions: f.sessions.count(),
		Panics:   f.counts.panics.Load(),
		Strays:   f.strays.count(),
		Dropped:  f.counts.dropped.Load(),
		Cleaned:  f.counts.cleaned.Load(),
		Slow:     f.counts.slow.Load(),
	}
}

// clean returns what an agent may read of a server's bytes; without a change it
// is raw itself.
func (f *Front) clean(raw []byte, flags wire.Flags) []byte {
	return f.cleanKeeping(raw, flags, nil)
}

func (f *Front) wireLimits() wire.Limits { return wire.Limits{Depth: f.opt.Limits.Depth} }

func (l *Limits) request() int     { return orInt(l.RequestBytes, 16<<20) }
func (l *Limits) inFlight() int    { return orInt(l.InFlightBytes, 256<<20) }
func (l *Limits) sessions() int    { return orInt(l.Sessions, 1000) }
func (l *Limits) connections() int { return orInt(l.Connections, 1000) }
func (l *Limits) answer() int      { return orInt(l.AnswerBytes, 10<<20-64<<10) }
func (l *Limits) queue() int       { return orInt(l.StreamQueue, 256) }
func (l *Limits) parked() int      { return orInt(l.Parked, 256) }
func (l *Limits) parkedEach() int  { return orInt(l.ParkedPerCaller, 32) }
func (l *Limits) replay() int      { return orInt(l.ReplayBytes, 1<<20) }
func (l *Limits) sessionIdle() time.Duration {
	if l.SessionIdle <= 0 {
		return time.Hour
	}
	return l.SessionIdle
}

func (l *Limits) parkedTime() time.Duration {
	if l.ParkedTime <= 0 {
		return 10 * time.Minute
	}
	return l.ParkedTime
}

func orInt(n, zero int) int {
	if n <= 0 {
		return zero
	}
	return n
}
