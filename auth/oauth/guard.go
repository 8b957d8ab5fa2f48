package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

const (
	requestTime  = 10 * time.Second // one request with its redirects and its body
	maxBody      = 1 << 20
	maxHeader    = 64 << 10
	maxRedirects = 3
)

// A Guard makes the HTTP clients for what servers point to: their authorization
// servers are named by them and not by the configuration. The zero value reaches
// public addresses, directly.
type Guard struct {
	// Route decides how requests leave. If nil, directly.
	Route func(u *url.URL) (egress.Route, error)
	// TLS holds the roots and the client certificate. If nil, the system's roots
	// and no certificate.
	TLS *tls.Source
	// Allow are hosts, *.suffixes, addresses and CIDRs, with a port or for every
	// port, that may be private. An entry that begins with http:// allows plain
	// HTTP, too.
	Allow []string
	// UserAgent goes with every request. If empty, mcp-sidecar.
	UserAgent string
	// Lookup resolves names. If nil, the system's resolver does.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Validate reports the entries of Allow that mean nothing.
func (g *Guard) Validate() error {
	_, err := g.fence(nil)
	return err
}

// Check refuses URLs that may not be asked, as far as they show it by themselves.
// See [Server.Endpoint] for what a particular server supplies.
func (g *Guard) Check(u *url.URL) error {
	f, err := g.fence(nil)
	if err != nil {
		return err
	}
	return f.check(u)
}

// Client returns a client for what one MCP server points to. The origin of the
// server itself is allowed wherever it is, and all of this machine if it is
// there. The client keeps neither cookies nor connections.
func (g *Guard) Client(server *url.URL) *http.Client {
	t := &guarded{guard: *g}
	t.fence, t.broken = g.fence(server)
	return &http.Client{Transport: t, CheckRedirect: t.redirect, Timeout: requestTime}
}

// A fence is a Guard for one server, compiled.
type fence struct {
	*egress.Outward
	plain *egress.Outward // where plain HTTP is allowed
}

const plainHTTP = "http://"

func (g *Guard) fence(server *url.URL) (*fence, error) {
	var all, plain []string
	for _, entry := range g.Allow {
		rest, isPlain := strings.CutPrefix(entry, plainHTTP)
		if all = append(all, rest); isPlain {
			plain = append(plain, rest)
		}
	}
	allowed, err := egress.CompileOutward(all)
	if err != nil {
		return nil, fmt.Errorf("oauth.allow_hosts: %w", err)
	}
	f := &fence{Outward: allowed}
	if server != nil {
		f.Outward = allowed.With(server)
	}
	f.plain, err = egress.CompileOutward(plain)
	return f, err
}

const maxURL = 4096

var (
	errScheme   = errors.New("is not https (plain http is for loopback, and for hosts of oauth.allow_hosts that are written with http://)")
	errURL      = errors.New("is not an absolute URL")
	errUserinfo = errors.New("holds a user or a password")
	errFragment = errors.New("has a fragment")
)

// check looks at a URL and resolves nothing.
func (f *fence) check(u *url.URL) error {
	switch {
	case u.Host == "", u.Opaque != "", u.Hostname() == "":
		return errURL
	case u.User != nil:
		return errUserinfo
	case u.Fragment != "", u.RawFragment != "":
		return errFragment
	case u.Scheme != "https" && (u.Scheme != "http" || !egress.LoopbackHost(u) && !f.plain.Names(u)):
		return errScheme
	}
	return inside(f.URL(u))
}

// inside adds the way out to what the fence refuses.
func inside(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w, which oauth.allow_hosts does not allow", err)
}

// Endpoint reads a URL that the server or its authorization server supplies, and
// refuses what the server's client would not ask.
func (s *Server) Endpoint(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, errURL
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errURL // the error of url.Parse would quote it
	}
	return u, s.check(u)
}

func (s *Server) check(u *url.URL) error {
	if s.HTTP != nil {
		if t, ok := s.HTTP.Transport.(*guarded); ok {
			return t.check(u)
		}
	}
	f, err := (&Guard{}).fence(s.URL)
	if err != nil {
		return err
	}
	return f.check(u)
}

var schemePorts = map[string]string{"http": "80", "https": "443"}

// originOf is scheme, host and port in one spelling, and is safe to print.
func originOf(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	scheme := strings.ToLower(u.Scheme)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" && port != schemePorts[scheme] {
		host += ":" + port
	}
	return scheme + "://" + host
}

func clip(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
