package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	discoverTime = time.Minute // all of one discovery
	maxServers   = 10          // authorization servers that are tried
	maxTold      = 3           // of their faults
)

// The well-known places, RFC 9728, RFC 8414 and OpenID Connect Discovery.
const (
	wellKnown         = "/.well-known/"
	wellKnownResource = wellKnown + "oauth-protected-resource"
	wellKnownServer   = wellKnown + "oauth-authorization-server"
	wellKnownOpenID   = wellKnown + "openid-configuration"
)

// Discover finds the authorization server of an MCP server: through the metadata
// of the protected resource (MCP 2025-06-18 and later), or else at the server's
// own origin (2025-03-26). Of several the first that can be used is taken.
func Discover(ctx context.Context, s *Server, c Challenge) (*Provider, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	r, err := s.resource(ctx, c)
	var p *Provider
	switch {
	case err != nil:
	case r == nil:
		p, err = s.legacy(ctx)
	default:
		p, err = s.anyOf(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("server %s: oauth: %w", s.Name, err)
	}
	return p, nil
}

// A place is where metadata may be.
type place struct {
	url *url.URL
	// root is true for places that only the owner of the whole origin can fill.
	root bool
}

// resource finds the metadata of the protected resource. It is nil when there is
// none, and the server named none.
func (s *Server) resource(ctx context.Context, c Challenge) (*resourceMeta, error) {
	places := s.resourcePlaces()
	if c.ResourceMetadata != "" {
		u, err := s.Endpoint(c.ResourceMetadata)
		if err != nil {
			return nil, fmt.Errorf("the resource_metadata that the server names %w", err)
		}
		own := originOf(u) == originOf(s.URL) && strings.HasPrefix(u.EscapedPath(), wellKnown)
		places = slices.Insert(places, 0, place{u, own})
	}
	var faults faults
	for _, p := range places {
		m, err := s.resourceAt(ctx, p)
		if m != nil || errors.As(err, new(*refusedError)) {
			return m, err
		}
		faults.add(ctx, "protected resource metadata at", p.url, err)
	}
	if err := faults.err("no protected resource metadata"); err != nil {
		return nil, err
	}
	if c.ResourceMetadata != "" {
		return nil, fmt.Errorf("no protected resource metadata, though the server names some at %q", originOf(places[0].url))
	}
	return nil, nil
}

// resourcePlaces are at the path of the endpoint, then at the root.
func (s *Server) resourcePlaces() []place {
	u := *s.URL
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	var out []place
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		out = append(out, place{insert(&u, wellKnownResource), true})
	}
	u.Path, u.RawPath, u.RawQuery = wellKnownResource, "", ""
	return append(out, place{&u, true})
}

// insert puts a well-known path between the host and the path of u.
func insert(u *url.URL, path string) *url.URL {
	out := *u
	rest := u.EscapedPath()
	if rest == "/" {
		rest = ""
	}
	out.Path, out.RawPath = path+u.Path, path+rest
	if rest == "" {
		out.Path, out.RawPath = path, ""
	}
	return &out
}

// A refusedError is about metadata that is there and must not be used, nor any
// other in its place.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

func (s *Server) resourceAt(ctx context.Context, p place) (*resourceMeta, error) {
	if err := s.check(p.url); err != nil {
		return nil, err
	}
	d, err := s.fetch(ctx, p.url)
	if err != nil || d.body == nil {
		return nil, err
	}
	m := &resourceMeta{}
	if err := decode(d.body, m); err != nil {
		return nil, err
	}
	if m.Resource == "" && len(m.AuthorizationServers) == 0 {
		return nil, nil // some other object
	}
	where := fmt.Sprintf("the protected resource metadata at %q", originOf(p.url))
	switch {
	case !s.isResource(m.Resource, p.root):
		return nil, &refusedError{fmt.Sprintf("%s is for %q, not for %q, and is refused", where, clip(readable(m.Resource), 120), clip(s.shown(), 120))}
	case len(m.AuthorizationServers) == 0:
		return nil, &refusedError{where + " names no authorization server"}
	}
	m.ScopesSupported = tokens(m.ScopesSupported)
	return m, nil
}

// shown is the server's URL for people; its query may hold a key.
func (s *Server) shown() string { return originOf(s.URL) + s.URL.EscapedPath() }

// isResource reports whether a resource identifier is the server's: its URL, or,
// from a place that only the owner of the origin can fill, something above it.
func (s *Server) isResource(id string, root bool) bool {
	u, err := url.Parse(id)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || originOf(u) != originOf(s.URL) {
		return false
	}
	if u.RawQuery != "" && u.RawQuery != s.URL.RawQuery {
		return false
	}
	got, want := strings.TrimSuffix(u.EscapedPath(), "/"), strings.TrimSuffix(s.URL.EscapedPath(), "/")
	return got == want || root && strings.HasPrefix(want, got+"/")
}

// anyOf takes the first authorization server that can be used.
func (s *Server) anyOf(ctx context.Context, r *resourceMeta) (*Provider, error) {
	var faults faults
	list := r.AuthorizationServers
	for _, issuer := range list[:min(len(list), maxServers)] {
		p, err := s.provider(ctx, issuer)
		if p != nil {
			p.Scopes, p.Resource = r.ScopesSupported, r.Resource
			return p, nil
		}
		u, _ := url.Parse(issuer)
		if err == nil {
			err = errors.New("has no metadata")
		}
		faults.add(ctx, "authorization server", u, err)
	}
	if n := len(list) - maxServers; n > 0 {
		faults.more += n
	}
	return nil, faults.err("no authorization server can be used")
}

// provider reads the metadata of one authorization server. Both results are nil
// if it has none.
func (s *Server) provider(ctx context.Context, issuer string) (*Provider, error) {
	u, err := s.Endpoint(issuer)
	switch {
	case err != nil:
		return nil, err
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("has a query, which no issuer has")
	}
	var first error
	for _, p := range issuerPlaces(u) {
		m, err := s.metaAt(ctx, p, issuer)
		if m != nil {
			return &Provider{Issuer: m.Issuer, Meta: m}, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// issuerPlaces is the order of MCP 2025-11-25; the last, which is in no
// specification, is where some servers with a path have theirs.
func issuerPlaces(u *url.URL) []place {
	base := *u
	base.Path, base.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.EscapedPath(), "/")
	out := []place{{insert(&base, wellKnownServer), true}, {insert(&base, wellKnownOpenID), true}}
	if base.Path == "" {
		return out
	}
	return append(out, place{base.JoinPath(wellKnownOpenID), false}, place{base.JoinPath(wellKnownServer), false})
}

func (s *Server) metaAt(ctx context.Context, p place, issuer string) (*Meta, error) {
	d, err := s.fetch(ctx, p.url)
	if err != nil || d.body == nil {
		return nil, err
	}
	m := &Meta{}
	if err := decode(d.body, m); err != nil {
		return nil, err
	}
	if m.Issuer == "" && m.TokenEndpoint == "" {
		return nil, nil // some other object
	}
	if fillsTemplate(m.Issuer, issuer) {
		m.Issuer = issuer
	}
	if !sameIssuer(m.Issuer, issuer) && !s.isOrigin(m.Issuer, issuer, p.root && !d.moved) {
		return nil, fmt.Errorf("has metadata of the issuer %q, which is another, and is refused", clip(readable(m.Issuer), 120))
	}
	if err := s.usable(m); err != nil {
		return nil, err
	}
	m.trim()
	return m, nil
}

// sameIssuer compares as RFC 8414, 3.3 wants, but for a slash at the end: there
// are libraries that add one to every URL without a path.
func sameIssuer(a, b string) bool {
	return a == b || a != "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// fillsTemplate reports whether an issuer is what its own metadata name by a template:
// those of a provider for many tenants may be the same text for all.
func fillsTemplate(template, issuer string) bool {
	before, after, ok := strings.Cut(template, "{tenantid}")
	if !ok || len(issuer) <= len(before)+len(after) || !strings.HasPrefix(issuer, before) || !strings.HasSuffix(issuer, after) {
		return false
	}
	u, err := url.Parse(before)
	tenant := issuer[len(before) : len(issuer)-len(after)]
	return err == nil && u.Host != "" && strings.HasSuffix(before, "/") && !strings.ContainsAny(tenant, "/?#%{}")
}

// isOrigin forgives a server below a path that says it is its origin. That is for
// the origin's owner to say, who alone can fill the place.
func (s *Server) isOrigin(got, want string, root bool) bool {
	u, err := url.Parse(want)
	ok := root && err == nil && sameIssuer(got, originOf(u))
	if ok {
		s.log().Warn("the authorization server's metadata names its origin as the issuer, without the path", "server", s.Name, "issuer", got)
	}
	return ok
}

// errNoPKCE is final: without PKCE a code that somebody catches is enough.
var errNoPKCE = errors.New("does not say that it supports PKCE with S256, which MCP requires (code_challenge_methods_supported)")

// usable reports what is missing or must not be used.
func (s *Server) usable(m *Meta) error {
	for _, e := range []struct{ name, url string }{
		{"authorization_endpoint", m.AuthorizationEndpoint},
		{"token_endpoint", m.TokenEndpoint},
		{"registration_endpoint", m.RegistrationEndpoint},
		{"device_authorization_endpoint", m.DeviceAuthorizationEndpoint},
		{"revocation_endpoint", m.RevocationEndpoint},
	} {
		if e.url == "" {
			continue
		}
		if _, err := s.Endpoint(e.url); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	device, person := s.Settings.Flow == "device", proofOf(s).Grant == ""
	switch {
	case m.TokenEndpoint == "":
		return errors.New("names no token_endpoint")
	case person && device && m.DeviceAuthorizationEndpoint == "":
		return errors.New("has no device_authorization_endpoint for oauth.flow: device")
	case person && !device && m.AuthorizationEndpoint != "" && !slices.Contains(m.CodeChallengeMethodsSupported, "S256"):
		return errNoPKCE
	}
	return nil
}

// legacy is MCP 2025-03-26: the origin of the server is the authorization server,
// with metadata or with endpoints at their default places.
func (s *Server) legacy(ctx context.Context) (*Provider, error) {
	origin := originOf(s.URL)
	issuers := []string{origin}
	if path := strings.TrimSuffix(s.URL.EscapedPath(), "/"); path != "" {
		issuers = append(issuers, origin+path) // not in the specification, and seen
	}
	for _, issuer := range issuers {
		p, err := s.provider(ctx, issuer)
		if err != nil {
			return nil, fmt.Errorf("authorization server %q: %w", origin, err)
		}
		if p != nil {
			p.Resource, p.Legacy = s.Resource(), true
			return p, nil
		}
	}
	return &Provider{Issuer: origin, Resource: s.Resource(), Legacy: true, Defaults: true, Meta: &Meta{
		Issuer:                        origin,
		AuthorizationEndpoint:         origin + "/authorize",
		TokenEndpoint:                 origin + "/token",
		RegistrationEndpoint:          origin + "/register",
		CodeChallengeMethodsSupported: []string{"S256"}, // which OAuth 2.1 demanded then, too
	}}, nil
}

// faults are what was wrong at several places, the first few of them.
type faults struct {
	errs []error
	more int
}

func (f *faults) add(ctx context.Context, what string, u *url.URL, err error) {
	switch {
	case err == nil:
	case len(f.errs) >= maxTold || ctx.Err() != nil && len(f.errs) > 0:
		f.more++
	case u == nil:
		f.errs = append(f.errs, fmt.Errorf("%s: %w", what, err))
	default:
		f.errs = append(f.errs, fmt.Errorf("%s %q: %w", what, clip(originOf(u), 120), err))
	}
}

// err is nil when there were none.
func (f *faults) err(what string) error {
	if len(f.errs) == 0 {
		return nil
	}
	args, format := []any{what}, "%s: "
	for i, err := range f.errs {
		if i > 0 {
			format += "; "
		}
		format, args = format+"%w", append(args, err)
	}
	if f.more > 0 {
		format, args = format+" (and %d more)", append(args, f.more)
	}
	return fmt.Errorf(format, args...)
}
