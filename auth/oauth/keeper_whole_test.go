package oauth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

// A keeper with real discovery, a guarded client and a vault on disk.
func TestKeeperWhole(t *testing.T) {
	var forms []url.Values
	mux := http.NewServeMux()
	ts := httptest.NewServer(mux)
	defer ts.Close()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"resource":"%s/mcp","authorization_servers":["%s/as"],"scopes_supported":["a","b"]}`, ts.URL, ts.URL)
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/as", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"issuer":"%s/as","token_endpoint":"%s/token","token_endpoint_auth_methods_supported":["client_secret_basic"]}`, ts.URL, ts.URL)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if id, secret, _ := r.BasicAuth(); id != "bot" || secret != "bot-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		forms = append(forms, r.PostForm)
		fmt.Fprintf(w, `{"access_token":"t%d","expires_in":3600}`, len(forms))
	})
	u, err := url.Parse(ts.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	s := serverAt(t, (&Guard{}).Client(u))
	s.URL = u
	s.Settings.ClientID, s.Settings.ClientSecret = "bot", "bot-secret"
	prove(s, Proof{Grant: GrantClient})
	v := &vault.Vault{Dir: t.TempDir()}
	for range 2 { // the second finds the first one's token
		k := NewKeeper(func() (*Server, error) { return s, nil }, v, nil)
		defer k.Close()
		if got, err := k.Token(t.Context()); got != "t1" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	want := []url.Values{{"grant_type": {"client_credentials"}, "resource": {u.String()}, "scope": {"a b"}}}
	if d := cmp.Diff(want, forms); d != "" {
		t.Error(d)
	}
	e, err := v.Load("hub")
	if err != nil || e.Issuer != ts.URL+"/as" || e.Expiry.Before(time.Now().Add(time.Hour-time.Minute)) || keptProvider(e) == nil {
		t.Errorf("%+v, %v", e, err)
	}
}
