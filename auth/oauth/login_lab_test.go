package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/oauth2"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// browserEnv makes the test binary a browser that visits its last argument.
const browserEnv = "MCP_SIDECAR_TEST_BROWSER"

func init() {
	if os.Getenv(browserEnv) == "" {
		return
	}
	if err := visit(os.Args[len(os.Args)-1]); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// visit is what a browser does.
func visit(u string) error {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	res, err := c.Get(u)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// secrets of the lab; no output may have them.
const (
	labCode    = "canary-code-8472"
	labDevice  = "canary-device-1138"
	labAccess  = "canary-access-2187"
	labRefresh = "canary-refresh-3720"
)

// A loginLab is an MCP server and its authorization server in one.
type loginLab struct {
	t   *testing.T
	url string // origin and issuer

	iss       string                             // what authorize answers; empty: none
	advertise bool                               // authorization_response_iss_parameter_supported
	answer    func(q url.Values)                 // changes the redirect's parameters
	token     func(w http.ResponseWriter) bool   // answers instead of the token endpoint
	poll      func(w http.ResponseWriter, n int) // device polls, from 1
	devices   map[string]any                     // the device endpoint's answer
	meta      func(m map[string]any)

	mu         sync.Mutex
	asked      url.Values // the last authorize request
	tokenForm  url.Values
	deviceForm url.Values
	registered []map[string]any
	polls      int

	out bytes.Buffer
	log bytes.Buffer
}

func newLoginLab(t *testing.T) *loginLab {
	lab := &loginLab{t: t}
	srv := httptest.NewServer(lab)
	lab.url = srv.URL
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		srv.Close()
		goleak.VerifyNone(t, ignore, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
	})
	return lab
}

// login is one to the lab's server, with nothing but what is always there.
func (lab *loginLab) login(settings auth.OAuth) *Login {
	u, err := url.Parse(lab.url + "/mcp")
	if err != nil {
		lab.t.Fatal(err)
	}
	if settings.Timeout == 0 {
		settings.Timeout = 20 * time.Second
	}
	log := slog.New(slog.NewTextHandler(&lab.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return &Login{
		Server: &Server{Name: "lab", URL: u, Settings: settings, Log: log,
			HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}},
		Vault: &vault.Vault{Dir: lab.t.TempDir() + "/v"},
		Out:   &lab.out,
		Open:  visit,
	}
}

func (lab *loginLab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lab.mu.Lock()
	defer lab.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		reply(w, 200, map[string]any{"resource": lab.url + "/mcp", "authorization_servers": []string{lab.url}, "scopes_supported": []string{"one", "two"}})
	case "/.well-known/oauth-authorization-server":
		reply(w, 200, lab.metadata())
	case "/register":
		var m map[string]any
		json.NewDecoder(r.Body).Decode(&m)
		lab.registered = append(lab.registered, m)
		m["client_id"] = fmt.Sprintf("client-%d", len(lab.registered))
		reply(w, 201, m)
	case "/authorize":
		lab.authorize(w, r)
	case "/token":
		lab.tokens(w, r)
	case "/device":
		r.ParseForm()
		lab.deviceForm = r.PostForm
		reply(w, 200, lab.devices)
	default:
		http.NotFound(w, r)
	}
}

func (lab *loginLab) metadata() map[string]any {
	m := map[string]any{
		"issuer": lab.url, "authorization_endpoint": lab.url + "/authorize?tenant=a%20b", "token_endpoint": lab.url + "/token",
		"registration_endpoint": lab.url + "/register", "device_authorization_endpoint": lab.url + "/device",
		"jwks_uri": lab.url + "/jwks", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_post"},
		"authorization_response_iss_parameter_supported": lab.advertise,
		"client_id_metadata_document_supported":          true,
	}
	if lab.meta != nil {
		lab.meta(m)
	}
	return m
}

func (lab *loginLab) authorize(w http.ResponseWriter, r *http.Request) {
	lab.asked = r.URL.Query()
	to, err := url.Parse(lab.asked.Get("redirect_uri"))
	if err != nil {
		lab.t.Errorf("redirect_uri: %v", err)
		return
	}
	q := url.Values{"code": {labCode}, "state": {lab.asked.Get("state")}}
	if lab.iss != "" {
		q.Set("iss", lab.iss)
	}
	if lab.answer != nil {
		lab.answer(q)
	}
	to.RawQuery = q.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (lab *loginLab) tokens(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	lab.tokenForm = r.PostForm
	if lab.token != nil && lab.token(w) {
		return
	}
	f := r.PostForm
	if f.Get("grant_type") == grantDevice {
		lab.polls++
		lab.poll(w, lab.polls)
		return
	}
	if f.Get("code") != labCode || oauth2.S256ChallengeFromVerifier(f.Get("code_verifier")) != lab.asked.Get("code_challenge") ||
		f.Get("redirect_uri") != lab.asked.Get("redirect_uri") || f.Get("resource") != lab.url+"/mcp" {
		reply(w, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	reply(w, 200, labTokens())
}

func labTokens() map[string]any {
	return map[string]any{"access_token": labAccess, "refresh_token": labRefresh, "token_type": "Bearer", "expires_in": 3600, "scope": "one"}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// noCanary fails when a secret is where people or logs see it.
func (lab *loginLab) noCanary(errs ...error) {
	lab.t.Helper()
	var shown strings.Builder
	for line := range strings.Lines(lab.out.String()) {
		if !strings.Contains(line, lab.url+"/authorize?") { // which needs the state
			shown.WriteString(line)
		}
	}
	shown.WriteString(lab.log.String())
	for _, err := range errs {
		fmt.Fprintf(&shown, "%v %+v\n", err, err)
	}
	for _, secret := range []string{labCode, labDevice, labAccess, labRefresh, lab.asked.Get("state"), lab.tokenForm.Get("code_verifier")} {
		if secret != "" && strings.Contains(shown.String(), secret) {
			lab.t.Errorf("a secret (%.12s…) is shown:\n%s", secret, shown.String())
		}
	}
	if v := lab.tokenForm.Get("code_verifier"); v != "" && strings.Contains(lab.out.String(), v) {
		lab.t.Error("the verifier is in the authorize URL")
	}
}

func (lab *loginLab) entry(l *Login) *vault.Entry {
	lab.t.Helper()
	e, err := l.Vault.Load("lab")
	if err != nil {
		lab.t.Fatal(err)
	}
	return e
}

// put stores what an earlier login brought.
func (lab *loginLab) put(l *Login) *vault.Entry {
	lab.t.Helper()
	e := &vault.Entry{Server: "lab", URL: lab.url + "/mcp", Issuer: lab.url, Access: "old", Type: "Bearer", Refresh: "oldr", Scope: "zero"}
	if err := l.Vault.Save(e); err != nil {
		lab.t.Fatal(err)
	}
	return lab.entry(l)
}

func labContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
