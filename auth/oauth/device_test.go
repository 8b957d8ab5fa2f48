package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// A straight transport has a handler answer without a network, so that time is
// the test's.
type straight struct {
	h     http.Handler
	hangs func(r *http.Request) bool // until the request is given up
}

func (s *straight) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.hangs != nil && s.hangs(r) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	s.h.ServeHTTP(w, in)
	res := w.Result()
	res.Request = r
	return res, nil
}

// deviceLab is a lab without a network, whose device endpoint answers a, and
// whose token endpoint answers the errors in turn and then a token.
func deviceLab(t *testing.T, a map[string]any, errs ...string) (*loginLab, *Login, *[]time.Duration) {
	lab := &loginLab{t: t, url: "http://127.0.0.1:1", devices: map[string]any{
		"device_code": labDevice, "user_code": "WDJB-MJHT", "verification_uri": "https://as.example/device", "expires_in": 600,
	}}
	for k, v := range a {
		lab.devices[k] = v
		if v == nil {
			delete(lab.devices, k)
		}
	}
	last, gaps := time.Now(), &[]time.Duration{}
	lab.poll = func(w http.ResponseWriter, n int) {
		*gaps = append(*gaps, time.Since(last))
		last = time.Now()
		if n > len(errs) {
			reply(w, 200, labTokens())
			return
		}
		status := 400
		if errs[n-1] == "" {
			status = 503
		}
		reply(w, status, map[string]any{"error": errs[n-1]})
	}
	l := lab.login(auth.OAuth{Timeout: defaultPatience})
	l.Flow = FlowDevice
	l.Open = func(string) error { t.Error("a browser was opened"); return nil }
	l.Server.HTTP = &http.Client{Transport: &straight{h: lab}}
	return lab, l, gaps
}

func TestDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab, l, gaps := deviceLab(t, map[string]any{"verification_uri_complete": "https://as.example/device?user_code=WDJB-MJHT"},
			"authorization_pending", "slow_down", "authorization_pending", "slow_down")
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{5, 5, 10, 10, 15}
		for i := range want {
			want[i] *= time.Second
		}
		if diff := cmp.Diff(want, *gaps); diff != "" {
			t.Error(diff)
		}
		if e := lab.entry(l); e == nil || e.Access != labAccess || e.Client.Kind != Registered || len(e.Client.RedirectURIs) != 0 {
			t.Errorf("stored %v", e)
		}
		for _, s := range []string{"https://as.example/device\n", "WDJB-MJHT\n", "https://as.example/device?user_code=WDJB-MJHT\n"} {
			if !strings.Contains(lab.out.String(), s) {
				t.Errorf("printed %q, want %q in it", lab.out.String(), s)
			}
		}
		grants, _ := json.Marshal(lab.registered[0]["grant_types"])
		if string(grants) != `["`+grantDevice+`","refresh_token"]` {
			t.Errorf("registered for %s", grants)
		}
		if f := lab.deviceForm; f.Get("client_id") != "client-1" || f.Get("scope") != "one two" || f.Get("resource") != lab.url+"/mcp" {
			t.Errorf("device endpoint got %v", f)
		}
		if lab.tokenForm.Get("device_code") != labDevice || lab.tokenForm.Get("resource") != lab.url+"/mcp" {
			t.Error("the token endpoint got another code or resource")
		}
		lab.noCanary()
	})
}

func TestDeviceEnds(t *testing.T) {
	always := slices.Repeat([]string{"authorization_pending"}, 1000)
	for _, c := range []struct {
		name    string
		answer  map[string]any
		errs    []string
		timeout time.Duration
		want    string
		took    time.Duration
	}{
		{name: "denied", errs: []string{"authorization_pending", "access_denied"}, want: "refused on the other device", took: 10 * time.Second},
		{name: "expired", errs: []string{"expired_token"}, want: "nobody approved", took: 5 * time.Second},
		{name: "other", errs: []string{"unauthorized_client"}, want: "unauthorized_client", took: 5 * time.Second},
		{name: "code's life", answer: map[string]any{"expires_in": 62}, errs: always, want: "nobody approved", took: 62 * time.Second},
		{name: "our patience", errs: always, timeout: 33 * time.Second, want: "nobody approved", took: 33 * time.Second},
		{name: "absurd life", answer: map[string]any{"expires_in": 1e18}, errs: always, want: "nobody approved", took: 300 * time.Second},
		{name: "no life", answer: map[string]any{"expires_in": nil}, errs: always, want: "nobody approved", took: 300 * time.Second},
		{name: "absurd interval", answer: map[string]any{"interval": 1e8}, errs: always, want: "nobody approved", took: 300 * time.Second},
		{name: "down", errs: make([]string, 1000), timeout: time.Minute, want: "nobody approved", took: time.Minute},
		{name: "script", answer: map[string]any{"verification_uri": "javascript:alert(1)"}, want: "verification_uri"},
		{name: "no uri", answer: map[string]any{"verification_uri": nil}, want: "verification_uri"},
		{name: "no code", answer: map[string]any{"device_code": nil}, want: "no device code"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab, l, _ := deviceLab(t, c.answer, c.errs...)
				if c.timeout != 0 {
					l.Server.Settings.Timeout = c.timeout
				}
				old, began := lab.put(l), time.Now()
				err := l.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if diff := cmp.Diff(old, lab.entry(l)); diff != "" {
					t.Error(diff)
				}
				lab.noCanary(err)
			})
		})
	}
}

// RFC 8628, section 3.5: a request that times out doubles the interval.
func TestDeviceTimeoutSlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab, l, gaps := deviceLab(t, map[string]any{"interval": "3"}, "authorization_pending")
		hung := false
		l.Server.HTTP.Transport.(*straight).hangs = func(r *http.Request) bool {
			first := r.URL.Path == "/token" && !hung
			hung = hung || first
			return first
		}
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]time.Duration{tokenWait + 9*time.Second, 6 * time.Second}, *gaps); diff != "" { // 3, hanging, 6
			t.Error(diff)
		}
		lab.noCanary()
	})
}

func TestDeviceGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab, l, _ := deviceLab(t, nil, slices.Repeat([]string{"authorization_pending"}, 100)...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(12*time.Second, cancel)
		if err := l.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if lab.entry(l) != nil {
			t.Error("something is stored")
		}
	})
}

func TestDeviceOffered(t *testing.T) {
	for _, c := range []struct {
		name string
		meta func(m map[string]any)
		want string // of the error; empty: none
	}{
		{"no grants listed", func(map[string]any) {}, ""},
		{"listed", func(m map[string]any) { m["grant_types_supported"] = []string{"authorization_code", grantDevice} }, ""},
		{"not listed", func(m map[string]any) { m["grant_types_supported"] = []string{"authorization_code"} }, "--flow browser"},
		{"no endpoint", func(m map[string]any) { delete(m, "device_authorization_endpoint") }, "no device_authorization_endpoint"},
	} {
		synctest.Test(t, func(t *testing.T) {
			lab, l, _ := deviceLab(t, nil)
			lab.meta = c.meta
			l.Flow, l.Server.Settings.Flow = "", FlowDevice
			err := l.Run(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v", c.name, err)
			}
			if c.want != "" && len(lab.registered) > 0 {
				t.Errorf("%s: a client was registered for nothing", c.name)
			}
		})
	}
}

// A user code is shown as text, and as no more of it than a person would type.
func TestDeviceHostileText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab, l, _ := deviceLab(t, map[string]any{
			"user_code":                 "AB\x1b[2J\nC\u202eD" + strings.Repeat("x", 5000),
			"verification_uri_complete": "http://evil.example/",
		})
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := lab.out.String()
		if strings.ContainsAny(out, "\x1b\u202e") || len(out) > 1000 || strings.Contains(out, "evil") {
			t.Errorf("printed %q", out)
		}
	})
}

func TestLenientSeconds(t *testing.T) {
	for raw, want := range map[string]time.Duration{"5": 5 * time.Second, `"7"`: 7 * time.Second, "1.5": 1500 * time.Millisecond,
		"-1": 0, "0": 0, "1e18": 0, `"x"`: 0, "null": 0, "": 0, "[]": 0} {
		if got := lenientSeconds(json.RawMessage(raw)); got != want {
			t.Errorf("%q: got %v, want %v", raw, got, want)
		}
	}
}
