package proxy

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// subscribe has the agent of a session told when a resource changes.
func (x *exchange) subscribe(ctx context.Context) (answer, error) {
	uri, err := x.subscribed()
	if err != nil {
		return answer{}, err
	}
	route, oerr := x.owner(ctx, uri)
	if oerr != nil {
		return x.astray(ctx, oerr, x.noResource(uri))
	}
	if err := x.f.follow(ctx, &x.sess.watcher, resource{route.Server, route.Inner}); err != nil {
		return x.notSubscribed(ctx, route.Server, err)
	}
	return answer{result: emptyObject}, nil
}

// unsubscribe ends what subscribe began. To end nothing is no mistake.
func (x *exchange) unsubscribe() (answer, error) {
	uri, err := x.subscribed()
	if err != nil {
		return answer{}, err
	}
	w := &x.sess.watcher
	for _, r := range x.f.subs.find(w, uri) {
		x.f.unfollow(w, r)
	}
	return answer{result: emptyObject}, nil
}

// subscribed reads the URI that a request of a session is about.
func (x *exchange) subscribed() (string, error) {
	switch {
	case x.f.opt.Subscriber == nil:
		return "", noMethod(x.msg.Method)
	case x.sess == nil:
		return "", invalid(x.msg.Method + " needs a session, initialize first")
	}
	uri, ok := wire.Unquote(x.params.uri)
	if !ok {
		return "", badParams(x.msg.Method + " lacks uri")
	}
	if err := longURI(uri); err != nil {
		return "", err
	}
	return uri, nil
}

// notSubscribed is the answer when a server will not tell.
func (x *exchange) notSubscribed(ctx context.Context, server string, err error) (answer, error) {
	if upstream.KindOf(err) != upstream.Protocol {
		return x.troubled(ctx, server, err)
	}
	return answer{}, badParams(x.cleanText("server " + strconv.Quote(server) + " " + reason(err)))
}

// A wish is what a subscriptions/listen asks to be told of.
type wish struct {
	kinds [3]bool
	uris  []string // each once
}

// kindMembers are the members of notifications for each of listed.
var kindMembers = [3]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

const uriMember = "resourceSubscriptions"

// readWish reads the notifications member of a subscriptions/listen.
func readWish(params []byte) (w wish, err *wire.Error) {
	raw, ok := wire.Get(params, "notifications")
	if !ok || wire.Kindof(raw) != '{' {
		return w, badParams("subscriptions/listen lacks notifications")
	}
	for i, name := range kindMembers {
		switch v, _ := wire.Get(raw, name); wire.Kindof(v) {
		case 't':
			w.kinds[i] = true
		case 'f', 0:
		default:
			return w, badParams(name + " is not a boolean")
		}
	}
	list, ok := wire.Get(raw, uriMember)
	if !ok {
		return w, nil
	}
	w.uris, err = readURIs(list)
	return w, err
}

func readURIs(list []byte) (uris []string, err *wire.Error) {
	if wire.Kindof(list) != '[' {
		return nil, badParams(uriMember + " is not an array")
	}
	seen, n := map[string]bool{}, 0
	wire.Elements(list, func(val []byte) bool {
		uri, ok := wire.Unquote(val)
		n++
		switch {
		case !ok:
			err = badParams(uriMember + " holds something that is not a string")
		case n > maxSubscriptions:
			err = badParams(fmt.Sprintf("%s holds more than %d URIs", uriMember, maxSubscriptions))
		default:
			err = longURI(uri)
		}
		if err == nil && !seen[uri] {
			seen[uri] = true
			uris = append(uris, uri)
		}
		return err == nil
	})
	return uris, err
}

// owners finds who answers for each of several URIs; nobody's are left out. What
// is missing is waited for once, not one by one.
func (x *exchange) owners(ctx context.Context, uris []string) []aggregate.Route {
	routes := x.ownersNow(uris)
	if len(routes) < len(uris) && x.f.opt.ListWait != nil {
		x.f.opt.ListWait(ctx, x.view.Key, x.viewer())
		routes = x.ownersNow(uris)
	}
	return routes
}

func (x *exchange) ownersNow(uris []string) (out []aggregate.Route) {
	snap := x.snapshot()
	for _, uri := range uris {
		if r, ok := x.find(snap, uri); ok {
			out = append(out, r)
		}
	}
	return out
}
