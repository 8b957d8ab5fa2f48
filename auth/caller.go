// Package auth tells who calls us, and who we are to a server.
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// A Caller is whoever sent one request. It is read from the request that
// carries the message, never from a session.
type Caller struct {
	// ID names the caller in logs, bindings and isolation; it is no secret.
	ID string
	// Kind is token, open, unix or stdio.
	Kind string
}

// The callers that need no token.
var (
	Stdio = Caller{ID: "stdio", Kind: "stdio"}
	unix  = Caller{ID: "unix", Kind: "unix"}
	open  = Caller{ID: "open", Kind: "open"}
)

// A Refusal is a request whose caller is not accepted.
type Refusal struct {
	Status int
	Reason string
	// Challenge is the WWW-Authenticate header; empty when there is none.
	Challenge string
}

func (r *Refusal) Error() string { return r.Reason }

// Write answers a request with the refusal. Strangers do not keep connections,
// of which there is a limit.
func (r *Refusal) Write(w http.ResponseWriter) {
	if r.Challenge != "" {
		w.Header().Set("WWW-Authenticate", r.Challenge)
	}
	w.Header().Set("Connection", "close")
	http.Error(w, r.Reason, r.Status)
}

const realm = `Bearer realm="mcp-sidecar"`

var (
	errNoToken  = &Refusal{http.StatusUnauthorized, "a bearer token is required: send one from the token file that the sidecar names at its start", realm}
	errScheme   = &Refusal{http.StatusUnauthorized, "the Authorization header holds no bearer token", realm}
	errWrong    = &Refusal{http.StatusUnauthorized, "the bearer token is not accepted", realm + `, error="invalid_token"`}
	errInQuery  = &Refusal{http.StatusUnauthorized, "tokens in the URL are refused, use the Authorization header", realm}
	errRepeated = &Refusal{http.StatusBadRequest, "more than one Authorization header", ""}
)

type digest [sha256.Size]byte

// Callers tells who sent a request. The zero value refuses everyone who comes
// over TCP.
type Callers struct {
	// Open lets callers over TCP in without a token.
	Open bool

	tokens atomic.Pointer[[]accepted]
}

type accepted struct {
	sum    digest
	caller Caller
}

// Accept replaces the accepted bearer tokens. It may be called at any time.
func (c *Callers) Accept(tokens []string) {
	list := make([]accepted, 0, len(tokens))
	for _, t := range tokens {
		sum := sha256.Sum256([]byte(t))
		name := sha256.Sum256(append([]byte("caller "), sum[:]...))
		a := accepted{sum, Caller{ID: "token-" + hex.EncodeToString(name[:4]), Kind: "token"}}
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	c.tokens.Store(&list)
}

// Several reports whether more than one caller can come, beside over TCP in more
// ways, each of which is one caller.
func (c *Callers) Several(more int) bool {
	n := more
	if list := c.tokens.Load(); c.Open {
		n++
	} else if list != nil {
		n += len(*list)
	}
	return n > 1
}

// Identify returns the caller of r, or a *Refusal. It does not touch the body.
func (c *Callers) Identify(r *http.Request) (Caller, error) {
	if overUnix(r) {
		return unix, nil
	}
	if c.Open {
		return open, nil
	}
	values := r.Header["Authorization"]
	if len(values) > 1 {
		return Caller{}, errRepeated
	}
	if inQuery(r) {
		return Caller{}, errInQuery
	}
	if len(values) == 0 {
		return Caller{}, errNoToken
	}
	token, ok := bearer(values[0])
	if !ok {
		return Caller{}, errScheme
	}
	return c.match(token)
}

// match compares with every token, so that its time says nothing about them.
func (c *Callers) match(token string) (Caller, error) {
	sum, found := sha256.Sum256([]byte(token)), -1
	list := c.tokens.Load()
	if list == nil {
		return Caller{}, errWrong
	}
	for i := range *list {
		if subtle.ConstantTimeCompare(sum[:], (*list)[i].sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Caller{}, errWrong
	}
	return (*list)[found].caller, nil
}

func bearer(value string) (string, bool) {
	scheme, token, ok := strings.Cut(strings.TrimSpace(value), " ")
	token = strings.TrimLeft(token, " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// inQuery reports whether the URL carries what looks like a token.
func inQuery(r *http.Request) bool {
	if r.URL.RawQuery == "" {
		return false
	}
	q := r.URL.Query()
	return q.Has("access_token") || q.Has("token") || q.Has("api_key")
}

// overUnix reports whether r came through a unix socket, whose file mode is
// the guard.
func overUnix(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && a.Network() == "unix"
}
