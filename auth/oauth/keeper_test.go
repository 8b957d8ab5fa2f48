package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// memory is a vault without a disk, for one server.
type memory struct {
	mu    sync.Mutex
	entry *vault.Entry
	gen   int
	full  error // what Save says
	saved func(e *vault.Entry)
	lock  chan struct{}
}

func newMemory(e *vault.Entry) *memory { return &memory{entry: e, lock: make(chan struct{}, 1)} }

func (m *memory) Load(string) (*vault.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entry == nil {
		return nil, nil
	}
	e := *m.entry
	return &e, nil
}

func (m *memory) Save(e *vault.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full != nil {
		return m.full
	}
	m.put(e)
	return nil
}

func (m *memory) put(e *vault.Entry) {
	c := *e
	m.entry, m.gen = &c, m.gen+1
	if m.saved != nil {
		m.saved(e)
	}
}

// write is what another process does.
func (m *memory) write(e vault.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(&e)
}

func (m *memory) fill(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = err
}

func (m *memory) read() vault.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.entry
}

func (m *memory) Lock(ctx context.Context, _ string) (func(), error) {
	select {
	case m.lock <- struct{}{}:
		return func() { <-m.lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) stamp(string) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gen
}

// rotatingTokens is an authorization server: it rotates refresh tokens and takes each
// once. Each answer can be replaced.
type rotatingTokens struct {
	mu      sync.Mutex
	n       int                                            // tokens given
	refresh string                                         // the one that is good; empty: none
	life    int                                            // of access tokens in seconds; 0: not said
	replies []func(w http.ResponseWriter, form url.Values) // in turn, before the usual
	forms   []url.Values
	wait    time.Duration // before an answer
}

func (p *rotatingTokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	time.Sleep(p.wait) // of the test's bubble
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forms = append(p.forms, r.PostForm)
	if len(p.replies) > 0 {
		f := p.replies[0]
		p.replies = p.replies[1:]
		f(w, r.PostForm)
		return
	}
	if r.PostForm.Get("grant_type") == "refresh_token" && r.PostForm.Get("refresh_token") != p.refresh {
		p.refresh = "" // reuse revokes all
		refusesWith(400, "invalid_grant")(w, nil)
		return
	}
	p.n++
	p.refresh = fmt.Sprintf("refresh-%d", p.n)
	a := map[string]any{"access_token": fmt.Sprintf("access-%d", p.n), "refresh_token": p.refresh}
	if p.life > 0 {
		a["expires_in"] = p.life
	}
	_ = json.NewEncoder(w).Encode(a)
}

func (p *rotatingTokens) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.forms)
}

func refusesWith(status int, code string) func(http.ResponseWriter, url.Values) {
	return func(w http.ResponseWriter, _ url.Values) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":"no %s"}`, code, "refresh-0")
	}
}

func saysOnce(status int, text string) func(http.ResponseWriter, url.Values) {
	return func(w http.ResponseWriter, _ url.Values) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

// RoundTrip serves without a socket.
func (p *rotatingTokens) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if w.Code == 599 {
		return nil, errors.New("connection refused")
	}
	return w.Result(), nil
}

// noAnswer is no answer.
func noAnswer(w http.ResponseWriter, _ url.Values) { w.WriteHeader(599) }

const keptIssuer = "https://as.example"

// A rig is a keeper with all around it.
type rig struct {
	t      *testing.T
	k      *Keeper
	m      *memory
	p      *rotatingTokens
	s      *Server
	issuer string // that discovery finds,
	legacy bool   // without metadata that name it
	fails  error
	logs   logBuffer
}

// logBuffer is written to by several handlers.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// entry is a login of an hour with a refresh token.
func hourLogin() *vault.Entry {
	now := time.Now()
	return &vault.Entry{
		Server: "hub", URL: "https://mcp.example.com/mcp", Issuer: keptIssuer,
		Access: "access-0", Type: "Bearer", Refresh: "refresh-0", Scope: "read", Expiry: now.Add(time.Hour), Updated: now,
		Client: &vault.Client{ID: "dyn", AuthMethod: "none", Kind: Registered, Issuer: keptIssuer},
	}
}

func newRig(t *testing.T, e *vault.Entry) *rig {
	r := &rig{t: t, m: newMemory(e), p: &rotatingTokens{refresh: "refresh-0", life: 3600}, issuer: keptIssuer}
	r.s = serverAt(t, &http.Client{Transport: r.p})
	r.k = r.peer()
	return r
}

// peer is another process' keeper of the same vault.
func (r *rig) peer() *Keeper {
	log := slog.New(slog.NewTextHandler(&r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	k := newKeeper(func() (*Server, error) { return r.s, nil }, r.m, r.m.stamp, log)
	k.haste = 0.5
	k.discover = func(context.Context, *Server, Challenge) (*Provider, error) {
		p := providerAt(r.issuer)
		p.Legacy = r.legacy
		return p, r.fails
	}
	return k
}

func (r *rig) token(want string) {
	r.t.Helper()
	got, err := r.k.Token(r.t.Context())
	if err != nil || got != want {
		r.t.Errorf("token: got %q, %v, want %q", got, err, want)
	}
}

func (r *rig) tokenError() error {
	r.t.Helper()
	got, err := r.k.Token(r.t.Context())
	if err == nil {
		r.t.Fatalf("token: got %q, want an error", got)
	}
	return err
}

var unauthorized = Challenge{Status: 401, Error: "invalid_token"}

func (r *rig) refused(used string, c Challenge, want bool) error {
	r.t.Helper()
	got, err := r.k.Refused(r.t.Context(), used, c)
	if got != want || got && err != nil {
		r.t.Errorf("refused %q: got %v, %v, want %v", used, got, err, want)
	}
	return err
}

func (r *rig) requests(want int) {
	r.t.Helper()
	if got := r.p.asked(); got != want {
		r.t.Errorf("%d token requests, want %d", got, want)
	}
}

// needsLogin checks err, and returns it.
func (r *rig) needsLogin(err error, reason string) *LoginError {
	r.t.Helper()
	l := isLogin(err)
	if l == nil || !strings.Contains(l.Reason, reason) {
		r.t.Fatalf("got %v, want a LoginError: %s", err, reason)
	}
	return l
}

func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestKeeperRefreshesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.token("access-0")
		time.Sleep(time.Hour - 2*time.Minute - time.Second) // haste of 0.5 is two minutes
		r.token("access-0")
		r.requests(0)
		time.Sleep(time.Second)
		var order []string
		r.m.saved = func(e *vault.Entry) { order = append(order, "saved "+e.Refresh) }
		r.token("access-1")
		order = append(order, "used")
		r.requests(1)
		if d := cmp.Diff([]string{"saved refresh-1", "used"}, order); d != "" {
			t.Error(d)
		}
		e := r.m.read()
		if e.Scope != "read" || e.Client == nil || !e.Expiry.Equal(time.Now().Add(time.Hour)) || keptProvider(&e) == nil {
			t.Errorf("%+v", e)
		}
		time.Sleep(59 * time.Minute)
		r.token("access-2")
	})
}

func TestKeeperJitter(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		life       time.Duration
		haste      float64
		lead       time.Duration
		withoutAge bool
	}{
		{time.Hour, 0, time.Minute, false}, {time.Hour, 1, 3 * time.Minute, false}, {time.Minute, 0, 3 * time.Second, false},
		{time.Minute, 1, 12 * time.Second, false}, {time.Hour, 1, 3 * time.Minute, true},
	} {
		e := &vault.Entry{Access: "a", Expiry: now.Add(tt.life), Updated: now}
		if tt.withoutAge {
			e.Updated = now.Add(2 * tt.life) // the clock went back
		}
		h := &held{entry: e}
		if h.due(e.Expiry.Add(-tt.lead-time.Second), tt.haste) || !h.due(e.Expiry.Add(-tt.lead+time.Second), tt.haste) {
			t.Errorf("%v at %v: want a lead of %v", tt.life, tt.haste, tt.lead)
		}
	}
	a, b := NewKeeper(nil, nil, nil), NewKeeper(nil, nil, nil)
	if a.haste == b.haste {
		t.Error("all are in haste alike")
	}
}

func TestKeeperNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.token("")
		l := r.needsLogin(r.refused("", Challenge{Status: 401, ResourceMetadata: "https://x", Scope: "s"}, false), "none are kept")
		if l.Challenge.Scope != "s" || l.Error() != "server hub: oauth: login needed: it wants OAuth credentials, and none are kept; run: mcp-sidecar login hub" {
			t.Error(l)
		}
		r.requests(0)
		before := r.k.Stamp()
		r.m.write(*hourLogin()) // somebody logs in
		if r.k.Stamp() == before {
			t.Error("a login goes unnoticed")
		}
		r.token("access-0")
		if r.refused("", unauthorized, true) != nil {
			t.Error("want the new token tried")
		}
	})
}

func TestKeeperStampIsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		before := r.k.Stamp()
		time.Sleep(59 * time.Minute)
		r.token("access-1")
		if r.k.Stamp() != before {
			t.Error("our own refresh looks like other credentials")
		}
		r.p.replies = append(r.p.replies, refusesWith(400, "invalid_grant"))
		r.needsLogin(r.refused("access-1", unauthorized, false), "invalid_grant")
		if r.k.Stamp() != before {
			t.Error("what we drop looks like other credentials")
		}
		r.m.write(*hourLogin())
		if r.k.Stamp() == before {
			t.Error("a login goes unnoticed")
		}
		before = r.k.Stamp()
		e := r.m.read()
		e.Refresh = ""
		r.m.write(e)
		if r.k.Stamp() != before {
			t.Error("what another process drops looks like other credentials")
		}
	})
}

func TestKeeperOnlyRefreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Access, e.Expiry, e.Issuer = "", time.Time{}, ""
		r := newRig(t, e)
		r.token("access-1")
		if got := r.m.read(); got.Issuer != keptIssuer {
			t.Errorf("issuer %q is not noted", got.Issuer)
		}
	})
}

func TestKeeperUnknownExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Expiry = time.Time{}
		r := newRig(t, e)
		time.Sleep(1000 * time.Hour)
		r.token("access-0")
		r.requests(0)
		r.refused("access-0", unauthorized, true)
		r.token("access-1")
	})
}
