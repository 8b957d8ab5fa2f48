package oauth

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeeperForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		if err := r.refused("access-0", Challenge{Status: 403}, false); err != nil {
			t.Error(err)
		}
		r.refused("access-old", Challenge{Status: 403}, true)
		r.requests(0)
	})
}

func TestKeeperStepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		more := Challenge{Status: 403, Error: "insufficient_scope", Scope: "write read"}
		login := func(n int) string {
			e := hourLogin()
			e.Access, e.Refresh = fmt.Sprintf("login-%d", n), fmt.Sprintf("r-%d", n)
			r.m.write(*e)
			return e.Access
		}
		used := "access-0"
		for n := range maxSteps {
			for range 10 { // one login answers them all
				l := r.needsLogin(r.refused(used, more, false), "it wants scope")
				if l.Permanent || l.Challenge.Scope != "read write" || l.Command == "" {
					t.Fatalf("login %d: %+v", n, l)
				}
			}
			used = login(n)
		}
		for range 3 {
			l := r.needsLogin(r.refused(used, more, false), "still wants more after 3 attempts")
			if !l.Permanent || l.Command != "" {
				t.Errorf("%+v", l)
			}
		}
		other := more
		other.Scope = "admin"
		if l := r.needsLogin(r.refused(used, other, false), "it wants"); l.Permanent {
			t.Error("another set of scopes is refused, too")
		}
		r.requests(0)
	})
}

// Refreshes are no attempts to log in.
func TestKeeperStepUpOverDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hourLogin())
		used := "access-0"
		for n := range 5 {
			l := r.needsLogin(r.refused(used, Challenge{Status: 403, Error: "insufficient_scope", Scope: "write"}, false), "")
			if l.Permanent {
				t.Fatal("given up without a login")
			}
			time.Sleep(59 * time.Minute)
			used = fmt.Sprintf("access-%d", n+1)
			r.token(used)
		}
	})
}

func TestKeeperClientCredentials(t *testing.T) {
	setup := func(t *testing.T) *rig {
		r := newRig(t, nil)
		r.s.Settings.ClientID, r.s.Settings.ClientSecret, r.s.Settings.Scope = "bot", "bot-secret", "base"
		prove(r.s, Proof{Grant: GrantClient})
		return r
	}
	inBubble(t, "life", func(t *testing.T) {
		r := setup(t)
		r.token("access-1")
		if f := r.p.forms[0]; f.Get("grant_type") != "client_credentials" || f.Get("scope") != "base" || f.Get("client_secret") != "bot-secret" {
			t.Error(f)
		}
		if e := r.m.read(); e.Refresh != "" || e.Client.Secret != "" || e.Scope != "base" {
			t.Errorf("%+v", e)
		}
		time.Sleep(59 * time.Minute)
		r.token("access-2")
		r.refused("access-2", unauthorized, true)
		r.token("access-3")
		r.requests(3)
	})
	inBubble(t, "more scopes", func(t *testing.T) {
		r := setup(t)
		r.token("access-1")
		more := Challenge{Status: 403, Error: "insufficient_scope", Scope: "write"}
		for n := range maxSteps {
			r.refused(fmt.Sprintf("access-%d", n+1), more, true)
		}
		if got := r.p.forms[1].Get("scope"); got != "base write" {
			t.Errorf("asked for %q", got)
		}
		l := r.needsLogin(r.refused("access-4", more, false), "still wants more")
		if !l.Permanent || l.Command != "" {
			t.Errorf("%+v", l)
		}
		r.requests(4)
	})
	inBubble(t, "refused", func(t *testing.T) {
		r := setup(t)
		r.p.replies = append(r.p.replies, refusesWith(400, "unauthorized_client"))
		for range 3 {
			if l := r.needsLogin(r.tokenError(), "gives no token"); l.Command != "" || !strings.Contains(l.Error(), "not authorized: ") {
				t.Error(l)
			}
		}
		r.requests(1)
	})
	inBubble(t, "other issuer", func(t *testing.T) {
		r := setup(t)
		r.token("access-1")
		r.issuer = "https://evil.example"
		l := r.needsLogin(r.refused("access-1", unauthorized, false), `is "https://evil.example" now`)
		if l.Command != "mcp-sidecar logout hub" {
			t.Error(l)
		}
		r.requests(1)
	})
}

func TestGrantClientMethod(t *testing.T) {
	s := serverAt(t, nil)
	p := providerAt(keptIssuer)
	s.Settings.ClientID, s.Settings.ClientSecret = "me", "s"
	for _, tt := range []struct {
		offered []string
		want    string
	}{{nil, methodPost}, {[]string{methodBasic}, methodBasic}, {[]string{methodBasic, methodPost}, methodPost}, {[]string{methodJWT}, methodPost}} {
		p.Meta.TokenEndpointAuthMethodsSupported = tt.offered
		c, err := grantClient(s, p)
		if got := methodOf(s, c); err != nil || got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.offered, got, tt.want)
		}
	}
	s.Settings.ClientSecret = ""
	prove(s, Proof{KeyFile: "k"})
	c, err := grantClient(s, p)
	if got := methodOf(s, c); err != nil || got != methodJWT {
		t.Errorf("got %q, %v", got, err)
	}
	s.Settings.ClientID = ""
	prove(s, Proof{Grant: GrantClient})
	if _, err := grantClient(s, p); err == nil || !strings.Contains(err.Error(), "needs oauth.client_id") {
		t.Errorf("got %v", err)
	}
}
