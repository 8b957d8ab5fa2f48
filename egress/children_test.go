package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A nursery is the children's proxy in a world of its own names and addresses.
type nursery struct {
	*world
	c    *Children
	log  *bytes.Buffer
	stop func()

	mu     sync.Mutex
	dialed []string
	asked  []string
	names  map[string][]string // each look-up takes the next list of blank-separated addresses
}

// newNursery runs the proxy; the addresses 192.0.2.1 and 10.0.0.1 are the origin.
func newNursery(t *testing.T, s Settings) *nursery {
	t.Helper()
	n := &nursery{world: newWorld(t), log: &bytes.Buffer{}, names: map[string][]string{"example.com": {"192.0.2.1"}}}
	e, err := CompileWith(s, nil, Options{Lookup: n.lookup})
	if err != nil {
		t.Fatal(err)
	}
	n.c = e.NewChildren(slog.New(slog.NewTextHandler(&locked{w: n.log}, nil)))
	n.c.dial = n.dialAddr
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.c.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (n *nursery) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	lists := n.names[name]
	if len(lists) == 0 {
		return nil, errors.New("no such host")
	}
	if len(lists) > 1 {
		n.names[name] = lists[1:]
	}
	var out []netip.Addr
	for _, s := range strings.Fields(lists[0]) {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

func (n *nursery) dialAddr(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, addr)
	n.mu.Unlock()
	switch addr {
	case "192.0.2.1:80", "10.0.0.1:80", "127.0.0.1:80":
		addr = n.plain.Listener.Addr().String()
	case "192.0.2.1:443", "10.0.0.1:443":
		addr = n.secure.Listener.Addr().String()
	default:
		if !strings.HasPrefix(addr, "127.0.0.1:") {
			return nil, errors.New("unreachable: " + addr)
		}
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// child opens an account and returns what its program would do.
func (n *nursery) child(t *testing.T, rules Server) (client *http.Client, proxy *url.URL, closeIt func()) {
	t.Helper()
	environ, closeIt, err := n.c.Open("srv", rules)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, "HTTPS_PROXY=") })
	proxy = mustURL(t, strings.TrimPrefix(environ[i], "HTTPS_PROXY="))
	tr := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: n.secure.Client().Transport.(*http.Transport).TLSClientConfig}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, proxy, closeIt
}

// connect sends a CONNECT and returns the answer and the connection.
func connect(t *testing.T, proxy *url.URL, target string) (*http.Response, net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	req := &http.Request{Method: "CONNECT", Host: target, URL: &url.URL{Host: target}, Header: http.Header{}}
	if proxy.User != nil {
		pass, _ := proxy.User.Password()
		auth := &http.Request{Header: http.Header{}}
		auth.SetBasicAuth(proxy.User.Username(), pass)
		req.Header["Proxy-Authorization"] = auth.Header["Authorization"]
	}
	req.Write(conn)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		t.Fatalf("CONNECT %s: %v", target, err)
	}
	return resp, conn, r
}

func TestChildDirect(t *testing.T) {
	// None of these may reach the proxy by itself.
	for _, v := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(v, "http://127.0.0.1:1")
	}
	n := newNursery(t, Settings{})
	client, _, closeIt := n.child(t, Server{Allow: []string{"example.com"}})
	for _, u := range []string{"https://example.com/", "http://example.com/", "http://EXAMPLE.com:80/x", "http://example.com./"} {
		req, _ := http.NewRequest("GET", u, nil)
		req.Header.Set("Connection", "X-Hop")
		req.Header.Set("X-Hop", "1")
		n.calls = nil
		resp, err := client.Do(req)
		body200(t, resp, err)
		if strings.HasPrefix(u, "http:") && (resp.Header.Get("X-Back") != "" || resp.Header.Get("Proxy-Authenticate") != "") {
			t.Errorf("%s: the child got %v", u, resp.Header)
		}
		if h := n.calls[0].Header; h.Get("Proxy-Authorization") != "" || strings.HasPrefix(u, "http:") && h.Get("X-Hop") != "" {
			t.Errorf("%s: the server got %v", u, h)
		}
	}
	for _, u := range []string{"https://other.test/", "http://example.com:81/", "http://192.0.2.1/", "http://a.example.com/", "http://2130706433/"} {
		wantStatus(t, client, u, http.StatusForbidden, "mcp-sidecar refuses ")
	}
	wantStatus(t, client, "http://localhost/", http.StatusForbidden, "")
	if !slices.Equal(n.asked, []string{"example.com", "example.com", "example.com", "example.com"}) {
		t.Errorf("looked up %q: what is refused must not be", n.asked)
	}
	if got, want := n.c.Counts("srv"), (ChildCounts{Allowed: 4, Refused: 6}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	closeIt()
	wantStatus(t, client, "http://example.com/", http.StatusProxyAuthRequired, "")
	n.stop()
	if log := n.log.String(); !strings.Contains(log, `level=WARN msg="egress of a child refused" server=srv host=other.test port=443 reason="is not in the server's egress.allow"`) {
		t.Errorf("log: %s", log)
	}
}

// wantStatus asks for u; a refused CONNECT is an error that names the status.
func wantStatus(t *testing.T, client *http.Client, u string, status int, text string) {
	t.Helper()
	resp, err := client.Get(u)
	if err != nil {
		if !strings.HasPrefix(u, "https:") || !strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("%s: got %v, want %d", u, err, status)
		}
		return
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != status || !strings.Contains(string(b), text) {
		t.Errorf("%s: got %s: %s, want %d %q", u, resp.Status, b, status, text)
	}
}

func TestChildAddresses(t *testing.T) {
	n := newNursery(t, Settings{})
	n.names = map[string][]string{
		"meta.test": {"192.0.2.1 169.254.169.254"}, "v6meta.test": {"fd00:ec2::254"}, "mapped.test": {"::ffff:169.254.169.254"},
		"inside.test": {"10.0.0.1"}, "mixed.test": {"10.0.0.1 192.0.2.1"}, "self.test": {"127.0.0.1"}, "localhost": {"127.0.0.1"},
		"rebind.test": {"192.0.2.1", "10.0.0.1", "169.254.169.254"}, "second.test": {"192.0.2.9 192.0.2.1"}, "named.test": {"10.0.0.1"},
	}
	client, _, _ := n.child(t, Server{Allow: []string{"*", "named.test", "localhost"}})
	client.Transport.(*http.Transport).DisableKeepAlives = true
	for _, host := range []string{"meta.test", "v6meta.test", "mapped.test", "inside.test", "self.test", "metadata.google.internal",
		"169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "[fe80::1%25eth0]", "10.0.0.1", "127.0.0.1", "[::1]", "0.0.0.0", "[::]", "0x7f.1"} {
		n.dialed = nil
		for _, scheme := range []string{"http://", "https://"} {
			if scheme == "https://" && strings.Contains(host, "%") {
				continue // net/http answers such a CONNECT with 400
			}
			tr := client.Transport.(*http.Transport).Clone()
			c := &http.Client{Transport: tr}
			wantStatus(t, c, scheme+host+"/", http.StatusForbidden, "mcp-sidecar refuses ")
			tr.CloseIdleConnections()
		}
		if len(n.dialed) > 0 {
			t.Errorf("%s: dialled %q", host, n.dialed)
		}
	}
	for host, want := range map[string][]string{
		"rebind.test": {"192.0.2.1:80"},                               // and not what it means a moment later
		"mixed.test":  {"192.0.2.1:80"},                               // the allowed one alone
		"second.test": {"192.0.2.9:80", "192.0.2.1:80"},               // one after the other
		"named.test":  {"10.0.0.1:80"}, "localhost": {"127.0.0.1:80"}, // by their own rules
	} {
		n.dialed = nil
		resp, err := client.Get("http://" + host + "/")
		body200(t, resp, err)
		if !slices.Equal(n.dialed, want) {
			t.Errorf("%s: dialled %q, want %q", host, n.dialed, want)
		}
	}
	n.c.open.closeIf(func(*conn) bool { return true }) // so that the pool does not answer
	wantStatus(t, client, "http://rebind.test/", http.StatusForbidden, "")
}

func TestChildCorporate(t *testing.T) {
	corp := newWorld(t)
	plain := httptest.NewServer(corp.corporate("user", "s3cret"))
	defer plain.Close()
	secure := httptest.NewTLSServer(corp.corporate("user", "s3cret"))
	defer secure.Close()
	for _, proxy := range []string{
		"http://user:s3cret@" + plain.Listener.Addr().String(),
		"https://user:s3cret@" + secure.Listener.Addr().String(),
		"socks5://user:s3cret@" + corp.socks(t, "user", "s3cret"),
	} {
		scheme, _, _ := strings.Cut(proxy, ":")
		t.Run(scheme, func(t *testing.T) {
			n := newNursery(t, Settings{Proxy: proxy, CAFile: caFile(t, secure), NoProxy: []string{"inner.test"}})
			n.names = map[string][]string{"meta.test": {"169.254.169.254"}, "in.test": {"10.0.0.1"}, "inner.test": {"10.0.0.1"}}
			client, _, _ := n.child(t, Server{Allow: []string{"*", "192.0.2.0/24:8080", "inner.test"}})
			client.Transport.(*http.Transport).TLSClientConfig = corp.secure.Client().Transport.(*http.Transport).TLSClientConfig
			for _, u := range []string{"https://example.com/", "http://example.com/"} { // of which only the proxy knows the address
				resp, err := client.Get(u)
				if got := body200(t, resp, err); got != "origin example.com" {
					t.Errorf("%s: got %q", u, got)
				}
			}
			resp, err := client.Get("http://EXAMPLE.com./odd")
			body200(t, resp, err)
			last := corp.lastSeen()
			if scheme != "socks5" && last != "http://example.com/odd" {
				t.Errorf("the proxy was asked for %q", last)
			}
			wantStatus(t, client, "http://none.test/", map[bool]int{true: 502, false: 500}[scheme == "socks5"], "")
			n.dialed = nil
			for _, host := range []string{"meta.test", "in.test", "metadata.google.internal", "metadata", "169.254.169.254", "10.0.0.1", "by-net.test:8080"} {
				wantStatus(t, client, "http://"+host+"/", http.StatusForbidden, "mcp-sidecar refuses ")
				wantStatus(t, client, "https://"+host+"/", http.StatusForbidden, "")
			}
			if len(n.dialed) > 0 {
				t.Errorf("dialled %q", n.dialed)
			}
			resp, err = client.Get("http://inner.test/")
			body200(t, resp, err)
			if !slices.Equal(n.dialed, []string{"10.0.0.1:80"}) {
				t.Errorf("an exempt name was dialled as %q", n.dialed)
			}
			direct, _, _ := n.child(t, Server{Allow: []string{"example.com"}, Via: "direct"})
			n.names["example.com"] = []string{"192.0.2.1"}
			n.dialed = nil
			resp, err = direct.Get("http://example.com/")
			body200(t, resp, err)
			if !slices.Equal(n.dialed, []string{"192.0.2.1:80"}) {
				t.Errorf("via direct was dialled as %q", n.dialed)
			}
		})
	}
}

// lastSeen is what the corporate proxy was asked for last.
func (w *world) lastSeen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == 0 {
		return ""
	}
	return w.seen[len(w.seen)-1].RequestURI
}

// TestChildCorporateRefuses holds that a child neither sees the corporate proxy's
// demand for credentials, which are not its own, nor these.
func TestChildCorporateRefuses(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(w.corporate("user", "right"))
	defer srv.Close()
	n := newNursery(t, Settings{Proxy: "http://user:s3cret@" + srv.Listener.Addr().String()})
	client, proxy, _ := n.child(t, Server{Allow: []string{"example.com"}})
	wantStatus(t, client, "http://example.com/", http.StatusBadGateway, "407 Proxy Authentication Required (the proxy does not accept")
	resp, _, r := connect(t, proxy, "example.com:443")
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadGateway || strings.Contains(string(b), "s3cret") || resp.Header.Get("Proxy-Authenticate") != "" {
		t.Errorf("got %s: %s", resp.Status, b)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("more follows")
	}
	n.stop()
	if strings.Contains(n.log.String(), "s3cret") || !strings.Contains(n.log.String(), "egress of a child failed") {
		t.Errorf("log: %s", n.log)
	}
	if got, want := n.c.Counts("srv"), (ChildCounts{Failed: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestChildForms(t *testing.T) {
	n := newNursery(t, Settings{})
	client, proxy, _ := n.child(t, Server{Allow: []string{"example.com"}})
	_, other, _ := n.child(t, Server{Allow: []string{}})
	pass, _ := proxy.User.Password()
	foreign := *proxy
	foreign.User = url.UserPassword(other.User.Username(), pass)
	anonymous := *proxy
	anonymous.User = nil
	for _, c := range []struct {
		proxy  *url.URL
		target string
		status int
	}{
		{proxy, "example.com:443", 200}, {proxy, "example.com:", 403}, {proxy, "example.com:0", 403}, {proxy, "example.com:99999", 403},
		{proxy, "example.com", 400}, {other, "example.com:443", 403}, {&foreign, "example.com:443", 407}, {&anonymous, "example.com:443", 407},
	} {
		resp, conn, _ := connect(t, c.proxy, c.target)
		conn.Close()
		if resp.StatusCode != c.status {
			t.Errorf("CONNECT %s: got %s, want %d", c.target, resp.Status, c.status)
		}
		if (resp.StatusCode == 407) != (resp.Header.Get("Proxy-Authenticate") != "") {
			t.Errorf("CONNECT %s: %v", c.target, resp.Header)
		}
	}
	resp, err := http.Get("http://" + proxy.Host + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("no proxy request: %s", resp.Status)
	}
	req, _ := http.NewRequest("GET", "http://example.com/", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	if resp, err = client.Do(req); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("upgrade: %s", resp.Status)
	}
	conn, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	auth := &http.Request{Header: http.Header{}}
	auth.SetBasicAuth(proxy.User.Username(), pass)
	fmt.Fprintf(conn, "GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\nProxy-Authorization: %s\r\n\r\n", auth.Header.Get("Authorization"))
	if resp, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("https in absolute form: %v, %v", resp, err)
	}
}

// echo makes 192.0.2.1:443 of a nursery a raw server that says hello, repeats
// until the end of its input, and says bye.
func (n *nursery) echo(t *testing.T) {
	l := listen(t)
	serve(t, l, func(c net.Conn) {
		io.WriteString(c, "hello ")
		io.Copy(c, c)
		io.WriteString(c, " bye")
	})
	n.c.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	}
}

func TestTunnelHalves(t *testing.T) {
	n := newNursery(t, Settings{})
	n.echo(t)
	_, proxy, _ := n.child(t, Server{Allow: []string{"example.com"}})
	_, conn, r := connect(t, proxy, "example.com:443")
	n.c.open.waitFor(t, 2)
	for a := range n.c.open.conns {
		for b := range n.c.open.conns {
			if a.active != b.active {
				t.Error("a busy end of a tunnel does not keep the other")
			}
		}
	}
	io.WriteString(conn, "abc")
	conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(r); string(got) != "hello abc bye" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	n.c.open.waitFor(t, 0)
}

// waitFor waits until that many connections are open.
func (r *registry) waitFor(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		got := len(r.conns)
		r.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections are open, want %d", got, want)
		}
	}
}

func TestChildBound(t *testing.T) {
	n := newNursery(t, Settings{})
	n.echo(t)
	_, proxy, closeIt := n.child(t, Server{Allow: []string{"example.com"}})
	_, other, _ := n.child(t, Server{Allow: []string{"example.com"}})
	for range maxChildConns {
		if resp, _, _ := connect(t, proxy, "example.com:443"); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	if resp, _, _ := connect(t, proxy, "example.com:443"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one too many: %s", resp.Status)
	}
	resp, conn, r := connect(t, other, "example.com:443")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("another child: %s", resp.Status)
	}
	closeIt() // ends what is open of this child, and nothing of the other
	n.c.open.waitFor(t, 2)
	io.WriteString(conn, "x\n")
	if line, err := r.ReadString('\n'); line != "hello x\n" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	n.stop()
	if _, err := io.ReadAll(r); err == nil && len(n.c.open.conns) > 0 {
		t.Error("the tunnel outlives Run")
	}
	if _, _, err := n.c.Open("srv", Server{}); !errors.Is(err, errEnded) {
		t.Errorf("Open after Run: %v", err)
	}
	if _, err := net.Dial("tcp", proxy.Host); err == nil {
		t.Error("the port is still open")
	}
}

func TestTunnelIdle(t *testing.T) {
	w := newWorld(t)
	e := compile(t, Settings{})
	e.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}
	n := &nursery{world: w, c: e.NewChildren(nil)}
	n.c.idle = 40 * time.Millisecond
	n.echo(t)
	_, proxy, _ := n.child(t, Server{Allow: []string{"example.com"}}) // before Run: it waits for it
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.c.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	_, _, r := connect(t, proxy, "example.com:443")
	if got, _ := io.ReadAll(r); string(got) != "hello " {
		t.Errorf("got %q", got)
	}
	n.c.open.waitFor(t, 0)
}

func TestRunWithoutChildren(t *testing.T) {
	c := compile(t, Settings{}).NewChildren(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Open("srv", Server{}); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
}

// TestBrokenAnswer holds that an answer which breaks off does not look whole.
func TestBrokenAnswer(t *testing.T) {
	n := newNursery(t, Settings{})
	l := listen(t)
	serve(t, l, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	})
	n.c.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	}
	client, _, _ := n.child(t, Server{Allow: []string{"example.com"}})
	resp, err := client.Get("http://example.com/")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("half an answer came as a whole one")
	}
}

// TestHangingDials holds that they end with the child, and do not keep Run.
func TestHangingDials(t *testing.T) {
	for name, end := range map[string]func(n *nursery, closeIt func()){
		"Run":   func(n *nursery, _ func()) { n.stop() },
		"close": func(_ *nursery, closeIt func()) { closeIt() },
	} {
		t.Run(name, func(t *testing.T) { hangingDials(t, end) })
	}
}

func hangingDials(t *testing.T, end func(*nursery, func())) {
	n := newNursery(t, Settings{})
	hanging := make(chan struct{}, 2)
	n.c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		hanging <- struct{}{}
		<-ctx.Done()
		hanging <- struct{}{}
		return nil, ctx.Err()
	}
	client, proxy, closeIt := n.child(t, Server{Allow: []string{"example.com"}})
	var wg sync.WaitGroup
	wg.Go(func() {
		if resp, err := client.Get("http://example.com/"); err == nil {
			resp.Body.Close()
		}
	})
	conn, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	auth := &http.Request{Header: http.Header{}}
	pass, _ := proxy.User.Password()
	auth.SetBasicAuth(proxy.User.Username(), pass)
	fmt.Fprintf(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\nProxy-Authorization: %s\r\n\r\n", auth.Header.Get("Authorization"))
	<-hanging
	<-hanging
	start := time.Now()
	end(n, closeIt)
	<-hanging
	<-hanging
	n.c.open.waitFor(t, 0)
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	wg.Wait()
}
