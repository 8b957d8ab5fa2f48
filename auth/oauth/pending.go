package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
)

const (
	pendingLife   = 10 * time.Minute
	maxPending    = 100
	maxPendingLen = 1 << 20
	pendingExt    = ".login.json"
)

// The ways in which a pending login cannot be finished.
var (
	ErrNoPending = errors.New("no login is pending for this URL, or it was finished already")
	ErrExpired   = errors.New("the pending login is older than 10 minutes; start anew")
)

// A Pending is a login that waits for the redirect. It holds the PKCE verifier
// and is as secret as a password.
type Pending struct {
	Server, Endpoint, Issuer string // Endpoint is the MCP server's URL
	Resource                 string // what the token will be for
	Authorize                string // the URL to visit
	State, Verifier          string
	RedirectURI, Scope       string
	WantsIss                 bool // the provider promised to name itself
	Client                   Client
	Provider                 json.RawMessage
	Created                  time.Time

	file string      // where Save put it, or ReadPending found it
	used atomic.Bool // the answer was taken
}

// URL is what the person has to visit.
func (p *Pending) URL() string { return p.Authorize }

// String keeps the verifier out of logs.
func (p *Pending) String() string { return fmt.Sprintf("pending login to %s", p.Server) }

// GoString does the same for %#v.
func (p *Pending) GoString() string { return p.String() }

// pend makes the record of a login, before anybody is sent anywhere.
func (l *Login) pend(prov *Provider, c *Client, redirect, scope string) (*Pending, error) {
	raw, err := json.Marshal(prov)
	if err != nil {
		return nil, l.errorf("keep the provider: %w", err)
	}
	p := &Pending{
		Server: l.Server.Name, Endpoint: l.Server.Resource(), Issuer: prov.Issuer, Resource: resourceOf(l.Server, prov),
		State: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		RedirectURI: redirect, Scope: scope,
		WantsIss: prov.Meta.AuthorizationResponseIssParameterSupported,
		Client:   *c, Provider: raw, Created: time.Now(),
	}
	if p.Client.Kind == Configured {
		p.Client.Secret = "" // the settings have it
	}
	p.Authorize, err = p.authorizeURL(prov.Meta.AuthorizationEndpoint, l.Server.Settings.AuthorizeParams)
	if err != nil {
		return nil, l.errorf("authorization endpoint of %q: %w", prov.Issuer, err)
	}
	return p, nil
}

// authorizeURL keeps the parameters that the endpoint comes with.
func (p *Pending) authorizeURL(endpoint string, more map[string]string) (string, error) {
	u, err := parseBrowsable(endpoint)
	if err != nil {
		return "", err
	}
	q := u.Query()
	for k, v := range more {
		q.Set(k, v)
	}
	for _, kv := range [][2]string{
		{"response_type", "code"}, {"client_id", p.Client.ID}, {"redirect_uri", p.RedirectURI},
		{"state", p.State}, {"scope", p.Scope}, {"resource", p.Resource},
		{"code_challenge", oauth2.S256ChallengeFromVerifier(p.Verifier)}, {"code_challenge_method", "S256"},
	} {
		q.Del(kv[0])
		if kv[1] != "" {
			q.Set(kv[0], kv[1])
		}
	}
	// OpenID Connect Core, section 11: without it, offline_access is ignored.
	if strings.Contains(" "+p.Scope+" ", " "+offlineAccess+" ") && !q.Has("prompt") {
		q.Set("prompt", "consent")
	}
	u.RawQuery = q.Encode()
	return browsable(u.String())
}

// Start begins a login that Finish completes, maybe in another process.
func (l *Login) Start(ctx context.Context) (*Pending, error) {
	if l.flow() == FlowDevice {
		return nil, l.errorf("the device flow cannot be started for later")
	}
	redirect, err := l.startRedirect(ctx)
	if err != nil {
		return nil, err
	}
	return l.begin(ctx, redirect)
}

// startRedirect is a redirect URI at which nobody listens: the person copies the
// URL from the browser's address bar.
func (l *Login) startRedirect(ctx context.Context) (string, error) {
	if l.Redirect != "" {
		return l.Redirect, nil
	}
	r, err := l.relay(ctx)
	if err != nil {
		return "", err
	}
	d, err := r.listen()
	if err != nil {
		return "", err
	}
	d.close()
	return d.redirect, nil
}

// Finish completes a login with the URL that the provider redirected to, or its
// query. A wrong one leaves the login pending.
func (l *Login) Finish(ctx context.Context, p *Pending, redirect string) error {
	switch {
	case p.Server != l.Server.Name:
		return l.errorf("the pending login is of server %q", p.Server)
	case p.Endpoint != l.Server.Resource():
		return l.errorf("the server's url changed since the login was started; start anew")
	case p.expired(time.Now()):
		p.discard()
		return l.errorf("%w", ErrExpired)
	}
	return l.complete(ctx, p, redirect)
}

// expired is also true of what comes from the future: the clock was set.
func (p *Pending) expired(now time.Time) bool {
	age := now.Sub(p.Created)
	return age > pendingLife || age < -time.Minute
}

// claim makes the answer count once, in this process and in all others.
func (p *Pending) claim() error {
	if p.used.Swap(true) {
		return ErrNoPending
	}
	if p.file == "" {
		return nil
	}
	if err := os.Remove(p.file); errors.Is(err, fs.ErrNotExist) {
		return ErrNoPending
	} else if err != nil {
		return fmt.Errorf("use up the pending login: %w", err)
	}
	return nil
}

func (p *Pending) discard() {
	p.used.Store(true)
	if p.file != "" {
		os.Remove(p.file)
	}
}

// Save writes the login below dir, for ReadPending. Expired ones go.
func (p *Pending) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("pending login: %w", err)
	}
	if n := prunePending(dir, time.Now()); n >= maxPending {
		return fmt.Errorf("pending login: %d logins are pending already; they expire after 10 minutes", n)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("pending login: %w", err)
	}
	file := pendingFile(dir, p.State)
	if err := writeNew(file, raw); err != nil {
		return fmt.Errorf("pending login: %w", err)
	}
	p.file = file
	return nil
}

// writeNew writes a file that does not exist yet. A torn one is not valid JSON,
// and its login is started anew.
func writeNew(file string, raw []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(file)
	}
	return err
}

// pendingFile is named by a hash: a name says nothing, and finding one compares
// nothing.
func pendingFile(dir, state string) string {
	sum := sha256.Sum256([]byte(state))
	return filepath.Join(dir, hex.EncodeToString(sum[:])+pendingExt)
}

// prunePending removes what expired and returns how many are left.
func prunePending(dir string, now time.Time) (left int) {
	found, _ := os.ReadDir(dir)
	for _, d := range found {
		if !strings.HasSuffix(d.Name(), pendingExt) {
			continue
		}
		if fi, err := d.Info(); err == nil && now.Sub(fi.ModTime()) > pendingLife {
			os.Remove(filepath.Join(dir, d.Name()))
			continue
		}
		left++
	}
	return left
}

// ReadPending finds the login that a redirect URL, or its query, answers.
func ReadPending(dir, redirect string) (*Pending, error) {
	q, err := answerQuery(redirect)
	if err != nil {
		return nil, err
	}
	state := q.Get("state")
	if state == "" {
		return nil, errors.New("the URL has no state parameter: paste the whole address that the browser ended at")
	}
	file := pendingFile(dir, state)
	raw, err := readPendingFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoPending
	} else if err != nil {
		return nil, fmt.Errorf("pending login: %w", err)
	}
	p := &Pending{file: file}
	if err := json.Unmarshal(raw, p); err != nil || p.State != state {
		return nil, fmt.Errorf("pending login %s is damaged; start anew", file)
	}
	return p, nil
}

func readPendingFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxPendingLen))
}
