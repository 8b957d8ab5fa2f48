package egress

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
)

// A rule lets a child reach something. Of any, net and name one is set.
type rule struct {
	any  bool
	net  netip.Prefix
	name string
	sub  bool   // what is below name, too
	port string // if empty, 80 and 443
}

var (
	errRule     = errors.New("is not a host, a *.suffix, an address or a CIDR, with :port or without")
	errRulePort = errors.New("the port must be 1 to 65535")
)

// parseRule reads one entry of an allow list. Other than in NO_PROXY a plain
// host is that host only.
func parseRule(s string) (rule, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.Contains(s, "/") {
		return parseNetRule(s)
	}
	host, port, err := splitPort(s)
	switch {
	case errors.Is(err, errEntryPort):
		return rule{}, errRulePort
	case err != nil:
		return rule{}, errRule
	case host == "*":
		return rule{any: true, port: port}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = plainAddr(ip)
		return rule{net: netip.PrefixFrom(ip, ip.BitLen()), port: port}, nil
	}
	name, sub := strings.CutPrefix(host, "*.")
	if !sub {
		name, sub = strings.CutPrefix(host, ".")
	}
	if name, err = cleanName(strings.TrimSuffix(name, ".")); err != nil {
		return rule{}, errRule
	}
	return rule{name: name, sub: sub, port: port}, nil
}

// parseNetRule reads 10.0.0.0/8, 10.0.0.0/8:5432, fd00::/8 and [fd00::/8]:5432.
func parseNetRule(s string) (rule, error) {
	port, hasPort := "", false
	switch base, bits, _ := strings.Cut(s, "/"); {
	case strings.HasPrefix(s, "[") && !strings.HasSuffix(base, "]"):
		inner, rest, ok := strings.Cut(s[1:], "]")
		port, hasPort = strings.CutPrefix(rest, ":")
		if !ok || rest != "" && !hasPort {
			return rule{}, errRule
		}
		s = inner
	case strings.Contains(bits, ":"):
		bits, port, hasPort = strings.Cut(bits, ":")
		s = base + "/" + bits
	}
	if hasPort && !validPort(port) {
		return rule{}, errRulePort
	}
	p, err := parseNet(s)
	if err != nil {
		return rule{}, errRule
	}
	return rule{net: p, port: port}, nil
}

func (r *rule) onPort(port string) bool {
	if r.port == "" {
		return port == "80" || port == "443"
	}
	return r.port == port
}

// A fence is the whole allow list of one child.
type fence struct{ rules []rule }

func compileFence(allow []string) (*fence, error) {
	f := &fence{}
	for _, raw := range allow {
		r, err := parseRule(raw)
		if err != nil {
			return nil, &ruleError{raw, err}
		}
		f.rules = append(f.rules, r)
	}
	return f, nil
}

type ruleError struct {
	rule string
	err  error
}

func (e *ruleError) Error() string { return "egress.allow: \"" + clip(e.rule) + "\": " + e.err.Error() }

// A grant is what the rules say of a name, before its addresses are known.
type grant int

const (
	notNamed grant = iota
	wide           // by * or by a suffix
	exact          // by its own name
)

func (f *fence) name(name, port string) grant {
	g := notNamed
	for i := range f.rules {
		r := &f.rules[i]
		if !r.onPort(port) {
			continue
		}
		switch {
		case r.name != "" && r.name == name && !r.sub:
			return exact
		case r.any, r.name != "" && r.sub && below(name, r.name):
			g = wide
		}
	}
	return g
}

// nets reports whether an address rule holds the address.
func (f *fence) nets(ip netip.Addr, port string) bool {
	return slices.ContainsFunc(f.rules, func(r rule) bool {
		return r.net.IsValid() && r.onPort(port) && r.net.Contains(ip)
	})
}

// hasNets reports whether an address rule is about the port.
func (f *fence) hasNets(port string) bool {
	return slices.ContainsFunc(f.rules, func(r rule) bool { return r.net.IsValid() && r.onPort(port) })
}

// literal decides about an address that the child wrote itself.
func (f *fence) literal(ip netip.Addr, port string) refusal {
	switch k := kindOf(ip); {
	case k == forbidden:
		return refusedMetadata
	case f.nets(ip, port):
		return ""
	case k != public:
		return refusedInside
	case f.name("", port) == wide:
		return ""
	}
	return refusedRules
}

// resolved decides about one address of a name.
func (f *fence) resolved(g grant, name string, ip netip.Addr, port string) refusal {
	switch k := kindOf(ip); {
	case k == forbidden:
		return refusedMetadata
	case f.nets(ip, port):
		return ""
	case g == notNamed:
		return refusedRules
	case k == public, k == private && g == exact, k == local && g == exact && loopbackName(name):
		return ""
	}
	return refusedInside
}

// A refusal is why a child may not reach something. If empty, it may.
type refusal string

const (
	refusedForm     refusal = "is not a host and a port"
	refusedRules    refusal = "is not in the server's egress.allow"
	refusedMetadata refusal = "is, or resolves to, an address that is never allowed (link-local, instance metadata)"
	refusedInside   refusal = "is, or resolves to, a loopback or private address that egress.allow does not grant: it takes the address or its network, or for private ones the exact host"
)
