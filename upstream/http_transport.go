package upstream

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

const (
	// defaultIdle is shorter than the five seconds after which node and uvicorn
	// drop an idle connection. A request that meets such a drop may have run, so
	// we have to be the first to let go.
	defaultIdle  = 4 * time.Second
	maxIdle      = time.Minute
	tlsHandshake = 10 * time.Second
	maxHeader    = 64 << 10
)

// newTransport returns a transport for one server and nobody else. It speaks
// HTTP/1.1 only: each call in flight has a connection of its own, so that none
// waits behind another's stream, and net/http's rule for sending a POST again is
// exact there: only if it wrote no byte of it.
func newTransport(r *Resolved, idle time.Duration, dials func() context.Context) *http.Transport {
	calls := r.Settings.maxConcurrency()
	t := &http.Transport{
		TLSClientConfig:        tls.ClientConfig(),
		TLSHandshakeTimeout:    tlsHandshake,
		DisableCompression:     true, // or the limits would count compressed bytes
		MaxIdleConns:           calls,
		MaxIdleConnsPerHost:    calls,
		MaxConnsPerHost:        3*calls + 8 + 2*mostWaiting, // calls, their asides, who replaces them; those that wait, and their answers
		IdleConnTimeout:        idle,
		DisableKeepAlives:      idle <= 0,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if r.tls != nil {
		t.TLSClientConfig = r.tls.ConfigFor(r.URL.Hostname())
	}
	if r.route.Proxied() && r.URL.Scheme == "http" {
		// There are proxies (tinyproxy) that end the connection after each answer
		// without saying so: a request that meets the end may have run.
		t.DisableKeepAlives = true
	}
	r.route.Apply(t, dialer(r, dials))
	return t
}

// dialer dials the server or its socket. The transport may go on dialling after
// the call that wanted the connection has gone; the end of dials ends that too.
func dialer(r *Resolved, dials func() context.Context) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{Timeout: r.Settings.connectTimeout()}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if r.Socket != "" {
			network, addr = "unix", r.Socket
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(dials(), cancel)()
		return d.DialContext(ctx, network, addr)
	}
}

// keepIdle adapts to how long the server keeps idle connections, which it says
// in the answers to the handshake. It must be called before the first call.
func (c *httpConn) keepIdle(r *Resolved, keepAlive string) {
	idle, ok := idleFor(keepAlive)
	if !ok || idle == defaultIdle {
		return
	}
	c.transport.CloseIdleConnections()
	c.transport = newTransport(r, idle, c.dials)
}

// idleFor reads a Keep-Alive header: a second less than the server promises.
// Zero means that connections are not worth keeping.
func idleFor(keepAlive string) (time.Duration, bool) {
	for part := range strings.SplitSeq(keepAlive, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 31)
		if err != nil || n == 0 {
			return 0, err == nil
		}
		return min(time.Duration(n-1)*time.Second, maxIdle), true
	}
	return 0, false
}

// maxConcurrency bounds the calls in flight.
func (s *Settings) maxConcurrency() int {
	if s.MaxConcurrency <= 0 {
		return 64
	}
	return s.MaxConcurrency
}
