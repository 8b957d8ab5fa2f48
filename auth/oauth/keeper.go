package oauth

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// store is what a Keeper wants of a vault.
type store interface {
	Load(server string) (*vault.Entry, error)
	Save(e *vault.Entry) error
	Lock(ctx context.Context, server string) (unlock func(), err error)
}

// A Keeper has the credentials of one server of one profile, for all of its
// connections, and keeps them good: it refreshes them ahead of their end, one
// request at a time, and shares them through the vault with other processes. It
// never talks to a person: where one is needed, it says so with a LoginError.
type Keeper struct {
	server   func() (*Server, error)
	store    store
	stamp    func(server string) any
	discover func(context.Context, *Server, Challenge) (*Provider, error)
	log      *slog.Logger
	// haste, from 0 to 1, is how early this process is, so that not all are at once.
	haste float64

	held atomic.Pointer[held] // written under mu

	mu      sync.Mutex // guards what follows
	flight  *flight    // nil: none
	closed  bool
	fault   *fault        // why the last flight failed; nil: it did not
	quiet   string        // the access token whose early refresh was refused
	renewed token         // got because the server refused the one before,
	spell   time.Duration // for which it may not be refused itself
	foreign int           // how often others wrote other credentials
	saveAt  time.Time
	known   *Provider
	asked   time.Time // when known was discovered
	steps   map[string]*step
	widened string // what a server without a person wanted beyond the usual

	flights sync.WaitGroup
}

// A token and when it was got.
type token struct {
	access string
	at     time.Time
}

// NewKeeper returns a Keeper for the server that s names, with its references
// resolved anew each time. It starts nothing.
func NewKeeper(s func() (*Server, error), v *vault.Vault, log *slog.Logger) *Keeper {
	return newKeeper(s, v, func(name string) any { return v.Stamp(name) }, log)
}

func newKeeper(s func() (*Server, error), v store, stamp func(string) any, log *slog.Logger) *Keeper {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{
		server: s, store: v, stamp: stamp, log: log,
		discover: Discover, haste: rand.Float64(), steps: make(map[string]*step),
	}
}

// Token returns a valid access token. It is empty when there is none and none was
// ever got: the server may do without. A token near its end is refreshed first, but
// while it is good nobody waits long for that.
func (k *Keeper) Token(ctx context.Context) (string, error) {
	h, err := k.current()
	if err != nil {
		return "", err
	}
	now := time.Now()
	good := h.good(now)
	switch {
	case good && !k.wants(h, now):
		return h.entry.Access, nil
	case !good && !h.renewable():
		return "", h.over()
	}
	if err = k.renewAhead(ctx, good); ctx.Err() != nil {
		return "", ctx.Err()
	}
	if h, again := k.current(); again == nil && h.good(time.Now()) {
		return h.entry.Access, nil
	}
	if err == nil {
		err = fmt.Errorf("server %s: oauth: the token that was just got is over already", h.name)
	}
	return "", err
}

// patience is how long a request with a good token waits for a better one.
const patience = 2 * time.Second

// wants reports whether something is to be done about a good token.
func (k *Keeper) wants(h *held, now time.Time) bool {
	if !h.unsaved && (!h.due(now, k.haste) || !h.renewable()) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.unsaved && now.After(k.saveAt) {
		return true
	}
	return h.renewable() && h.due(now, k.haste) && k.quiet != h.entry.Access
}

// Refused is told that the server answered a request that carried used by 401 or
// 403. True means that there is another token, with which the request may be sent
// once more. Otherwise the error, often a *LoginError, says what is the matter; it
// is nil when the refusal has nothing to do with tokens.
func (k *Keeper) Refused(ctx context.Context, used string, c Challenge) (bool, error) {
	h, err := k.current()
	if err != nil {
		return false, err
	}
	c.ErrorDescription = redact(c.ErrorDescription, []string{used})
	now := time.Now()
	switch {
	case h.good(now) && h.entry.Access != used:
		return true, nil
	case c.Error == insufficientScope:
		return k.stepUp(ctx, h, used, c)
	case c.Status != 401:
		return false, nil
	case !h.renewable():
		return false, h.login(h.refusal(used), c)
	case h.good(now) && k.justRenewed(used, now):
		return false, h.login("the server refuses a token that was just got", c)
	}
	return k.force(ctx, used, c)
}

// A token that replaced a refused one may not be refused itself for a spell: a server
// that takes none would have us refresh for ever. A spell is short, since there are
// servers that revoke, and longer each time that it was needed again soon.
const (
	leastSpell = 5 * time.Second
	mostSpell  = time.Minute
)

func (k *Keeper) justRenewed(used string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return used == k.renewed.access && now.Sub(k.renewed.at) < k.spell
}

// replaced notes a token got in place of a refused one. Callers hold mu.
func (k *Keeper) replaced(access string, now time.Time) {
	if now.Sub(k.renewed.at) < 2*k.spell {
		k.spell = min(2*k.spell, mostSpell)
	} else {
		k.spell = leastSpell
	}
	k.renewed = token{access, now}
}

// Stamp differs, by ==, when somebody else wrote other credentials: a login, or
// another process. What this Keeper refreshes does not change it.
func (k *Keeper) Stamp() any {
	_, _ = k.current() // what cannot be read is no other credential
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.foreign
}

// Close waits until no refresh is under way, and lets none begin: what an
// authorization server has answered is written before the process ends.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.flights.Wait()
}

// current returns what the vault holds, which is read again when it has changed.
func (k *Keeper) current() (*held, error) {
	if h := k.held.Load(); h != nil && k.stamp(h.name) == h.stamp {
		return h, nil
	}
	return k.reload()
}

func (k *Keeper) reload() (*held, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.server()
	if err != nil {
		return nil, err
	}
	old, stamp := k.held.Load(), k.stamp(s.Name)
	if old != nil && old.stamp == stamp {
		return old, nil
	}
	e, err := k.store.Load(s.Name)
	if err != nil {
		if old != nil && old.good(time.Now()) {
			return old, nil
		}
		return nil, fmt.Errorf("server %s: oauth: %w", s.Name, err)
	}
	h := &held{name: s.Name, stamp: stamp, entry: k.own(s, e), grant: proofOf(s).Grant != ""}
	if old != nil && h.other(old) {
		k.foreign++
	}
	k.held.Store(h)
	return h, nil
}

// own returns e if it is for this server and client: what was got for another one
// is not shown to it.
func (k *Keeper) own(s *Server, e *vault.Entry) *vault.Entry {
	if e == nil {
		return nil
	}
	if e.URL != "" && !sameOrigin(e.URL, s.URL) {
		k.log.Warn("the credentials that are kept are for another address and not used", "server", s.Name)
		return nil
	}
	if id := s.Settings.ClientID; id != "" && e.Client != nil && e.Client.ID != id {
		k.log.Warn("oauth.client_id has changed, so the credentials that are kept are not used", "server", s.Name)
		return nil
	}
	return e
}

// save writes e, and makes it what is held in any case: a token that cannot be
// written is the only one there is.
func (k *Keeper) save(h *held, e *vault.Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.store.Save(e)
	if err != nil {
		k.saveAt = time.Now().Add(saveAgain)
		k.log.Error("credentials cannot be written, and are lost when this process ends", "server", h.name, "err", err)
	}
	n := *h
	n.entry, n.unsaved, n.stamp = e, err != nil, k.stamp(h.name)
	k.held.Store(&n)
}

// saveAgain is when a write that failed is tried again.
const saveAgain = 10 * time.Second
