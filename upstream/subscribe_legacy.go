package upstream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// subscribeTime bounds one resources/subscribe, and subscribePass all that
	// are sent after a reconnect.
	subscribeTime   = 10 * time.Second
	subscribePass   = time.Minute
	subscribeAtOnce = 8
)

// tellLegacy subscribes to what is wanted and unsubscribes from what is not any
// more, until the connection ends.
func (o *owner) tellLegacy(ctx context.Context, c conn, kick <-chan struct{}) {
	newAsked(o, c).follow(ctx, kick, func() {})
}

// asked is what the server of one connection was asked to tell of.
type asked struct {
	o *owner
	c conn
	// apart says that it is not discovery's: its word is nobody's answer.
	apart bool

	mu   sync.Mutex
	uris map[string]*consent
}

// A consent is what the server says to one resource. Refusals are not kept.
type consent struct {
	agreed bool
	known  chan struct{} // closed with the server's word
}

func newAsked(o *owner, c conn) *asked {
	return &asked{o: o, c: c, uris: map[string]*consent{}}
}

func (a *asked) follow(ctx context.Context, kick <-chan struct{}, ready func()) {
	for {
		if !a.apart && a.o.srv.subs.wasLost() {
			a.forget()
		}
		a.pass(ctx)
		ready()
		select {
		case <-kick:
		case <-a.c.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

func (a *asked) ensure(ctx context.Context, uri string) {
	if w := a.begin(uri); w != nil {
		a.subscribe(ctx, uri, w)
		return
	}
	w := a.consent(uri)
	if w == nil {
		return
	}
	select {
	case <-w.known:
	case <-ctx.Done():
	}
}

func (a *asked) tells(uri string) (asked, agreed bool) {
	a.mu.Lock()
	w := a.uris[uri]
	asked = w != nil
	agreed = asked && w.agreed
	a.mu.Unlock()
	if c, ok := a.c.(*httpConn); ok {
		agreed = agreed && c.session.Load().standing.Load()
	}
	return asked, agreed
}

func (a *asked) consent(uri string) *consent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uris[uri]
}

// forget is for a server that lost all it was asked.
func (a *asked) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.uris)
}

// begin notes that the server is being asked; nil when it was already.
func (a *asked) begin(uri string) *consent {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.uris[uri] != nil {
		return nil
	}
	w := &consent{known: make(chan struct{})}
	a.uris[uri] = w
	return w
}

// end notes what the server said, which it may have forgotten since.
func (a *asked) end(uri string, w *consent, agreed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(w.known)
	if w.agreed = agreed; !agreed && a.uris[uri] == w {
		delete(a.uris, uri)
	}
}

// pass sends what is missing.
func (a *asked) pass(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, subscribePass)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(subscribeAtOnce)
	add, drop := a.plan()
	for _, uri := range drop {
		g.Go(func() error { a.unsubscribe(ctx, uri); return nil })
	}
	for _, uri := range add {
		if w := a.begin(uri); w != nil {
			g.Go(func() error { a.subscribe(ctx, uri, w); return nil })
		}
	}
	g.Wait()
}

// plan compares what is wanted with what was asked for.
func (a *asked) plan() (add, drop []string) {
	list := a.o.srv.subs.list()
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := make(map[string]bool, len(list))
	for _, uri := range list {
		wanted[uri] = true
		switch w := a.uris[uri]; {
		case w == nil:
			add = append(add, uri)
		case w.agreed:
			a.settle(nil, uri) // one who came after an Unsubscribe not yet sent
		}
	}
	for uri := range a.uris {
		if !wanted[uri] {
			drop = append(drop, uri)
		}
	}
	return add, drop
}

func (a *asked) subscribe(ctx context.Context, uri string, w *consent) {
	err := a.send(ctx, "resources/subscribe", uri)
	a.end(uri, w, err == nil)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		a.o.srv.set.opt.Log.Debug("not subscribed", "server", a.o.srv.name, "err", err)
	}
	a.settle(err, uri)
}

func (a *asked) settle(err error, uri string) {
	if !a.apart {
		a.o.srv.subs.settle(err, uri)
	}
}

func (a *asked) unsubscribe(ctx context.Context, uri string) {
	w := a.consent(uri)
	if err := a.send(ctx, "resources/unsubscribe", uri); err != nil {
		a.o.srv.set.opt.Log.Debug("not unsubscribed", "server", a.o.srv.name, "err", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.uris[uri] == w {
		delete(a.uris, uri)
	}
}

// send asks without a slot: what agents wait for has no part in it.
func (a *asked) send(ctx context.Context, method, uri string) error {
	params := append(wire.AppendQuote([]byte(`{"uri":`), uri), '}')
	r, err := a.c.Do(ctx, &Call{Method: method, Name: uri, Params: params, Safe: true, Timeout: subscribeTime})
	if err == nil && r.Error != nil {
		return a.o.srv.refused(r.Error)
	}
	return err
}

// refused is a server's error in answer to a subscription, in words fit to show.
func (s *server) refused(obj []byte) *Error {
	text := rpcText(obj)
	text = (*s.plain.scrub.Load())(text[:min(len(text), maxText)])
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), unprintable), " ")
	return s.noSubscription(Protocol, errors.New("refused to tell of it: "+clip(text)))
}
