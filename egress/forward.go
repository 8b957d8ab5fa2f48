package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/elazarl/goproxy"
)

// connKey and childKey are where a request carries the connection it came on and
// the child that sent it.
type (
	connKey  struct{}
	childKey struct{}
)

func (c *Children) newServer(ctx context.Context) *http.Server {
	srv := &http.Server{
		Handler:     http.HandlerFunc(c.handle),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          quiet(),
		Protocols:         new(http.Protocols),
	}
	srv.Protocols.SetHTTP1(true)
	return srv
}

// newProxy returns goproxy without its defaults: it would accept every target,
// follow the environment, and log what children write.
func (c *Children) newProxy() *goproxy.ProxyHttpServer {
	p := goproxy.NewProxyHttpServer()
	p.Logger = quiet()
	p.Tr = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no way was decided")
	}}
	p.ConnectDial = nil
	p.ConnectDialWithReq = c.connect
	p.ConnectionErrHandler = unconnected
	p.KeepAcceptEncoding = true
	p.NonproxyHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "mcp-sidecar: this is a proxy for one program and serves nothing itself", http.StatusBadRequest)
	})
	p.OnRequest().HandleConnectFunc(c.admit)
	p.OnRequest().DoFunc(c.request)
	return p
}

func (c *Children) handle(w http.ResponseWriter, r *http.Request) {
	if !c.open.enter() {
		http.Error(w, errEnded.Error(), http.StatusServiceUnavailable)
		return
	}
	defer c.open.leave()
	ch, err := c.identify(r)
	if err != nil {
		w.Header().Set("Connection", "close")
		http.Error(w, "mcp-sidecar: "+err.Error(), statusOf(err))
		return
	}
	c.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), childKey{}, ch)))
}

// identify is who, and ties the connection to the child. A request of nobody is
// no error: what it wants decides how it is answered.
func (c *Children) identify(r *http.Request) (*child, error) {
	ch := c.who(r)
	if ch == nil {
		return nil, nil
	}
	of, err := c.open.own(clientOf(r), ch)
	switch {
	case err == nil:
		return ch, nil
	case errors.Is(err, errEnded):
		return nil, nil // it was there a moment ago
	}
	of.note(r.Context(), err)
	return nil, err
}

func clientOf(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }

// childOf is the child that a request comes from, or nil.
func childOf(r *http.Request) *child {
	ch, _ := r.Context().Value(childKey{}).(*child)
	return ch
}

var (
	tunnelled = &goproxy.ConnectAction{Action: goproxy.ConnectAccept}
	rejected  = &goproxy.ConnectAction{Action: goproxy.ConnectReject}
)

// admit looks at who sends a CONNECT; where it goes is looked at in connect.
func (c *Children) admit(host string, ctx *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
	switch _, _, err := net.SplitHostPort(host); {
	case childOf(ctx.Req) == nil:
		ctx.Resp = unknown(ctx.Req)
	case err != nil:
		ctx.Resp = answer(ctx.Req, http.StatusBadRequest, "CONNECT needs a host and a port")
	default:
		return tunnelled, host
	}
	ctx.Resp.Close = true
	return rejected, host
}

// connect makes the connection for a CONNECT.
func (c *Children) connect(r *http.Request, _, addr string) (net.Conn, error) {
	ch := childOf(r)
	if ch == nil {
		return nil, errEnded
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	t := childTarget{target: target{scheme: "https", port: port}, on: port}
	t.name, t.ip = readHost(host)
	conn, err := ch.tunnel(r.Context(), t, clientOf(r))
	ch.note(r.Context(), err)
	return conn, err
}

// unconnected answers a CONNECT that failed. It is not called in a tunnel: both
// its ends can be closed by halves.
func unconnected(w io.Writer, ctx *goproxy.ProxyCtx, err error) {
	if d, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		d.SetWriteDeadline(time.Now().Add(5 * time.Second))
	}
	resp := answer(ctx.Req, statusOf(err), err.Error())
	resp.Close = true
	resp.Write(w)
}

// request sends what comes without CONNECT.
func (c *Children) request(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
	ch := childOf(r)
	switch {
	case ch == nil:
		return r, unknown(r)
	case r.URL.Scheme != "http":
		return r, answer(r, http.StatusBadRequest, "only http URLs are forwarded; use CONNECT for others")
	case r.Header.Get("Upgrade") != "":
		return r, answer(r, http.StatusNotImplemented, "use CONNECT for connections that change their protocol")
	}
	dropHop(r.Header) // before goproxy drops the list of them
	client := clientOf(r)
	ctx.RoundTripper = goproxy.RoundTripperFunc(func(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
		resp, err := ch.forward(r, client)
		ch.note(r.Context(), err)
		if err != nil {
			return answer(r, statusOf(err), err.Error()), nil
		}
		return resp, nil
	})
	return r, nil
}

// forward sends a request and returns the answer; closing its body ends it.
func (c *child) forward(r *http.Request, client *conn) (*http.Response, error) {
	if !c.take() {
		return nil, errBusy
	}
	resp, err := c.send(r)
	if err != nil {
		c.give()
		return nil, err
	}
	dropHop(resp.Header)
	resp.Body = &body{ReadCloser: resp.Body, client: client, done: c.give}
	return resp, nil
}

func (c *child) send(r *http.Request) (*http.Response, error) {
	t := childTarget{target: targetOf(r.URL)}
	if t.on = t.port; t.on == "" {
		t.on = "80"
	}
	w, err := c.way(r.Context(), t)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(context.WithValue(r.Context(), wayKey{}, w))
	// What was looked at is what goes on, in the URL and in the Host header.
	u := *r.URL
	if u.Host = t.host(); t.port != "" || t.ip.Is6() {
		u.Host = net.JoinHostPort(t.host(), t.on)
	}
	r.URL, r.Host = &u, ""
	resp, err := c.plain.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	err = Route{w.hop}.Refused(resp)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		err = errors.New("the target changes the protocol without being asked")
	}
	if err != nil {
		resp.Body.Close()
	}
	return resp, err
}

// viaHop has a request's way through an HTTP proxy.
func viaHop(r *http.Request) (*url.URL, error) {
	w, _ := r.Context().Value(wayKey{}).(way)
	if w.hop == nil || w.hop.scheme == "socks5" {
		return nil, nil
	}
	return &url.URL{Scheme: "http", Host: hopHost, User: w.hop.user}, nil
}

// A body gives its place back when it is closed. One that breaks off takes the
// client's connection with it: the end of a chunked answer would look whole.
type body struct {
	io.ReadCloser
	client *conn
	once   sync.Once
	done   func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.client.Close()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.done)
	return err
}

// dropHop drops the headers that are for one connection only.
func dropHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate",
		"Proxy-Authorization", "Te", "Upgrade"} {
		h.Del(name)
	}
}
