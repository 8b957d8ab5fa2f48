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

func kindOf(ip netip.Addr) kind {
	ip = embedded(plainAddr(ip))
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

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	compat    = netip.MustParsePrefix("::/96")
)

// embedded is the IPv4 address that an IPv6 address leads to, or ip itself.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), compat.Contains(ip) && !ip.IsLoopback() && !ip.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}
