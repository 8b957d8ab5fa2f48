package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// The flows of a login.
const (
	FlowBrowser = "browser"
	FlowDevice  = "device"
)

const (
	defaultPatience = 300 * time.Second
	lockPatience    = 40 * time.Second // longer than one refresh of another process
	keepPatience    = 3 * time.Minute  // for the vault, also when the login was given up meanwhile
)

// A Login gets credentials for one server from a person. Nothing is stored
// before all of it succeeded, and what was stored stays when it did not.
type Login struct {
	Server *Server
	Vault  *vault.Vault
	// Challenge is what the server last said; zero when it was not asked.
	Challenge Challenge
	// Out is told what the person has to do. If nil, nobody is.
	Out io.Writer
	// In takes a pasted redirect URL. If nil, there is no paste-back. A reader
	// that is no *os.File may be read once more after the login.
	In io.Reader
	// Open opens a browser. If nil, none is opened.
	Open func(url string) error
	// Environ tells of SSH, for the line that forwards the port. It may be nil.
	Environ []string
	// Flow is FlowBrowser or FlowDevice. If empty, oauth.flow decides, and
	// without that it is FlowBrowser.
	Flow string
	// Redirect is the redirect URI that Start uses when the answer is caught
	// elsewhere. If empty, the settings decide.
	Redirect string
	// Fresh registers anew even when a registration is stored.
	Fresh bool
	// Result is set when the login succeeded.
	Result Result
}

// A Result is what a login brought.
type Result struct {
	Issuer string
	Scope  string    // granted
	Asked  string    // scope that was asked for
	Expiry time.Time // of the access token; zero when the provider did not say
	// Refresh is true when there is a refresh token. Without it, the login has to
	// be repeated when the access token expires.
	Refresh bool
	Client  string // its kind: Configured, Document, Registered
}

// Run logs in, and returns when credentials are stored or it failed.
func (l *Login) Run(ctx context.Context) error {
	if l.flow() == FlowDevice {
		return l.device(ctx)
	}
	r, err := l.relay(ctx)
	if err != nil {
		return err
	}
	var p *Pending
	answer, err := r.Run(ctx, func(redirect string) (_ string, err error) {
		if p, err = l.begin(ctx, redirect); err != nil {
			return "", err
		}
		return p.URL(), nil
	})
	if err != nil {
		return err
	}
	return l.complete(ctx, p, answer)
}

func (l *Login) flow() string {
	if l.Flow != "" {
		return l.Flow
	}
	return l.Server.Settings.Flow
}

func (l *Login) errorf(format string, args ...any) error {
	return fmt.Errorf("server %s: login: "+format, append([]any{l.Server.Name}, args...)...)
}

// relay is the part of the login that needs no provider.
func (l *Login) relay(ctx context.Context) (*Relay, error) {
	port, err := l.StoredPort(ctx)
	if err != nil {
		return nil, err
	}
	return &Relay{
		Name: l.Server.Name, Settings: l.Server.Settings, Port: port,
		Out: l.Out, In: l.In, Open: l.Open, Environ: l.Environ, Log: l.Server.log(),
	}, nil
}

// StoredPort is that of the redirect URI of a stored registration: with another
// one, providers that compare ports would want a new registration.
func (l *Login) StoredPort(ctx context.Context) (int, error) {
	e, err := l.stored(ctx)
	if err != nil || e == nil || e.Client == nil || l.Fresh {
		return 0, err
	}
	return loopbackPort(e.Client.RedirectURIs), nil
}

// stored is what the vault has. It takes the lock, so that a vault that cannot
// be written is found before anybody is bothered.
func (l *Login) stored(ctx context.Context) (*vault.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	unlock, err := l.Vault.Lock(ctx, l.Server.Name)
	if err != nil {
		return nil, l.errorf("%w", err)
	}
	defer unlock()
	e, err := l.Vault.Load(l.Server.Name)
	if err != nil {
		return nil, l.errorf("%w", err)
	}
	return e, nil
}

// begin does all that comes before the person: discovery, registration, and the
// URL to visit.
func (l *Login) begin(ctx context.Context, redirect string) (*Pending, error) {
	old, err := l.stored(ctx)
	if err != nil {
		return nil, err
	}
	p, err := l.discover(ctx)
	if err != nil {
		return nil, err
	}
	if p.Meta.AuthorizationEndpoint == "" {
		return nil, l.errorf("%q has no authorization endpoint; log in with --flow device", p.Issuer)
	}
	c, err := l.identify(ctx, p, old, redirect, []string{"authorization_code", "refresh_token"})
	if err != nil {
		return nil, err
	}
	return l.pend(p, c, redirect, l.scope(p, old))
}

// discover is Discover for this login's flow, which decides what a provider needs.
func (l *Login) discover(ctx context.Context) (*Provider, error) {
	s := *l.Server
	s.Settings.Flow = l.flow()
	return Discover(ctx, &s, l.Challenge)
}

// identify is Identify with what the vault knows.
func (l *Login) identify(ctx context.Context, p *Provider, old *vault.Entry, redirect string, grants []string) (*Client, error) {
	s := *l.Server
	if old == nil {
		return Identify(ctx, &s, p, nil, redirect, grants)
	}
	s.NoDocument = s.NoDocument || old.RefusedDocument && old.Issuer == p.Issuer
	stored := (*Client)(old.Client)
	if l.Fresh && stored != nil && stored.Kind == Registered {
		stored = nil
	}
	return Identify(ctx, &s, p, stored, redirect, grants)
}

// scope is what to ask for: what the server wants now, what the settings say,
// or all that the server knows. A step-up keeps what was granted before.
func (l *Login) scope(p *Provider, old *vault.Entry) string {
	scopes := strings.Fields(l.Challenge.Scope)
	if len(scopes) == 0 {
		scopes = strings.Fields(l.Server.Settings.Scope)
	}
	if len(scopes) == 0 {
		scopes = slices.Clone(p.Scopes)
	}
	if l.Challenge.Error == insufficientScope && old != nil && old.Issuer == p.Issuer {
		scopes = append(scopes, strings.Fields(old.Scope)...)
	}
	// SEP-2207: who wants a refresh token asks for it where that is advertised.
	// Whoever sets oauth.scope has decided.
	if len(scopes) > 0 && l.Server.Settings.Scope == "" && slices.Contains(p.Meta.ScopesSupported, offlineAccess) {
		scopes = append(scopes, offlineAccess)
	}
	return strings.Join(distinct(scopes), " ")
}

const offlineAccess = "offline_access"

func distinct(in []string) (out []string) {
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// complete takes the answer of the provider to what stands in its redirect.
func (l *Login) complete(ctx context.Context, p *Pending, answer string) error {
	q, err := answerQuery(answer)
	if err == nil {
		err = checkAnswer(q, p.State)
	}
	if err != nil {
		return l.errorf("%w", err)
	}
	if err := p.claim(); err != nil {
		return l.errorf("%w", err)
	}
	if err := l.checkIssuer(p, q); err != nil {
		return err
	}
	if e := q.Get("error"); e != "" {
		return l.errorf("the authorization server answers %s%s", e, p.prose(q.Get("error_description")))
	}
	return l.redeem(ctx, p, q.Get("code"))
}

// prose is what a provider says beyond the code of an error, fit for a terminal.
func (p *Pending) prose(s string) string {
	if s = redact(s, []string{p.State, p.Verifier}); s == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", s)
}

// checkIssuer is RFC 9207, section 2.4, and MCP's table of it. The issuer is the
// one recorded before the redirect; it is compared as it stands. Nothing of an
// answer that fails is shown or acted upon.
func (l *Login) checkIssuer(p *Pending, q url.Values) error {
	switch {
	case q.Has("iss") && q.Get("iss") == p.Issuer, !q.Has("iss") && !p.WantsIss:
		return nil
	case q.Has("iss"):
		return l.errorf("the answer names another authorization server than %q, which was asked: refused", p.Issuer)
	case l.Server.Settings.AcceptMissingISS == p.Issuer:
		l.Server.log().Warn("the authorization server names no iss though it promises to; oauth.accept_missing_iss lets it pass",
			"server", l.Server.Name, "issuer", p.Issuer)
		return nil
	}
	return l.errorf("the answer lacks the iss parameter that %q promises (RFC 9207): refused; "+
		"oauth.accept_missing_iss: %s lets it pass", p.Issuer, p.Issuer)
}

func (l *Login) redeem(ctx context.Context, p *Pending, code string) error {
	var prov Provider
	if err := json.Unmarshal(p.Provider, &prov); err != nil {
		return l.errorf("the pending login is damaged; start anew")
	}
	c := l.withSecret(&p.Client)
	tok, err := Exchange(ctx, l.Server, &prov, c, code, p.Verifier, p.RedirectURI)
	if err != nil {
		return l.refused(ctx, &prov, c, err)
	}
	return l.keep(ctx, &prov, c, p.Scope, tok)
}

// withSecret adds the configured secret, which no pending file carries.
func (l *Login) withSecret(c *Client) *Client {
	full := *c
	if full.Kind == Configured {
		full.Secret = l.Server.Settings.ClientSecret
	}
	return &full
}

// refused makes what the provider said of our client known to the next login:
// without that it would fail in the same way.
func (l *Login) refused(ctx context.Context, p *Provider, c *Client, cause error) error {
	var te *TokenError
	if !errors.As(cause, &te) || te.Code != codeInvalidClient || c.Kind == Configured {
		return cause
	}
	noted, err := l.disown(ctx, p, c)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case !noted:
		return fmt.Errorf("%w; oauth.cimd: false has the next login register instead", cause)
	}
	return fmt.Errorf("%w; the next login registers anew", cause)
}

// disown drops a client that its provider does not know, and reports whether the
// next login does without it. Tokens stay: they are of the stored entry, which
// may even be another provider's.
func (l *Login) disown(ctx context.Context, p *Provider, c *Client) (noted bool, err error) {
	err = l.locked(ctx, func() error {
		e, err := l.Vault.Load(l.Server.Name)
		if err != nil {
			return err
		}
		if e == nil {
			e = &vault.Entry{Server: l.Server.Name, URL: l.Server.Resource(), Issuer: p.Issuer}
		}
		noted = c.Kind == Registered || e.Issuer == p.Issuer
		e.RefusedDocument = e.RefusedDocument || c.Kind == Document && noted
		if e.Client != nil && e.Client.ID == c.ID && e.Client.Issuer == c.Issuer {
			e.Client = nil
		}
		return l.Vault.Save(e)
	})
	return noted, err
}

// locked runs f while no other process changes the server's credentials, also
// when the login's context is over: what was received must not get lost.
func (l *Login) locked(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience)
	defer cancel()
	unlock, err := l.Vault.Lock(ctx, l.Server.Name)
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

// keep replaces what is stored by the outcome, in one step.
func (l *Login) keep(ctx context.Context, p *Provider, c *Client, asked string, t *Token) error {
	if t == nil || t.Access == "" {
		return l.errorf("the authorization server gave no access token")
	}
	e, err := l.entry(p, c, asked, t)
	if err != nil {
		return err
	}
	err = l.locked(ctx, func() error {
		old, err := l.Vault.Load(l.Server.Name)
		if err != nil {
			return err
		}
		e.RefusedDocument = old != nil && old.Issuer == e.Issuer && old.RefusedDocument
		return l.Vault.Save(e)
	})
	if err != nil {
		return l.errorf("keep the credentials: %w", err)
	}
	l.Result = Result{Issuer: e.Issuer, Scope: e.Scope, Asked: asked, Expiry: e.Expiry, Refresh: e.Refresh != "", Client: c.Kind}
	return nil
}

func (l *Login) entry(p *Provider, c *Client, asked string, t *Token) (*vault.Entry, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, l.errorf("keep the provider: %w", err)
	}
	kept := vault.Client(*c)
	if kept.Kind == Configured {
		kept.Secret = "" // the settings have it, and may have another one later
	}
	e := &vault.Entry{
		Server: l.Server.Name, URL: l.Server.Resource(), Issuer: p.Issuer,
		Access: t.Access, Type: t.Type, Refresh: t.Refresh, Scope: t.Scope, Expiry: t.Expiry,
		Client: &kept, Provider: raw, Updated: time.Now(),
	}
	if e.Scope == "" { // RFC 6749, section 5.1: what was asked for
		e.Scope = asked
	}
	return e, nil
}
