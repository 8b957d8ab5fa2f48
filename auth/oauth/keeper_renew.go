package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

const (
	// lockWait bounds the wait for another process: its own flight.
	lockWait = 75 * time.Second
	// discoverWait bounds discovery while others wait for us.
	discoverWait = 20 * time.Second
	// providerLife is how long what was discovered is believed unasked.
	providerLife = time.Hour
)

// renew gets another token, under the vault's lock: of all processes that share the
// credentials one spends the refresh token, and the others take what it got.
func (k *Keeper) renew(ctx context.Context, f *flight) error {
	s, err := k.server()
	if err != nil {
		return err
	}
	unlock, err := k.lock(ctx, s.Name)
	if err != nil {
		return err
	}
	defer unlock()
	h, err := k.current()
	if err != nil {
		return err
	}
	if h.unsaved {
		k.save(h, h.entry)
		h = k.held.Load()
	}
	switch {
	case k.settled(h, f):
		return nil
	case !h.renewable():
		return h.login(h.refusal(f.used), f.why)
	}
	return k.replace(ctx, s, h, f)
}

func (k *Keeper) lock(ctx context.Context, name string) (func(), error) {
	ctx, stop := context.WithTimeout(ctx, lockWait)
	defer stop()
	unlock, err := k.store.Lock(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("server %s: oauth: %w", name, err)
	}
	return unlock, nil
}

// settled reports whether there is nothing left to do: a peer was quicker.
func (k *Keeper) settled(h *held, f *flight) bool {
	now := time.Now()
	if f.forced {
		return h.good(now) && h.entry.Access != f.used
	}
	return h.good(now) && !h.due(now, k.haste)
}

// replace asks for a token and keeps it.
func (k *Keeper) replace(ctx context.Context, s *Server, h *held, f *flight) error {
	p, err := k.provider(ctx, s, h, f)
	if err != nil {
		return err
	}
	if h.entry != nil && moved(h.entry.Issuer, p.Issuer) {
		return k.moved(h, p, f)
	}
	c, scope, err := k.client(s, p, h, f)
	if err != nil {
		return err
	}
	var t *Token
	if h.grant {
		t, err = ClientCredentials(ctx, s, p, c, scope)
	} else {
		t, err = Refresh(ctx, s, p, c, h.entry.Refresh, "")
	}
	if err != nil {
		return k.failed(h, f, c, err)
	}
	k.keep(s, h, p, c, t, scope, f)
	return nil
}

// client is who we are, and what we ask for if there is no refresh token that says
// so.
func (k *Keeper) client(s *Server, p *Provider, h *held, f *flight) (*Client, string, error) {
	if h.grant {
		c, err := grantClient(s, p)
		return c, k.grantScope(s, p, f), err
	}
	c, err := keptClient(s, p, h.entry)
	switch {
	case err != nil:
		return nil, "", err
	case c == nil:
		return nil, "", h.login("the client that the refresh token was given to is not known", f.why)
	case moved(c.Issuer, p.Issuer):
		return nil, "", h.login("the client that is kept belongs to another authorization server", f.why)
	}
	return c, "", nil
}

func (k *Keeper) grantScope(s *Server, p *Provider, f *flight) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.widened != "":
		return k.widened
	case f.why.Scope != "":
		return f.why.Scope
	case s.Settings.Scope != "":
		return s.Settings.Scope
	}
	return strings.Join(p.Scopes, " ")
}

// provider is the authorization server as it is now, or else, when it cannot be
// asked, as it was: a refresh token goes to whom it came from in any case.
func (k *Keeper) provider(ctx context.Context, s *Server, h *held, f *flight) (*Provider, error) {
	k.mu.Lock()
	p, asked := k.known, k.asked
	k.mu.Unlock()
	if p != nil && !f.forced && time.Since(asked) < providerLife {
		return p, nil
	}
	ctx, stop := context.WithTimeout(ctx, discoverWait)
	defer stop()
	p, err := k.discover(ctx, s, f.why)
	if err == nil && p.Legacy && h.entry != nil && moved(h.entry.Issuer, p.Issuer) {
		// Nothing names another authorization server: the one that did is not told of
		// for a moment, such as behind a page that says so with any status.
		err = fmt.Errorf("server %s: oauth: its authorization server was %q, and no metadata name one now", s.Name, h.entry.Issuer)
	}
	if err != nil {
		if kept := keptProvider(h.entry); kept != nil {
			k.log.Debug("the authorization server's metadata are those of before", "server", s.Name, "err", err)
			return kept, nil
		}
		return nil, err
	}
	k.mu.Lock()
	k.known, k.asked = p, time.Now()
	k.mu.Unlock()
	return p, nil
}

// keptProvider is what the vault has of an entry's issuer.
func keptProvider(e *vault.Entry) *Provider {
	var p *Provider
	if e == nil || json.Unmarshal(e.Provider, &p) != nil || p == nil || p.Meta == nil {
		return nil
	}
	if p.Meta.TokenEndpoint == "" || e.Issuer == "" || moved(e.Issuer, p.Issuer) {
		return nil
	}
	return p
}

// moved reports whether an issuer is another one than before; one that nobody
// noted is not.
func moved(kept, now string) bool {
	return kept != "" && !sameIssuer(kept, now)
}

// moved drops the refresh token, which another authorization server must not see.
// The access token is good until it is over.
func (k *Keeper) moved(h *held, p *Provider, f *flight) error {
	if !h.grant {
		k.log.Warn("another authorization server is named than the one that gave the tokens; the refresh token is dropped", "server", h.name,
			"was", h.entry.Issuer, "is", p.Issuer)
		e := *h.entry
		e.Refresh = ""
		k.save(h, &e)
	}
	l := h.login(fmt.Sprintf("its authorization server was %q and is %q now", h.entry.Issuer, p.Issuer), f.why)
	if h.grant {
		// A secret that was set for one server is not for whom another one names.
		l.Command = "mcp-sidecar logout " + h.name
	}
	return l
}

// keptClient is the client that an entry's refresh token belongs to; nil when it is
// not known.
func keptClient(s *Server, p *Provider, e *vault.Entry) (*Client, error) {
	var kept *Client
	if e.Client != nil {
		c := Client(*e.Client)
		kept = &c
	}
	if s.Settings.ClientID == "" {
		return kept, nil
	}
	c, err := s.configured(p, nil, "")
	if err == nil && kept != nil {
		c.Issuer = kept.Issuer
	}
	return c, err
}

// grantClient is the client of a server that needs no person; nil when only an
// assertion speaks for us.
func grantClient(s *Server, p *Provider) (*Client, error) {
	if s.Settings.ClientID != "" {
		return s.configured(p, nil, "")
	}
	if proofOf(s).Grant == GrantJWT {
		return nil, nil
	}
	return nil, fmt.Errorf("server %s: oauth.grant is %s, which needs oauth.client_id", s.Name, GrantClient)
}

// keep writes what was got before anybody uses it: a rotated refresh token exists
// nowhere else. Between the answer and the write there is nothing but this. A process
// that is killed there leaves the spent refresh token behind: authorization servers
// that take it once more for a while keep the login, others want a new one.
func (k *Keeper) keep(s *Server, h *held, p *Provider, c *Client, t *Token, scope string, f *flight) {
	var e vault.Entry
	if h.entry != nil {
		e = *h.entry
	}
	now := time.Now().Round(0)
	e.Server, e.URL, e.Issuer = s.Name, s.URL.String(), p.Issuer
	e.Access, e.Type, e.Expiry, e.Updated = t.Access, t.Type, t.Expiry, now
	if t.Scope != "" {
		e.Scope = t.Scope
	} else if scope != "" {
		e.Scope = scope
	}
	switch {
	case h.grant:
		e.Refresh, e.Client = "", publicPart(c) // the settings have the rest
	case t.Refresh != "":
		e.Refresh = t.Refresh
	}
	if raw, err := json.Marshal(p); err == nil {
		e.Provider = raw
	}
	k.save(h, &e)
	k.mu.Lock()
	if f.forced {
		k.replaced(t.Access, now)
	}
	k.mu.Unlock()
	k.log.Debug("token refreshed", "server", s.Name, "expiry", t.Expiry)
}

// publicPart is what tells later whether a token was another client's.
func publicPart(c *Client) *vault.Client {
	if c == nil {
		return nil
	}
	return &vault.Client{ID: c.ID, AuthMethod: c.AuthMethod, Kind: c.Kind, Issuer: c.Issuer}
}
