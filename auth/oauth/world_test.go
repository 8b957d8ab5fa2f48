package oauth

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// A site answers what is put there, and 404 to all else.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]http.HandlerFunc // by escaped path, and query if any
	asked []string                    // method and path of each request, in order
	heads []http.Header
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.heads = append(s.heads, r.Header)
	page := s.pages[r.URL.RequestURI()]
	s.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *site) put(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = h
}

func answer(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func jsonPage(body string) http.HandlerFunc { return answer(200, "application/json", body) }

// A world is an MCP server and an authorization server on loopback.
type world struct {
	mcp, as *site
	guard   Guard
	server  *Server
	log     bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{mcp: newSite(t), as: newSite(t)}
	u, err := url.Parse(w.mcp.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	w.server = &Server{Name: "s", URL: u, Settings: auth.OAuth{}, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	w.server.HTTP = w.guard.Client(u)
	return w
}

// fill replaces {mcp} and {as} by the origins.
func (w *world) fill(s string) string {
	return strings.NewReplacer("{mcp}", w.mcp.URL, "{as}", w.as.URL,
		"{mcps}", strings.Replace(w.mcp.URL, "http:", "https:", 1)).Replace(s)
}

// put puts documents: mcp/path or as/path, and what stands there.
func (w *world) put(docs map[string]string) {
	for at, body := range docs {
		where, path, _ := strings.Cut(at, "/")
		map[string]*site{"mcp": w.mcp, "as": w.as}[where].put("/"+path, jsonPage(w.fill(body)))
	}
}

// The documents of a sound world.
const (
	prm      = `{"resource":"{mcp}/mcp","authorization_servers":["{as}"],"scopes_supported":["a","b"]}`
	prmPath  = "mcp/.well-known/oauth-protected-resource/mcp"
	prmRoot  = "mcp/.well-known/oauth-protected-resource"
	asMeta   = `{"issuer":"{as}","authorization_endpoint":"{as}/authorize","token_endpoint":"{as}/token","registration_endpoint":"{as}/register","code_challenge_methods_supported":["S256"]}`
	asOAuth  = "as/.well-known/oauth-authorization-server"
	asOpenID = "as/.well-known/openid-configuration"
)

func (w *world) discover(t *testing.T, challenge string) (*Provider, error) {
	t.Helper()
	h := http.Header{}
	if challenge != "" {
		h.Set("WWW-Authenticate", w.fill(challenge))
	}
	return Discover(context.Background(), w.server, ParseChallenge(401, h))
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
