package oauth

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

const redirect = "http://127.0.0.1:4711/callback"

var codeGrants = []string{"authorization_code", "refresh_token"}

func (w *world) provider() *Provider {
	return &Provider{Issuer: w.as.URL, Resource: w.server.Resource(), Meta: &Meta{Issuer: w.as.URL, TokenEndpoint: w.as.URL + "/token",
		RegistrationEndpoint: w.as.URL + "/register"}}
}

func (w *world) registers(status int, body string) {
	w.as.put("/register", answer(status, "application/json", body))
}

// The order: configured, stored, document, registered.
func TestIdentifyOrder(t *testing.T) {
	off := false
	const document = "https://me.example.com/oauth/client.json"
	cimd := auth.OAuth{ClientMetadataURL: document}
	with := func(o auth.OAuth, f func(o *auth.OAuth)) auth.OAuth { f(&o); return o }
	stored := func(w *world) *Client {
		return &Client{ID: "old", AuthMethod: "none", Kind: Registered, Issuer: w.as.URL, RedirectURIs: []string{redirect}}
	}
	for name, tc := range map[string]struct {
		settings auth.OAuth
		stored   func(w *world) *Client
		change   func(w *world, p *Provider)
		want     string // kind and id
	}{
		"configured first":              {settings: with(cimd, func(o *auth.OAuth) { o.ClientID = "mine" }), stored: stored, want: "configured mine"},
		"stored":                        {settings: cimd, stored: stored, want: "registered old"},
		"stored for another issuer":     {stored: func(w *world) *Client { c := stored(w); c.Issuer += "/"; return c }, want: "registered new"},
		"stored for another redirect":   {stored: func(w *world) *Client { c := stored(w); c.RedirectURIs[0] += "x"; return c }, want: "registered new"},
		"stored without redirect":       {stored: func(w *world) *Client { c := stored(w); c.RedirectURIs = nil; return c }, want: "registered new"},
		"stored, secret expired":        {stored: func(w *world) *Client { c := stored(w); c.SecretExpires = time.Now().Add(30 * time.Second); return c }, want: "registered new"},
		"stored, secret good":           {stored: func(w *world) *Client { c := stored(w); c.SecretExpires = time.Now().Add(time.Hour); return c }, want: "registered old"},
		"stored, but configured before": {stored: func(w *world) *Client { c := stored(w); c.Kind = Configured; return c }, want: "registered new"},
		"document":                      {settings: cimd, want: "document " + document},
		"document for any issuer": {settings: cimd, stored: func(w *world) *Client {
			return &Client{ID: document, Kind: Document, Issuer: "https://other.example.com"}
		}, want: "document " + document},
		"document, fixed port":    {settings: with(cimd, func(o *auth.OAuth) { o.RedirectPort = 4711 }), want: "document " + document},
		"document not supported":  {settings: cimd, change: func(_ *world, p *Provider) { p.Meta.ClientIDMetadataDocumentSupported = false }, want: "registered new"},
		"document refused before": {settings: cimd, change: func(w *world, _ *Provider) { w.server.NoDocument = true }, want: "registered new"},
		"document off":            {settings: with(cimd, func(o *auth.OAuth) { o.CIMD = &off }), want: "registered new"},
		"document, other name":    {settings: with(cimd, func(o *auth.OAuth) { o.ClientName = "x" }), want: "registered new"},
		"document, secret":        {settings: with(cimd, func(o *auth.OAuth) { o.ClientSecret = "x" }), want: "registered new"},
		"document, other method":  {settings: with(cimd, func(o *auth.OAuth) { o.TokenEndpointAuthMethod = methodPost }), want: "registered new"},
		"no document named":       {want: "registered new"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.server.Settings = tc.settings
			w.registers(201, `{"client_id":"new"}`)
			p := w.provider()
			p.Meta.ClientIDMetadataDocumentSupported = true
			if tc.change != nil {
				tc.change(w, p)
			}
			var old *Client
			if tc.stored != nil {
				old = tc.stored(w)
			}
			c, err := Identify(t.Context(), w.server, p, old, redirect, codeGrants)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Kind + " " + c.ID; got != tc.want || c.Issuer != w.as.URL {
				t.Errorf("got %q of %q, want %q", got, c.Issuer, tc.want)
			}
			if want := strings.HasSuffix(tc.want, " new"); want != (len(w.as.requests()) == 1) {
				t.Errorf("asked %q", w.as.requests())
			}
		})
	}
}

func TestDocumentURL(t *testing.T) {
	for u, want := range map[string]bool{
		"https://me.example.com/c.json": true, "https://me.example.com/a/": true, "https://me.example.com/a?v=1": true,
		"": false, "http://me.example.com/c.json": false, "https://me.example.com": false, "https://me.example.com/": false,
		"https://u@me.example.com/c": false, "https://me.example.com/c#x": false, "https://me.example.com/c#": false,
		"https://me.example.com/a/../c": false, "https://me.example.com/./c": false, "https://me.example.com/%2e%2e/c": false, "https:///c": false,
	} {
		if got := isDocumentURL(u); got != want {
			t.Errorf("%q: got %v", u, got)
		}
	}
}

func TestConfiguredClient(t *testing.T) {
	for _, tc := range []struct {
		settings  auth.OAuth
		supported string
		method    string
	}{
		{auth.OAuth{}, "", "none"},
		{auth.OAuth{}, "client_secret_basic", "none"},
		{auth.OAuth{ClientSecret: "s"}, "", methodPost},
		{auth.OAuth{ClientSecret: "s"}, "client_secret_basic", methodBasic},
		{auth.OAuth{ClientSecret: "s"}, "client_secret_basic client_secret_post", methodPost},
		{auth.OAuth{ClientSecret: "s", TokenEndpointAuthMethod: methodBasic}, "client_secret_post", methodBasic},
		{auth.OAuth{TokenEndpointAuthMethod: methodJWT}, "", methodJWT},
	} {
		w := newWorld(t)
		tc.settings.ClientID = "mine"
		w.server.Settings = tc.settings
		p := w.provider()
		p.Meta.TokenEndpointAuthMethodsSupported = strings.Fields(tc.supported)
		c, err := Identify(t.Context(), w.server, p, nil, redirect, nil)
		want := &Client{ID: "mine", Secret: tc.settings.ClientSecret, AuthMethod: tc.method, Kind: Configured, Issuer: w.as.URL, RedirectURIs: []string{redirect}}
		if diff := cmp.Diff(want, c); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	w := newWorld(t)
	w.server.Settings = auth.OAuth{ClientID: "mine", TokenEndpointAuthMethod: methodBasic}
	_, err := Identify(t.Context(), w.server, w.provider(), nil, redirect, nil)
	wantError(t, err, "oauth.client_secret is not set")
}

// A configured client's secret is not for another issuer.
func TestConfiguredClientIsBound(t *testing.T) {
	w := newWorld(t)
	w.server.Settings = auth.OAuth{ClientID: "mine", ClientSecret: "hush"}
	before := &Client{ID: "mine", Kind: Configured, Issuer: "https://before.example.com"}
	_, err := Identify(t.Context(), w.server, w.provider(), before, redirect, nil)
	wantError(t, err, "https://before.example.com")
	wantError(t, err, "mcp-sidecar logout s")
	if strings.Contains(fmt.Sprint(err), "hush") {
		t.Error(err)
	}
	before.ID = "another, from before the settings changed"
	if _, err := Identify(t.Context(), w.server, w.provider(), before, redirect, nil); err != nil {
		t.Error(err)
	}
}

func TestRegistrationRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		settings  auth.OAuth
		redirect  string
		grants    []string
		supported string
		want      string
	}{
		"plain": {redirect: redirect, grants: codeGrants,
			want: `{"client_name":"mcp-sidecar","redirect_uris":["` + redirect + `"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","application_type":"native"}`},
		"set": {settings: auth.OAuth{ClientName: "Known", Scope: "a b", TokenEndpointAuthMethod: methodPost, ApplicationType: "web"}, redirect: redirect,
			want: `{"client_name":"Known","redirect_uris":["` + redirect + `"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"client_secret_post","application_type":"web","scope":"a b"}`},
		"device": {grants: []string{"urn:ietf:params:oauth:grant-type:device_code", "refresh_token"},
			want: `{"client_name":"mcp-sidecar","grant_types":["urn:ietf:params:oauth:grant-type:device_code","refresh_token"],"response_types":[],"token_endpoint_auth_method":"none","application_type":"native"}`},
		"hosted callback": {redirect: "https://gw.example.com/callback", supported: "client_secret_basic",
			want: `{"client_name":"mcp-sidecar","redirect_uris":["https://gw.example.com/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"client_secret_basic","application_type":"web"}`},
		"localhost": {redirect: "http://localhost:1/callback", supported: "none client_secret_post",
			want: `{"client_name":"mcp-sidecar","redirect_uris":["http://localhost:1/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","application_type":"native"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.server.Settings = tc.settings
			var got string
			w.as.put("/register", func(rw http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got = r.Method + " " + r.Header.Get("Content-Type") + " " + string(b)
				jsonPage(`{"client_id":"x"}`)(rw, r)
			})
			p := w.provider()
			p.Meta.TokenEndpointAuthMethodsSupported = strings.Fields(tc.supported)
			if _, err := Identify(t.Context(), w.server, p, nil, tc.redirect, tc.grants); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("POST application/json "+tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRegistrationAnswer(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	for name, tc := range map[string]struct {
		status int
		body   string
		want   Client
		fails  string
	}{
		"public":           {201, `{"client_id":"x","token_endpoint_auth_method":"none"}`, Client{AuthMethod: "none"}, ""},
		"200":              {200, `{"client_id":"x"}`, Client{AuthMethod: "none"}, ""},
		"secret, basic":    {201, `{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"client_secret_basic","client_secret_expires_at":0}`, Client{Secret: "s", AuthMethod: methodBasic}, ""},
		"secret alone":     {201, `{"client_id":"x","client_secret":"s"}`, Client{Secret: "s", AuthMethod: methodPost}, ""},
		"secret for none":  {201, `{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"none"}`, Client{Secret: "s", AuthMethod: "none"}, ""},
		"basic, no secret": {201, `{"client_id":"x","token_endpoint_auth_method":"client_secret_basic"}`, Client{AuthMethod: "none"}, ""},
		"expires":          {201, fmt.Sprintf(`{"client_id":"x","client_secret":"s","client_secret_expires_at":%d}`, soon.Unix()), Client{Secret: "s", AuthMethod: methodPost, SecretExpires: soon}, ""},
		"expires, as text": {201, fmt.Sprintf(`{"client_id":"x","client_secret":"s","client_secret_expires_at":"%d"}`, soon.Unix()), Client{Secret: "s", AuthMethod: methodPost, SecretExpires: soon}, ""},
		"expires, odd":     {201, `{"client_id":"x","client_secret":"s","client_secret_expires_at":1e300}`, Client{Secret: "s", AuthMethod: methodPost}, ""},
		"no id":            {201, `{}`, Client{}, "no client_id"},
		"id is no text":    {201, `{"client_id":7}`, Client{}, "no client_id"},
		"page":             {200, `<html>`, Client{}, "not JSON"},
		"unknown method":   {201, `{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"tls_client_auth"}`, Client{}, "tls_client_auth"},
		"huge":             {201, `{"client_id":"` + strings.Repeat("x", 2<<20) + `"}`, Client{}, "longer than"},
		"huge id":          {201, `{"client_id":"` + strings.Repeat("x", 9<<10) + `"}`, Client{}, "no client_id"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.registers(tc.status, tc.body)
			c, err := Identify(t.Context(), w.server, w.provider(), nil, redirect, codeGrants)
			if tc.fails != "" {
				wantError(t, err, tc.fails)
				return
			}
			tc.want.ID, tc.want.Kind, tc.want.Issuer, tc.want.RedirectURIs = "x", Registered, w.as.URL, []string{redirect}
			if diff := cmp.Diff(&tc.want, c); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			again, err := Identify(t.Context(), w.server, w.provider(), c, redirect, codeGrants)
			if err != nil || again != c {
				t.Errorf("registered anew: %+v, %v", again, err)
			}
		})
	}
}

func TestRegistrationRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   []string
	}{
		"forbidden":   {403, `<html>no</html>`, []string{"403", "oauth.client_name", "catalog entry", "oauth.client_id"}},
		"who are you": {401, `{"error":"unauthorized_client"}`, []string{"unauthorized_client", "oauth.client_name"}},
		"redirect":    {400, `{"error":"invalid_redirect_uri","error_description":"bad\u001b[31m\nuri"}`, []string{"invalid_redirect_uri: bad[31m uri", "oauth.redirect_uri"}},
		"metadata":    {400, `{"error":"invalid_client_metadata"}`, []string{"invalid_client_metadata", "oauth.client_id"}},
		"none":        {404, ``, []string{"404", "oauth.client_id"}},
		"moved":       {307, ``, []string{"307", "redirects"}},
		"down":        {503, strings.Repeat("x", 3<<20), []string{"503", "later"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.as.put("/register", func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Location", "/elsewhere")
				answer(tc.status, "application/json", tc.body)(rw, r)
			})
			_, err := Identify(t.Context(), w.server, w.provider(), nil, redirect, codeGrants)
			for _, want := range append(tc.want, "server s: oauth: ", w.as.URL) {
				wantError(t, err, want)
			}
			var e *RegistrationError
			if !errors.As(err, &e) || e.Status != tc.status || len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("got %#v: %v", e, err)
			}
			if n := len(w.as.requests()); n != 1 {
				t.Errorf("asked %q", w.as.requests())
			}
		})
	}
}

func TestRegistrationImpossible(t *testing.T) {
	w := newWorld(t)
	p := w.provider()
	p.Meta.RegistrationEndpoint = ""
	_, err := Identify(t.Context(), w.server, p, nil, redirect, codeGrants)
	wantError(t, err, "set oauth.client_id")
	wantError(t, err, redirect)
	w.server.Settings.TokenEndpointAuthMethod = methodJWT
	_, err = Identify(t.Context(), w.server, w.provider(), nil, redirect, codeGrants)
	wantError(t, err, "needs oauth.client_id")
	// Nobody said that there is an authorization server at all.
	w = newWorld(t)
	p, err = w.discover(t, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Identify(t.Context(), w.server, p, nil, redirect, codeGrants)
	wantError(t, err, "a key in headers")
}

// No verb shows the secret.
func TestClientPrinted(t *testing.T) {
	c := Client{ID: "id", Secret: "hush", Kind: Registered, AuthMethod: methodPost, Issuer: "https://as.example.com"}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%v %+v %#v %s", &c, &c, &c, &c)} {
		if strings.Contains(text, "hush") || !strings.Contains(text, "id") {
			t.Errorf("got %s", text)
		}
	}
}
