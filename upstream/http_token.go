package upstream

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
)

// Tokens are the OAuth credentials of one server and profile. Its methods are
// called concurrently.
type Tokens interface {
	// Token returns the access token to send; empty when there is none, which a
	// server may do without.
	Token(ctx context.Context) (string, error)
	// Refused is told that a request with a token was answered by 401 or 403. True
	// means that another token is worth a try.
	Refused(ctx context.Context, token string, status int, h http.Header) (bool, error)
	// Stamp differs, by ==, when other credentials are there.
	Stamp() any
}

// A LoginError says that a person has to log in first. What Tokens returns may wrap
// one.
type LoginError struct {
	// Err says why, and how.
	Err error
	// Once is true when it is about one request only, and others need no login.
	Once bool
}

func (e *LoginError) Error() string { return e.Err.Error() }
func (e *LoginError) Unwrap() error { return e.Err }

// A tokenError is why there was no token to send a request with, or none that the
// server took. Nothing was done.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// kind is Unauthorized where a person has to act, else Unreachable.
func (e *tokenError) kind() Kind {
	if l := (*LoginError)(nil); errors.As(e.err, &l) {
		return Unauthorized
	}
	return Unreachable
}

// send sends one request with the credentials that there are. A server that refuses
// them has done nothing, so the request is sent once more if there are others.
func (c *httpConn) send(ctx context.Context, method string, body []byte, h http.Header) (*http.Response, error) {
	if c.tokens == nil {
		return c.transmit(ctx, method, body, h)
	}
	token, err := c.tokens.Token(ctx)
	if err != nil {
		return nil, &tokenError{err}
	}
	resp, err := c.transmit(ctx, method, body, c.bearer(h, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	again, err := c.tokens.Refused(ctx, token, resp.StatusCode, resp.Header)
	switch {
	case err != nil:
		discard(resp.Body)
		return nil, &tokenError{err}
	case !again:
		return resp, nil
	}
	discard(resp.Body)
	if token, err = c.tokens.Token(ctx); err != nil {
		return nil, &tokenError{err}
	}
	return c.transmit(ctx, method, body, c.bearer(h, token))
}

// bearer returns h with a token.
func (c *httpConn) bearer(h http.Header, token string) http.Header {
	if token == "" {
		return h
	}
	c.sent.note(token)
	h = maps.Clone(h)
	h["Authorization"] = []string{"Bearer " + token}
	return h
}

// tokensOf are the credentials that connections of a profile send; nil for a server
// without OAuth.
func (s *Set) tokensOf(r *Resolved, profile string) (Tokens, error) {
	if r.URL == nil || r.Settings.Auth != "oauth" {
		return nil, nil
	}
	if s.opt.Tokens == nil {
		return nil, &Error{Server: r.Server, Kind: Config, Err: errors.New("auth: oauth is set, but no credentials are kept here")}
	}
	t, err := s.opt.Tokens(r, profile)
	if err != nil {
		return nil, &Error{Server: r.Server, Kind: Config, Err: &keepingError{err}}
	}
	return t, nil
}

// A keepingError is why no credentials can be kept: a key, or a directory.
type keepingError struct{ err error }

func (e *keepingError) Error() string { return "oauth: " + e.err.Error() }
func (e *keepingError) Unwrap() error { return e.err }

// A stamp is what Tokens.Stamp was at a moment.
type stamp struct {
	tokens Tokens
	at     any
}

// stampOf returns nil without OAuth.
func stampOf(t Tokens) *stamp {
	if t == nil {
		return nil
	}
	return &stamp{t, t.Stamp()}
}

// other reports whether there are other credentials by now.
func (s *stamp) other() bool { return s != nil && s.tokens.Stamp() != s.at }

// recently holds the tokens that were sent last: a server may show them to us. Nil
// holds none.
type recently struct{ list atomic.Pointer[[]string] }

// mostRecent bounds them. Calls in flight have one of these.
const mostRecent = 4

func (r *recently) all() []string {
	if r == nil || r.list.Load() == nil {
		return nil
	}
	return *r.list.Load()
}

func (r *recently) note(token string) {
	for {
		old := r.list.Load()
		var list []string
		if old != nil {
			if list = *old; slices.Contains(list, token) {
				return
			}
		}
		list = append([]string{token}, list[:min(len(list), mostRecent-1)]...)
		if r.list.CompareAndSwap(old, &list) {
			return
		}
	}
}
