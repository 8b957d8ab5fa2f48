//go:build npm

package oauth

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A provider is npm's oidc-provider, which may be killed and started again.
type provider struct {
	issuer string
	key    *ecdsa.PrivateKey // of its tokens
	life   int               // of access tokens, in seconds
	store  string
	cmd    *exec.Cmd
	alive  io.Closer // the program ends when it is closed
	out    printed
}

// newProvider starts one whose access tokens live so many seconds.
func newProvider(t *testing.T, life int) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, life: life, store: filepath.Join(t.TempDir(), "provider.json")}
	p.start(t)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the provider said:\n%s", p.out.String())
		}
	})
	return p
}

// start starts it, or starts it again with what it knew.
func (p *provider) start(t *testing.T) {
	t.Helper()
	port := 0
	if u, err := url.Parse(p.issuer); err == nil && p.issuer != "" {
		port, _ = strconv.Atoi(u.Port())
	}
	settings, err := json.Marshal(map[string]any{"key": p.jwk(t), "life": p.life, "port": port, "store": p.store})
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(mcptest.Node(t), script(t, "oauth-provider.mjs"), string(settings))
	p.cmd.Stderr = &p.out
	said, err := p.cmd.StdoutPipe()
	if err == nil {
		p.alive, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("the provider did not start: %v\n%s", err, p.out.String())
	}
	p.issuer = strings.TrimSpace(line)
}

// kill ends it at once. It may be called again.
func (p *provider) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.alive.Close()
}

// jwk is the private key.
func (p *provider) jwk(t *testing.T) map[string]string {
	t.Helper()
	point, err := p.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return map[string]string{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1",
		"x": b64(point[1:33]), "y": b64(point[33:]), "d": b64(d)}
}

// seen is what the provider counted.
type seen struct {
	Registered, Refreshed, Reused, Revoked, Failed, Asked int

	Resources, Errors, Secrets []string
}

func (p *provider) seen(t *testing.T) (s seen) {
	t.Helper()
	return p.do(t, "")
}

// do has the provider fail, or be slow.
func (p *provider) do(t *testing.T, query string) (s seen) {
	t.Helper()
	resp, err := http.Get(p.issuer + "/-/do?" + query)
	if err == nil {
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(&s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// script is the path of a program of test/node.
func script(t *testing.T, name string) string {
	t.Helper()
	root, err := mcptest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "test/node", name)
}
