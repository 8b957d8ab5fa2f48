package proxy

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	listenMethod = "subscriptions/listen"
	// openTime bounds how long servers may take before a listen is acknowledged.
	openTime = 5 * time.Second
	// openAtOnce bounds the resources that one listen subscribes to at the same time.
	openAtOnce = 32
)

// A subscription is one subscriptions/listen of a modern agent.
type subscription struct {
	f      *Front
	caller string
	id     []byte // of the request; it is the subscription's own
	ack    []byte // the first message
	watcher
}

// subscription begins what x asks for. If there is no error, it must be
// closed.
func (x *exchange) subscription(ctx context.Context) (*subscription, error) {
	if err := x.params.meta.check(); err != nil {
		return nil, err
	}
	want, err := readWish(x.params.raw)
	if err != nil {
		return nil, err
	}
	if err := x.f.subs.enter(x.caller.ID); err != nil {
		return nil, err
	}
	s := &subscription{f: x.f, caller: x.caller.ID, id: bytes.Clone(x.msg.ID)}
	s.watcher = watcher{view: x.view, answers: x.caps().answers, stamp: s.id, known: [2]string{"", x.caller.ID}}
	for i, c := range [...]string{"tools", "prompts", "resources"} {
		s.kinds[i] = want.kinds[i] && mayOffer(x.snapshot(), c)
	}
	s.watch()
	told, full := x.follow(ctx, s, want.uris)
	if full != nil && len(told) == 0 && s.kinds == [3]bool{} {
		s.close()
		return nil, full
	}
	s.ack = s.acknowledge(told)
	return s, nil
}

// follow subscribes to what there is of uris, and returns that in their order. full
// says which limit kept something out.
func (x *exchange) follow(ctx context.Context, s *subscription, uris []string) (out []string, full *wire.Error) {
	if x.f.opt.Subscriber == nil || len(uris) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	routes := x.owners(ctx, uris)
	failed := make([]error, len(routes))
	var g errgroup.Group
	g.SetLimit(openAtOnce)
	for i, r := range routes {
		g.Go(func() error { failed[i] = x.followed(ctx, s, r); return nil })
	}
	g.Wait()
	for i, r := range routes {
		if failed[i] == nil {
			out = append(out, r.Exposed)
		}
		errors.As(failed[i], &full)
	}
	return out, full
}

func (x *exchange) followed(ctx context.Context, s *subscription, r aggregate.Route) error {
	err := x.f.follow(ctx, &s.watcher, resource{r.Server, r.Inner})
	if err != nil {
		x.f.opt.Log.Info("resource not subscribed to", "server", r.Server, "caller", x.caller.ID, "err", err)
	}
	return err
}

// acknowledge makes the message that says what of the wish is granted.
func (s *subscription) acknowledge(uris []string) []byte {
	var n shape
	n.begin(`{"notifications":{`)
	for i, name := range kindMembers {
		if s.kinds[i] {
			n.member(name, []byte("true"))
		}
	}
	if len(uris) > 0 {
		n.member(uriMember, quoteAll(uris))
	}
	n.end(`}}`)
	return wire.AppendNotification(nil, "notifications/subscriptions/acknowledged", stamped(n.out, s.id))
}

func quoteAll(list []string) []byte {
	out := []byte{'['}
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendQuote(out, s)
	}
	return append(out, ']')
}

// result is the last message, when it is not the agent who ends it.
func (s *subscription) result() []byte {
	return wire.AppendResult(nil, s.id, stamped([]byte(`{"resultType":"complete"}`), s.id))
}

func (s *subscription) close() {
	s.f.dismiss(&s.watcher)
	s.f.subs.exit(s.caller)
}

// A voice carries a subscription's messages to the agent.
type voice struct {
	say   func(msg []byte) error
	pulse func() error
	beat  <-chan time.Time // when to pulse; nil for never
}

// serve tells what there is to tell until ctx ends or the sidecar drains.
func (s *subscription) serve(ctx context.Context, v voice) {
	err := v.say(s.ack)
	for err == nil {
		select {
		case <-s.wake:
			err = s.tell(v.say)
		case <-v.beat:
			err = v.pulse()
		case <-ctx.Done():
			return
		case <-s.f.closing:
			v.say(s.result())
			return
		}
	}
}

// subscription serves subscriptions/listen over HTTP, on a stream of its own that
// ends with the agent's connection.
func (f *Front) subscription(in *inbound, x *exchange) {
	if in.forms&asEvents == 0 {
		http.Error(in.w, "want Accept: text/event-stream", http.StatusNotAcceptable)
		return
	}
	s, err := x.subscription(in.r.Context())
	if err != nil {
		st := newStream(in.w, in.rc, in.forms, 0, &f.counts)
		st.finish(failed(x.msg.ID, err, true))
		return
	}
	defer s.close()
	in.body.free() // it may stay open for days
	*x = exchange{}
	st := &stream{w: in.w, rc: in.rc, counts: &f.counts}
	openEvents(in.w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	s.serve(in.r.Context(), voice{say: st.message, pulse: st.comment, beat: beat.C})
}

// listen begins a subscriptions/listen over stdio. Its id counts from here on, so
// that no cancellation comes too early. reading ends with the input.
func (p *pipe) listen(ctx, reading context.Context, x *exchange) {
	held, err := p.enter(ctx, len(x.msg.Raw))
	if err != nil {
		p.send(ctx, failed(x.msg.ID, &wire.Error{Code: wire.CodeInternal, Message: err.Error()}, true))
		return
	}
	listening, cancel := context.WithCancel(reading)
	if !p.begin(idKey(x.msg.ID), cancel) {
		cancel()
		p.exit(held)
		p.send(ctx, failed(x.msg.ID, invalid("a request with this id is in flight"), true))
		return
	}
	go p.subscription(listening, cancel, x, held)
}

// subscription serves a subscriptions/listen until the agent cancels it or says no
// more. Nothing is said after that.
func (p *pipe) subscription(ctx context.Context, cancel context.CancelFunc, x *exchange, held *room) {
	defer p.exit(held)
	defer cancel()
	defer p.end(idKey(x.msg.ID))
	s, err := x.subscription(ctx)
	if err != nil {
		p.send(ctx, failed(x.msg.ID, err, true))
		return
	}
	defer s.close()
	held.release() // it may stay open for days
	*x = exchange{}
	s.serve(ctx, voice{say: func(msg []byte) error {
		if ctx.Err() == nil {
			p.send(ctx, reply{head: msg})
		}
		return ctx.Err()
	}})
}
