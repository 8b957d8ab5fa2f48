package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// An Outward keeps requests to URLs that others supply out of this machine, the
// networks around it and the metadata services of clouds. The zero value allows
// public addresses only.
type Outward struct {
	rules []rule
	own   string // a host that is believed as it is written
}

// CompileOutward reads what may be inside all the same: hosts, *.suffixes,
// addresses and CIDRs, with a port or for every port.
func CompileOutward(allow []string) (*Outward, error) {
	o := &Outward{}
	var errs []error
	for _, raw := range allow {
		r, err := parseRule(raw)
		if err == nil && r.any {
			err = errRule
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", clip(raw), err))
		}
		o.rules = append(o.rules, r)
	}
	return o, errors.Join(errs...)
}

// loopbackNets are all of this machine.
var loopbackNets = prefixes("127.0.0.0/8", "::1/128")

// With returns o with the origin of a URL that a person configured, wherever it
// is. If that is this machine, all of this machine is allowed.
func (o *Outward) With(u *url.URL) *Outward {
	t := targetOf(u)
	out := &Outward{rules: slices.Clone(o.rules), own: strings.ToLower(u.Host)}
	own := rule{name: t.name, port: portOf(u)}
	if t.ip.IsValid() {
		own = rule{net: netip.PrefixFrom(t.ip, t.ip.BitLen()), port: own.port}
	}
	out.rules = append(out.rules, own)
	if t.loopback() {
		out.rules = append(out.rules, rule{name: "localhost", sub: true},
			rule{net: loopbackNets[0]}, rule{net: loopbackNets[1]})
	}
	return out
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case strings.EqualFold(u.Scheme, "http"):
		return "80"
	}
	return "443"
}

// Names reports whether an entry is about the host of u, as it is written.
func (o *Outward) Names(u *url.URL) bool {
	t, port := targetOf(u), portOf(u)
	if t.ip.IsValid() {
		return o.holds(t.ip, port)
	}
	return o.named(t.name, port) != notNamed
}

// URL refuses what the host of u shows by itself, before any look-up: addresses
// that are inside, names of this machine, and spellings that some resolver takes
// for an address.
func (o *Outward) URL(u *url.URL) error {
	host, t, port := u.Hostname(), targetOf(u), portOf(u)
	odd := strings.Contains(host, "%") || strings.HasSuffix(host, ".") || !t.ip.IsValid() && !plainName(t.name)
	switch {
	case !validPort(port), odd && (o.own == "" || strings.ToLower(u.Host) != o.own):
		return &OutwardError{host, "is not a plain host name or address"}
	case t.ip.IsValid():
		return o.Addr("", t.ip, port)
	case slices.Contains(neverNames, t.name):
		return &OutwardError{host, outwardNever}
	case loopbackName(t.name) && o.named(t.name, port) == notNamed:
		return &OutwardError{host, outwardLocal}
	}
	return nil
}

// Addr decides about one address that a name stands for; of a literal address
// the name is empty.
func (o *Outward) Addr(name string, ip netip.Addr, port string) error {
	ip = plainAddr(ip)
	host := name
	if host == "" {
		host = ip.String()
	}
	g := o.named(name, port)
	switch k := kindOf(ip); {
	case k == public, o.holds(ip, port):
		return nil
	case k == forbidden:
		return &OutwardError{host, outwardNever}
	case g == exact, g == wide && (k == private || loopbackName(name)):
		return nil
	case k == local:
		return &OutwardError{host, outwardLocal}
	}
	return &OutwardError{host, outwardPrivate}
}

// holds reports whether an entry is about the address. Addresses that are never
// allowed to children need an entry of their own, which no network is.
func (o *Outward) holds(ip netip.Addr, port string) bool {
	never := kindOf(ip) == forbidden
	return slices.ContainsFunc(o.rules, func(r rule) bool {
		return r.net.IsValid() && (r.port == "" || r.port == port) && r.net.Contains(ip) && (!never || r.net.IsSingleIP())
	})
}

func (o *Outward) named(name, port string) grant {
	g := notNamed
	for _, r := range o.rules {
		switch {
		case name == "", r.name == "", r.port != "" && r.port != port:
		case r.name == name && !r.sub:
			return exact
		case r.sub && below(name, r.name):
			g = wide
		}
	}
	return g
}

// LoopbackHost reports whether the host of u is this machine, as it is written.
func LoopbackHost(u *url.URL) bool { return targetOf(u).loopback() }

// What an Outward says of hosts.
const (
	outwardNever   = "is, or resolves to, a link-local, metadata or otherwise special address"
	outwardLocal   = "is, or resolves to, a loopback address"
	outwardPrivate = "is, or resolves to, a private address"
)

// An OutwardError says why a host may not be asked.
type OutwardError struct{ Host, Why string }

func (e *OutwardError) Error() string { return fmt.Sprintf("%q %s", clip(e.Host), e.Why) }
