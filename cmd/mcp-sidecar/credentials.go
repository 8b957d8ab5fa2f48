package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth/oauth"
	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// credentials are the logins at servers with OAuth, of each profile its own.
type credentials struct {
	a *app
	// ask, if set, has a person log in where a server wants that.
	ask func(ctx context.Context, l *oauth.Login) error

	mu      sync.Mutex
	wallets map[walletKey]*wallet
	life    context.Context // of logins; done with close
	end     context.CancelFunc
	logins  sync.WaitGroup
}

type walletKey struct{ profile, server string }

func newCredentials(a *app) *credentials {
	c := &credentials{a: a, wallets: map[walletKey]*wallet{}}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// close ends logins under way, and waits for refreshes, of which no further begins.
func (c *credentials) close() {
	c.end()
	c.logins.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.wallets {
		w.keeper.Close()
	}
}

// of returns the wallet for connections with these settings.
func (c *credentials) of(r *upstream.Resolved, profile string) (upstream.Tokens, error) {
	s := c.a.authorized(r)
	if _, err := s.Endpoint(r.URL.String()); err != nil {
		return nil, fmt.Errorf("no token is sent to its url, which %w", err)
	}
	v, err := c.a.vault(profile)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := walletKey{profile, r.Server}
	w := c.wallets[key]
	if w == nil {
		w = &wallet{c: c, vault: v}
		w.keeper = oauth.NewKeeper(func() (*oauth.Server, error) { return w.server.Load(), nil }, v, c.a.log)
		c.wallets[key] = w
	}
	w.server.Store(s)
	return w, nil
}

// vault is where the credentials of a profile are kept.
func (a *app) vault(profile string) (*vault.Vault, error) {
	if a.cfg.StateDir == "" {
		return nil, errors.New(a.cfg.NoStateDir())
	}
	key, err := a.vaultKey()
	if err != nil {
		return nil, fmt.Errorf("credentials.key_file: %w", err)
	}
	v := &vault.Vault{Dir: filepath.Join(a.cfg.StateDir, "oauth", url.PathEscape(profile)), Key: key, Log: a.log}
	if seed := a.cfg.Credentials.SeedDir; seed != "" && profile == defaultProfile {
		v.Seed = seed
	}
	return v, nil
}

// vaultKey is read once. A file that cannot be used is looked at again.
func (a *app) vaultKey() ([]byte, error) {
	path := a.cfg.Credentials.KeyFile
	if path == "" {
		return nil, nil
	}
	a.keyMu.Lock()
	defer a.keyMu.Unlock()
	if a.key != nil {
		return a.key, nil
	}
	key, warning, err := vault.ReadKey(path)
	if warning != "" {
		a.log.Warn("credentials.key_file is not safe", "err", warning)
	}
	a.key = key
	return key, err
}

// authorized is a server as OAuth sees it. Its requests leave as those to the server do.
func (a *app) authorized(r *upstream.Resolved) *oauth.Server {
	o := r.Settings.OAuth
	if o.UserAgent == "" {
		o.UserAgent = "mcp-sidecar/" + version
	}
	g := &oauth.Guard{
		Route: func(u *url.URL) (egress.Route, error) { return r.RouteTo(a.egress, u) },
		TLS:   r.Trust(), Allow: o.AllowHosts, UserAgent: o.UserAgent,
	}
	return &oauth.Server{Name: r.Server, URL: r.URL, Settings: o, HTTP: g.Client(r.URL), Log: a.log}
}

// A wallet has the tokens of one server for one profile. It is an upstream.Tokens.
type wallet struct {
	c      *credentials
	keeper *oauth.Keeper
	vault  *vault.Vault
	server atomic.Pointer[oauth.Server] // as the settings resolved last
	asking sync.Mutex                   // one person, one login at a time; guards what follows
	asked  []time.Time                  // when a person was, lately
	failed error                        // how the last time ended,
	at     time.Time                    // and when
}

const (
	// mostAsked is how often a person is asked within askedMemory, whatever a server
	// wants: it may want other scopes each time.
	mostAsked   = 5
	askedMemory = 10 * time.Minute
	// declined is how long a login that came to nothing is the answer.
	declined = time.Minute
)

func (w *wallet) Token(ctx context.Context) (string, error) {
	token, err := w.keeper.Token(ctx)
	if again, lerr := w.orLogin(ctx, "", err); again {
		return w.keeper.Token(ctx)
	} else if lerr != nil {
		return "", lerr
	}
	return token, nil
}

func (w *wallet) Refused(ctx context.Context, token string, status int, h http.Header) (bool, error) {
	again, err := w.keeper.Refused(ctx, token, oauth.ParseChallenge(status, h))
	if err != nil {
		return w.orLogin(ctx, token, err)
	}
	return again, nil
}

func (w *wallet) Stamp() any { return w.keeper.Stamp() }

// orLogin has a person log in where that is what err wants and somebody is there.
// True means that there are other credentials than token now.
func (w *wallet) orLogin(ctx context.Context, token string, err error) (bool, error) {
	var l *oauth.LoginError
	switch {
	case !errors.As(err, &l):
		return false, err
	case w.c.ask == nil || l.Command == "":
		return false, &upstream.LoginError{Err: err, Once: l.Challenge.Error == "insufficient_scope"}
	}
	done := make(chan error, 1)
	w.c.logins.Go(func() { done <- w.login(token, l.Challenge) })
	select {
	case err := <-done:
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// login asks a person, unless another request has done so meanwhile. It outlives the
// request.
func (w *wallet) login(token string, c oauth.Challenge) error {
	w.asking.Lock()
	defer w.asking.Unlock()
	if now, err := w.keeper.Token(w.c.life); err == nil && now != "" && now != token {
		return nil
	}
	s := w.server.Load()
	if err := w.enough(s.Name, time.Now()); err != nil {
		return &upstream.LoginError{Err: err}
	}
	w.failed = w.c.ask(w.c.life, &oauth.Login{Server: s, Vault: w.vault, Challenge: c})
	if w.at = time.Now(); w.failed != nil {
		return &upstream.LoginError{Err: w.failed}
	}
	return nil
}

// enough is why a person is not asked now. Callers hold asking.
func (w *wallet) enough(name string, now time.Time) error {
	w.asked = slices.DeleteFunc(w.asked, func(t time.Time) bool { return now.Sub(t) > askedMemory })
	switch {
	case w.failed != nil && now.Sub(w.at) < declined:
		return w.failed
	case len(w.asked) >= mostAsked:
		return fmt.Errorf("server %s: oauth: it wanted %d logins in the last %d minutes, so nobody is asked again now; run: mcp-sidecar login %s",
			name, mostAsked, int(askedMemory.Minutes()), name)
	}
	w.asked = append(w.asked, now)
	return nil
}
