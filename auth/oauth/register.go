package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
)

// The ways in which clients authenticate at token endpoints.
const (
	methodNone  = "none"
	methodPost  = "client_secret_post"
	methodBasic = "client_secret_basic"
	methodJWT   = "private_key_jwt"
)

// Identify gives the client for a provider: the configured one, or the stored one
// if this provider registered it for this redirect URI, or the client id metadata
// document, or a new registration. The redirect URI is that of this login, empty
// for flows without one; grants are the grant types that a registration asks for.
func Identify(ctx context.Context, s *Server, p *Provider, stored *Client, redirect string, grants []string) (*Client, error) {
	switch {
	case s.Settings.ClientID != "":
		return s.configured(p, stored, redirect)
	case stored.serves(p, redirect, time.Now()):
		return stored, nil
	case s.documented(p):
		return &Client{ID: s.Settings.ClientMetadataURL, AuthMethod: methodNone, Kind: Document,
			RedirectURIs: redirects(redirect), Issuer: p.Issuer}, nil
	case p.Meta.RegistrationEndpoint == "":
		return nil, fmt.Errorf("server %s: oauth: the authorization server %q registers nobody by itself: register a client there%s and set oauth.client_id, and oauth.client_secret if it gives one",
			s.Name, p.Issuer, forRedirect(redirect))
	}
	if s.Settings.TokenEndpointAuthMethod == methodJWT {
		return nil, fmt.Errorf("server %s: oauth.token_endpoint_auth_method is %s, which needs oauth.client_id: a registration would have to carry the key", s.Name, methodJWT)
	}
	return s.register(ctx, p, redirect, grants)
}

func redirects(uri string) []string {
	if uri == "" {
		return nil
	}
	return []string{uri}
}

func forRedirect(uri string) string {
	if uri == "" {
		return ""
	}
	return fmt.Sprintf(" with the redirect URI %q", uri)
}

// configured is the client of the settings. It belongs to the issuer that it was
// first used with: another would learn its secret.
func (s *Server) configured(p *Provider, stored *Client, redirect string) (*Client, error) {
	o := &s.Settings
	if stored != nil && stored.Kind == Configured && stored.ID == o.ClientID && stored.Issuer != "" && stored.Issuer != p.Issuer {
		return nil, fmt.Errorf("server %s: oauth: oauth.client_id was used with the authorization server %q, and the server now names %q: if that is right, run \"mcp-sidecar logout %s\" first",
			s.Name, stored.Issuer, p.Issuer, s.Name)
	}
	c := &Client{ID: o.ClientID, Secret: o.ClientSecret, AuthMethod: o.TokenEndpointAuthMethod, Kind: Configured,
		RedirectURIs: redirects(redirect), Issuer: p.Issuer}
	if c.AuthMethod == "" {
		c.AuthMethod = methodFor(c.Secret != "", p.Meta.TokenEndpointAuthMethodsSupported)
	}
	if c.Secret == "" && (c.AuthMethod == methodPost || c.AuthMethod == methodBasic) {
		return nil, fmt.Errorf("server %s: oauth.token_endpoint_auth_method is %s, but oauth.client_secret is not set", s.Name, c.AuthMethod)
	}
	return c, nil
}

// methodFor prefers what OAuth 2.1 prefers, the secret in the body.
func methodFor(secret bool, supported []string) string {
	switch {
	case !secret:
		return methodNone
	case !slices.Contains(supported, methodPost) && slices.Contains(supported, methodBasic):
		return methodBasic
	}
	return methodPost
}

// String leaves the secret out.
func (c Client) String() string {
	return fmt.Sprintf("%s client %q of %q, %s", c.Kind, c.ID, c.Issuer, c.AuthMethod)
}

// GoString is String, so that no verb prints the secret.
func (c Client) GoString() string { return c.String() }

// secretSpare is how long a secret has to live to be worth using.
const secretSpare = time.Minute

// serves reports whether a stored registration can be used again. Client ids mean
// something to their issuer only.
func (c *Client) serves(p *Provider, redirect string, now time.Time) bool {
	if c == nil || c.Kind != Registered || c.ID == "" || c.Issuer != p.Issuer {
		return false
	}
	if !c.SecretExpires.IsZero() && now.Add(secretSpare).After(c.SecretExpires) {
		return false
	}
	return slices.Equal(c.RedirectURIs, redirects(redirect)) || redirect != "" && slices.Contains(c.RedirectURIs, redirect)
}

// documented reports whether the client id metadata document is to be used.
// Settings that only a registration can carry speak against it.
func (s *Server) documented(p *Provider) bool {
	o := &s.Settings
	switch {
	case !p.Meta.ClientIDMetadataDocumentSupported, s.NoDocument, o.CIMD != nil && !*o.CIMD:
		return false
	case o.ClientSecret != "", o.ClientName != "", o.TokenEndpointAuthMethod != "" && o.TokenEndpointAuthMethod != methodNone:
		return false
	}
	return isDocumentURL(o.ClientMetadataURL)
}

// isDocumentURL reports what draft-ietf-oauth-client-id-metadata-document wants of
// a client id.
func isDocumentURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && !strings.Contains(raw, "#") &&
		u.Path != "" && u.Path != "/" && path.Clean(u.Path) == strings.TrimSuffix(u.Path, "/") && len(raw) <= maxURL
}

// A registration is what is sent (RFC 7591).
type registration struct {
	ClientName      string   `json:"client_name"`
	RedirectURIs    []string `json:"redirect_uris,omitempty"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`
	Scope           string   `json:"scope,omitempty"`
}

const defaultClientName = "mcp-sidecar"

func (s *Server) registration(p *Provider, redirect string, grants []string) registration {
	o := &s.Settings
	r := registration{ClientName: o.ClientName, RedirectURIs: redirects(redirect), GrantTypes: grants,
		ResponseTypes: []string{}, AuthMethod: o.TokenEndpointAuthMethod, ApplicationType: o.ApplicationType, Scope: o.Scope}
	if r.ClientName == "" {
		r.ClientName = defaultClientName
	}
	if len(grants) == 0 {
		r.GrantTypes = []string{"authorization_code", "refresh_token"}
	}
	if slices.Contains(r.GrantTypes, "authorization_code") {
		r.ResponseTypes = []string{"code"}
	}
	if supported := p.Meta.TokenEndpointAuthMethodsSupported; r.AuthMethod == "" {
		public := len(supported) == 0 || slices.Contains(supported, methodNone)
		r.AuthMethod = methodFor(!public, supported)
	}
	if r.ApplicationType == "" {
		r.ApplicationType = applicationType(redirect)
	}
	return r
}

// applicationType is web for what others host: OpenID Connect providers check
// that it fits the redirect URI.
func applicationType(redirect string) string {
	u, err := url.Parse(redirect)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") && !egress.LoopbackHost(u) {
		return "web"
	}
	return "native"
}

func (s *Server) register(ctx context.Context, p *Provider, redirect string, grants []string) (*Client, error) {
	wish := s.registration(p, redirect, grants)
	resp, body, err := s.postRegistration(ctx, p, &wish)
	if err != nil {
		return nil, fmt.Errorf("server %s: oauth: register at %q: %w", s.Name, p.Issuer, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, s.unregistered(p, resp.StatusCode, body)
	}
	c, err := readRegistration(body)
	if err != nil {
		return nil, fmt.Errorf("server %s: oauth: register at %q: %w", s.Name, p.Issuer, err)
	}
	c.RedirectURIs, c.Issuer = wish.RedirectURIs, p.Issuer
	return c, nil
}

func (s *Server) postRegistration(ctx context.Context, p *Provider, wish *registration) (*http.Response, []byte, error) {
	body, err := json.Marshal(wish)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Meta.RegistrationEndpoint, bytes.NewReader(body))
	if err != nil {
		return nil, nil, errURL
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := s.do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := readBody(resp, maxBody)
	if err != nil && resp.StatusCode/100 != 2 {
		err = nil // the status says enough
	}
	return resp, answer, err
}

// readRegistration reads what the server made of it. What it says wins.
func readRegistration(body []byte) (*Client, error) {
	var r struct {
		ID         string          `json:"client_id"`
		Secret     string          `json:"client_secret"`
		AuthMethod string          `json:"token_endpoint_auth_method"`
		Expires    json.RawMessage `json:"client_secret_expires_at"`
	}
	if err := decode(body, &r); err != nil {
		return nil, errors.New("the answer is not JSON")
	}
	const most = 8 << 10
	if r.ID == "" || len(r.ID) > most || len(r.Secret) > most {
		return nil, errors.New("the answer has no client_id that can be used")
	}
	c := &Client{ID: r.ID, Secret: r.Secret, AuthMethod: r.AuthMethod, Kind: Registered, SecretExpires: seconds(r.Expires)}
	switch {
	case r.Secret == "" && r.AuthMethod != methodJWT:
		c.AuthMethod = methodNone
	case r.AuthMethod == "":
		c.AuthMethod = methodPost // as from Supabase; the default of RFC 7591 is what few mean
	case !slices.Contains([]string{methodNone, methodPost, methodBasic, methodJWT}, r.AuthMethod):
		return nil, fmt.Errorf("the answer wants clients to authenticate by %q, which is not supported", readable(r.AuthMethod))
	}
	return c, nil
}

// seconds reads a time that may be a number or a text. Zero is never.
func seconds(raw json.RawMessage) time.Time {
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || n <= 0 || n > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

// A RegistrationError says that an authorization server does not register us.
type RegistrationError struct {
	Server, Issuer string
	Status         int
	Code           string // RFC 7591, 3.2.2; empty if it gave none
	Description    string // of the authorization server, short and printable
	// Presumed is true when the endpoint was not named by anybody: the server may
	// know no OAuth at all.
	Presumed bool
}

func (e *RegistrationError) Error() string {
	text := fmt.Sprintf("server %s: oauth: the authorization server %q refuses registration: %v", e.Server, e.Issuer, statusError(e.Status))
	for _, more := range []string{e.Code, e.Description} {
		if more != "" {
			text += ": " + more
		}
	}
	return text + "; " + e.hint()
}

func (e *RegistrationError) hint() string {
	const byHand = "register a client by hand and set oauth.client_id"
	switch {
	case e.Presumed && e.Status/100 == 4:
		return "the server may want a key in headers rather than OAuth, or " + byHand
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return "it may only register clients whose name it knows: set oauth.client_name to one (a catalog entry of this server would set it), or " + byHand
	case e.Status/100 == 3:
		return "it redirects, which is not followed for what is posted"
	case e.Status == http.StatusTooManyRequests || e.Status >= 500:
		return "try again later"
	case e.Code == "invalid_redirect_uri":
		return "set oauth.redirect_uri or oauth.redirect_host to what it accepts (see also oauth.application_type), or " + byHand
	}
	return byHand
}

func (s *Server) unregistered(p *Provider, status int, body []byte) error {
	var r struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = decode(body, &r) // many answer with a page
	e := &RegistrationError{Server: s.Name, Issuer: p.Issuer, Status: status, Description: readable(r.Description), Presumed: p.Defaults}
	if len(tokens([]string{r.Error})) == 1 {
		e.Code = clip(r.Error, 64)
	}
	return e
}
