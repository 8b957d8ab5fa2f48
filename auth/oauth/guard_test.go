package oauth

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const remote = "https://mcp.example.com/mcp"

func get(t *testing.T, c *http.Client, u string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// What servers point to, in every spelling of an address inside.
func TestGuardRefuses(t *testing.T) {
	inside := newSite(t) // nobody may get here
	port := parse(t, inside.URL).Port()
	for _, host := range []string{"127.0.0.1", "localhost", "localhost.", "LOCALHOST", "x.localhost", "[::1]", "[::ffff:127.0.0.1]",
		"0x7f000001", "0x7f.1", "0177.0.0.1", "2130706433", "127.1", "0.0.0.0", "0", "[::]", "①②⑦.0.0.1",
		"169.254.169.254", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]", "10.0.0.1", "metadata.google.internal", "[fe80::1%25lo]"} {
		for _, scheme := range []string{"http", "https"} {
			u := scheme + "://" + host + ":" + port + "/"
			s := &Server{Name: "s", URL: parse(t, remote)}
			s.HTTP = (&Guard{}).Client(s.URL)
			if _, err := get(t, s.HTTP, u); err == nil {
				t.Errorf("%s was asked", u)
			}
			if _, err := s.Endpoint(u); err == nil {
				t.Errorf("%s is an endpoint", u)
			}
			if (&Guard{}).Check(parse(t, u)) == nil {
				t.Errorf("%s passes", u)
			}
			if _, err := Discover(t.Context(), s, Challenge{ResourceMetadata: u}); err == nil || !strings.Contains(err.Error(), "resource_metadata") {
				t.Errorf("%s as resource_metadata: %v", u, err)
			}
		}
	}
	if asked := inside.requests(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
}

func TestGuardCheck(t *testing.T) {
	for u, want := range map[string]string{
		"https://as.example.com/x?y":      "",
		"http://as.example.com/":          "not https",
		"ftp://as.example.com/":           "not https",
		"javascript:alert(1)":             "absolute",
		"https:///x":                      "absolute",
		"https://:443/x":                  "absolute",
		"https://a@as.example.com/":       "holds a user",
		"https://as.example.com/#x":       "fragment",
		"https://10.0.0.1/":               "oauth.allow_hosts",
		"http://idp.svc.cluster.local/":   "",
		"http://idp.svc.cluster.local:1/": "not https",
		"https://idp.svc.cluster.local/":  "",
	} {
		g := &Guard{Allow: []string{"http://idp.svc.cluster.local:80", "idp.svc.cluster.local"}}
		err := g.Check(parse(t, u))
		if want == "" && err != nil {
			t.Errorf("%s: %v", u, err)
		} else if want != "" {
			wantError(t, err, want)
		}
	}
	bad := &Guard{Allow: []string{"10.0.0.0/77"}}
	wantError(t, bad.Validate(), "oauth.allow_hosts")
	_, err := get(t, bad.Client(parse(t, remote)), "https://as.example.com/")
	wantError(t, err, "oauth.allow_hosts")
}

// named is a TLS server under a name, and a guard whose resolver knows it.
type named struct {
	guard Guard
	url   string
	asked atomic.Int32
	addrs map[string][]netip.Addr
	looks atomic.Int32
}

func newNamed(t *testing.T, h http.HandlerFunc) *named {
	t.Helper()
	ca, dir := mcptest.NewCA(t, "ours"), t.TempDir()
	n := &named{addrs: map[string][]netip.Addr{"as.example.com": {netip.MustParseAddr("127.0.0.1")}}}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		h(w, r)
	}))
	srv.TLS = ca.Issue(t, mcptest.Leaf{Hosts: []string{"as.example.com", "other.example.com"}}).Server()
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	n.url = "https://as.example.com:" + port
	roots, err := tls.Client{CAFile: ca.File(t, dir)}.Load()
	if err != nil {
		t.Fatal(err)
	}
	n.guard = Guard{TLS: roots, Lookup: n.lookup}
	return n
}

func (n *named) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	n.looks.Add(1)
	if a, ok := n.addrs[name]; ok {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// A name is what it resolves to, all of it.
func TestGuardResolves(t *testing.T) {
	for _, tc := range []struct {
		allow, addrs, want string
	}{
		{"", "127.0.0.1", "loopback"},
		{"as.example.com", "127.0.0.1", ""},
		{"as.example.com:1", "127.0.0.1", "loopback"},
		{"127.0.0.0/8", "127.0.0.1", ""},
		{"*.example.com", "127.0.0.1", "loopback"},
		{"127.0.0.0/8", "127.0.0.1 10.0.0.1", "private"},
		{"as.example.com", "127.0.0.1 169.254.169.254", "metadata"},
		{"127.0.0.0/8", "::ffff:127.0.0.1", ""},
		{"", "::ffff:10.0.0.1", "private"},
		{"127.0.0.0/8", "127.0.0.2 127.0.0.1", ""}, // nobody listens on the first
		{"as.example.com", "", "no address"},
	} {
		t.Run(tc.allow+" "+tc.addrs, func(t *testing.T) {
			n := newNamed(t, hello)
			n.guard.Allow = strings.Fields(tc.allow)
			n.addrs["as.example.com"] = nil
			for a := range strings.FieldsSeq(tc.addrs) {
				n.addrs["as.example.com"] = append(n.addrs["as.example.com"], netip.MustParseAddr(a))
			}
			body, err := get(t, n.guard.Client(parse(t, remote)), n.url)
			if tc.want == "" && (err != nil || body != "hello") {
				t.Errorf("got %q, %v", body, err)
			} else if tc.want != "" {
				wantError(t, err, tc.want)
				if n.asked.Load() > 0 {
					t.Error("was asked")
				}
			}
		})
	}
}

// Nothing is looked up twice for one request: a second answer could be another.
func TestGuardResolvesOnce(t *testing.T) {
	n := newNamed(t, hello)
	n.guard.Allow = []string{"as.example.com"}
	if _, err := get(t, n.guard.Client(parse(t, remote)), n.url); err != nil || n.looks.Load() != 1 {
		t.Errorf("%d look-ups, %v", n.looks.Load(), err)
	}
}

// The origin of the server itself is no secret to it.
func TestGuardOwnOrigin(t *testing.T) {
	n := newNamed(t, hello)
	if _, err := get(t, n.guard.Client(parse(t, n.url+"/mcp")), n.url+"/.well-known/x"); err != nil {
		t.Error(err)
	}
	_, err := get(t, n.guard.Client(parse(t, "https://as.example.com:1/mcp")), n.url)
	wantError(t, err, "loopback")
}

func TestGuardRedirects(t *testing.T) {
	target := newSite(t)
	target.put("/end", hello)
	var to atomic.Value
	n := newNamed(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/end":
			hello(w, r)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/3":
			http.Redirect(w, r, "/2", http.StatusFound)
		case "/2":
			http.Redirect(w, r, "/1", http.StatusTemporaryRedirect)
		case "/1":
			http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
		case "/4":
			http.Redirect(w, r, "/3", http.StatusFound)
		default:
			http.Redirect(w, r, to.Load().(string), http.StatusTemporaryRedirect)
		}
	})
	n.guard.Allow = []string{"as.example.com", "127.0.0.1"}
	n.addrs["inside.example.com"] = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	c := n.guard.Client(parse(t, remote))
	if body, err := get(t, c, n.url+"/3"); err != nil || body != "hello" {
		t.Errorf("got %q, %v", body, err)
	}
	for path, want := range map[string]string{"/4": "more than 3 redirects", "/loop": "more than 3 redirects"} {
		_, err := get(t, c, n.url+path)
		wantError(t, err, want)
	}
	for u, want := range map[string]string{
		target.URL + "/end":            "plain http", // even where http is allowed
		"https://10.0.0.1/":            "private",
		"https://inside.example.com/":  "private",
		"http://169.254.169.254/":      "plain http",
		"https://[::ffff:a9fe:a9fe]/":  "link-local",
		"https://user@as.example.com/": "holds a user",
		"file:///etc/passwd":           "plain http",
	} {
		to.Store(u)
		_, err := get(t, c, n.url+"/x")
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "absolute") {
			t.Errorf("%s: got %v", u, err)
		}
	}
	if asked := target.requests(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
}

// What is posted goes to the endpoint alone.
func TestGuardPostsOnce(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := newSite(t)
		s.put("/token", http.RedirectHandler("/elsewhere", code).ServeHTTP)
		c := (&Guard{}).Client(parse(t, s.URL))
		resp, err := c.Post(s.URL+"/token", "text/plain", strings.NewReader("code=secret"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != code || len(s.requests()) != 1 {
			t.Errorf("%d: got %d after %q", code, resp.StatusCode, s.requests())
		}
	}
}

func TestGuardBounds(t *testing.T) {
	s := newSite(t)
	s.put("/exact", answer(200, "text/plain", strings.Repeat("x", maxBody)))
	s.put("/more", answer(200, "text/plain", strings.Repeat("x", maxBody+1)))
	s.put("/head", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 2*maxHeader)) })
	c := (&Guard{}).Client(parse(t, s.URL))
	if body, err := get(t, c, s.URL+"/exact"); err != nil || len(body) != maxBody {
		t.Errorf("got %d bytes, %v", len(body), err)
	}
	if body, err := get(t, c, s.URL+"/more"); !errors.Is(err, errTooLong) || len(body) != maxBody {
		t.Errorf("got %d bytes, %v", len(body), err)
	}
	if _, err := get(t, c, s.URL+"/head"); err == nil {
		t.Error("a long header passes")
	}
	if got := s.heads[0].Get("User-Agent"); got != "mcp-sidecar" {
		t.Errorf("got User-Agent %q", got)
	}
	if _, err := get(t, (&Guard{UserAgent: "mcp-sidecar/7"}).Client(parse(t, s.URL)), s.URL+"/"); err != nil || s.heads[3].Get("User-Agent") != "mcp-sidecar/7" {
		t.Errorf("got %v, %v", s.heads, err)
	}
	s.put("/cookie", func(w http.ResponseWriter, _ *http.Request) { http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"}) })
	for range 2 {
		if _, err := get(t, c, s.URL+"/cookie"); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.heads[len(s.heads)-1].Get("Cookie"); got != "" {
		t.Errorf("got Cookie %q", got)
	}
}

// Behind a proxy the literal and the name are looked at, and the name's addresses
// as far as it has any here. The proxy itself may be anywhere.
func TestGuardBehindProxy(t *testing.T) {
	var connects atomic.Int32
	n := newNamed(t, hello)
	target := parse(t, n.url)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connects.Add(1)
		if r.Method != http.MethodConnect {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		tunnel(t, w, "127.0.0.1:"+target.Port())
	}))
	t.Cleanup(proxy.Close)
	e, err := egress.Compile(egress.Settings{Proxy: proxy.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.guard.Route = func(u *url.URL) (egress.Route, error) { return e.Route(u, "") }
	c := n.guard.Client(parse(t, remote))
	delete(n.addrs, "as.example.com") // only the proxy knows it
	if body, err := get(t, c, n.url); err != nil || body != "hello" || connects.Load() != 1 {
		t.Errorf("got %q, %v, %d connects", body, err, connects.Load())
	}
	n.addrs["as.example.com"] = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	_, err = get(t, c, n.url)
	wantError(t, err, "private")
	for _, u := range []string{"https://10.0.0.1/", "https://localhost/", "https://metadata.google.internal/", "https://0x7f.1/"} {
		if _, err := get(t, c, u); err == nil {
			t.Errorf("%s passes", u)
		}
	}
	if connects.Load() != 1 {
		t.Errorf("%d connects", connects.Load())
	}
	n.guard.Allow = []string{"10.0.0.0/8"}
	if _, err := get(t, n.guard.Client(parse(t, remote)), n.url); err != nil {
		t.Error(err)
	}
}

// tunnel joins the client of w and addr, and ends when both have.
func tunnel(t *testing.T, w http.ResponseWriter, addr string) {
	out, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = out.Close() }()
	w.WriteHeader(http.StatusOK)
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = in.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, in)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(in, out)
	_ = in.Close()
	<-done
}

// A client certificate and the corporate roots are for these requests, too.
func TestGuardTLS(t *testing.T) {
	n := newNamed(t, hello)
	n.guard.Allow, n.guard.TLS = []string{"as.example.com"}, nil
	_, err := get(t, n.guard.Client(parse(t, remote)), n.url)
	if err == nil || n.asked.Load() > 0 {
		t.Errorf("a stranger's certificate passes: %v", err)
	}
}

func TestGuardSlow(t *testing.T) {
	n := newNamed(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	n.guard.Allow = []string{"as.example.com"}
	c := n.guard.Client(parse(t, remote))
	c.Timeout = 50 * time.Millisecond
	begun := time.Now()
	if _, err := get(t, c, n.url); err == nil || time.Since(begun) > 5*time.Second {
		t.Errorf("got %v after %v", err, time.Since(begun))
	}
}
