package egress

import (
	"net/netip"
	"slices"
)

// A kind sorts addresses by what a child could do there.
type kind int

const (
	public kind = iota
	private
	local     // this machine
	forbidden // whatever the rules say
)

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i := range s {
		out[i] = netip.MustParsePrefix(s[i])
	}
	return out
}

var (
	// never holds link-local addresses, instance metadata, and what is no single
	// machine's address. 0.0.0.0 and :: reach this machine under another name.
	never = prefixes("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128",
		"100.100.100.200/32", "168.63.129.16/32", "0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8", "255.255.255.255/32")
	inside = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24",
		"198.18.0.0/15", "240.0.0.0/4", "fc00::/7", "fec0::/10", "64:ff9b:1::/48")
	// Metadata services under their names, which a corporate proxy would resolve.
	neverNames = []string{"metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"}
)

// kindOf is what an address is, or the address that it leads to: the stricter of
// the two.
func kindOf(ip netip.Addr) kind {
	ip = plainAddr(ip)
	k := ownKind(ip)
	for _, inner := range embedded(ip) {
		k = max(k, ownKind(inner))
	}
	return k
}

func ownKind(ip netip.Addr) kind {
	in := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch {
	case !ip.IsValid(), slices.ContainsFunc(never, in):
		return forbidden
	case ip.IsLoopback():
		return local
	case slices.ContainsFunc(inside, in):
		return private
	}
	return public
}

// An embedding is a kind of IPv6 addresses that have an IPv4 address in them, to
// which translators and tunnels send what goes there.
type embedding struct {
	prefix netip.Prefix
	at     [][4]int // where its bytes are, in each reading
	turned bool     // the last reading's bits are inverted
	loose  bool     // a reading that begins with 0 is none: the length is not known
}

var embeddings = []embedding{
	{prefix: netip.MustParsePrefix("64:ff9b::/96"), at: last},                // NAT64, RFC 6052
	{prefix: netip.MustParsePrefix("::ffff:0:0:0/96"), at: last},             // SIIT, RFC 2765
	{prefix: netip.MustParsePrefix("::/96"), at: last},                       // compatible, RFC 4291
	{prefix: netip.MustParsePrefix("2002::/16"), at: [][4]int{{2, 3, 4, 5}}}, // 6to4, RFC 3056
	// Teredo, RFC 4380: the server, and the client behind its NAT.
	{prefix: netip.MustParsePrefix("2001::/32"), at: [][4]int{{4, 5, 6, 7}, {12, 13, 14, 15}}, turned: true},
	// NAT64 of a site's own, RFC 8215: it takes the length it likes.
	{prefix: netip.MustParsePrefix("64:ff9b:1::/48"), loose: true,
		at: [][4]int{{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}}},
}

var last = [][4]int{{12, 13, 14, 15}}

// embedded are the IPv4 addresses that an IPv6 address may lead to.
func embedded(ip netip.Addr) []netip.Addr {
	if !ip.Is6() || ip.IsLoopback() || ip.IsUnspecified() {
		return nil
	}
	b := ip.As16()
	for _, e := range embeddings {
		if e.prefix.Contains(ip) {
			return e.read(b)
		}
	}
	if isatap(b) {
		return []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
	}
	return nil
}

func (e *embedding) read(b [16]byte) (out []netip.Addr) {
	for i, at := range e.at {
		var v4 [4]byte
		for j, k := range at {
			v4[j] = b[k]
			if e.turned && i == len(e.at)-1 {
				v4[j] ^= 0xff
			}
		}
		if !e.loose || v4[0] != 0 {
			out = append(out, netip.AddrFrom4(v4))
		}
	}
	return out
}

// isatap reports whether the interface's half of an address is an IPv4 address
// (RFC 5214), in whatever network.
func isatap(b [16]byte) bool {
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
