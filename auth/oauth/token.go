package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// The grants that need no person, as oauth.grant names them.
const (
	GrantClient = "client_credentials"
	GrantJWT    = "jwt_bearer"
)

const (
	jwtBearerGrant  = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	jwtBearerClient = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// tokenWait bounds one token request. It is longer than what metadata gets: an
// answer that nobody waits for may hold the only refresh token.
const tokenWait = 30 * time.Second

// maxTokenBody bounds an answer of a token endpoint in bytes.
const maxTokenBody = 1 << 20

// Exchange turns an authorization code into tokens.
func Exchange(ctx context.Context, s *Server, p *Provider, c *Client, code, verifier, redirect string) (*Token, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}}
	if verifier != "" {
		form.Set("code_verifier", verifier)
	}
	return askToken(ctx, s, p, c, form)
}

// Refresh spends a refresh token. What the answer leaves out is empty: a refresh
// token or a scope that it does not mention stays as it was.
func Refresh(ctx context.Context, s *Server, p *Provider, c *Client, refresh, scope string) (*Token, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
	setScope(form, scope)
	return askToken(ctx, s, p, c, form)
}

// ClientCredentials gets a token without a person: for the client itself, or for
// the workload that an assertion speaks of.
func ClientCredentials(ctx context.Context, s *Server, p *Provider, c *Client, scope string) (*Token, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if m := proofOf(s); m.Grant == GrantJWT {
		assertion, err := readAssertion(m.AssertionFile)
		if err != nil {
			return nil, fmt.Errorf("server %s: oauth: %w", s.Name, err)
		}
		form = url.Values{"grant_type": {jwtBearerGrant}, "assertion": {assertion}}
	}
	setScope(form, scope)
	return askToken(ctx, s, p, c, form)
}

func setScope(form url.Values, scope string) {
	if scope != "" {
		form.Set("scope", scope)
	}
}

// askToken sends one request to the token endpoint: form, the resource that the
// token is for, and who asks. A nil client says nothing of itself.
func askToken(ctx context.Context, s *Server, p *Provider, c *Client, form url.Values) (*Token, error) {
	form.Set("resource", resourceOf(s, p))
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if err := authenticate(s, p, c, form, h); err != nil {
		return nil, fmt.Errorf("server %s: oauth: %w", s.Name, err)
	}
	if s.Settings.UserAgent != "" {
		h.Set("User-Agent", s.Settings.UserAgent)
	}
	to, err := tokenEndpoint(p)
	if err != nil {
		return nil, fmt.Errorf("server %s: oauth: %w", s.Name, err)
	}
	ctx, stop := context.WithTimeout(ctx, tokenWait)
	defer stop()
	a, err := post(ctx, s.HTTP, to, form, h)
	if err != nil {
		return nil, fmt.Errorf("server %s: oauth: token endpoint %s: %w", s.Name, originOf(to), quiet(err, secretsOf(form, c, h)))
	}
	t, fault := a.token(time.Now())
	if fault != nil {
		fault.Server, fault.Origin = s.Name, originOf(to)
		fault.clean(secretsOf(form, c, h))
		return nil, fault
	}
	return t, nil
}

// resourceOf is what a token is asked for: what the server calls itself, which
// discovery has compared with its URL.
func resourceOf(s *Server, p *Provider) string {
	if p.Resource != "" {
		return p.Resource
	}
	return s.Resource()
}

func tokenEndpoint(p *Provider) (*url.URL, error) {
	if p.Meta == nil || p.Meta.TokenEndpoint == "" {
		return nil, errors.New("its authorization server names no token endpoint")
	}
	u, err := url.Parse(p.Meta.TokenEndpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("its authorization server's token endpoint is no http(s) URL")
	case u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("token endpoint %s: a user name or a fragment in its URL is not accepted", originOf(u))
	}
	return u, nil
}

// authenticate adds who we are, and proves it.
func authenticate(s *Server, p *Provider, c *Client, form url.Values, h http.Header) error {
	if c == nil || c.ID == "" {
		return nil
	}
	switch method := methodOf(s, c); method {
	case methodNone:
		form.Set("client_id", c.ID)
	case methodPost:
		form.Set("client_id", c.ID)
		form.Set("client_secret", c.Secret)
	case methodBasic:
		// RFC 6749, 2.3.1: both are form-encoded before they are joined.
		pair := url.QueryEscape(c.ID) + ":" + url.QueryEscape(c.Secret)
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case methodJWT:
		assertion, err := clientAssertion(proofOf(s), p, c.ID, time.Now())
		if err != nil {
			return err
		}
		form.Set("client_id", c.ID)
		form.Set("client_assertion_type", jwtBearerClient)
		form.Set("client_assertion", assertion)
	default:
		return fmt.Errorf("oauth.token_endpoint_auth_method: %q is not known; use %s, %s, %s or %s", method, methodNone, methodPost, methodBasic, methodJWT)
	}
	return nil
}

// methodOf is how c proves who it is. A key or an assertion that is set is meant to
// be used.
func methodOf(s *Server, c *Client) string {
	m := proofOf(s)
	switch {
	case c.AuthMethod != "" && c.AuthMethod != methodNone:
		return c.AuthMethod
	case c.Secret != "" && c.AuthMethod == "":
		return methodPost
	case c.Secret == "" && c.Kind == Configured && (m.KeyFile != "" || m.AssertionFile != "" && m.Grant != GrantJWT):
		return methodJWT
	}
	return methodNone
}

// secretsOf are what no error may repeat.
func secretsOf(form url.Values, c *Client, h http.Header) []string {
	var all []string
	for _, k := range []string{"code", "code_verifier", "refresh_token", "assertion", "client_assertion", "client_secret", "device_code"} {
		all = append(all, form.Get(k))
	}
	if c != nil {
		all = append(all, c.Secret, url.QueryEscape(c.Secret))
	}
	return append(all, strings.TrimPrefix(h.Get("Authorization"), "Basic "))
}

// A tokenAnswer is what a token endpoint said.
type tokenAnswer struct {
	status int
	kind   string // its content type
	body   []byte
}

// post never follows a redirect: it would take the secrets along.
func post(ctx context.Context, hc *http.Client, to *url.URL, form url.Values, h http.Header) (*tokenAnswer, error) {
	if hc == nil {
		return nil, errors.New("no HTTP client for it")
	}
	stay := *hc
	stay.Jar = nil
	stay.Timeout = 0 // ctx has one, which may be longer
	stay.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("its URL makes no request")
	}
	req.Header = h
	resp, err := stay.Do(req)
	if err != nil {
		return nil, unquoted(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("its answer broke off: %w", unquoted(err))
	case len(body) > maxTokenBody:
		return nil, fmt.Errorf("its answer is larger than %d bytes", maxTokenBody)
	}
	return &tokenAnswer{resp.StatusCode, resp.Header.Get("Content-Type"), body}, nil
}

// unquoted drops the URL that net/http puts around an error.
func unquoted(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if n := (*net.OpError)(nil); errors.As(err, &n) && errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return err
}

// A quietError is err in words that repeat no secret.
type quietError struct {
	text string
	err  error
}

func (e *quietError) Error() string { return e.text }
func (e *quietError) Unwrap() error { return e.err }

// quoting are errors of net/http that repeat what the endpoint said, which may be
// what we sent.
var quoting = regexp.MustCompile(`malformed|transport connection broken|http2:|invalid header|bad Content-Length|ransfer.[Ee]ncoding`)

func quiet(err error, secrets []string) error {
	text := err.Error()
	out := without(text, secrets)
	if quoting.MatchString(text) {
		out = redact(text, secrets)
	}
	if out == text {
		return err
	}
	return &quietError{out, err}
}
