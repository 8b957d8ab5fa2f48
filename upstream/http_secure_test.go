package upstream

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// A redirect may put https in the place of http, and nothing else in that of the
// origin.
func TestHTTPSecures(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		ok, only bool
	}{
		{"http://a.example/mcp", "https://a.example/mcp", true, true},
		{"http://a.example/mcp?x=1", "https://A.example/mcp?x=1", true, true},
		{"http://a.example/mcp", "https://a.example/mcp/", true, false},
		{"http://a.example/mcp", "https://a.example/mcp?x=1", true, false},
		{"http://a.example:80/mcp", "https://a.example:443/mcp", true, true},
		{"http://a.example:8080/mcp", "https://a.example:8080/mcp", true, true},
		{"HTTP://a.example/", "HTTPS://a.example/", true, true},
		{"http://[::1]:8080/", "https://[::1]:8080/", true, true},
		{"http://a.example:8080/mcp", "https://a.example/mcp", false, false},
		{"http://a.example:8080/mcp", "https://a.example:8443/mcp", false, false},
		{"http://a.example/mcp", "https://a.example:8443/mcp", false, false},
		{"http://a.example:443/mcp", "https://a.example/mcp", false, false},
		{"http://a.example/mcp", "https://b.example/mcp", false, false},
		{"http://a.example/mcp", "https://a.example.evil.example/mcp", false, false},
		{"https://a.example/mcp", "http://a.example/mcp", false, false},
		{"https://a.example/mcp", "https://a.example/mcp", false, false},
		{"http://a.example/mcp", "ftp://a.example/mcp", false, false},
	} {
		from, _ := url.Parse(tt.from)
		to, _ := url.Parse(tt.to)
		if ok, only := secures(from, to), onlySecures(from, to); ok != tt.ok || only != tt.only {
			t.Errorf("%s to %s: got %v %v, want %v %v", tt.from, tt.to, ok, only, tt.ok, tt.only)
		}
	}
}

// A twoDoors is a server at port 443, and one at port 80 that redirects to it.
type twoDoors struct {
	*http.Transport
	mu    sync.Mutex
	plain []string // requests at port 80
}

func newTwoDoors(t *testing.T, status int, to string, h http.Handler) *twoDoors {
	d := &twoDoors{}
	secure := httptest.NewTLSServer(h)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.plain = append(d.plain, r.Method+" "+r.URL.Path)
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	}))
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	at := map[string]string{"443": secure.Listener.Addr().String(), "80": plain.Listener.Addr().String()}
	d.Transport = secure.Client().Transport.(*http.Transport).Clone()
	d.TLSClientConfig.ServerName = "example.com"
	d.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(addr)
		return new(net.Dialer).DialContext(ctx, network, at[port])
	}
	return d
}

// The first request shows the way to https; no later one leaves in the clear.
func TestHTTPToHTTPS(t *testing.T) {
	for _, tt := range []struct {
		status   int
		to, text string
		plain    int // requests in the clear
	}{
		{307, "https://127.0.0.1/mcp", "", 1},
		{308, "https://127.0.0.1/mcp", "", 1},
		{308, "https://127.0.0.1:443/other", "", 1},
		{307, "https://127.0.0.1/other", "", 5},
		{301, "https://127.0.0.1/mcp", "redirects (301) to https://127.0.0.1/mcp, which is not followed: if that is right, set url to it", 1},
		{307, "https://localhost/mcp", "which is not followed", 1},
	} {
		t.Run(tt.to, func(t *testing.T) {
			leaks(t)
			f := &fakeHTTP{modern: true, sessions: map[string]bool{}}
			d := newTwoDoors(t, tt.status, tt.to, f)
			c := newHTTPConn(resolved(t, "http://127.0.0.1/mcp", nil, "Authorization", "hidden"), env{})
			c.transport = d.Transport
			t.Cleanup(c.Close)
			_, err := c.discover(t.Context(), probeTime)
			if tt.text != "" {
				if err == nil || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				for range 4 {
					alive(t, c)
				}
			}
			if len(d.plain) != tt.plain {
				t.Errorf("in the clear: %v, want %d", d.plain, tt.plain)
			}
			for _, m := range f.got("tools/call") {
				if m.Header.Get("Authorization") != "hidden" {
					t.Errorf("headers: got %v", m.Header)
				}
			}
		})
	}
}

// The stream of HTTP+SSE is a GET, which any redirect leaves one; its endpoint is
// of the origin where it ended up.
func TestSSEToHTTPS(t *testing.T) {
	for _, status := range []int{301, 302, 307, 308} {
		leaks(t)
		f := &fakeSSE{}
		d := newTwoDoors(t, status, "https://127.0.0.1/sse", f)
		h := newHTTPConn(resolved(t, "http://127.0.0.1/sse", nil), env{})
		h.transport = d.Transport
		l := &sseLink{h: h, named: make(chan endpointNamed, 1)}
		if err := l.openStream(t.Context()); err != nil {
			t.Fatalf("%d: %v", status, err)
		}
		to, err := l.messagesAt("/messages")
		if err != nil || to.String() != "https://127.0.0.1/messages" {
			t.Errorf("%d: got %v, %v", status, to, err)
		}
		if _, err := l.messagesAt("http://127.0.0.1/messages"); err == nil {
			t.Errorf("%d: an endpoint in the clear was accepted", status)
		}
		l.close()
	}
}
