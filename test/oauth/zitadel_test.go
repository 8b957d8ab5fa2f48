//go:build npm

package oauth

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// startZitadel runs the example provider of zitadel/oidc and returns its issuer.
func startZitadel(t *testing.T, redirects ...string) (issuer string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "zitadel")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	build.Dir = "zitadel"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin, redirects...)
	out := &printed{}
	cmd.Stderr = out
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	alive, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		alive.Close()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the provider said:\n%s", out.String())
		}
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("the provider did not start: %v\n%s", err, out.String())
	}
	return strings.TrimSpace(line)
}

// A vetted is an MCP server that asks the provider who a token's user is.
type vetted struct {
	mcptest.Upstream
	url, issuer string

	mu      sync.Mutex
	revoked map[string]bool
	last    string
}

func (v *vetted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.URL.Path == metadataPath:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["openid"]}`, v.url, v.issuer)
	case r.URL.Path != "/mcp":
		http.NotFound(w, r)
	case token == "" || !v.known(r, token):
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="invalid_token", resource_metadata=%q`, strings.TrimSuffix(v.url, "/mcp")+metadataPath))
		w.WriteHeader(http.StatusUnauthorized)
	default:
		v.Upstream.ServeHTTP(w, r)
	}
}

func (v *vetted) known(r *http.Request, token string) bool {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, v.issuer+"userinfo", nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	if resp.StatusCode != http.StatusOK || v.revoked[token] {
		return false
	}
	v.last = token
	return true
}

func (v *vetted) revoke() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.revoked[v.last] = true
}

// newZitadelWorld has one server under several names, which differ in how one logs in.
func newZitadelWorld(t *testing.T) (*world, *vetted) {
	t.Helper()
	port := freePort(t)
	v := &vetted{issuer: startZitadel(t, "http://localhost/callback", fmt.Sprintf("http://localhost:%d/callback", port)), revoked: map[string]bool{}, Upstream: mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}}
	s := httptest.NewServer(v)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	v.url = s.URL + "/mcp"
	dir := t.TempDir()
	w := &world{state: filepath.Join(dir, "state"), config: filepath.Join(dir, "config.yaml")}
	entry := "  %s: {url: %q, auth: oauth, oauth: {redirect_host: localhost, %s}}\n"
	exact := fmt.Sprintf("redirect_port: %d, client_id: ", port) // that of a web client is compared as it stands
	text := "mcp_servers:\n" + fmt.Sprintf(entry, "native", v.url, "client_id: native, scope: openid offline_access") +
		fmt.Sprintf(entry, "web", v.url, exact+"web, client_secret: web-secret, token_endpoint_auth_method: client_secret_basic") +
		fmt.Sprintf(entry, "wrong", v.url, exact+"web, client_secret: of-no-worth, token_endpoint_auth_method: client_secret_basic") +
		fmt.Sprintf(entry, "nobody", v.url, "client_id: nobody") +
		fmt.Sprintf(entry, "device", v.url, "client_id: device, client_secret: device-secret, token_endpoint_auth_method: client_secret_basic, flow: device")
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, v
}

// freePort is one that nobody listens at for now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// zitadelUser logs in by forms, and returns what the provider redirects to.
func zitadelUser(t *testing.T, visit string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(visit)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{home: u.Scheme + "://" + u.Host}
	p.http = &http.Client{Jar: jar, Timeout: 20 * time.Second, CheckRedirect: p.stay}
	resp, err := p.http.Get(visit)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindSubmatch(page)
	if id == nil {
		t.Fatalf("no login form: %s", page)
	}
	resp, err = p.http.PostForm(p.home+"/login/username", url.Values{"id": {string(id[1])}, "username": {"test-user@localhost"}, "password": {"verysecure"}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	to := resp.Header.Get("Location")
	if to == "" {
		t.Fatalf("the provider answers %d", resp.StatusCode)
	}
	return to
}

// TestZitadel: clients registered by hand at a provider without dynamic registration.
func TestZitadel(t *testing.T) {
	t.Parallel()
	w, v := newZitadelWorld(t)
	env := []string{"CHROMIUM=" + chromium(t), "BROWSER=" + mcptest.Node(t) + " " + script(t, "visit-zitadel.mjs")}
	if _, stderr, err := w.run(t, env, "login", "native"); err != nil || !strings.Contains(stderr, "renewed by itself") || !strings.Contains(stderr, "native: 1 tool(s)") {
		t.Fatalf("login: %v\n%s", err, stderr)
	}
	finish := func(name string) (stderr string, err error) {
		stdout, stderr, err := w.run(t, nil, "login", name, "--start", "--json")
		visit := mcptest.Text([]byte(stdout), "url")
		if err != nil || visit == "" {
			t.Fatalf("login --start: %v\n%s", err, stderr)
		}
		_, stderr, err = w.run(t, nil, "login", "--finish", zitadelUser(t, visit))
		return stderr, err
	}
	if stderr, err := finish("web"); err != nil || !strings.Contains(stderr, "web: 1 tool(s)") {
		t.Errorf("web: %v\n%s", err, stderr)
	}
	if stderr, err := finish("wrong"); err == nil || !strings.Contains(stderr, "invalid_client") || strings.Contains(stderr, "of-no-worth") {
		t.Errorf("a wrong secret: %v\n%s", err, stderr)
	}
	w.zitadelDevice(t)

	_, a := w.serve(t)
	for _, name := range []string{"native", "web", "device"} {
		served(t, a, name)
	}
	text, code := call(t, a, "wrong")
	wantsLoginAt(t, "wrong", text, code)
	v.revoke()
	served(t, a, "native")
	time.Sleep(6 * time.Second) // a token that was just got and is refused is not renewed again
	v.revoke()
	served(t, a, "native") // by the refresh token that came with the last one
}

// zitadelDevice types a code in at the provider's page, and allows what it asks.
func (w *world) zitadelDevice(t *testing.T) {
	t.Helper()
	login := w.begun(t, nil, "login", "device")
	at := login.says(t, regexp.MustCompile(`(http://\S+/device)\b[\s\S]*?\b([A-Z]{4}-[A-Z]{4})\b`))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	user := &http.Client{Jar: jar, Timeout: 20 * time.Second}
	page, err := user.PostForm(at[1]+"/login", url.Values{"user_code": {at[2]}, "username": {"test-user@localhost"}, "password": {"verysecure"}})
	if err == nil {
		page.Body.Close()
		page, err = user.Get(at[1] + "/confirm?action=allowed")
	}
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(page.Body)
	page.Body.Close()
	if !strings.Contains(string(said), "Device authorization allowed") {
		t.Fatalf("the provider says %s", said)
	}
	login.ends(t, "device: 1 tool(s)")
}

func wantsLoginAt(t *testing.T, server, text, code string) {
	t.Helper()
	if code != "UNAUTHORIZED" || !strings.Contains(text, "mcp-sidecar login "+server) {
		t.Errorf("%s: got %s: %s", server, code, text)
	}
}
