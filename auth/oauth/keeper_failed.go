package oauth

import (
	"errors"
	"time"
)

// failed decides what an error of the token endpoint means.
func (k *Keeper) failed(h *held, f *flight, c *Client, err error) error {
	te := (*TokenError)(nil)
	if !errors.As(err, &te) || !te.final() {
		return err // trouble on the way is no matter of login
	}
	if n, cerr := k.current(); cerr == nil && n.stamp != h.stamp && k.settled(n, f) {
		return nil // somebody who takes no lock was quicker
	}
	if !f.forced && h.good(time.Now()) {
		// Some refuse before the end. Then it is tried at the end.
		k.mu.Lock()
		k.quiet = h.entry.Access
		k.mu.Unlock()
		k.log.Warn("an early refresh was refused; the token is used until it is over", "server", h.name, "err", te)
		return nil
	}
	if h.grant {
		return h.refusedBy(te, "the authorization server gives no token; look at the oauth settings", f.why)
	}
	return k.refused(h, f, c, te)
}

// refused drops what a refusal makes worthless.
func (k *Keeper) refused(h *held, f *flight, c *Client, te *TokenError) error {
	e := *h.entry
	switch {
	case te.Code == codeInvalidClient && c.Kind != Configured:
		e.Client, e.Refresh = nil, "" // a refresh token is its client's
		e.RefusedDocument = e.RefusedDocument || c.Kind == Document
		k.save(h, &e)
		return h.refusedBy(te, "the authorization server does not know our client any more", f.why)
	case te.Code == codeInvalidClient:
		return h.refusedBy(te, "the authorization server does not take oauth.client_id or oauth.client_secret", f.why)
	case te.Code == codeInvalidGrant:
		e.Refresh = ""
		k.save(h, &e)
		return h.refusedBy(te, "the authorization server does not take the refresh token any more", f.why)
	}
	return h.refusedBy(te, "the authorization server refuses to refresh the token", f.why)
}
