package egress

import (
	"context"
	"net"
	"net/http"
	"net/url"
)

// A DialFunc makes a connection, as net.Dialer's DialContext does.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// A Route is one way out. The zero value is a direct connection.
type Route struct{ hop *hop }

// Proxied reports whether connections go through a proxy.
func (r Route) Proxied() bool { return r.hop != nil }

// String is "direct", or the proxy without its credentials.
func (r Route) String() string {
	if r.hop == nil {
		return direct
	}
	return r.hop.name
}

// GoString is String, so that no verb prints credentials.
func (r Route) GoString() string { return r.String() }

// Key tells routes apart, credentials included. It is as secret as they are: put
// it into a digest and nowhere else.
func (r Route) Key() string {
	if r.hop == nil {
		return direct
	}
	if r.hop.user == nil {
		return r.hop.name
	}
	return r.hop.user.String() + "@" + r.hop.name
}

// hopHost stands for the proxy where an http.Transport wants to dial it. It
// cannot be the host of a URL.
const hopHost = "proxy hop"

// Apply makes t leave by this route; dial makes the TCP connections, to the
// target or to the proxy. Tunnels are made here and not by t: net/http bounds
// neither the time nor the bytes of a CONNECT, and would show the proxy the
// server's client certificate. No header of a request gets into a CONNECT. For
// http targets and an HTTP proxy t sends absolute URLs, which the proxy reads.
func (r Route) Apply(t *http.Transport, dial DialFunc) {
	t.Proxy, t.DialContext = nil, dial
	h := r.hop
	if h == nil {
		return
	}
	if h.scheme != "socks5" {
		via := &url.URL{Scheme: "http", Host: hopHost, User: h.user}
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			if req.URL.Scheme != "http" {
				return nil, nil
			}
			return via, nil
		}
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(addr); host == hopHost {
			return h.reach(ctx, dial)
		}
		return h.tunnel(ctx, dial, addr, false)
	}
}

// Dial connects to addr for any protocol, through a tunnel when there is a proxy.
func (r Route) Dial(ctx context.Context, dial DialFunc, network, addr string) (net.Conn, error) {
	if r.hop == nil {
		return dial(ctx, network, addr)
	}
	return r.hop.tunnel(ctx, dial, addr, true)
}

// Refused returns a *ProxyError if resp is not the server's answer but the
// proxy's demand for other credentials, and nil otherwise. That can only be
// where the proxy reads the requests.
func (r Route) Refused(resp *http.Response) error {
	if r.hop == nil || r.hop.scheme == "socks5" || resp.StatusCode != http.StatusProxyAuthRequired ||
		resp.Request == nil || resp.Request.URL.Scheme != "http" {
		return nil
	}
	return r.hop.refusal("request", resp.StatusCode)
}
