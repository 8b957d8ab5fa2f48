package oauth

import (
	"net/url"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// held is what is known at a time. It does not change.
type held struct {
	name    string
	stamp   any
	entry   *vault.Entry // nil: nothing
	grant   bool         // no person is needed
	unsaved bool         // entry is newer than what the vault has
}

// good reports whether there is an access token that is not over.
func (h *held) good(now time.Time) bool {
	e := h.entry
	return e != nil && e.Access != "" && (e.Expiry.IsZero() || now.Before(e.Expiry))
}

// due reports whether it is time to refresh. Of an hour that is the last one to
// three minutes, of less a twentieth to a fifth.
func (h *held) due(now time.Time, haste float64) bool {
	e := h.entry
	if e == nil || e.Expiry.IsZero() {
		return false
	}
	lead := time.Minute + time.Duration(haste*float64(2*time.Minute))
	if life := e.Expiry.Sub(e.Updated); life > 0 {
		lead = min(lead, time.Duration(float64(life)*(0.05+0.15*haste)))
	}
	return !now.Before(e.Expiry.Add(-lead))
}

func (h *held) renewable() bool { return h.grant || h.entry != nil && h.entry.Refresh != "" }

func (h *held) scope() string {
	if h.entry == nil {
		return ""
	}
	return h.entry.Scope
}

// other reports whether h brings credentials that old has not.
func (h *held) other(old *held) bool {
	if h.entry == nil {
		return false
	}
	return old.entry == nil || h.entry.Access != old.entry.Access ||
		h.entry.Refresh != "" && h.entry.Refresh != old.entry.Refresh
}

// over is why there is no token; nil when there never was one.
func (h *held) over() error {
	if h.entry == nil || h.entry.Access == "" {
		return nil
	}
	return h.login("the access token is over since "+h.entry.Expiry.UTC().Format(time.RFC3339)+", and there is no refresh token", Challenge{})
}

// refusal is why a server's 401 cannot be helped.
func (h *held) refusal(used string) string {
	if used == "" {
		return "it wants OAuth credentials, and none are kept"
	}
	return "it refuses the access token, and there is no refresh token"
}

// sameOrigin reports whether tokens for one URL may be sent to the other.
func sameOrigin(kept string, u *url.URL) bool {
	k, err := url.Parse(kept)
	return err == nil && k.Host != "" && originOf(k) == originOf(u)
}
