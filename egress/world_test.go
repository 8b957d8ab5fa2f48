package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/elazarl/goproxy"
)

// A world is an origin under the name of example.com, in plain and over TLS,
// that only proxies can find.
type world struct {
	plain, secure *httptest.Server

	mu    sync.Mutex
	seen  []*http.Request // by the corporate proxy
	calls []*http.Request // by the origin
}

func newWorld(t *testing.T) *world {
	w := &world{}
	origin := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.calls = append(w.calls, r)
		w.mu.Unlock()
		rw.Header().Set("Connection", "X-Back")
		rw.Header().Set("X-Back", "1")
		rw.Header().Set("Proxy-Authenticate", "Basic")
		if r.URL.Path == "/407" {
			rw.WriteHeader(http.StatusProxyAuthRequired)
		}
		fmt.Fprintf(rw, "origin %s", r.Host)
	})
	w.plain, w.secure = httptest.NewServer(origin), httptest.NewUnstartedServer(origin)
	w.secure.Config.ErrorLog = quiet()
	w.secure.StartTLS()
	t.Cleanup(w.plain.Close)
	t.Cleanup(w.secure.Close)
	return w
}

// find is the proxies' resolver.
func (w *world) find(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	switch addr = strings.ToLower(addr); addr {
	case "example.com:80", "[2001:db8::1]:80":
		addr = w.plain.Listener.Addr().String()
	case "example.com:443":
		addr = w.secure.Listener.Addr().String()
	default:
		return nil, fmt.Errorf("no such host: %s", addr)
	}
	return d.DialContext(ctx, network, addr)
}

// corporate is an HTTP proxy. If user is not empty, it wants user and pass.
func (w *world) corporate(user, pass string) http.Handler {
	p := goproxy.NewProxyHttpServer()
	p.Logger = quiet()
	p.Tr = &http.Transport{DialContext: w.find, DisableKeepAlives: true}
	p.ConnectDial = nil
	p.ConnectDialWithReq = func(r *http.Request, network, addr string) (net.Conn, error) {
		return w.find(r.Context(), network, addr)
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen = append(w.seen, r.Clone(context.Background()))
		w.mu.Unlock()
		u, pw, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		if user != "" && (u != user || pw != pass) {
			rw.Header().Set("Proxy-Authenticate", "Basic")
			rw.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		p.ServeHTTP(rw, r)
	})
}

// socks is a SOCKS5 proxy that wants user and pass, unless user is empty.
func (w *world) socks(t *testing.T, user, pass string) string {
	l := listen(t)
	serve(t, l, func(c net.Conn) { w.socksConn(c, user, pass) })
	return l.Addr().String()
}

func (w *world) socksConn(c net.Conn, user, pass string) {
	r := bufio.NewReader(c)
	next := func(n int) []byte {
		b := make([]byte, n)
		io.ReadFull(r, b)
		return b
	}
	methods := next(int(next(2)[1]))
	if user == "" {
		c.Write([]byte{5, 0})
	} else if !slices.Contains(methods, 2) {
		c.Write([]byte{5, 0xff})
		return
	} else {
		c.Write([]byte{5, 2})
		u := string(next(int(next(2)[1])))
		p := string(next(int(next(1)[0])))
		if u != user || p != pass {
			c.Write([]byte{1, 1})
			return
		}
		c.Write([]byte{1, 0})
	}
	head := next(4)
	if head[3] != 3 {
		c.Write([]byte{5, 8, 0, 1, 0, 0, 0, 0, 0, 0})
		return
	}
	name := string(next(int(next(1)[0])))
	port := next(2)
	addr := net.JoinHostPort(name, fmt.Sprint(int(port[0])<<8|int(port[1])))
	up, err := w.find(context.Background(), "tcp", addr)
	if err != nil {
		c.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0})
		return
	}
	defer up.Close()
	c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	go func() { io.Copy(c, up); c.Close() }()
	io.Copy(up, r)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve handles each connection until the test ends, and waits for all.
func serve(t *testing.T, l net.Listener, handle func(net.Conn)) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range all {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

// compile makes an Egress whose only way out is proxy.
func compile(t *testing.T, s Settings) *Egress {
	t.Helper()
	e, err := CompileWith(s, nil, Options{Lookup: noNames})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func noNames(context.Context, string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

// client is what a server's transport looks like.
func (w *world) client(t *testing.T, r Route) *http.Client {
	tr := &http.Transport{TLSClientConfig: w.secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
	tr.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		t.Error("the proxy asked for the server's client certificate, and got it")
		return &tls.Certificate{}, nil
	}
	r.Apply(tr, (&net.Dialer{}).DialContext)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// caFile writes a test server's certificate.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(name, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func body200(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got %s: %s", resp.Status, b)
	}
	return string(b)
}

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
