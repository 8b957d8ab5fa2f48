package egress

import (
	"net/netip"
	"net/url"
	"strings"
)

// A target is where a connection is to go.
type target struct {
	scheme string
	name   string     // lower case, no trailing dot, ASCII; empty for an address
	ip     netip.Addr // of a literal address, unmapped and without its zone
	port   string     // empty unless it was written
}

// host is the target's host for people.
func (t target) host() string {
	if t.ip.IsValid() {
		return t.ip.String()
	}
	return t.name
}

func targetOf(u *url.URL) target {
	t := target{scheme: strings.ToLower(u.Scheme), port: u.Port()}
	t.name, t.ip = readHost(u.Hostname())
	return t
}

// readHost tells names from addresses. A zone is dropped: a name inside it must
// not match as one (CVE-2025-22870).
func readHost(host string) (string, netip.Addr) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return "", plainAddr(ip)
	}
	if strings.ContainsRune(host, '%') {
		return "", netip.Addr{} // neither: nothing matches it
	}
	if a, err := ascii(host); err == nil {
		host = strings.ToLower(a)
	}
	return host, netip.Addr{}
}

// plainAddr makes equal addresses equal, however they were written.
func plainAddr(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// loopback reports whether a target is this machine: such connections never
// leave through a proxy. RFC 6761 gives all of .localhost to loopback.
func (t target) loopback() bool {
	if t.ip.IsValid() {
		return t.ip.IsLoopback()
	}
	return loopbackName(t.name)
}

func loopbackName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
