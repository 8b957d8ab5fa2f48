package oauth

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

func TestLoginBrowser(t *testing.T) {
	lab := newLoginLab(t)
	l := lab.login(auth.OAuth{})
	if err := l.Run(labContext(t)); err != nil {
		t.Fatal(err)
	}
	e := lab.entry(l)
	if e.Access != labAccess || e.Refresh != labRefresh || e.Issuer != lab.url || e.Scope != "one" || e.URL != lab.url+"/mcp" {
		t.Errorf("stored %q of %q for %q, scope %q", e.Access, e.Issuer, e.URL, e.Scope)
	}
	if d := time.Until(e.Expiry); d < 50*time.Minute || d > 61*time.Minute {
		t.Errorf("expiry in %v, want an hour", d)
	}
	want := Result{Issuer: lab.url, Scope: "one", Asked: "one two", Expiry: e.Expiry, Refresh: true, Client: Registered}
	got := l.Result
	got.Expiry = want.Expiry
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for k, v := range map[string]string{"tenant": "a b", "response_type": "code", "scope": "one two", "resource": lab.url + "/mcp",
		"code_challenge_method": "S256", "client_id": "client-1"} {
		if lab.asked.Get(k) != v {
			t.Errorf("authorize got %s=%q, want %q", k, lab.asked.Get(k), v)
		}
	}
	if n := len(lab.asked.Get("state")); n < 26 { // of 5 bits each
		t.Errorf("state of %d characters is guessable", n)
	}
	lab.noCanary()
}

func TestLoginAgain(t *testing.T) {
	lab := newLoginLab(t)
	l := lab.login(auth.OAuth{})
	var redirects []string
	for range 2 {
		if err := l.Run(labContext(t)); err != nil {
			t.Fatal(err)
		}
		redirects = append(redirects, lab.asked.Get("redirect_uri"))
	}
	if redirects[0] != redirects[1] || len(lab.registered) != 1 {
		t.Errorf("%d registrations with %q, want one", len(lab.registered), redirects)
	}
	u, err := url.Parse(redirects[0])
	if err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp4", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := l.Run(labContext(t)); err != nil || len(lab.registered) != 2 {
		t.Errorf("port busy: %v, %d registrations, want another one", err, len(lab.registered))
	}
	l.Fresh = true
	if err := l.Run(labContext(t)); err != nil || len(lab.registered) != 3 {
		t.Errorf("fresh: %v, %d registrations, want another one", err, len(lab.registered))
	}
}

// RFC 9207 and MCP's table of it; the oddly spelled issuers are other ones.
func TestLoginIss(t *testing.T) {
	const own = "own"
	for _, c := range []struct {
		name      string
		advertise bool
		iss       string // own, or verbatim; empty: missing
		accept    string
		ok        bool
	}{
		{"advertised, right", true, own, "", true},
		{"advertised, missing", true, "", "", false},
		{"advertised, other", true, "https://evil.example", "", false},
		{"advertised, slash added", true, own + "/", "", false},
		{"advertised, upper case", true, "UPPER", "", false},
		{"not advertised, right", false, own, "", true},
		{"not advertised, missing", false, "", "", true},
		{"not advertised, other", false, "https://evil.example", "", false},
		{"missing, accepted", true, "", own, true},
		{"missing, accepted of another", true, "", "https://evil.example", false},
		{"missing, accepted with a slash", true, "", own + "/", false},
		{"other, although missing is accepted", true, "https://evil.example", own, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := newLoginLab(t)
			lab.advertise = c.advertise
			lab.iss = strings.Replace(c.iss, own, lab.url, 1)
			if c.iss == "UPPER" {
				lab.iss = strings.Replace(lab.url, "http", "HTTP", 1)
			}
			l := lab.login(auth.OAuth{AcceptMissingISS: strings.Replace(c.accept, own, lab.url, 1)})
			old := lab.put(l)
			err := l.Run(labContext(t))
			if (err == nil) != c.ok {
				t.Fatalf("error %v, want success: %v", err, c.ok)
			}
			if !c.ok && (lab.tokenForm != nil || cmp.Diff(old, lab.entry(l)) != "") {
				t.Error("the code was used, or the old credentials are gone")
			}
			if warned := strings.Contains(lab.log.String(), "accept_missing_iss"); warned != (c.ok && c.accept != "") {
				t.Errorf("warning given: %v", warned)
			}
			lab.noCanary(err)
		})
	}
}

func TestLoginErrorAnswer(t *testing.T) {
	for _, c := range []struct{ name, iss, want, not string }{
		{"refused", "", `the authorization server answers access_denied ("no \\you")`, "\x1b"},
		{"of another", "https://evil.example", "another authorization server", "access_denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := newLoginLab(t)
			lab.iss = c.iss
			lab.answer = func(q url.Values) {
				q.Del("code")
				q.Set("error", "access_denied")
				q.Set("error_description", "no\x1b\\you\u202e")
			}
			l := lab.login(auth.OAuth{})
			old := lab.put(l)
			err := l.Run(labContext(t))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.not) {
				t.Errorf("error %q, want %q and no %q", err, c.want, c.not)
			}
			if diff := cmp.Diff(old, lab.entry(l)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoginScope(t *testing.T) {
	for _, c := range []struct {
		name      string
		challenge Challenge
		settings  string
		supported []string
		offline   bool
		want      string
	}{
		{name: "of the challenge", challenge: Challenge{Scope: "c"}, settings: "s", supported: []string{"p"}, want: "c"},
		{name: "of the settings", settings: "s", supported: []string{"p"}, want: "s"},
		{name: "of the server", supported: []string{"p", "q", "p"}, want: "p q"},
		{name: "none", want: ""},
		{name: "step-up", challenge: Challenge{Scope: "c", Error: "insufficient_scope"}, supported: []string{"p"}, want: "c zero"},
		{name: "offline", supported: []string{"p"}, offline: true, want: "p offline_access"},
		{name: "no offline for who has decided", settings: "s", offline: true, want: "s"},
		{name: "none, offline", offline: true, want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &Login{Server: &Server{Settings: auth.OAuth{Scope: c.settings}}, Challenge: c.challenge}
			p := &Provider{Issuer: "i", Meta: &Meta{}}
			p.Scopes = c.supported
			if c.offline {
				p.Meta.ScopesSupported = []string{"openid", offlineAccess}
			}
			if got := l.scope(p, &vault.Entry{Issuer: "i", Scope: "zero"}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLoginOfflineAsksForConsent(t *testing.T) {
	p := &Pending{Scope: "a offline_access", State: "s", Verifier: "v"}
	for endpoint, want := range map[string]string{"https://as.example/a": "consent", "https://as.example/a?prompt=login": "login"} {
		raw, err := p.authorizeURL(endpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		if u, _ := url.Parse(raw); u.Query().Get("prompt") != want {
			t.Errorf("%s becomes %s, want prompt %s", endpoint, raw, want)
		}
	}
}

func TestAuthorizeParams(t *testing.T) {
	p := &Pending{Scope: "a", State: "s", Verifier: "v", Client: Client{ID: "me"}}
	raw, err := p.authorizeURL("https://as.example/a?tenant=t&prompt=none", map[string]string{"access_type": "offline", "prompt": "consent & more", "state": "x"})
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(raw)
	for k, want := range map[string]string{"tenant": "t", "access_type": "offline", "prompt": "consent & more", "state": "s", "client_id": "me"} {
		if got := u.Query()[k]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q once", k, got, want)
		}
	}
}

func TestLoginKeepsOldOnFailure(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   map[string]any
	}{
		{"refused", 400, map[string]any{"error": "invalid_grant", "error_description": "spent"}},
		{"down", 503, map[string]any{}},
		{"no token", 200, map[string]any{"token_type": "Bearer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := newLoginLab(t)
			lab.token = func(w http.ResponseWriter) bool { reply(w, c.status, c.body); return true }
			l := lab.login(auth.OAuth{})
			old := lab.put(l)
			err := l.Run(labContext(t))
			if err == nil {
				t.Fatal("it succeeded")
			}
			if diff := cmp.Diff(old, lab.entry(l)); diff != "" {
				t.Error(diff)
			}
			if l.Result != (Result{}) {
				t.Errorf("result %+v of a failure", l.Result)
			}
			lab.noCanary(err)
		})
	}
}

// A client that the provider forgot, or a document that it will not have, must
// not make every later login fail.
func TestLoginUnknownClient(t *testing.T) {
	for _, document := range []bool{false, true} {
		lab := newLoginLab(t)
		bad := true
		lab.token = func(w http.ResponseWriter) bool {
			if bad {
				reply(w, 401, map[string]any{"error": "invalid_client"})
			}
			return bad
		}
		set := auth.OAuth{}
		if document {
			set.ClientMetadataURL = "https://me.example/client.json"
		}
		l := lab.login(set)
		old := lab.put(l)
		if err := l.Run(labContext(t)); err == nil || !strings.Contains(err.Error(), "registers anew") {
			t.Fatalf("document %v: error %v", document, err)
		}
		if document != (lab.asked.Get("client_id") == set.ClientMetadataURL) {
			t.Fatalf("document %v: client %q", document, lab.asked.Get("client_id"))
		}
		e := lab.entry(l)
		if e.Access != old.Access || e.Refresh != old.Refresh || e.RefusedDocument != document {
			t.Errorf("document %v: stored %q, refused %v", document, e.Access, e.RefusedDocument)
		}
		bad = false
		if err := l.Run(labContext(t)); err != nil {
			t.Fatal(err)
		}
		if e := lab.entry(l); e.Client.Kind != Registered || e.RefusedDocument != document {
			t.Errorf("document %v: then a client of kind %q, refused %v", document, e.Client.Kind, e.RefusedDocument)
		}
	}
}

func TestLoginTimeout(t *testing.T) {
	for host, hint := range map[string]bool{"": true, "localhost": false} {
		lab := newLoginLab(t)
		l := lab.login(auth.OAuth{Timeout: 30 * time.Millisecond, RedirectHost: host})
		l.Open = nil
		err := l.Run(labContext(t))
		if !errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), "redirect_host: localhost") != hint {
			t.Errorf("redirect_host %q: %v", host, err)
		}
		if lab.entry(l) != nil {
			t.Error("something is stored")
		}
	}
}

func TestLoginPortBusy(t *testing.T) {
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	lab := newLoginLab(t)
	err = lab.login(auth.OAuth{RedirectPort: port}).Run(labContext(t))
	if err == nil || !strings.Contains(err.Error(), "redirect_port "+strconv.Itoa(port)) {
		t.Errorf("error %v", err)
	}
	if len(lab.registered) != 0 {
		t.Error("a client was registered for nothing")
	}
}

func TestLoginAuthorizeURL(t *testing.T) {
	for _, endpoint := range []string{"http://as.example/authorize", "javascript:alert(1)", "file:///etc/passwd",
		"https://u:p@as.example/", "https://as.example/#f", "https://$(calc.exe)/"} {
		lab := newLoginLab(t)
		lab.meta = func(m map[string]any) { m["authorization_endpoint"] = endpoint }
		l := lab.login(auth.OAuth{})
		l.Open = func(u string) error { t.Errorf("opened %q", u); return nil }
		if err := l.Run(labContext(t)); err == nil {
			t.Errorf("%q: no error", endpoint)
		}
		if s := lab.out.String(); s != "" {
			t.Errorf("%q: printed %q", endpoint, s)
		}
	}
}
