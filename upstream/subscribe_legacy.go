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
	asked := asked{o: o, c: c, uris: map[string]bool{}}
	for {
		if o.srv.subs.wasLost() {
			clear(asked.uris)
		}
		asked.pass(ctx)
		select {
		case <-kick:
		case <-c.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// asked is what the server of one connection was asked to tell of.
type asked struct {
	o *owner
	c conn
	// apart says that it is not discovery's: its word is nobody's answer.
	apart bool

	mu   sync.Mutex
	uris map[string]bool
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
		g.Go(func() error { a.subscribe(ctx, uri); return nil })
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
		if a.uris[uri] {
			a.settle(nil, uri) // one who came after an Unsubscribe not yet sent
		} else {
			add = append(add, uri)
		}
	}
	for uri := range a.uris {
		if !wanted[uri] {
			drop = append(drop, uri)
		}
	}
	return add, drop
}

func (a *asked) subscribe(ctx context.Context, uri string) {
	err := a.send(ctx, "resources/subscribe", uri)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		a.o.srv.set.opt.Log.Debug("not subscribed", "server", a.o.srv.name, "err", err)
	} else {
		a.mu.Lock()
		a.uris[uri] = true
		a.mu.Unlock()
	}
	a.settle(err, uri)
}

func (a *asked) settle(err error, uri string) {
	if !a.apart {
		a.o.srv.subs.settle(err, uri)
	}
}

func (a *asked) unsubscribe(ctx context.Context, uri string) {
	if err := a.send(ctx, "resources/unsubscribe", uri); err != nil {
		a.o.srv.set.opt.Log.Debug("not unsubscribed", "server", a.o.srv.name, "err", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.uris, uri)
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
