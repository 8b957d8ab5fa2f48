package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"
	"unicode"
)

// An entry is one word of NO_PROXY. Of all, net and name one is set.
type entry struct {
	all  bool
	net  netip.Prefix
	name string // matches itself and everything below it
	port string // if set, the target must have it, too, and in writing
}

// splitList splits what people separate by commas, by blanks, or by both.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

var (
	errEntryPort = errors.New("the port must be 1 to 65535")
	errEntryNet  = errors.New("is not a valid CIDR")
	errEntryName = errors.New("is not a host, a .suffix, an address or a CIDR")
)

// parseEntry reads one word.
func parseEntry(s string) (entry, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "*" {
		return entry{all: true}, nil
	}
	if strings.Contains(s, "/") {
		p, err := parseNet(s)
		return entry{net: p}, err
	}
	host, port, err := splitPort(s)
	if err != nil {
		return entry{}, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = plainAddr(ip)
		return entry{net: netip.PrefixFrom(ip, ip.BitLen()), port: port}, nil
	}
	name, err := parseSuffix(host)
	return entry{name: name, port: port}, err
}

// parseNet reads a CIDR. Bits beyond the mask do not count, and IPv4 inside of
// IPv6 is IPv4.
func parseNet(s string) (netip.Prefix, error) {
	if addr, bits, ok := strings.Cut(s, "/"); ok && strings.HasPrefix(addr, "[") && strings.HasSuffix(addr, "]") {
		s = addr[1:len(addr)-1] + "/" + bits
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, errEntryNet
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, errEntryNet
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// splitPort cuts off a port, if there is one. Bare IPv6 has none.
func splitPort(s string) (host, port string, err error) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		return s[1 : len(s)-1], "", nil
	}
	if !strings.Contains(s, ":") || !strings.HasPrefix(s, "[") && strings.Count(s, ":") > 1 {
		return s, "", nil
	}
	host, port, err = net.SplitHostPort(s)
	if err != nil || host == "" {
		return "", "", errEntryName
	}
	if !validPort(port) {
		return "", "", errEntryPort
	}
	return host, port, nil
}

// parseSuffix reads a name; example.com, .example.com and *.example.com are the
// same to the seed's agent.
func parseSuffix(s string) (string, error) {
	if rest, ok := strings.CutPrefix(s, "*."); ok {
		s = rest
	} else {
		s = strings.TrimPrefix(s, ".")
	}
	return cleanName(strings.TrimSuffix(s, "."))
}

// cleanName accepts what can be a host's name.
func cleanName(s string) (string, error) {
	s, err := ascii(s)
	if err != nil || s == "" || len(s) > 253 {
		return "", errEntryName
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInName) {
			return "", errEntryName
		}
	}
	return strings.ToLower(s), nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// below reports whether name is suffix or ends in it.
func below(name, suffix string) bool {
	head, ok := strings.CutSuffix(name, suffix)
	return ok && (head == "" || head[len(head)-1] == '.')
}

// matches decides by what is written alone.
func (e *entry) matches(t target) bool {
	switch {
	case e.all:
		return true
	case e.port != "" && e.port != t.port: // the scheme's port is not inferred, as in the seed
		return false
	case e.net.IsValid():
		return t.ip.IsValid() && e.net.Contains(t.ip)
	}
	return t.name != "" && below(t.name, e.name)
}

// A bypass is a whole NO_PROXY.
type bypass struct {
	entries []entry
	// simple exempts names without a dot (a setting of macOS).
	simple bool
	// resolve finds a name's addresses for the entries that are addresses. If nil,
	// those match literal addresses only.
	resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

func (b *bypass) matches(ctx context.Context, t target) bool {
	for i := range b.entries {
		if b.entries[i].matches(t) {
			return true
		}
	}
	if b.simple && t.name != "" && !strings.Contains(t.name, ".") {
		return true
	}
	return b.resolves(ctx, t)
}

// resolveWait bounds a look-up that only serves to match NO_PROXY.
const resolveWait = 2 * time.Second

// resolves reports whether the name has an address that an entry holds. A name
// that cannot be resolved matches nothing.
func (b *bypass) resolves(ctx context.Context, t target) bool {
	if b.resolve == nil || t.name == "" || !b.hasNets() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	ips, err := b.resolve(ctx, t.name)
	if err != nil {
		return false
	}
	for _, ip := range ips {
		at := target{ip: plainAddr(ip), port: t.port}
		for i := range b.entries {
			if e := &b.entries[i]; e.net.IsValid() && e.matches(at) {
				return true
			}
		}
	}
	return false
}

func (b *bypass) hasNets() bool {
	for i := range b.entries {
		if b.entries[i].net.IsValid() {
			return true
		}
	}
	return false
}
