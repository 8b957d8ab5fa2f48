package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// getPrompt routes a prompts/get by its name.
func (x *exchange) getPrompt(ctx context.Context) (answer, error) {
	name, ok := wire.Unquote(x.params.name)
	if !ok {
		return answer{}, badParams("prompts/get lacks name")
	}
	if err := x.checkCall(); err != nil {
		return answer{}, err
	}
	route, err := x.prompt(ctx, name)
	if err != nil {
		return x.astray(ctx, err, unknown("prompt", name))
	}
	return x.pass(ctx, route, &upstream.Call{
		Method: "prompts/get", Name: route.Inner, Safe: true,
		Params: x.params.forward(nil, "name", route.Inner),
	})
}

// readResource routes a resources/read by the owner of its URI.
func (x *exchange) readResource(ctx context.Context) (answer, error) {
	uri, ok := wire.Unquote(x.params.uri)
	if !ok {
		return answer{}, badParams("resources/read lacks uri")
	}
	if err := longURI(uri); err != nil {
		return answer{}, err
	}
	route, err := x.owner(ctx, uri)
	if err != nil {
		return x.astray(ctx, err, x.noResource(uri))
	}
	return x.pass(ctx, route, &upstream.Call{
		Method: "resources/read", Name: route.Inner, Safe: true,
		Params: x.params.forward(nil, "uri", route.Inner),
	})
}

// maxURI bounds one URI in bytes; no listed one is longer.
const maxURI = 8 << 10

func longURI(uri string) *wire.Error {
	if len(uri) <= maxURI {
		return nil
	}
	return badParams(fmt.Sprintf("uri is longer than %d bytes", maxURI))
}

// owner finds who answers for a URI: by the lists, or else by the links that
// this caller has been given.
func (x *exchange) owner(ctx context.Context, uri string) (aggregate.Route, error) {
	return x.routed(ctx, aggregate.Resources, uri, func(s Snapshot) (aggregate.Route, bool) { return x.find(s, uri) })
}

func (x *exchange) find(s Snapshot, uri string) (aggregate.Route, bool) {
	if r, ok := s.Resource(uri); ok {
		return r, true
	}
	server, ok := x.f.links.find(linkKey{x.caller.ID, x.view.Key}, uri)
	return aggregate.Route{Server: server, Inner: uri, Exposed: uri}, ok
}

// prompt finds who answers for a prompt.
func (x *exchange) prompt(ctx context.Context, name string) (aggregate.Route, error) {
	return x.routed(ctx, aggregate.Prompts, name, func(s Snapshot) (aggregate.Route, bool) { return s.Prompt(name) })
}

// A downError is why a server could not say whether it has what an agent wants.
type downError struct {
	server string
	error
}

var errNowhere = errors.New("no server has it")

// routed looks something up in the view. What is missing may be on its way while
// servers are in their first connect: then it waits for them, as a list does, and
// looks again. It may also be of a server that was never reached: a call wakes that
// one. Hidden and unknown names wait alike.
func (x *exchange) routed(ctx context.Context, k aggregate.Kind, name string, find func(Snapshot) (aggregate.Route, bool)) (aggregate.Route, error) {
	if r, ok := find(x.snapshot()); ok {
		return r, nil
	}
	if x.f.opt.ListWait != nil {
		x.f.opt.ListWait(ctx, x.view.Key, x.viewer())
		if r, ok := find(x.snapshot()); ok {
			return r, nil
		}
	}
	server, ok := x.snapshot().Unlisted(k, name)
	if !ok || x.f.opt.Wake == nil {
		return aggregate.Route{}, errNowhere
	}
	if err := x.f.opt.Wake(ctx, server); err != nil {
		return aggregate.Route{}, &downError{server, err}
	}
	if r, ok := find(x.snapshot()); ok {
		return r, nil
	}
	return aggregate.Route{}, errNowhere
}

// astray is the answer where routed found nobody: unknown, or what is wrong with
// the server that would know.
func (x *exchange) astray(ctx context.Context, err error, unknown *wire.Error) (answer, error) {
	if d := (*downError)(nil); errors.As(err, &d) {
		return x.troubled(ctx, d.server, d.error)
	}
	return answer{}, unknown
}

func (x *exchange) noResource(uri string) *wire.Error {
	e := unknown("resource", uri)
	if !x.modern {
		e.Code = wire.CodeResourceNotFound
	}
	e.Data = append(wire.AppendQuote([]byte(`{"uri":`), clip(uri, 1024)), '}')
	return e
}

// pass carries a call that is no tool call and delivers its answer.
func (x *exchange) pass(ctx context.Context, route aggregate.Route, c *upstream.Call) (answer, error) {
	return x.finish(ctx, route.Server, c)
}

// complete routes a completion by what its ref names. A hidden prompt looks
// like an unknown one.
func (x *exchange) complete(ctx context.Context) (answer, error) {
	ref := x.params.ref
	typ, _ := wire.Get(ref, "type")
	route, member := aggregate.Route{}, ""
	switch string(typ) {
	case `"ref/prompt"`:
		name, err := refText(ref, "name")
		if err != nil {
			return answer{}, err
		}
		r, rerr := x.prompt(ctx, name)
		if rerr != nil {
			return x.astray(ctx, rerr, unknown("prompt", name))
		}
		route, member = r, "name"
	case `"ref/resource"`:
		uri, err := refText(ref, "uri")
		if err == nil {
			err = longURI(uri)
		}
		if err != nil {
			return answer{}, err
		}
		r, ok := x.snapshot().Template(uri)
		if !ok {
			var rerr error
			if r, rerr = x.owner(ctx, uri); rerr != nil {
				return x.astray(ctx, rerr, unknown("resource template", uri))
			}
		}
		route, member = r, "uri"
	default:
		return answer{}, badParams("ref is neither a ref/prompt nor a ref/resource")
	}
	return x.pass(ctx, route, &upstream.Call{
		Method: "completion/complete", Safe: true,
		Params: x.params.forwardRef(member, route.Inner),
	})
}

func refText(ref []byte, member string) (string, *wire.Error) {
	raw, _ := wire.Get(ref, member)
	s, ok := wire.Unquote(raw)
	if !ok {
		return "", badParams("ref lacks " + member)
	}
	return s, nil
}

// forwardRef is forward for the name inside ref.
func (p *params) forwardRef(member, inner string) []byte {
	from, _, _ := wire.Find(p.raw, "ref")
	a, b, _ := wire.Find(p.ref, member)
	return p.withoutMeta(nil, []wire.Edit{{From: from + a, To: from + b, With: wire.AppendQuote(nil, inner)}})
}
