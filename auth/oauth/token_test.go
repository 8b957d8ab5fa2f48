package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// endpoint is a token endpoint at a real socket and a server that uses it.
func tokensAt(t *testing.T, h http.HandlerFunc) (*Server, *Provider) {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	hc := ts.Client()
	t.Cleanup(hc.CloseIdleConnections)
	return serverAt(t, hc), providerAt(ts.URL)
}

func serverAt(t testing.TB, hc *http.Client) *Server {
	t.Helper()
	u, err := url.Parse("https://mcp.example.com/mcp")
	if err != nil {
		t.Fatal(err)
	}
	return &Server{Name: "hub", URL: u, HTTP: hc, Log: slog.New(slog.DiscardHandler)}
}

func providerAt(issuer string) *Provider {
	return &Provider{Issuer: issuer, Meta: &Meta{Issuer: issuer, TokenEndpoint: issuer + "/token"}}
}

// prove gives s the settings of a server that needs no person.
func prove(s *Server, m Proof) {
	o := &s.Settings
	o.Grant, o.PrivateKeyFile, o.PrivateKeyID, o.SigningAlgorithm = m.Grant, m.KeyFile, m.KeyID, m.Algorithm
	o.AssertionFile, o.AssertionAudience = m.AssertionFile, m.Audience
}

// says answers each request alike.
func saysAlways(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestTokenRequests(t *testing.T) {
	type seen struct {
		Form url.Values
		Auth string
	}
	plain := &Client{ID: "me", AuthMethod: "none"}
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context, s *Server, p *Provider) (*Token, error)
		want seen
	}{
		{"code", func(ctx context.Context, s *Server, p *Provider) (*Token, error) {
			return Exchange(ctx, s, p, plain, "c0de", "ver", "http://127.0.0.1:1/callback")
		}, seen{Form: url.Values{"grant_type": {"authorization_code"}, "code": {"c0de"}, "code_verifier": {"ver"},
			"redirect_uri": {"http://127.0.0.1:1/callback"}, "client_id": {"me"}, "resource": {"https://mcp.example.com/mcp"}}}},
		{"refresh", func(ctx context.Context, s *Server, p *Provider) (*Token, error) {
			return Refresh(ctx, s, p, plain, "r1", "")
		}, seen{Form: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"r1"}, "client_id": {"me"}, "resource": {"https://mcp.example.com/mcp"}}}},
		{"refresh with post, of what the server calls itself", func(ctx context.Context, s *Server, p *Provider) (*Token, error) {
			p.Resource = "https://mcp.example.com"
			return Refresh(ctx, s, p, &Client{ID: "me", Secret: "s3cret&"}, "r1", "a b")
		}, seen{Form: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"r1"}, "scope": {"a b"}, "client_id": {"me"},
			"client_secret": {"s3cret&"}, "resource": {"https://mcp.example.com"}}}},
		{"client credentials with basic", func(ctx context.Context, s *Server, p *Provider) (*Token, error) {
			return ClientCredentials(ctx, s, p, &Client{ID: "m:e", Secret: "a b%ü", AuthMethod: "client_secret_basic"}, "x")
		}, seen{Form: url.Values{"grant_type": {"client_credentials"}, "scope": {"x"}, "resource": {"https://mcp.example.com/mcp"}},
			Auth: "m%3Ae:a+b%25%C3%BC"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got seen
			s, p := tokensAt(t, func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				id, secret, ok := r.BasicAuth()
				got.Form = r.PostForm
				if ok {
					got.Auth = id + ":" + secret
				}
				saysAlways(200, "application/json", `{"access_token":"a"}`)(w, r)
			})
			if _, err := tt.do(t.Context(), s, p); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTokenRequestNeverRedirected(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var n int
		s, p := tokensAt(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			http.Redirect(w, r, "/elsewhere", status)
		})
		_, err := Refresh(t.Context(), s, p, &Client{ID: "me"}, "r1-secret-refresh", "")
		te := (*TokenError)(nil)
		if !errors.As(err, &te) || te.final() || n != 1 || !strings.Contains(err.Error(), "redirects of token requests are not followed") {
			t.Errorf("%d: %d requests, %v", status, n, err)
		}
	}
}

func TestUserAgent(t *testing.T) {
	var got string
	s, p := tokensAt(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.UserAgent()
		saysAlways(200, "", `{"access_token":"a"}`)(w, r)
	})
	s.Settings = auth.OAuth{UserAgent: "special/1"}
	s.HTTP.Timeout = 1 // for other requests
	if _, err := Refresh(t.Context(), s, p, &Client{ID: "me"}, "r", ""); err != nil || got != "special/1" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTokenAnswers(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for _, tt := range []struct {
		name, kind, body string
		want             Token
	}{
		{"all", "application/json", `{"access_token":"a","token_type":"bearer","refresh_token":"r","scope":"x  y","expires_in":60}`, Token{"a", "Bearer", "r", "x y", in(time.Minute)}},
		{"least", "", `{"access_token":"a"}`, Token{Access: "a", Type: "Bearer"}},
		{"wrong content type", "text/html", `{"access_token":"a","expires_in":"60"}`, Token{Access: "a", Type: "Bearer", Expiry: in(time.Minute)}},
		{"float", "", `{"access_token":"a","expires_in":1.5}`, Token{Access: "a", Type: "Bearer", Expiry: in(1500 * time.Millisecond)}},
		{"exponent", "", `{"access_token":"a","expires_in":3.6e3}`, Token{Access: "a", Type: "Bearer", Expiry: in(time.Hour)}},
		{"float string", "", `{"access_token":"a","expires_in":" 60.0"}`, Token{Access: "a", Type: "Bearer"}},
		{"negative", "", `{"access_token":"a","expires_in":-1}`, Token{Access: "a", Type: "Bearer"}},
		{"zero", "", `{"access_token":"a","expires_in":0}`, Token{Access: "a", Type: "Bearer"}},
		{"huge", "", `{"access_token":"a","expires_in":1e18}`, Token{Access: "a", Type: "Bearer"}},
		{"endless", "", `{"access_token":"a","expires_in":1e999}`, Token{Access: "a", Type: "Bearer"}},
		{"NaN", "", `{"access_token":"a","expires_in":"NaN"}`, Token{Access: "a", Type: "Bearer"}},
		{"no number", "", `{"access_token":"a","expires_in":"abc"}`, Token{Access: "a", Type: "Bearer"}},
		{"object", "", `{"access_token":"a","expires_in":{},"scope":{},"refresh_token":7}`, Token{Access: "a", Type: "Bearer"}},
		{"list of scopes", "", `{"access_token":"a","scope":["x","y"]}`, Token{Access: "a", Type: "Bearer", Scope: "x y"}},
		{"scope with a line", "", `{"access_token":"a","scope":"x\ny"}`, Token{Access: "a", Type: "Bearer"}},
		{"form", "application/x-www-form-urlencoded", "access_token=a&scope=x%20y&expires_in=60", Token{Access: "a", Type: "Bearer", Scope: "x y", Expiry: in(time.Minute)}},
		{"byte order mark", "", "\ufeff" + `{"access_token":"a"}`, Token{Access: "a", Type: "Bearer"}},
		{"error beside a token", "", `{"access_token":"a","error":""}`, Token{Access: "a", Type: "Bearer"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, status := range []int{200, 201, 203} {
				a := &tokenAnswer{status, tt.kind, []byte(tt.body)}
				got, fault := a.token(now)
				if fault != nil {
					t.Fatal(fault)
				}
				if d := cmp.Diff(tt.want, *got); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestTokenFaults(t *testing.T) {
	const canary = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl0canary"
	for _, tt := range []struct {
		name       string
		status     int
		kind, body string
		want       string // what the error says after the origin
		code       string
		final      bool
	}{
		{"no access token", 200, "application/json", `{"token_type":"Bearer"}`, "answered 200: its answer has no access_token", "", false},
		{"MAC", 200, "application/json", `{"access_token":"` + canary + `","token_type":"MAC"}`, "answered 200: its token_type is not Bearer, which is all that MCP servers take", "", false},
		{"DPoP", 200, "application/json", `{"access_token":"` + canary + `","token_type":"DPoP"}`, "answered 200: its token_type is not Bearer, which is all that MCP servers take", "", false},
		{"token with a line", 200, "application/json", `{"access_token":"a\r\nX: y"}`, "answered 200: its access_token fits into no header", "", false},
		{"page", 200, "text/html", `<html><title>Sign in</title>` + canary, "answered 200: its answer is no JSON object; is something in between?", "", false},
		{"list", 200, "application/json", `[]`, "answered 200: its answer is no JSON object; is something in between?", "", false},
		{"null", 200, "application/json", `null`, "answered 200: its answer is no JSON object; is something in between?", "", false},
		{"error with 200", 200, "application/json", `{"error":"bad_verification_code"}`, "answered 200 bad_verification_code", "bad_verification_code", true},
		{"error in a form", 200, "application/x-www-form-urlencoded", `error=invalid_grant&error_description=no+more`, "answered 200 invalid_grant: no more", "invalid_grant", true},
		{"grant", 400, "application/json", `{"error":"invalid_grant","error_description":"<b>Gone</b>\n\u001b[31m ` + canary + `"}`, "answered 400 invalid_grant: Gone [31m [redacted]", "invalid_grant", true},
		{"grant with 500", 500, "application/json", `{"error":"invalid_grant"}`, "answered 500 invalid_grant", "invalid_grant", true},
		{"client in a page", 401, "text/html", `<h1>401</h1> invalid_client: who?`, "answered 401 invalid_client", "invalid_client", true},
		{"client as part of a word", 401, "text/plain", `invalid_client_metadata`, "answered 401: invalid_client_metadata", "", true},
		{"client somewhere else", 403, "text/html", `invalid_client`, "answered 403: invalid_client", "", false},
		{"unavailable", 400, "application/json", `{"error":"temporarily_unavailable"}`, "answered 400 temporarily_unavailable", "temporarily_unavailable", false},
		{"busy", 429, "application/json", `{"error":"invalid_request"}`, "answered 429 invalid_request", "invalid_request", false},
		{"down", 503, "text/html", `<html><script>var t="` + canary + `"</script><p>Down for&nbsp;now</p>`, "answered 503: Down for&nbsp;now", "", false},
		{"error that is no code", 400, "application/json", `{"error":"<script>","message":"nope"}`, "answered 400: nope", "", true},
		{"error object", 400, "application/json", `{"error":{"message":"x"}}`, "answered 400", "", true},
		{"secret as a code", 400, "application/json", `{"error":"plain_refresh_secret"}`, "answered 400 [redacted]", "[redacted]", true},
		{"token as a code", 400, "application/json", `{"error":"` + strings.ReplaceAll(canary, "_", "") + `"}`, "answered 400 [redacted]", "[redacted]", true},
		{"labelled", 400, "text/plain", `refresh_token=abc, client_secret: "d e", Bearer abcdef`, "answered 400: refresh_token=[redacted], client_secret: \"[redacted] e\", Bearer [redacted]", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, p := tokensAt(t, saysAlways(tt.status, tt.kind, tt.body))
			_, err := Refresh(t.Context(), s, p, &Client{ID: "me"}, "plain_refresh_secret", "")
			te := (*TokenError)(nil)
			if !errors.As(err, &te) {
				t.Fatalf("got %v, want a TokenError", err)
			}
			want := "server hub: oauth: token endpoint " + p.Issuer + " " + tt.want
			if te.Error() != want || te.Code != tt.code || te.final() != tt.final || te.Status != tt.status {
				t.Errorf("got %q, code %q, final %v\nwant %q", te.Error(), te.Code, te.final(), want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Error("the error repeats a token")
			}
		})
	}
}

// What net/http says about a broken answer repeats it, and that may be what we sent.
func TestTokenAnswersBroken(t *testing.T) {
	for _, answer := range []string{
		"%s\r\n\r\n",
		"HTTP/1.1 %s\r\n\r\n",
		"HTTP/1.1 200 OK\r\n%s\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
	} {
		for name, said := range map[string]string{"ours": "refresh-canary", "its own": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl0canary"} {
			s, p := tokensAt(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, answer, said)
			})
			_, err := Refresh(t.Context(), s, p, &Client{ID: "me"}, "refresh-canary", "")
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%q, %s: %v", answer, name, err)
			}
		}
	}
}

func TestTokenAnswerTooLarge(t *testing.T) {
	s, p := tokensAt(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"access_token":"a","x":"`)
		for range 5 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	_, err := Refresh(t.Context(), s, p, &Client{ID: "me"}, "r", "")
	if err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestTokenEndpointUnfit(t *testing.T) {
	for _, to := range []string{"", "/token", "file:///etc/passwd", "javascript:alert(1)", "https://user:hunter2@as.example/token", "https://as.example/t#x"} {
		s := serverAt(t, http.DefaultClient)
		p := providerAt("https://as.example")
		p.Meta.TokenEndpoint = to
		_, err := Refresh(t.Context(), s, p, &Client{ID: "me"}, "r", "")
		if err == nil || !strings.HasPrefix(err.Error(), "server hub: oauth: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", to, err)
		}
	}
}

func TestRedact(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"The refresh token has expired.", "The refresh token has expired."},
		{"AADSTS700082: The refresh token has expired due to inactivity.", "AADSTS700082: The refresh token has expired due to inactivity."},
		{"see https://as.example/docs/errors", "see https://as.example/docs/errors"},
		{"bad a-known-secret here", "bad [redacted] here"},
		{"bad a-<b>known</b>-secret here", "[redacted]"},
		{"bad a-known-\u200b\nsecret here", "[redacted]"},
		{"got ghp_0123456789abcdefABCDEF0123456789abcd", "got [redacted]"},
		{"token '4f9c'", "token '[redacted]'"},
		{"url https://x/?code=abc&state=1", "url https://x/?code=[redacted]&state=1"},
		{"a\x00b\u202ec\td", "a b c d"},
		{"<img src=x", ""},
		{"\xff\xfeok", "ok"},
		{strings.Repeat("é ", 300), strings.Repeat("é ", 99) + "é…"},
	} {
		if got := redact(tt.in, []string{"a-known-secret", "", "x"}); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzTokenAnswer(f *testing.F) {
	f.Add([]byte(`{"access_token":"a","expires_in":"1e3","scope":["x"]}`), "application/json")
	f.Add([]byte("access_token=a&expires_in=1"), "text/plain")
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		got, fault := (&tokenAnswer{200, kind, body}).token(now)
		if (got == nil) == (fault == nil) {
			t.Fatal("neither or both")
		}
		if got != nil && (got.Access == "" || !visible(got.Access) || !got.Expiry.IsZero() && got.Expiry.Before(now)) {
			t.Fatalf("%+v", got)
		}
		if fault != nil && len([]rune(redact(fault.Description, nil))) > maxSaid {
			t.Fatal("too long")
		}
	})
}
