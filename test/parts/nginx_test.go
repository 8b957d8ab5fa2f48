//go:build npm

package parts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// nginxConf is a web server that wants certificates of clients. It serves a few
// requests on each connection, so that handshakes go on. Without a master there is
// one process, and none that changes its user.
const nginxConf = `
daemon off; master_process off;
pid %[1]s/nginx.pid; error_log %[1]s/error.log;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server {
		listen %[2]s ssl;
		ssl_certificate %[1]s/tls.crt; ssl_certificate_key %[1]s/tls.key;
		ssl_client_certificate %[1]s/ca.crt; ssl_verify_client on; ssl_verify_depth 3;
		keepalive_requests 10;
		proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 1h;
		proxy_set_header Connection ''; proxy_set_header X-Client-Serial $ssl_client_serial;
		location /mcp { proxy_pass http://%[3]s; }
		location /everything { proxy_pass http://%[4]s/mcp; }
	}
}
`

// A gate is nginx in front of two servers: one that records, at /mcp, and the
// reference server at /everything.
type gate struct {
	base   string
	ca     *mcptest.CA
	caFile string
	origin *origin
	dir    string
}

func startGate(t *testing.T) *gate {
	t.Helper()
	path := program(t, "nginx-light", "nginx")
	g := &gate{ca: mcptest.NewCA(t, "gate"), origin: startOrigin(t, "127.0.0.1", nil), dir: t.TempDir()}
	g.caFile = g.ca.File(t, g.dir)
	g.ca.Issue(t, mcptest.Leaf{Hosts: []string{"127.0.0.1"}}).Files(t, g.dir)
	addr := fmt.Sprintf("127.0.0.1:%d", newPort(t))
	reference := startEverything(t, "streamableHttp", newPort(t))
	conf := write(t, g.dir, "nginx.conf", fmt.Appendf(nil, nginxConf, g.dir, addr, g.origin.addr, reference.addr))
	start(t, addr, nil, path, "-p", g.dir, "-e", filepath.Join(g.dir, "error.log"), "-c", conf)
	g.base = "https://" + addr
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(filepath.Join(g.dir, "error.log"))
			t.Logf("nginx said:\n%s\nthe reference server said:\n%s", said, reference.out.String())
		}
	})
	return g
}

// onLoopback makes the server listen on loopback only, and not on all interfaces.
const onLoopback = `data:text/javascript,import net from 'node:net'; const l = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) { return l.call(this, port, '127.0.0.1', ...rest) }`

// A reference is a running server-everything.
type reference struct {
	*service
	addr string
}

func startEverything(t *testing.T, transport string, port int) *reference {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	return &reference{start(t, addr, []string{fmt.Sprintf("PORT=%d", port)}, mcptest.Node(t), "--import", onLoopback, mcptest.Module(t, "test/node", everything), transport), addr}
}

// openssl runs it and returns what it printed.
func openssl(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program(t, "openssl", "openssl"), args...)
	cmd.Stdin = bytes.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.Bytes()
}

// secured is an entry of the configuration with TLS settings.
func (g *gate) secured(name, path string, settings ...string) string {
	if !strings.Contains(strings.Join(settings, ""), "ssl_verify") {
		settings = append(settings, "ssl_verify: "+g.caFile)
	}
	return entry(name, g.base+path, settings...)
}

const passphrase = "pa55 phr:ase"

// TestMutualTLS: certificates in every shape, with keys as openssl encrypts them, and
// beside them servers whose certificate does not do.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	dir := t.TempDir()
	client := g.ca.Intermediate(t, "below").Issue(t, mcptest.Leaf{})
	cert, key := client.Files(t, dir)
	combined := write(t, dir, "combined.pem", client.Combined())
	pkcs8 := write(t, dir, "pkcs8.key", openssl(t, client.Key, "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "pass:"+passphrase))
	old := openssl(t, client.Key, "ec", "-aes256", "-passout", "pass:"+passphrase)
	if !bytes.Contains(old, []byte("DEK-Info: AES-256-CBC")) {
		t.Fatalf("openssl ec wrote another form:\n%s", old)
	}
	oldKey := write(t, dir, "old.key", old)
	good := map[string]string{
		"combined":  "client_cert: " + combined,
		"separate":  fmt.Sprintf("client_cert: %s, client_key: %s", cert, key),
		"listed":    fmt.Sprintf("client_cert: [%s, %s]", cert, key),
		"encrypted": fmt.Sprintf("client_cert: [%s, %s, %q]", cert, pkcs8, passphrase),
		"older":     fmt.Sprintf("client_cert: [%s, %s, %q]", cert, oldKey, passphrase),
	}
	expired := g.ca.Issue(t, mcptest.Leaf{From: time.Now().Add(-48 * time.Hour), Until: time.Now().Add(-24 * time.Hour)})
	stranger := mcptest.NewCA(t, "elsewhere")
	strange := stranger.Issue(t, mcptest.Leaf{})
	bad := []struct{ name, settings, says string }{
		{"no_cert", "", "400 Bad Request"},
		{"expired", "client_cert: " + write(t, dir, "expired.pem", expired.Combined()), "400 Bad Request"},
		{"strange", "client_cert: " + write(t, dir, "strange.pem", strange.Combined()), "400 Bad Request"},
		{"missing", fmt.Sprintf("client_cert: %s/absent.pem", dir), dir + "/absent.pem"},
		{"no_key", fmt.Sprintf("client_cert: [%s, %s/absent.key]", cert, dir), dir + "/absent.key"},
		{"not_its_key", fmt.Sprintf("client_cert: [%s, %s]", cert, write(t, dir, "strange.key", strange.Key)), "client_key"},
		{"wrong_word", fmt.Sprintf("client_cert: [%s, %s, %q]", cert, pkcs8, "n0t-this"), pkcs8},
		{"no_word", fmt.Sprintf("client_cert: [%s, %s]", cert, oldKey), oldKey},
		{"other_roots", "client_cert: " + combined + ", ssl_verify: " + write(t, dir, "elsewhere.crt", stranger.PEM()), "unknown authority"},
		{"system_roots", "client_cert: " + combined + ", ssl_verify: true", "unknown authority"},
		{"no_roots", "client_cert: " + combined + ", ssl_verify: " + dir + "/absent.crt", dir + "/absent.crt"},
	}
	config := "list_wait: 10s\nmcp_servers:\n" + g.secured("reference", "/everything", good["encrypted"], "connect_timeout: 60s")
	for name, settings := range good {
		config += g.secured(name, "/mcp", settings)
	}
	for _, b := range bad {
		if b.settings == "" {
			config += g.secured(b.name, "/mcp")
		} else {
			config += g.secured(b.name, "/mcp", b.settings)
		}
	}
	s := mcptest.StartSidecar(t, config)
	a := &mcptest.Agent{URL: s.URL}
	for name := range good {
		t.Run(name, func(t *testing.T) {
			if r := call(t, a, "mcp_"+name+"_echo", "{}"); r.Content() != "{}" {
				t.Errorf("got %.600s", r.Body)
			}
		})
	}
	t.Run("reference", func(t *testing.T) {
		if r := call(t, a, "mcp_reference_echo", `{"message":"hello"}`); r.Content() != "Echo: hello" {
			t.Errorf("got %.600s", r.Body)
		}
	})
	for _, b := range bad {
		t.Run(b.name, func(t *testing.T) {
			waitFor(t, fmt.Sprintf("the log to tell of %s and %q", b.name, b.says), func() bool { return logged(s, "server down", "server="+b.name+" ", b.says) })
		})
	}
	if all, err := a.Tools(t.Context()); err != nil || all["mcp_combined_echo"] == nil || all["mcp_reference_echo"] == nil || all["mcp_missing_echo"] != nil {
		t.Errorf("%v: %d tools", err, len(all))
	}
	for _, secret := range []string{passphrase, "n0t-this", "PRIVATE"} {
		if strings.Contains(s.Log(), secret) {
			t.Errorf("the log has %q:\n%s", secret, s.Log())
		}
	}
	for name := range good {
		if g.origin.hosts(name) == nil {
			t.Errorf("%s did not get through", name)
		}
	}
}

// A secret is a folder of files as Kubernetes keeps one: each is a link through
// ..data, which is replaced in one step.
type secret struct {
	dir        string
	generation int
}

func newSecret(t *testing.T, files map[string][]byte) *secret {
	t.Helper()
	s := &secret{dir: t.TempDir()}
	s.swap(t, files)
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// swap brings the next generation, and removes the last one.
func (s *secret) swap(t *testing.T, files map[string][]byte) {
	t.Helper()
	old := fmt.Sprintf("..gen-%d", s.generation)
	s.generation++
	name := fmt.Sprintf("..gen-%d", s.generation)
	err := os.Mkdir(filepath.Join(s.dir, name), 0o700)
	for file, data := range files {
		write(t, filepath.Join(s.dir, name), file, data)
	}
	if err == nil {
		err = os.Symlink(name, filepath.Join(s.dir, "..data_tmp"))
	}
	if err == nil {
		err = os.Rename(filepath.Join(s.dir, "..data_tmp"), filepath.Join(s.dir, "..data"))
	}
	if err == nil {
		err = os.RemoveAll(filepath.Join(s.dir, old))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRotation: certificate and key are replaced again and again under calls. None
// fails, and new connections come with the newest.
func TestRotation(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	pair := func() (*mcptest.Pair, map[string][]byte) {
		p := g.ca.Issue(t, mcptest.Leaf{})
		return p, map[string][]byte{"tls.crt": p.Cert, "tls.key": p.Key, "ca.crt": g.ca.PEM()}
	}
	first, files := pair()
	sec := newSecret(t, files)
	s := mcptest.StartSidecar(t, "list_wait: 10s\nmcp_servers:\n"+entry("web", g.base+"/mcp", "supports_parallel_tool_calls: true",
		fmt.Sprintf("client_cert: [%[1]s/tls.crt, %[1]s/tls.key], ssl_verify: %[1]s/ca.crt", sec.dir)))
	if r := call(t, &mcptest.Agent{URL: s.URL}, "mcp_web_echo", "{}"); r.Content() != "{}" {
		t.Fatalf("got %.600s", r.Body)
	}
	load := underLoad(t, s.URL, "mcp_web_echo", 8)
	serials := []string{serialOf(first)}
	for range rotations() {
		next, files := pair()
		sec.swap(t, files)
		serials = append(serials, serialOf(next))
		waitFor(t, "a connection with the new certificate", func() bool { return g.seen(serialOf(next)) })
	}
	load.end(t)
	for i, serial := range serials {
		if !g.seen(serial) {
			t.Errorf("no request with certificate %d", i)
		}
	}
}

func rotations() int {
	if longRun() {
		return 20
	}
	return 4
}

func serialOf(p *mcptest.Pair) string { return fmt.Sprintf("%X", p.X509.SerialNumber) }

// seen reports whether a request came over a connection with this certificate.
func (g *gate) seen(serial string) bool {
	for _, h := range g.origin.headers() {
		if strings.TrimLeft(h.Get("X-Client-Serial"), "0") == serial {
			return true
		}
	}
	return false
}

// A load calls a tool all the time; no call may fail.
type load struct {
	stop    chan struct{}
	callers sync.WaitGroup
	calls   atomic.Int64

	mu     sync.Mutex
	failed []string
}

func underLoad(t *testing.T, url, tool string, clients int) *load {
	l := &load{stop: make(chan struct{})}
	for i := range clients {
		a := &mcptest.Agent{URL: url}
		l.callers.Go(func() { l.callOn(t, a, tool, fmt.Sprintf(`{"client":%d}`, i)) })
	}
	return l
}

func (l *load) callOn(t *testing.T, a *mcptest.Agent, tool, args string) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		r, err := a.Call(t.Context(), tool, args)
		l.calls.Add(1)
		if err == nil && r.Content() == args {
			continue
		}
		text := fmt.Sprint(err)
		if err == nil {
			text = fmt.Sprintf("%.300s", r.Body)
		}
		l.mu.Lock()
		l.failed = append(l.failed, text)
		l.mu.Unlock()
	}
}

func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.callers.Wait()
	if n := len(l.failed); n > 0 {
		t.Errorf("%d of %d calls failed: %s", n, l.calls.Load(), l.failed[0])
	}
}
