package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// guarded is the transport of a Guard's clients.
type guarded struct {
	guard  Guard
	fence  *fence
	broken error // of the guard's settings; nothing is sent then
}

func (t *guarded) check(u *url.URL) error {
	if t.broken != nil {
		return t.broken
	}
	return t.fence.check(u)
}

var errDowngrade = errors.New("redirects to plain http")

// redirect follows GETs to https, and to the same origin. What is posted holds
// codes and secrets, which are for the endpoint alone.
func (t *guarded) redirect(req *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	switch {
	case first.Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case req.URL.Scheme != "https" && originOf(req.URL) != originOf(last.URL):
		return errDowngrade
	}
	req.Header.Del("Referer") // it would tell one server the URLs of another
	return t.check(req.URL)
}

// RoundTrip uses a connection of its own for each request. There are few.
func (t *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req.URL); err != nil {
		return nil, err
	}
	route, err := t.route(req)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", t.guard.userAgent())
	}
	resp, err := t.transport(req.URL, route).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := route.Refused(resp); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	resp.Body = &cappedBody{ReadCloser: resp.Body, left: maxBody}
	return resp, nil
}

func (g *Guard) userAgent() string {
	if g.UserAgent == "" {
		return "mcp-sidecar"
	}
	return g.UserAgent
}

// route decides the way out. A name that a proxy will resolve is looked at here,
// as far as it means something here.
func (t *guarded) route(req *http.Request) (egress.Route, error) {
	if t.guard.Route == nil {
		return egress.Route{}, nil
	}
	r, err := t.guard.Route(req.URL)
	if err != nil || !r.Proxied() {
		return r, err
	}
	return r, t.screen(req.Context(), req.URL)
}

// screenTime bounds a look-up behind a proxy, where names often mean nothing.
const screenTime = 2 * time.Second

func (t *guarded) screen(ctx context.Context, u *url.URL) error {
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil // check saw it
	}
	ctx, cancel := context.WithTimeout(ctx, screenTime)
	defer cancel()
	ips, err := t.lookup(ctx, u.Hostname())
	if err != nil {
		return nil // nothing is known against it
	}
	port := u.Port()
	if port == "" {
		port = schemePorts[u.Scheme]
	}
	_, err = t.dialable(u.Hostname(), port, ips)
	return err
}

// transport speaks HTTP/1.1 without compression, so that the limits count what
// is read.
func (t *guarded) transport(u *url.URL, route egress.Route) *http.Transport {
	out := &http.Transport{
		TLSClientConfig:        tls.ClientConfig(),
		TLSHandshakeTimeout:    requestTime,
		ResponseHeaderTimeout:  tokenWait, // others have less, by the client
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		DisableKeepAlives:      true,
		Protocols:              new(http.Protocols),
	}
	out.Protocols.SetHTTP1(true)
	if t.guard.TLS != nil {
		out.TLSClientConfig = t.guard.TLS.ConfigFor(u.Hostname())
	}
	dial := t.dial
	if route.Proxied() {
		dial = (&net.Dialer{Timeout: requestTime}).DialContext // the proxy's address is configured
	}
	route.Apply(out, dial)
	return out
}

// dialEach bounds the wait for one of several addresses.
const dialEach = 3 * time.Second

// dial resolves by itself and dials what it looked at, so that a name cannot mean
// another address a moment later.
func (t *guarded) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, name, err := t.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	addrs, err := t.dialable(name, port, ips)
	if err != nil {
		return nil, err
	}
	d := &net.Dialer{Timeout: requestTime}
	if len(addrs) > 1 {
		d.Timeout = dialEach
	}
	return dialFirst(ctx, d, network, addrs)
}

func dialFirst(ctx context.Context, d *net.Dialer, network string, addrs []string) (net.Conn, error) {
	var errs []error
	for _, a := range addrs {
		conn, err := d.DialContext(ctx, network, a)
		if err == nil {
			return conn, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// resolve gives the addresses of a host; the name of an address is empty.
func (t *guarded) resolve(ctx context.Context, host string) ([]netip.Addr, string, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, "", nil
	}
	ips, err := t.lookup(ctx, host)
	if err == nil && len(ips) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		return nil, "", fmt.Errorf("resolve %q: %w", clip(host, 120), err)
	}
	return ips, host, nil
}

func (t *guarded) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if t.guard.Lookup != nil {
		return t.guard.Lookup(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// maxAddrs bounds the addresses of one name that are looked at and dialled.
const maxAddrs = 16

// dialable refuses a name with any address that is refused: who can give a name
// one such address can give it others.
func (t *guarded) dialable(name, port string, ips []netip.Addr) ([]string, error) {
	var out []string
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, ip := range ips[:min(len(ips), maxAddrs)] {
		if err := inside(t.fence.Addr(name, ip, port)); err != nil {
			return nil, err
		}
		out = append(out, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return out, nil
}

// errTooLong is an answer beyond all bounds.
var errTooLong = fmt.Errorf("the answer is longer than %d KiB", maxBody>>10)

// A cappedBody fails where a limit would cut off in silence.
type cappedBody struct {
	io.ReadCloser
	left int64
}

func (b *cappedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, errTooLong // the one byte that shows that there is more
	}
	return n, err
}
