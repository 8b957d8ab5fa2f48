package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func request(method, url string, header ...string) *http.Request {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func from(r *http.Request, a net.Addr) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, a))
}

// TestIdentify is line H8 of the fault catalogue of HTTP fronts.
func TestIdentify(t *testing.T) {
	var c Callers
	c.Accept([]string{"first-token", "second-token"})
	for _, tt := range []struct {
		name   string
		header []string
		url    string
		status int // zero: accepted
	}{
		{"none", nil, "/mcp", 401},
		{"good", []string{"Authorization", "Bearer first-token"}, "/mcp", 0},
		{"second", []string{"Authorization", "Bearer second-token"}, "/mcp", 0},
		{"lower-case scheme", []string{"Authorization", "bearer first-token"}, "/mcp", 0},
		{"spaces", []string{"Authorization", "Bearer   first-token "}, "/mcp", 0},
		{"wrong", []string{"Authorization", "Bearer first-tokem"}, "/mcp", 401},
		{"prefix", []string{"Authorization", "Bearer first"}, "/mcp", 401},
		{"other scheme", []string{"Authorization", "Basic first-token"}, "/mcp", 401},
		{"no scheme", []string{"Authorization", "first-token"}, "/mcp", 401},
		{"empty", []string{"Authorization", "Bearer "}, "/mcp", 401},
		{"in query", nil, "/mcp?access_token=first-token", 401},
		{"in query too", []string{"Authorization", "Bearer first-token"}, "/mcp?token=first-token", 401},
		{"twice", []string{"Authorization", "Bearer first-token", "Authorization", "Bearer first-token"}, "/mcp", 400},
	} {
		_, err := c.Identify(request("POST", tt.url, tt.header...))
		status := 0
		if ref := (*Refusal)(nil); errors.As(err, &ref) {
			status = ref.Status
			if (status == 401) != strings.HasPrefix(ref.Challenge, "Bearer") {
				t.Errorf("%s: challenge %q with status %d", tt.name, ref.Challenge, status)
			}
			if strings.Contains(err.Error(), "first") {
				t.Errorf("%s: the error %q shows the token", tt.name, err)
			}
		}
		if status != tt.status {
			t.Errorf("%s: got status %d, want %d", tt.name, status, tt.status)
		}
	}
}

func TestCallersDiffer(t *testing.T) {
	var c Callers
	c.Accept([]string{"first-token", "second-token"})
	a, _ := c.Identify(request("POST", "/mcp", "Authorization", "Bearer first-token"))
	b, _ := c.Identify(request("POST", "/mcp", "Authorization", "Bearer second-token"))
	if a == b || a.ID == "" || strings.Contains(a.ID, "first") {
		t.Errorf("callers %+v and %+v", a, b)
	}
	c.Accept([]string{"second-token"})
	if _, err := c.Identify(request("POST", "/mcp", "Authorization", "Bearer first-token")); err == nil {
		t.Error("a removed token is accepted")
	}
	if again, _ := c.Identify(request("POST", "/mcp", "Authorization", "Bearer second-token")); again != b {
		t.Errorf("the caller became %+v, was %+v", again, b)
	}
}

func TestZeroCallersRefuseButUnix(t *testing.T) {
	var c Callers
	if _, err := c.Identify(request("POST", "/mcp", "Authorization", "Bearer x")); err == nil {
		t.Error("the zero Callers accepted a token")
	}
	got, err := c.Identify(from(request("POST", "/mcp"), &net.UnixAddr{Name: "/s", Net: "unix"}))
	if err != nil || got.Kind != "unix" {
		t.Errorf("over a unix socket: %+v, %v", got, err)
	}
	c.Open = true
	if got, err := c.Identify(request("POST", "/mcp")); err != nil || got.Kind != "open" {
		t.Errorf("open: %+v, %v", got, err)
	}
}

func TestSeveral(t *testing.T) {
	for _, tt := range []struct {
		name   string
		open   bool
		tokens []string
		more   int
		want   bool
	}{
		{"nobody", false, nil, 0, false},
		{"one token", false, []string{"a"}, 0, false},
		{"the same token twice", false, []string{"a", "a"}, 0, false},
		{"two tokens", false, []string{"a", "b"}, 0, true},
		{"a token and standard input", false, []string{"a"}, 1, true},
		{"standard input alone", false, nil, 1, false},
		{"a Unix socket and standard input", false, nil, 2, true},
		{"without tokens", true, nil, 0, false},
		{"without tokens, and a Unix socket", true, nil, 1, true},
	} {
		c := &Callers{Open: tt.open}
		if tt.tokens != nil {
			c.Accept(tt.tokens)
		}
		if got := c.Several(tt.more); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestLoadOrCreateToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path, token, created, err := LoadOrCreateToken(dir)
	if err != nil || !created || len(token) != 43 {
		t.Fatalf("got %q, %v, %v", token, created, err)
	}
	for p, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if st, err := os.Stat(p); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v (%v)", p, st.Mode().Perm(), want, err)
		}
	}
	_, again, created, err := LoadOrCreateToken(dir)
	if err != nil || created || again != token {
		t.Errorf("second time: %q, %v, %v", again, created, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".token-*")); left != nil {
		t.Errorf("files left behind: %v", left)
	}
}

func TestLoadOrCreateTokenRace(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	tokens := make([]string, 16)
	for i := range tokens {
		wg.Go(func() { _, tokens[i], _, _ = LoadOrCreateToken(dir) })
	}
	wg.Wait()
	for _, tok := range tokens {
		if tok == "" || tok != tokens[0] {
			t.Fatalf("tokens differ: %q", tokens)
		}
	}
}

func TestReadTokens(t *testing.T) {
	const long = "0123456789abcdef"
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       []string
		warns      bool
		err        string
	}{
		{"one", long + "\n", 0o600, []string{long}, false, ""},
		{"several", long + "\r\n\n  2" + long, 0o600, []string{long, "2" + long}, false, ""},
		{"readable", long, 0o644, []string{long}, true, ""},
		{"short", long + "\nabc", 0o600, []string{long, "abc"}, true, ""},
		{"empty", " \n\n", 0o600, nil, false, "empty"},
		{"inner space", "abc\na b\n", 0o600, nil, false, ":2: a token holds only visible"},
		{"huge", strings.Repeat("a", maxTokenFile+1), 0o600, nil, false, "more than 65536 bytes"},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		got, warning, err := ReadTokens(path)
		if !cmp.Equal(got, tt.want) || (warning != "") != tt.warns {
			t.Errorf("%s: got %q, warning %q", tt.name, got, warning)
		}
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
	}
	if _, _, err := ReadTokens(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

var tcp = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 8808}

// TestGuard holds lines H1, H3 and H4 of the fault catalogue, and the Host of a
// pod or a Service (kubeflow/mcp-server#91, python-sdk#1798).
func TestGuard(t *testing.T) {
	g := &Guard{
		Hosts:   []string{"svc.example", "only.example:8808"},
		Origins: []string{"https://good.example"},
		Listen:  []string{"gateway.local:8808"},
	}
	for _, tt := range []struct {
		name, host, origin string
		status             int
	}{
		{"loopback", "127.0.0.1:8808", "", 200},
		{"localhost, any port", "localhost:1234", "", 200},
		{"ipv6 loopback", "[::1]:8808", "", 200},
		{"listen address", "gateway.local:8808", "", 200},
		{"address of the connection", "10.0.0.5:8808", "", 200},
		{"other address", "10.0.0.6:8808", "", 403},
		{"listed name", "svc.example", "", 200},
		{"listed name, any port", "SVC.example:80", "", 200},
		{"listed name and port", "only.example:8808", "", 200},
		{"listed name, other port", "only.example:80", "", 403},
		{"rebinding", "evil.example:8808", "http://evil.example:8808", 403},
		{"suffix trick", "svc.example.evil.com", "", 403},
		{"loopback as prefix", "localhost.evil.com", "", 403},
		{"no host", "", "", 400},
		{"allowed origin", "localhost", "https://good.example", 200},
		{"own origin", "localhost:8808", "http://localhost:8808", 200},
		{"evil origin", "localhost", "https://evil.example", 403},
		{"null origin", "localhost", "null", 403},
		{"prefix trick", "localhost", "https://good.example.evil.com", 403},
		{"other port", "localhost", "https://good.example:444", 403},
		{"upper case", "localhost", "https://GOOD.example", 403},
		{"other scheme", "localhost", "http://good.example", 403},
		{"own host, other port", "localhost:8808", "http://localhost:3000", 403},
	} {
		ran := false
		h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
		r := from(request("POST", "/mcp"), tcp)
		if r.Host = tt.host; tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status || ran != (tt.status == 200) {
			t.Errorf("%s: got %d (ran: %v), want %d", tt.name, w.Code, ran, tt.status)
		}
		if allow := w.Header().Get("Access-Control-Allow-Origin"); (tt.status == 200 && tt.origin != "") != (allow != "") {
			t.Errorf("%s: Access-Control-Allow-Origin %q", tt.name, allow)
		}
	}
}

func TestTwoOriginsAreRefused(t *testing.T) {
	g := &Guard{Origins: []string{"https://good.example"}}
	r := request("POST", "http://localhost/mcp", "Origin", "https://good.example", "Origin", "https://evil.example")
	w := httptest.NewRecorder()
	g.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != 403 {
		t.Errorf("got %d, want 403", w.Code)
	}
}

func TestPreflight(t *testing.T) {
	g := &Guard{Origins: []string{"https://good.example"}}
	h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a preflight went through") }))
	r := request("OPTIONS", "http://localhost/mcp", "Origin", "https://good.example",
		"Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization, Mcp-Session-Id, x-evil")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("Access-Control-Allow-Headers"); w.Code != 204 || got != "authorization, mcp-session-id" {
		t.Errorf("got %d, headers %q", w.Code, got)
	}
	if got := w.Header().Get("Access-Control-Expose-Headers"); !strings.Contains(got, "Mcp-Session-Id") {
		t.Errorf("exposed %q", got)
	}
	r.Header.Set("Origin", "https://evil.example")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("evil preflight: %d %v", w.Code, w.Header())
	}
}

func TestUnixSocketsHaveNoHostCheck(t *testing.T) {
	ran := false
	h := (&Guard{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
	r := from(request("POST", "http://whatever/mcp"), &net.UnixAddr{Name: "/s", Net: "unix"})
	h.ServeHTTP(httptest.NewRecorder(), r)
	if !ran {
		t.Error("refused")
	}
}
