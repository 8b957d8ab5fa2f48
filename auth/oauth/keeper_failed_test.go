package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
)

func TestKeeperEarlyRefusal(t *testing.T) {
	for _, code := range []string{"invalid_grant", "invalid_request", "invalid_client"} {
		inBubble(t, code, func(t *testing.T) {
			r := newRig(t, hourLogin())
			r.p.replies = append(r.p.replies, refusesWith(400, code))
			time.Sleep(59 * time.Minute)
			r.token("access-0")
			r.token("access-0")
			time.Sleep(30 * time.Second)
			r.token("access-0")
			r.requests(1)
			if r.m.read().Refresh != "refresh-0" || r.m.read().Client == nil {
				t.Error("something was dropped early")
			}
			time.Sleep(30 * time.Second) // the end
			r.token("access-1")
			r.requests(2)
			if strings.Contains(r.logs.String(), "refresh-0") {
				t.Error(r.logs.String())
			}
		})
	}
}

func TestKeeperTroubleOnTheWay(t *testing.T) {
	for name, reply := range map[string]func(http.ResponseWriter, url.Values){
		"unreachable": noAnswer, "503": saysOnce(503, "<h1>down</h1>"), "portal": saysOnce(200, "<html>sign in"), "429": refusesWith(429, "slow_down"),
		"firewall": saysOnce(403, "<h1>Forbidden</h1>"), "gone": saysOnce(404, "not found"), "redirect": saysOnce(302, ""), "no token": saysOnce(200, "{}"),
	} {
		inBubble(t, name, func(t *testing.T) {
			r := newRig(t, hourLogin())
			r.p.replies = append(r.p.replies, reply, reply, reply)
			time.Sleep(59 * time.Minute)
			r.token("access-0")
			time.Sleep(10 * time.Second)
			r.token("access-0")
			r.requests(2)
			if err := r.refused("access-0", unauthorized, false); err == nil || isLogin(err) != nil {
				t.Errorf("got %v, want an error that is no matter of login", err)
			}
			time.Sleep(time.Minute)
			if err := r.tokenError(); isLogin(err) != nil {
				t.Errorf("got %v", err)
			}
			time.Sleep(time.Minute)
			r.token("access-1")
		})
	}
}

func TestKeeperRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, code, reason string
		status             int
		kind               string
		want               vault.Entry // of what may be dropped
	}{
		{"grant", "invalid_grant", "does not take the refresh token any more (invalid_grant: no [redacted])", 400, Registered,
			vault.Entry{Access: "access-0", Client: &vault.Client{ID: "dyn"}}},
		{"client", "invalid_client", "does not know our client any more (invalid_client", 401, Registered, vault.Entry{Access: "access-0"}},
		{"document", "invalid_client", "does not know our client any more", 401, Document, vault.Entry{Access: "access-0", RefusedDocument: true}},
		{"another", "unauthorized_client", "refuses to refresh the token (unauthorized_client", 400, Registered,
			vault.Entry{Access: "access-0", Refresh: "refresh-0", Client: &vault.Client{ID: "dyn"}}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			e := hourLogin()
			e.Client.Kind = tt.kind
			r := newRig(t, e)
			r.p.replies = append(r.p.replies, refusesWith(tt.status, tt.code))
			l := r.needsLogin(r.refused("access-0", unauthorized, false), tt.reason)
			te := (*TokenError)(nil)
			if !errors.As(l, &te) || te.Code != tt.code || l.Command != "mcp-sidecar login hub" || l.Challenge != unauthorized {
				t.Errorf("%+v", l)
			}
			for range 3 { // no loop
				_ = r.needsLogin(r.refused("access-0", unauthorized, false), "")
			}
			r.requests(1)
			e2 := r.m.read()
			got := vault.Entry{Access: e2.Access, Refresh: e2.Refresh, RefusedDocument: e2.RefusedDocument}
			if e2.Client != nil {
				got.Client = &vault.Client{ID: e2.Client.ID}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			r.token("access-0") // the server may have been wrong
			time.Sleep(time.Hour)
			if tt.want.Refresh == "" {
				r.needsLogin(r.tokenError(), "over since")
				r.requests(1)
			}
		})
	}
}

func TestKeeperConfiguredClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Client = &vault.Client{ID: "mine", Secret: "old", AuthMethod: "client_secret_post", Kind: Configured, Issuer: keptIssuer}
		r := newRig(t, e)
		r.s.Settings.ClientID, r.s.Settings.ClientSecret = "mine", "new-secret"
		r.refused("access-0", unauthorized, true)
		if got := r.p.forms[0]; got.Get("client_secret") != "new-secret" {
			t.Errorf("sent %q", got.Get("client_secret"))
		}
		r.p.replies = append(r.p.replies, refusesWith(401, "invalid_client"))
		time.Sleep(time.Hour)
		r.needsLogin(r.tokenError(), "does not take oauth.client_id or oauth.client_secret")
		if r.m.read().Refresh == "" {
			t.Error("the refresh token was dropped for a wrong setting")
		}
		r.s.Settings.ClientID = "other"
		r.m.write(r.m.read())
		r.token("") // what was got for another client is not used
		r.requests(2)
	})
}

func TestKeeperOtherAddress(t *testing.T) {
	for _, kept := range []string{"http://mcp.example.com/mcp", "https://mcp.example.com:8443/mcp", "https://evil.example/mcp", "%zz"} {
		synctest.Test(t, func(t *testing.T) {
			e := hourLogin()
			e.URL = kept
			r := newRig(t, e)
			r.token("")
			r.needsLogin(r.refused("", unauthorized, false), "none are kept")
			r.requests(0)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.URL = "HTTPS://MCP.example.com:443/other"
		newRig(t, e).token("access-0")
	})
}

func TestKeeperIssuerChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.issuer = "https://new.example"
		time.Sleep(59 * time.Minute)
		r.token("access-0")
		if got := r.m.read(); got.Refresh != "" || got.Access == "" || got.Issuer != keptIssuer {
			t.Errorf("%+v", got)
		}
		r.token("access-0")
		time.Sleep(time.Minute)
		r.needsLogin(r.tokenError(), "over since")
		r.requests(0)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.issuer = "https://new.example"
		r.needsLogin(r.refused("access-0", unauthorized, false), `was "https://as.example" and is "https://new.example" now`)
		r.requests(0)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.issuer = keptIssuer + "/" // no other
		r.refused("access-0", unauthorized, true)
		r.requests(1)
	})
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Client.Issuer = "https://old.example" // whose client it was
		r := newRig(t, e)
		r.needsLogin(r.refused("access-0", unauthorized, false), "another authorization server")
		r.requests(0)
	})
}

// Metadata that cannot be found for a moment do not make another server of it.
func TestKeeperMetadataGone(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := hourLogin()
			if known {
				e.Provider, _ = json.Marshal(providerAt(keptIssuer))
			}
			r := newRig(t, e)
			r.issuer, r.legacy = "https://mcp.example.com", true
			err := r.refused("access-0", unauthorized, known)
			if !known && (isLogin(err) != nil || !strings.Contains(err.Error(), "no metadata name one now")) {
				t.Errorf("got %v", err)
			}
			if got := r.m.read(); got.Refresh == "" {
				t.Error("the refresh token was dropped")
			}
			r.issuer, r.legacy = keptIssuer, false
			time.Sleep(2 * time.Minute)
			r.refused(r.m.read().Access, unauthorized, true)
			if r.issuer, r.legacy = "https://mcp.example.com", true; r.m.read().Issuer != keptIssuer {
				t.Error("the issuer changed")
			}
		})
	}
}

func TestKeeperDiscoveryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Provider, _ = json.Marshal(providerAt(keptIssuer))
		r := newRig(t, e)
		r.fails = errors.New("no route")
		r.refused("access-0", unauthorized, true)
	})
	synctest.Test(t, func(t *testing.T) {
		e := hourLogin()
		e.Provider, _ = json.Marshal(providerAt("https://other.example")) // not whose the token is
		r := newRig(t, e)
		r.fails = errors.New("no route")
		if err := r.refused("access-0", unauthorized, false); err == nil || isLogin(err) != nil {
			t.Errorf("got %v", err)
		}
		r.requests(0)
		time.Sleep(59 * time.Minute)
		r.token("access-0")
	})
}

// A server that takes no token at all has us refresh once, not for ever.
func TestKeeperFreshTokenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		r.refused("access-0", unauthorized, true)
		r.refused("access-0", unauthorized, true) // it went out before
		r.needsLogin(r.refused("access-1", unauthorized, false), "a token that was just got")
		r.requests(1)
		time.Sleep(2 * time.Minute)
		r.refused("access-1", unauthorized, true) // revoked meanwhile
		r.requests(2)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		for i := range 4 { // it does revoke
			r.refused(fmt.Sprintf("access-%d", i), unauthorized, true)
			time.Sleep(leastSpell << i)
		}
		r.requests(4)
		for i := range 600 { // it takes none
			_, _ = r.k.Refused(t.Context(), r.m.read().Access, unauthorized)
			time.Sleep(time.Second)
			if i == 0 {
				r.requests(5)
			}
		}
		if got := r.p.asked(); got > 16 {
			t.Errorf("%d requests in ten minutes", got)
		}
	})
}

func TestKeeperClockJumps(t *testing.T) {
	inBubble(t, "forward", func(t *testing.T) {
		r := newRig(t, hourLogin())
		e := hourLogin()
		e.Expiry, e.Updated = time.Now().Add(-365*24*time.Hour), time.Now().Add(-366*24*time.Hour)
		r.m.write(*e)
		r.token("access-1")
	})
	inBubble(t, "back", func(t *testing.T) {
		r := newRig(t, hourLogin())
		e := hourLogin()
		e.Expiry, e.Updated = time.Now().Add(366*24*time.Hour), time.Now().Add(365*24*time.Hour)
		r.m.write(*e)
		time.Sleep(2 * time.Hour)
		r.token("access-0") // the clock says that it is good
		r.refused("access-0", unauthorized, true)
		r.token("access-1")
	})
}

func TestKeeperServerFails(t *testing.T) {
	k := newKeeper(func() (*Server, error) { return nil, errors.New("upstream hub: secret not set") }, newMemory(nil), func(string) any { return 0 }, nil)
	if _, err := k.Token(t.Context()); err == nil {
		t.Error("want its error")
	}
	if _, err := k.Refused(t.Context(), "x", unauthorized); err == nil {
		t.Error("want its error")
	}
	if k.Stamp() != 0 {
		t.Error("stamp")
	}
}
