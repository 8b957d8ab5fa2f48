package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
)

// R11: a server gets what is configured for it and what the protocol demands;
// the agent's context, other calls and the server's own cookies add nothing.
func TestHTTPHeaders(t *testing.T) {
	type key struct{}
	f := &fakeHTTP{call: func(w http.ResponseWriter, r *http.Request, m rpc) {
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: "canary"})
		if r.Context().Value(key{}) != nil {
			t.Error("a value of the agent's context arrived")
		}
		result(w, m, `{}`)
	}}
	for _, era := range []Eras{LegacyOnly, ModernOnly} {
		f := newFake(t, &fakeHTTP{modern: true, legacy: true, call: f.call})
		r := resolved(t, strings.Replace(f.URL, "http://", "http://u:p%40@", 1), nil, "X-Api-Key", "k1", "X-User-Id", "me", "Mcp-Session-Id", "mine",
			"Connection", "X-User-Id", "Content-Type", "text/plain", "Idempotency-Key", "1", "Host", "virtual.example")
		r.Protocol = era
		c := dialed(t, r, env{clientVersion: "9.9"})
		ctx := context.WithValue(t.Context(), key{}, "canary")
		for range 2 {
			if _, err := c.Do(ctx, toolCall("x")); err != nil {
				t.Fatal(err)
			}
		}
		want := http.Header{
			"Accept":          {"application/json, text/event-stream"},
			"Accept-Encoding": {"identity"},
			"Authorization":   {"Basic dTpwQA=="},
			"Content-Type":    {"application/json"},
			"User-Agent":      {"mcp-sidecar/9.9"},
			"X-Api-Key":       {"k1"},
			"X-User-Id":       {"me"},
		}
		if era == ModernOnly {
			want[hdrVersion], want[hdrMethod], want[hdrName] = []string{VersionModern}, []string{"tools/call"}, []string{"x"}
		} else {
			want[hdrVersion], want[hdrSession] = []string{"2025-06-18"}, []string{"s0"}
		}
		for _, m := range f.got("tools/call") {
			delete(m.Header, "Content-Length")
			if diff := cmp.Diff(want, m.Header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		}
	}
}

func TestHTTPHost(t *testing.T) {
	f := newFake(t, &fakeHTTP{modern: true, any: func(_ http.ResponseWriter, r *http.Request, _ rpc) bool {
		if r.Host != "virtual.example" {
			t.Errorf("Host: got %q", r.Host)
		}
		return false
	}})
	dialed(t, resolved(t, f.URL, nil, "Host", "virtual.example"), env{})
}

// U8: redirects stay within the origin and keep the method; a stranger gets
// neither the request nor a secret.
func TestHTTPRedirects(t *testing.T) {
	leaks(t)
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the stranger got %s with %v", r.Method, r.Header)
	}))
	t.Cleanup(stranger.Close)
	for _, tt := range []struct {
		status int
		to     string
		ok     bool
		text   string
	}{
		{307, "/mcp/", true, ""},
		{308, "/mcp/", true, ""},
		{307, "mcp/", true, ""},
		{307, "/hop/3", true, ""},
		{307, "/hop/4", false, "redirects more than 3 times"},
		{307, "/loop", false, "redirects more than 3 times"},
		{301, "/mcp/", false, "redirects (301) to http://127.0.0.1:"},
		{302, "/mcp/", false, "redirects (302)"},
		{303, "/mcp/", false, "redirects (303)"},
		{307, stranger.URL + "/x?token=hidden", false, "redirects (307) to " + stranger.URL + "/x, which is not followed: if that is right, set url to it"},
		{308, "http://169.254.169.254/latest", false, "to http://169.254.169.254/latest"},
		{307, "https://127.0.0.1/", false, "to https://127.0.0.1/"},
		{307, "http://u:hidden@127.0.0.1:1/", false, "to http://127.0.0.1:1/"},
		{307, "http://[", false, "without a usable Location"},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.to), func(t *testing.T) {
			f := newFake(t, &fakeHTTP{modern: true, any: func(w http.ResponseWriter, r *http.Request, _ rpc) bool {
				return redirectTo(w, r, tt.status, tt.to)
			}})
			c, err := dialHTTP(t.Context(), resolved(t, f.URL+"/mcp", nil, "Authorization", "hidden"), env{})
			if (err == nil) != tt.ok {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				alive(t, c)
				c.Close()
				return
			}
			if e, ok := err.(*Error); !ok || e.Kind != Config || !e.Unsent || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// redirectTo redirects /mcp to a place, /hop/N over N-1 more hops, and /loop for ever.
func redirectTo(w http.ResponseWriter, r *http.Request, status int, to string) bool {
	switch r.URL.Path {
	case "/mcp":
	case "/loop":
		to = "/loop"
	case "/hop/4", "/hop/3", "/hop/2":
		to = fmt.Sprintf("/hop/%c", r.URL.Path[5]-1)
	default:
		return false
	}
	w.Header().Set("Location", to)
	w.WriteHeader(status)
	return true
}

// agentgateway#3622: a lost session is opened again once for all calls, and
// those that the server refused are sent again.
func TestHTTPSessionLost(t *testing.T) {
	leaks(t)
	f := newFake(t, &fakeHTTP{legacy: true, call: func(w http.ResponseWriter, _ *http.Request, m rpc) { result(w, m, `{"ok":1}`) }})
	var mu sync.Mutex
	var changed []string
	c := dialed(t, resolved(t, f.URL, nil), env{notify: func(m string, _ []byte) {
		mu.Lock()
		defer mu.Unlock()
		changed = append(changed, m)
	}})
	for round := 2; round < 4; round++ {
		f.forget()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if resp, err := c.Do(t.Context(), toolCall("x")); err != nil || string(resp.Result) != `{"ok":1}` {
					t.Errorf("got %s, %v", resp.Result, err)
				}
			})
		}
		wg.Wait()
		if n := len(f.got("initialize")); n != round {
			t.Errorf("initialize: sent %d times, want %d", n, round)
		}
	}
	if len(changed) != 6 || changed[0] != "notifications/tools/list_changed" {
		t.Errorf("notifications: got %v", changed)
	}
}

func TestHTTPSessionRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		safe   bool
		calls  int
		inits  int
		kind   Kind
	}{
		{"400 that names the session", 400, "Invalid session ID", false, 1, 2, Protocol},
		{"400 that names the session, safe call", 400, "Invalid session ID", true, 2, 2, Protocol},
		{"400 for something else", 400, "bad arguments", true, 1, 1, Protocol},
		{"404 for ever", 404, "who?", false, 2, 2, Protocol},
		{"404 that answers the call", 404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, false, 1, 1, 0},
		{"404 that answers and names the session", 404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`, false, 2, 2, Protocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			f := newFake(t, &fakeHTTP{legacy: true, call: serve(tt.status, tt.body)})
			c := dialed(t, resolved(t, f.URL, nil), env{})
			call := toolCall("x")
			call.Safe = tt.safe
			resp, err := c.Do(t.Context(), call)
			if KindOf(err) != tt.kind || (err == nil) != (resp.Error != nil) {
				t.Errorf("got %s, %v", resp.Error, err)
			}
			if n := len(f.got("tools/call")); n != tt.calls {
				t.Errorf("sent %d times, want %d", n, tt.calls)
			}
			if n := len(f.got("initialize")); n != tt.inits {
				t.Errorf("initialize: sent %d times, want %d", n, tt.inits)
			}
			alive(t, c)
		})
	}
}

// U10: a session id that changes with each answer is kept as it was first.
func TestHTTPSessionKept(t *testing.T) {
	f := newFake(t, &fakeHTTP{legacy: true, call: func(w http.ResponseWriter, _ *http.Request, m rpc) {
		w.Header().Set(hdrSession, "other")
		result(w, m, `{}`)
	}})
	c := dialed(t, resolved(t, f.URL, nil), env{})
	for range 3 {
		if _, err := c.Do(t.Context(), toolCall("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range f.got("tools/call") {
		if got := m.Header.Get(hdrSession); got != "s0" {
			t.Errorf("got session %q", got)
		}
	}
}

func TestEncodeValue(t *testing.T) {
	for in, want := range map[string]string{
		"echo":            "echo",
		"my tool":         "my tool",
		"file:///a?b=c":   "file:///a?b=c",
		"é":               "=?base64?w6k=?=",
		" x":              "=?base64?IHg=?=",
		"a\r\nb: c":       "=?base64?YQ0KYjogYw==?=",
		"a\x7f":           "=?base64?YX8=?=",
		"=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
		"=?base64?eA==":   "=?base64?eA==",
		"a\xff":           "=?base64?Yf8=?=",
	} {
		if got := encodeValue(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestIdleFor(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"timeout=5":             4 * time.Second,
		"timeout=5, max=1000":   4 * time.Second,
		"max=1000 , Timeout=31": 30 * time.Second,
		`timeout="10"`:          9 * time.Second,
		"timeout=3600":          time.Minute,
		"timeout=1":             0,
		"timeout=0":             0,
		"":                      -1,
		"max=5":                 -1,
		"timeout=-3":            -1,
		"timeout=abc":           -1,
		"timeout=99999999999":   -1,
	} {
		got, ok := idleFor(in)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

// The server's own word on idle connections replaces our guess.
func TestHTTPKeepIdle(t *testing.T) {
	f := newFake(t, &fakeHTTP{modern: true, any: func(w http.ResponseWriter, _ *http.Request, _ rpc) bool {
		w.Header().Set("Keep-Alive", "timeout=20")
		return false
	}})
	c := dialed(t, resolved(t, f.URL, nil), env{})
	if got := c.transport.IdleConnTimeout; got != 19*time.Second {
		t.Errorf("got %v", got)
	}
	alive(t, c)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"7": 7 * time.Second, " 0 ": 0, "-1": 0, "x": 0, "": 0, "9999999": time.Hour, "999999999999999999999999": time.Hour,
		"Tue, 28 Jul 2026 12:00:30 GMT": 30 * time.Second, "Tue, 28 Jul 2020 12:00:30 GMT": 0,
	} {
		if got := retryAfter(in, now); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

// What goes where is egress' to say; a unix socket is never proxied.
func TestLeave(t *testing.T) {
	e, err := egress.Compile(egress.Settings{Proxy: "http://proxy:3128"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{"http://127.0.0.1:1/": "direct", "http://localhost/": "direct", "https://example.com/": "http://proxy:3128"} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		r := &Resolved{URL: u, Settings: &Settings{}}
		if err := r.leave(e, nil); err != nil || r.route.String() != want {
			t.Errorf("%s: %v, %v; want %s", raw, r.route, err, want)
		}
		own := &Resolved{URL: u, Settings: &Settings{Egress: egress.Server{Proxy: "direct"}}}
		if err := own.leave(e, nil); err != nil || own.route.Proxied() {
			t.Errorf("%s: %v, %v; want what the server says", raw, own.route, err)
		}
	}
	u, _ := url.Parse("http://example.com/")
	r := &Resolved{URL: u, Socket: "/s", Settings: &Settings{}}
	if err := r.leave(e, nil); err != nil || r.route.Proxied() {
		t.Errorf("%v, %v: a unix socket goes through a proxy", r.route, err)
	}
}

// Errors of net/http may quote a proxy's URL or what the server sent.
func TestNetText(t *testing.T) {
	c := newHTTPConn(resolved(t, "http://x/", nil, "X-Key", "s3cret"), env{})
	defer c.Close()
	err := c.netText(&url.Error{Op: "Post", URL: "http://a/?k=hidden", Err: fmt.Errorf("proxy \"http://u:hidden@p:1\": got s3cret\r\n\x1b[31m%s", strings.Repeat("x", 1000))})
	if s := err.Error(); strings.Contains(s, "hidden") || strings.Contains(s, "s3cret") || strings.ContainsAny(s, "\r\n\x1b") || len(s) > 320 {
		t.Errorf("got %q", s)
	}
}
