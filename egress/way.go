package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxAddrs bounds the addresses of one name that are looked at and dialled.
const maxAddrs = 16

// A way is how one connection of a child may go: through a proxy, or to one of
// the addresses that were looked at, and to no other.
type way struct {
	hop   *hop
	addrs []netip.AddrPort
}

// A refusedError says that a child may not go there.
type refusedError struct {
	server, host, port string
	why                refusal
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("mcp-sidecar refuses %s to server %s: it %s", net.JoinHostPort(e.host, e.port), e.server, e.why)
}

// A childTarget is what a child wants to reach.
type childTarget struct {
	target
	on string // the port with its default
}

// way decides whether and how a child gets somewhere. A name is resolved here,
// and what it resolved to is what is dialled, so that it cannot mean another
// address a moment later.
func (c *child) way(ctx context.Context, t childTarget) (way, error) {
	port, err := strconv.ParseUint(t.on, 10, 16)
	if err != nil || port == 0 || !t.ip.IsValid() && !plainName(t.name) {
		return way{}, c.refuse(t, refusedForm)
	}
	if slices.Contains(neverNames, t.name) {
		return way{}, c.refuse(t, refusedMetadata)
	}
	if t.ip.IsValid() {
		if why := c.fence.literal(t.ip, t.on); why != "" {
			return way{}, c.refuse(t, why)
		}
	}
	g := c.fence.name(t.name, t.on)
	if !t.ip.IsValid() && g == notNamed && !c.fence.hasNets(t.on) {
		return way{}, c.refuse(t, refusedRules) // without a look-up, which would tell the name
	}
	h, err := c.hop(ctx, t)
	switch {
	case err != nil:
		return way{}, err
	case t.ip.IsValid():
		return way{hop: h, addrs: []netip.AddrPort{netip.AddrPortFrom(t.ip, uint16(port))}}, nil
	case h != nil:
		return way{hop: h}, c.screen(ctx, t, g)
	}
	addrs, err := c.resolve(ctx, t, g, uint16(port))
	return way{addrs: addrs}, err
}

// plainName reports whether a name is one. 127.1 and 0x7f000001 are addresses to
// some resolvers, among them those of proxies.
func plainName(name string) bool {
	if _, err := cleanName(name); err != nil {
		return false
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

func (c *child) refuse(t childTarget, why refusal) error {
	return &refusedError{server: c.server, host: clip(t.host()), port: t.on, why: why}
}

// hop is the corporate proxy, if one is on the way.
func (c *child) hop(ctx context.Context, t childTarget) (*hop, error) {
	if c.rules.Via == direct {
		return nil, nil
	}
	r, err := c.owner.e.route(ctx, t.target, c.rules.Proxy)
	return r.hop, err
}

// screen looks at a name that a proxy will resolve. Rules about addresses cannot
// grant it, because the proxy may find others. Where the name means nothing to
// our own resolver, which is usual behind a proxy, nothing is known against it.
func (c *child) screen(ctx context.Context, t childTarget, g grant) error {
	if g == notNamed {
		return c.refuse(t, refusedRules)
	}
	for _, ip := range c.owner.screen.addrs(ctx, t.name) {
		if why := c.fence.resolved(g, t.name, ip, t.on); why != "" {
			return c.refuse(t, why)
		}
	}
	return nil
}

// resolve returns those addresses of a name that the child may reach. A name
// with one that is never allowed is refused whole.
func (c *child) resolve(ctx context.Context, t childTarget, g grant, port uint16) ([]netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, childDial)
	defer cancel()
	ips, err := c.owner.e.lookup(ctx, t.name)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", clip(t.name), err)
	}
	var out []netip.AddrPort
	var refused refusal
	for _, ip := range ips[:min(len(ips), maxAddrs)] {
		ip = plainAddr(ip)
		switch why := c.fence.resolved(g, t.name, ip, t.on); why {
		case "":
			out = append(out, netip.AddrPortFrom(ip, port))
		case refusedMetadata:
			return nil, c.refuse(t, why)
		default:
			refused = why
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case refused != "":
		return nil, c.refuse(t, refused)
	}
	return nil, fmt.Errorf("resolve %s: no address", clip(t.name))
}

// connect goes the way. early is as in hop.tunnel.
func (w way) connect(ctx context.Context, dial DialFunc, addr string, early bool) (net.Conn, error) {
	if w.hop != nil {
		return w.hop.tunnel(ctx, dial, addr, early)
	}
	var errs []error
	for _, a := range w.addrs {
		conn, err := dial(ctx, "tcp", a.String())
		if err == nil {
			return conn, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}
