//go:build npm

package oauth

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A locked is an MCP server that wants the provider's tokens.
type locked struct {
	mcptest.Upstream
	url string // of the endpoint; tokens must be for it
	p   *provider

	mu      sync.Mutex
	revoked map[string]bool
	last    string // the token that was taken last
}

func newLocked(t *testing.T, p *provider) *locked {
	t.Helper()
	l := &locked{p: p, revoked: map[string]bool{}, Upstream: mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}}
	s := httptest.NewServer(l)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	l.url = s.URL + "/mcp"
	return l
}

const metadataPath = "/.well-known/oauth-protected-resource/mcp"

func (l *locked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case metadataPath:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools"]}`, l.url, l.p.issuer)
	case "/mcp":
		if err := l.admit(r); err != nil {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="invalid_token", resource_metadata=%q`, strings.TrimSuffix(l.url, "/mcp")+metadataPath))
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, err.Error())
			return
		}
		l.Upstream.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// revoke has the server refuse the token that it took last.
func (l *locked) revoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revoked[l.last] = true
}

func (l *locked) admit(r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return errors.New("no token")
	}
	if err := l.verify(token, time.Now()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revoked[token] {
		return errors.New("revoked")
	}
	l.last = token
	return nil
}

// leeway makes up for exp, which is cut to whole seconds.
const leeway = time.Second

// verify checks a token (RFC 9068).
func (l *locked) verify(token string, now time.Time) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || !signed(&l.p.key.PublicKey, parts[0]+"."+parts[1], parts[2]) {
		return errors.New("not signed by the provider")
	}
	var c struct {
		Iss, Aud, Scope string
		Exp             int64
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	switch {
	case err != nil:
		return err
	case c.Iss != l.p.issuer || c.Aud != l.url || !slices.Contains(strings.Fields(c.Scope), "tools"):
		return fmt.Errorf("a token of %s for %s (%s)", c.Iss, c.Aud, c.Scope)
	case now.After(time.Unix(c.Exp, 0).Add(leeway)):
		return errors.New("over")
	}
	return nil
}

// signed checks ES256.
func signed(key *ecdsa.PublicKey, text, signature string) bool {
	sig, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || len(sig) != 64 {
		return false
	}
	sum := sha256.Sum256([]byte(text))
	return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
}
