package tls

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func TestClientConfig(t *testing.T) {
	c := ClientConfig()
	if c.MinVersion != tls.VersionTLS12 || c.InsecureSkipVerify {
		t.Errorf("got MinVersion %x, InsecureSkipVerify %v", c.MinVersion, c.InsecureSkipVerify)
	}
	if c == ClientConfig() {
		t.Error("the configuration is shared")
	}
}

// A world has one client's files, its clock, and what it was told.
type world struct {
	*Source
	t     *testing.T
	dir   string
	mu    sync.Mutex
	ahead time.Duration
	told  []string
}

// load loads a client whose clock the test moves.
func load(t *testing.T, dir string, c Client) *world {
	t.Helper()
	w := &world{t: t, dir: dir}
	c.Told = func(err error) { w.told = append(w.told, strings.ReplaceAll(err.Error(), dir, "DIR")) }
	s, err := c.Load()
	if err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Now().Add(w.ahead)
	}
	w.Source = s
	return w
}

// later lets the next handshake look at the files.
func (w *world) later() { w.pass(lookEvery) }

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

func (w *world) wantTold(want ...string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.told); d != "" {
		w.t.Errorf("told (-want +got):\n%s", d)
	}
	w.told = nil
}

// write puts a file in its place at once.
func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+"~", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// A met is how a handshake and one byte from the server went.
type met struct {
	client, server error
	resumed        bool
	peer           string // serial of the client's certificate as the server saw it
}

// meet lets the two shake hands over a loopback connection.
func meet(t *testing.T, client, server *tls.Config) met {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan met, 1)
	go serve(l, server, done)
	client = client.Clone()
	if client.ServerName == "" {
		client.ServerName = "srv.example"
	}
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	var resumed bool
	if err == nil {
		resumed = conn.ConnectionState().DidResume
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = io.ReadFull(conn, make([]byte, 1))
		conn.NetConn().Close()
	}
	m := <-done
	m.client, m.resumed = err, resumed
	return m
}

func serve(l net.Listener, config *tls.Config, done chan<- met) {
	raw, err := l.Accept()
	if err != nil {
		done <- met{server: err}
		return
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(5 * time.Second))
	conn := tls.Server(raw, config)
	m := met{server: conn.Handshake()}
	if m.server == nil {
		conn.Write([]byte("x"))
		if p := conn.ConnectionState().PeerCertificates; len(p) > 0 {
			m.peer = p[0].SerialNumber.String()
		}
	}
	done <- m
}

// name returns a configuration for another server name.
func name(c *tls.Config, host string) *tls.Config {
	c.ServerName = host
	return c
}

func wantErr(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v", err)
	case want != "" && err == nil:
		t.Errorf("got no error, want %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestServers(t *testing.T) {
	dir := t.TempDir()
	ca, other := mcptest.NewCA(t, "ours"), mcptest.NewCA(t, "theirs")
	inter := ca.Intermediate(t, "between")
	hosts := mcptest.Leaf{Hosts: []string{"srv.example", "10.0.0.7", "fe80::7"}}
	good := ca.Issue(t, hosts)
	lone := mcptest.SelfSigned(t, hosts)
	own := Client{CAFile: ca.File(t, dir)}
	selfOwn := Client{CAFile: write(t, dir, "self.pem", lone.Cert)}
	both := Client{CAFile: write(t, dir, "both.pem", append(other.PEM(), append([]byte("\n# ours\r\n"), ca.PEM()...)...))}
	bare := inter.Issue(t, hosts).TLS()
	bare.Certificate = bare.Certificate[:1]
	past, next := hosts, hosts
	past.From, past.Until = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	next.From, next.Until = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	capped := func(low, high uint16) *tls.Config {
		c := good.Server()
		c.MinVersion, c.MaxVersion = low, high
		return c
	}
	const unknown = "certificate signed by unknown authority"
	tests := []struct {
		name   string
		client Client
		host   string // for ConfigFor
		sni    string
		server *tls.Config
		want   string
	}{
		{"own CA", own, "", "", good.Server(), ""},
		{"second of a bundle", both, "", "", good.Server(), ""},
		{"own CA, TLS 1.2", own, "", "", capped(tls.VersionTLS12, tls.VersionTLS12), ""},
		{"TLS 1.1 only", own, "", "", capped(tls.VersionTLS10, tls.VersionTLS11), "protocol version"},
		{"TLS 1.1 only, no verification", Client{SkipVerify: true}, "", "", capped(tls.VersionTLS10, tls.VersionTLS11), "protocol version"},
		{"trailing dot", own, "srv.example.", "srv.example.", good.Server(), ""},
		{"IPv4", own, "10.0.0.7", "10.0.0.7", good.Server(), ""},
		{"IPv6", own, "fe80::7", "fe80::7", good.Server(), ""},
		{"IPv6 in brackets, with a zone", own, "[fe80::7%eth0]", "fe80::7%eth0", good.Server(), ""},
		{"another IPv4", own, "10.0.0.8", "10.0.0.8", good.Server(), "valid for 10.0.0.7, fe80::7, not 10.0.0.8"},
		{"address, and nobody said which", own, "", "10.0.0.7", good.Server(), errNoName.Error()},
		{"wrong host", own, "", "evil.example", good.Server(), "valid for srv.example, not evil.example"},
		{"the name of the handshake counts", own, "srv.example", "proxy.example", good.Server(), "not proxy.example"},
		{"intermediate", own, "", "", inter.Issue(t, hosts).Server(), ""},
		{"intermediate is not sent", own, "", "", &tls.Config{Certificates: []tls.Certificate{bare}}, unknown},
		{"another CA", own, "", "", other.Issue(t, hosts).Server(), unknown},
		{"self-signed", own, "", "", lone.Server(), unknown},
		{"self-signed, and is the bundle", selfOwn, "", "", lone.Server(), ""},
		{"expired", own, "", "", ca.Issue(t, past).Server(), "has expired or is not yet valid"},
		{"not yet valid", own, "", "", ca.Issue(t, next).Server(), "has expired or is not yet valid"},
		{"system's roots", Client{}, "", "", good.Server(), unknown},
		{"no verification: self-signed", Client{SkipVerify: true}, "", "", lone.Server(), ""},
		{"no verification: expired", Client{SkipVerify: true}, "", "", ca.Issue(t, past).Server(), ""},
		{"no verification: wrong host", Client{SkipVerify: true}, "", "evil.example", good.Server(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := load(t, dir, tt.client)
			got := meet(t, name(w.ConfigFor(tt.host), tt.sni), tt.server)
			wantErr(t, got.client, tt.want)
			w.wantTold()
		})
	}
}

func TestMutual(t *testing.T) {
	dir := t.TempDir()
	ca, other := mcptest.NewCA(t, "ours"), mcptest.NewCA(t, "theirs")
	server := ca.Issue(t, mcptest.Leaf{Hosts: []string{"srv.example"}}).MutualServer(ca)
	bundle := ca.File(t, dir)
	pair := ca.Issue(t, mcptest.Leaf{})
	cert, key := pair.Files(t, dir)
	deep := ca.Intermediate(t, "between").Issue(t, mcptest.Leaf{})
	theirs := other.Issue(t, mcptest.Leaf{})
	old := ca.Issue(t, mcptest.Leaf{From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)})
	oldFile := write(t, dir, "old.pem", old.Combined())
	tests := []struct {
		name   string
		client Client
		peer   *mcptest.Pair
		want   string // the server's error
	}{
		{"pair", Client{CAFile: bundle, CertFile: cert, KeyFile: key}, pair, ""},
		{"combined", Client{CAFile: bundle, CertFile: write(t, dir, "all.pem", pair.Combined())}, pair, ""},
		{"chain", Client{CAFile: bundle, CertFile: write(t, dir, "deep.pem", deep.Combined())}, deep, ""},
		{"both verified and skipped", Client{SkipVerify: true, CertFile: cert, KeyFile: key}, pair, ""},
		{"none", Client{CAFile: bundle}, nil, "client didn't provide a certificate"},
		{"another CA's", Client{CAFile: bundle, CertFile: write(t, dir, "theirs.pem", theirs.Combined())}, nil, "unknown authority"},
		{"expired", Client{CAFile: bundle, CertFile: oldFile}, nil, "expired"},
	}
	for _, tt := range tests {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tt.name+"/"+tls.VersionName(version), func(t *testing.T) {
				w := load(t, dir, tt.client)
				server := server.Clone()
				server.MaxVersion = version
				got := meet(t, w.Config(), server)
				wantErr(t, got.server, tt.want)
				if (got.client == nil) != (tt.want == "") {
					t.Errorf("the client got %v", got.client)
				}
				if tt.peer != nil && got.peer != tt.peer.X509.SerialNumber.String() {
					t.Errorf("the server saw certificate %s", got.peer)
				}
			})
		}
	}
}

// The server must be verified before it learns who asks.
func TestCertificateIsNotForStrangers(t *testing.T) {
	dir := t.TempDir()
	ca, other := mcptest.NewCA(t, "ours"), mcptest.NewCA(t, "theirs")
	cert, key := ca.Issue(t, mcptest.Leaf{}).Files(t, dir)
	w := load(t, dir, Client{CAFile: ca.File(t, dir), CertFile: cert, KeyFile: key})
	server := other.Issue(t, mcptest.Leaf{Hosts: []string{"srv.example"}}).Server()
	server.ClientAuth = tls.RequireAnyClientCert
	if got := meet(t, w.Config(), server); got.client == nil || got.peer != "" {
		t.Errorf("got %v, and the server saw %q", got.client, got.peer)
	}
}

// Through net/http, where the transport names the server.
func TestTransport(t *testing.T) {
	dir := t.TempDir()
	ca := mcptest.NewCA(t, "ours")
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = ca.Issue(t, mcptest.Leaf{Hosts: []string{"127.0.0.1"}}).MutualServer(ca)
	srv.StartTLS()
	defer srv.Close()
	cert, key := ca.Issue(t, mcptest.Leaf{}).Files(t, dir)
	w := load(t, dir, Client{CAFile: ca.File(t, dir), CertFile: cert, KeyFile: key})
	tr := &http.Transport{TLSClientConfig: w.ConfigFor("127.0.0.1")}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("got %s", resp.Status)
	}
}

func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	if _, ok := load(t, dir, Client{}).Certificate(); ok {
		t.Error("a client without a certificate has one")
	}
	pair := mcptest.SelfSigned(t, mcptest.Leaf{})
	w := load(t, dir, Client{CertFile: write(t, dir, "all.pem", pair.Combined())})
	if at, ok := w.Certificate(); !ok || !at.Equal(pair.X509.NotAfter) {
		t.Errorf("got %v, %v", at, ok)
	}
}
