package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at is asMeta for another issuer.
func at(issuer string) string { return strings.Replace(asMeta, `"{as}"`, `"`+issuer+`"`, 1) }

// Every order in which the revisions of MCP let clients look.
func TestDiscoverOrders(t *testing.T) {
	const (
		getPath = "GET /.well-known/oauth-protected-resource/mcp"
		getRoot = "GET /.well-known/oauth-protected-resource"
		getAS   = "GET /.well-known/oauth-authorization-server"
		getOIDC = "GET /.well-known/openid-configuration"
	)
	tenant := strings.Replace(prm, "{as}", "{as}/t/1", 1)
	for name, tc := range map[string]struct {
		challenge    string
		docs         map[string]string
		mcp, as      []string // requests
		issuer       string
		resource     string
		legacy, dflt bool
	}{
		"challenge": {
			challenge: `Bearer resource_metadata="{mcp}/custom/place.json"`,
			docs:      map[string]string{"mcp/custom/place.json": prm, asOAuth: asMeta},
			mcp:       []string{"GET /custom/place.json"}, as: []string{getAS}, issuer: "{as}",
		},
		"challenge's place is empty": {
			challenge: `Bearer resource_metadata="{mcp}/custom/place.json"`,
			docs:      map[string]string{prmPath: prm, asOAuth: asMeta},
			mcp:       []string{"GET /custom/place.json", getPath}, as: []string{getAS}, issuer: "{as}",
		},
		"challenge at another origin": {
			challenge: `Bearer resource_metadata="{as}/prm"`,
			docs:      map[string]string{"as/prm": prm, asOAuth: asMeta},
			as:        []string{"GET /prm", getAS}, issuer: "{as}",
		},
		"path": {
			docs: map[string]string{prmPath: prm, asOAuth: asMeta},
			mcp:  []string{getPath}, as: []string{getAS}, issuer: "{as}",
		},
		"root": {
			docs: map[string]string{prmRoot: prm, asOAuth: asMeta},
			mcp:  []string{getPath, getRoot}, as: []string{getAS}, issuer: "{as}",
		},
		"root, the resource is the origin": {
			docs: map[string]string{prmRoot: strings.Replace(prm, "{mcp}/mcp", "{mcp}/", 1), asOAuth: asMeta},
			mcp:  []string{getPath, getRoot}, as: []string{getAS}, issuer: "{as}", resource: "{mcp}/",
		},
		"openid": {
			docs: map[string]string{prmPath: prm, asOpenID: asMeta},
			mcp:  []string{getPath}, as: []string{getAS, getOIDC}, issuer: "{as}",
		},
		"slash after the issuer": {
			docs: map[string]string{prmPath: strings.Replace(prm, "{as}", "{as}/", 1), asOAuth: asMeta},
			mcp:  []string{getPath}, as: []string{getAS}, issuer: "{as}",
		},
		"issuer with a path, inserted": {
			docs: map[string]string{prmPath: tenant, asOAuth + "/t/1": at("{as}/t/1")},
			mcp:  []string{getPath}, as: []string{getAS + "/t/1"}, issuer: "{as}/t/1",
		},
		"issuer with a path, openid inserted": {
			docs: map[string]string{prmPath: tenant, asOpenID + "/t/1": at("{as}/t/1")},
			mcp:  []string{getPath}, as: []string{getAS + "/t/1", getOIDC + "/t/1"}, issuer: "{as}/t/1",
		},
		"issuer with a path, openid appended": {
			docs: map[string]string{prmPath: tenant, "as/t/1/.well-known/openid-configuration": at("{as}/t/1")},
			mcp:  []string{getPath}, issuer: "{as}/t/1",
			as: []string{getAS + "/t/1", getOIDC + "/t/1", "GET /t/1/.well-known/openid-configuration"},
		},
		"issuer with a path, appended": {
			docs: map[string]string{prmPath: tenant, "as/t/1/.well-known/oauth-authorization-server": at("{as}/t/1")},
			mcp:  []string{getPath}, issuer: "{as}/t/1",
			as: []string{getAS + "/t/1", getOIDC + "/t/1", "GET /t/1/.well-known/openid-configuration", "GET /t/1/.well-known/oauth-authorization-server"},
		},
		"2025-03-26, metadata at the origin": {
			docs: map[string]string{"mcp/.well-known/oauth-authorization-server": at("{mcp}")},
			mcp:  []string{getPath, getRoot, getAS}, issuer: "{mcp}", legacy: true,
		},
		"2025-03-26, metadata at the path": {
			docs: map[string]string{"mcp/.well-known/oauth-authorization-server/mcp": at("{mcp}/mcp")},
			mcp:  []string{getPath, getRoot, getAS, getOIDC, getAS + "/mcp"}, issuer: "{mcp}/mcp", legacy: true,
		},
		"2025-03-26, no metadata": {
			mcp: []string{getPath, getRoot, getAS, getOIDC, getAS + "/mcp", getOIDC + "/mcp",
				"GET /mcp/.well-known/openid-configuration", "GET /mcp/.well-known/oauth-authorization-server"},
			issuer: "{mcp}", legacy: true, dflt: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(tc.docs)
			p, err := w.discover(t, tc.challenge)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{tc.mcp, tc.as}, [][]string{w.mcp.requests(), w.as.requests()}); diff != "" {
				t.Errorf("requests: %s", diff)
			}
			if tc.resource == "" {
				tc.resource = "{mcp}/mcp"
			}
			want := []any{w.fill(tc.issuer), w.fill(tc.resource), tc.legacy, tc.dflt}
			if diff := cmp.Diff(want, []any{p.Issuer, p.Resource, p.Legacy, p.Defaults}); diff != "" {
				t.Error(diff)
			}
			if scopes := strings.Join(p.Scopes, " "); !tc.legacy && scopes != "a b" {
				t.Errorf("got scopes %q", scopes)
			}
			kept := roundTrip(t, p)
			if diff := cmp.Diff(p, kept); diff != "" {
				t.Errorf("kept as JSON: %s", diff)
			}
		})
	}
}

func roundTrip(t *testing.T, p *Provider) *Provider {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	out := &Provider{}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDiscoverDefaults(t *testing.T) {
	w := newWorld(t)
	p, err := w.discover(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want := &Meta{Issuer: w.mcp.URL, AuthorizationEndpoint: w.mcp.URL + "/authorize", TokenEndpoint: w.mcp.URL + "/token",
		RegistrationEndpoint: w.mcp.URL + "/register", CodeChallengeMethodsSupported: []string{"S256"}}
	if diff := cmp.Diff(want, p.Meta); diff != "" {
		t.Error(diff)
	}
}

func TestDiscoverRefuses(t *testing.T) {
	without := func(doc, part string) string {
		if !strings.Contains(doc, part) {
			panic("no " + part)
		}
		return strings.Replace(doc, part, "", 1)
	}
	const pkce = `,"code_challenge_methods_supported":["S256"]`
	for name, tc := range map[string]struct {
		challenge string
		docs      map[string]string
		want      string
		as        int // requests to the authorization server at most
	}{
		"resource of another server": {
			docs: map[string]string{prmPath: strings.Replace(prm, "{mcp}/mcp", "https://evil.example.com/mcp", 1), asOAuth: asMeta},
			want: `is for "https://evil.example.com/mcp", not for`,
		},
		"resource of another path": {
			docs: map[string]string{prmPath: strings.Replace(prm, "{mcp}/mcp", "{mcp}/other", 1)}, want: "is for",
		},
		"resource with the same beginning": {
			docs: map[string]string{prmPath: strings.Replace(prm, "{mcp}/mcp", "{mcp}/mc", 1)}, want: "is for",
		},
		"resource of another scheme": {
			docs: map[string]string{prmPath: strings.Replace(prm, "{mcp}", "{mcps}", 1), prmRoot: prm}, want: "is for",
		},
		"no resource": {docs: map[string]string{prmPath: `{"authorization_servers":["{as}"]}`}, want: `is for ""`},
		"origin from a place anybody below it could fill": {
			challenge: `Bearer resource_metadata="{mcp}/tenant/prm"`,
			docs:      map[string]string{"mcp/tenant/prm": strings.Replace(prm, "{mcp}/mcp", "{mcp}", 1)}, want: "is for",
		},
		"mismatch at the challenge's place, sound at the well-known": {
			challenge: `Bearer resource_metadata="{mcp}/prm"`,
			docs:      map[string]string{"mcp/prm": strings.Replace(prm, "/mcp", "/x", 1), prmPath: prm, asOAuth: asMeta}, want: "is for",
		},
		"no authorization servers": {
			docs: map[string]string{prmPath: `{"resource":"{mcp}/mcp","authorization_servers":[]}`}, want: "names no authorization server",
		},
		"challenge's metadata is nowhere": {
			challenge: `Bearer resource_metadata="{mcp}/gone"`, want: "though the server names some",
		},
		"challenge is no URL":   {challenge: `Bearer resource_metadata="::"`, want: "is not an absolute URL"},
		"challenge is no https": {challenge: `Bearer resource_metadata="file:///etc/passwd"`, want: "is not an absolute URL"},
		"challenge to metadata": {challenge: `Bearer resource_metadata="http://169.254.169.254/x"`, want: "is not https"},
		"no metadata of the authorization server": {
			docs: map[string]string{prmPath: prm}, want: "has no metadata", as: 2,
		},
		"another issuer": {
			docs: map[string]string{prmPath: prm, asOAuth: at("https://attacker.example.com")},
			want: `issuer "https://attacker.example.com", which is another`, as: 2,
		},
		"issuer that only looks the same": {
			docs: map[string]string{prmPath: strings.Replace(prm, "{as}", "{as}/T", 1), asOAuth + "/T": at("{as}/t")}, want: "which is another", as: 4,
		},
		"no issuer": {docs: map[string]string{prmPath: prm, asOAuth: without(asMeta, `"issuer":"{as}",`)}, want: `issuer ""`, as: 2},
		"origin as issuer, appended": {
			docs: map[string]string{prmPath: strings.Replace(prm, "{as}", "{as}/t", 1), "as/t/.well-known/openid-configuration": asMeta},
			want: "which is another", as: 4,
		},
		"no PKCE":    {docs: map[string]string{prmPath: prm, asOAuth: without(asMeta, pkce)}, want: "PKCE", as: 2},
		"plain PKCE": {docs: map[string]string{prmPath: prm, asOAuth: strings.Replace(asMeta, "S256", "plain", 1)}, want: "PKCE", as: 2},
		"no PKCE, 2025-03-26": {
			docs: map[string]string{"mcp/.well-known/oauth-authorization-server": without(at("{mcp}"), pkce)}, want: "PKCE",
		},
		"no token endpoint": {docs: map[string]string{prmPath: prm, asOAuth: without(asMeta, `"token_endpoint":"{as}/token",`)}, want: "token_endpoint", as: 2},
		"script as authorization endpoint": {
			docs: map[string]string{prmPath: prm, asOAuth: strings.Replace(asMeta, "{as}/authorize", "javascript:alert(1)", 1)}, want: "authorization_endpoint: is not", as: 2,
		},
		"command as authorization endpoint": {
			docs: map[string]string{prmPath: prm, asOAuth: strings.Replace(asMeta, "{as}/authorize", "a:$(touch /tmp/x)?", 1)}, want: "authorization_endpoint: is not", as: 2,
		},
		"plain http token endpoint": {
			docs: map[string]string{prmPath: prm, asOAuth: strings.Replace(asMeta, "{as}/token", "http://as.example.com/token", 1)}, want: "token_endpoint: is not https", as: 2,
		},
		"private registration endpoint": {
			docs: map[string]string{prmPath: prm, asOAuth: strings.Replace(asMeta, "{as}/register", "https://10.0.0.1/register", 1)}, want: "private address", as: 2,
		},
		"user in the token endpoint": {
			docs: map[string]string{prmPath: prm, asOAuth: strings.Replace(asMeta, "{as}/token", "https://a:b@as.example.com/token", 1)}, want: "holds a user", as: 2,
		},
		"fragment in the token endpoint": {
			docs: map[string]string{prmPath: prm, asOAuth: strings.Replace(asMeta, "{as}/token", "https://as.example.com/token#x", 1)}, want: "fragment", as: 2,
		},
		"query in the issuer": {docs: map[string]string{prmPath: strings.Replace(prm, "{as}", "{as}?x", 1)}, want: "has a query"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(tc.docs)
			p, err := w.discover(t, tc.challenge)
			if p != nil {
				t.Fatalf("got %+v", p)
			}
			wantError(t, err, tc.want)
			if !strings.HasPrefix(fmt.Sprint(err), "server s: oauth: ") {
				t.Errorf("got %v", err)
			}
			if n := len(w.as.requests()); n > tc.as {
				t.Errorf("%d requests to the authorization server: %q", n, w.as.requests())
			}
		})
	}
}

// A server below a path that says it is its origin, as the origin itself says.
func TestDiscoverOriginAsIssuer(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{prmPath: strings.Replace(prm, "{as}", "{as}/t", 1), asOAuth + "/t": asMeta})
	p, err := w.discover(t, "")
	if err != nil || p.Issuer != w.as.URL {
		t.Fatalf("got %+v, %v", p, err)
	}
	if !strings.Contains(w.log.String(), "names its origin") {
		t.Errorf("logged %q", &w.log)
	}
	moved := newWorld(t)
	moved.put(map[string]string{prmPath: strings.Replace(prm, "{as}", "{as}/t", 1), "as/elsewhere": asMeta})
	moved.as.put("/.well-known/oauth-authorization-server/t", http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP)
	_, err = moved.discover(t, "")
	wantError(t, err, "which is another")
}

// Metadata for many tenants name their issuer by a template.
func TestDiscoverTenants(t *testing.T) {
	for _, c := range []struct{ kept, named, want string }{
		{"{as}/common/v2.0", "{as}/{tenantid}/v2.0", "{as}/common/v2.0"},
		{"{as}/common/v2.0", "{as}/{tenantid}/v1.0", ""},
		{"{as}/a/b/v2.0", "{as}/{tenantid}/v2.0", ""},
		{"{as}/common/v2.0", "https://other.example/{tenantid}/v2.0", ""},
		{"{as}/v2.0", "{as}{tenantid}", ""},
	} {
		w := newWorld(t)
		w.put(map[string]string{prmPath: strings.Replace(prm, "{as}", c.kept, 1), asOAuth + strings.TrimPrefix(c.kept, "{as}"): at(c.named)})
		p, err := w.discover(t, "")
		if want := strings.Replace(c.want, "{as}", w.as.URL, 1); want != "" && (err != nil || p.Issuer != want) || want == "" && err == nil {
			t.Errorf("%s with the metadata of %s: %+v, %v", c.kept, c.named, p, err)
		}
	}
}

// Of several authorization servers the first that can be used, of the first ten.
func TestDiscoverSeveral(t *testing.T) {
	list := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"{as}/%d"`, i))
		}
		return `{"resource":"{mcp}/mcp","authorization_servers":[` + strings.Join(names, ",") + `]}`
	}
	w := newWorld(t)
	w.put(map[string]string{prmPath: list(100), asOAuth + "/9": at("{as}/9")})
	if p, err := w.discover(t, ""); err != nil || p.Issuer != w.as.URL+"/9" {
		t.Errorf("got %+v, %v", p, err)
	}
	w = newWorld(t)
	w.put(map[string]string{prmPath: list(100), asOAuth + "/10": at("{as}/10")})
	_, err := w.discover(t, "")
	wantError(t, err, "(and 97 more)")
	if n := len(w.as.requests()); n != 40 {
		t.Errorf("%d requests", n)
	}
	if len(err.Error()) > 600 {
		t.Errorf("long: %v", err)
	}
}

// With flow device the first that has a device endpoint, PKCE or not.
func TestDiscoverDevice(t *testing.T) {
	w := newWorld(t)
	w.server.Settings.Flow = "device"
	w.put(map[string]string{
		prmPath:        `{"resource":"{mcp}/mcp","authorization_servers":["{as}/1","{as}/2"]}`,
		asOAuth + "/1": at("{as}/1"),
		asOAuth + "/2": `{"issuer":"{as}/2","token_endpoint":"{as}/token","device_authorization_endpoint":"{as}/device"}`,
	})
	p, err := w.discover(t, "")
	if err != nil || p.Issuer != w.as.URL+"/2" || p.Meta.DeviceAuthorizationEndpoint != w.as.URL+"/device" {
		t.Errorf("got %+v, %v", p, err)
	}
}

// What is no metadata is none, what fails is no reason to presume the old defaults.
func TestDiscoverOddAnswers(t *testing.T) {
	const page = "<!doctype html><title>app</title>"
	for name, tc := range map[string]struct {
		page http.HandlerFunc
		want string // part of the error; empty: the path's is used
	}{
		"page":         {page: answer(200, "text/html", page)},
		"page as JSON": {page: answer(200, "application/json", page)},
		"error object": {page: answer(200, "application/json", `{"error":"not found"}`)},
		"array":        {page: answer(200, "application/json", `[]`)},
		"cut off":      {page: answer(200, "application/json", prm[:30])},
		"forbidden":    {page: answer(403, "text/plain", "no")},
		"plain type":   {page: answer(200, "text/plain", "{}")},
		"empty":        {page: answer(204, "", "")},
		"broken":       {page: answer(503, "text/plain", "no"), want: "status 503"},
		"busy":         {page: answer(429, "text/plain", "no"), want: "status 429"},
		"10 MiB": {page: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"resource":"` + strings.Repeat("x", 10<<20) + `"}`))
		}, want: "longer than 256 KiB"},
		"redirect loop": {page: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, want: "more than 3 redirects"},
		"redirect inside":               {page: http.RedirectHandler("https://10.0.0.1/x", http.StatusFound).ServeHTTP, want: "private address"},
		"redirect to instance metadata": {page: http.RedirectHandler("http://169.254.169.254/", http.StatusFound).ServeHTTP, want: "plain http"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mcp.put("/.well-known/oauth-protected-resource/mcp", tc.page)
			p, err := w.discover(t, "")
			if tc.want != "" {
				wantError(t, err, tc.want)
			} else if err != nil || !p.Defaults {
				t.Errorf("got %+v, %v", p, err)
			}
			w.put(map[string]string{prmRoot: prm, asOAuth: asMeta})
			if p, err := w.discover(t, ""); err != nil || p.Issuer != w.as.URL {
				t.Errorf("with metadata at the root: got %+v, %v", p, err)
			}
		})
	}
}

func TestDiscoverRedirected(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{"mcp/moved": prm, asOAuth: asMeta})
	w.mcp.put("/.well-known/oauth-protected-resource/mcp", http.RedirectHandler("/moved", http.StatusMovedPermanently).ServeHTTP)
	if p, err := w.discover(t, ""); err != nil || p.Issuer != w.as.URL {
		t.Errorf("got %+v, %v", p, err)
	}
}

// Members of the wrong type are absent, and lists are bounded.
func TestDiscoverWrongTypes(t *testing.T) {
	w := newWorld(t)
	many := strings.Repeat(`"s",`, 5000)
	w.put(map[string]string{
		prmPath: strings.Replace(prm, `["a","b"]`, `[`+many+`"two words","\u0000","`+strings.Repeat("x", 300)+`"]`, 1),
		asOAuth: strings.Replace(asMeta, `{`, `{"scopes_supported":"all","grant_types_supported":null,"client_id_metadata_document_supported":"yes","authorization_response_iss_parameter_supported":true,"extra":{"a":[1]},`, 1),
	})
	p, err := w.discover(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Scopes) != maxListed || p.Meta.ClientIDMetadataDocumentSupported || !p.Meta.AuthorizationResponseIssParameterSupported {
		t.Errorf("got %d scopes, %+v", len(p.Scopes), p.Meta)
	}
}

func TestDiscoverSlow(t *testing.T) {
	for name, page := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drops": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mcp.put("/.well-known/oauth-protected-resource/mcp", page)
			if w.server.HTTP.Timeout != requestTime {
				t.Fatalf("a request may take %v", w.server.HTTP.Timeout)
			}
			w.server.HTTP.Timeout = 50 * time.Millisecond
			begun := time.Now()
			_, err := w.discover(t, "")
			wantError(t, err, "no complete answer in time")
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			w.server.HTTP.Timeout = 0
			if _, err := Discover(ctx, w.server, Challenge{}); err == nil {
				t.Error("the context's end is no error")
			}
		})
	}
}

func TestDiscoverHeaders(t *testing.T) {
	w := newWorld(t)
	w.server.Settings.UserAgent = "own/1"
	w.put(map[string]string{prmPath: prm, asOAuth: asMeta})
	w.server.URL.RawQuery = "key=secret"
	w.mcp.put("/.well-known/oauth-protected-resource/mcp?key=secret", jsonPage(w.fill(prm)))
	p, err := w.discover(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Resource != w.mcp.URL+"/mcp" {
		t.Errorf("got %q", p.Resource)
	}
	for _, h := range append(w.mcp.heads, w.as.heads...) {
		if h.Get("User-Agent") != "own/1" || h.Get("Accept") != "application/json" || h.Get("Accept-Encoding") != "" || h.Get("Cookie") != "" {
			t.Errorf("got %v", h)
		}
	}
	w.mcp.put("/.well-known/oauth-protected-resource/mcp?key=secret", jsonPage(w.fill(strings.Replace(prm, "/mcp", "/x", 1))))
	if _, err = w.discover(t, ""); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestParseChallenge(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []string
		want    Challenge
	}{
		"none": {},
		"full": {
			[]string{`Bearer realm="x", error="insufficient_scope", error_description="no \"b\"", scope="a b", resource_metadata="https://x/y"`},
			Challenge{ResourceMetadata: "https://x/y", Scope: "a b", Error: "insufficient_scope", ErrorDescription: `no "b"`},
		},
		"case and spaces": {[]string{`bEARER Scope = "a" ,ERROR=invalid_token`}, Challenge{Scope: "a", Error: "invalid_token"}},
		"among others": {
			[]string{`Negotiate YII==, Basic realm="Bearer error=\"x\"", scope="wrong", Bearer error="e", Digest scope="d"`, `Bearer scope="late"`},
			Challenge{Error: "e", Scope: "late"},
		},
		"other scheme's metadata": {[]string{`DPoP algs="ES256", error="use_dpop_nonce"`, `Custom resource_metadata="https://x"`}, Challenge{ResourceMetadata: "https://x", Error: "use_dpop_nonce"}},
		"missing commas":          {[]string{`Bearer error="a" error_description="b" resource_metadata="https://x"`}, Challenge{ResourceMetadata: "https://x", Error: "a", ErrorDescription: "b"}},
		"missing quote":           {[]string{`Bearer error="a", scope="b`}, Challenge{Error: "a", Scope: "b"}},
		"junk":                    {[]string{`===,"",,=Bearer = "`, "\x00\xff", `Bearer`}, Challenge{}},
		"first wins":              {[]string{`Bearer scope="a", scope="b"`}, Challenge{Scope: "a"}},
		"control characters":      {[]string{"Bearer error=\"a\\\x01b\", error_description=\"x\x1b[31m\u202ey\", scope=\"a\x00 b\""}, Challenge{ErrorDescription: "x[31my", Scope: "b"}},
		"a token in words":        {[]string{`Bearer error_description="token ` + strings.Repeat("ey", 30) + ` expired"`}, Challenge{ErrorDescription: "token […] expired"}},
		"long":                    {[]string{`Bearer resource_metadata="https://` + strings.Repeat("x", maxURL) + `"`}, Challenge{}},
		"too much":                {[]string{strings.Repeat("x", maxChallenges+1), `Bearer scope="a"`}, Challenge{}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Status = 401
			got := ParseChallenge(401, http.Header{"Www-Authenticate": tc.headers})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="x", scope="a b", resource_metadata="https://x/y"`)
	f.Add(`Negotiate YII==, Bearer error=a`)
	f.Fuzz(func(t *testing.T, h string) {
		c := ParseChallenge(401, http.Header{"Www-Authenticate": {h}})
		if len(c.ErrorDescription) > maxDescription+len("…") || strings.ContainsAny(c.ErrorDescription+c.Scope+c.Error, "\n\r\x00\x1b") {
			t.Errorf("got %+v", c)
		}
	})
}
