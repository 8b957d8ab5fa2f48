//go:build npm

package parts

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// The proxies' credentials, and what must not be seen of them.
const (
	proxyUser = "ada"
	proxyWord = "s3cret-w0rd"
)

// freePort is one on the proxies' host.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", proxyHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// startTinyproxy runs a proxy that connects from exitHost, and returns its address.
// It lets our network in, and CONNECT to all ports, unless lines say otherwise.
func startTinyproxy(t *testing.T, lines ...string) (*service, string) {
	t.Helper()
	path := program(t, "tinyproxy-bin", "tinyproxy")
	port := freePort(t)
	conf := fmt.Sprintf("Port %s\nListen %s\nBind %s\nTimeout 120\nMaxClients 200\nLogLevel Connect\n", port, proxyHost, exitHost)
	for _, l := range lines {
		conf += l + "\n"
	}
	if !strings.Contains(conf, "\nAllow ") {
		conf += "Allow 10.77.0.0/24\n"
	}
	addr := proxyHost + ":" + port
	return start(t, addr, nil, path, "-d", "-c", write(t, t.TempDir(), "tinyproxy.conf", []byte(conf))), addr
}

func startMicrosocks(t *testing.T, args ...string) (*service, string) {
	t.Helper()
	path := program(t, "microsocks", "microsocks")
	port := freePort(t)
	addr := proxyHost + ":" + port
	return start(t, addr, nil, path, append([]string{"-i", proxyHost, "-p", port, "-b", exitHost}, args...)...), addr
}

const basicAuth = "BasicAuth " + proxyUser + " " + proxyWord

// An authority with a server's certificate for the names of the network.
type authority struct {
	ca   *mcptest.CA
	pair *mcptest.Pair
	file string // of the authority
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{ca: mcptest.NewCA(t, "corp")}
	a.pair = a.ca.Issue(t, mcptest.Leaf{Hosts: []string{toolsName, otherName, toolsHost, otherHost, "127.0.0.1", "localhost"}})
	a.file = a.ca.File(t, t.TempDir())
	return a
}

// entry is a server of the configuration that is tried again soon; more are settings.
func entry(way, url string, more ...string) string {
	return serverEntry(way, url, append(more, "lifecycle: {retry_pause: 0.1, retry_pause_max: 1}")...)
}

func serverEntry(way, url string, more ...string) string {
	all := append([]string{"url: " + jsonOf(url), fmt.Sprintf("headers: {%s: %s}", wayHeader, way)}, more...)
	return fmt.Sprintf("  %s: {%s}\n", way, strings.Join(all, ", "))
}

// TestThroughProxies: servers behind proxies of every kind, over HTTP and HTTPS,
// by name and by address.
func TestThroughProxies(t *testing.T) {
	t.Parallel()
	needsNetwork(t)
	corp := newAuthority(t)
	plain, secure := startOrigin(t, toolsHost, nil), startOrigin(t, toolsHost, corp.pair.Server())
	_, tiny := startTinyproxy(t)
	_, guarded := startTinyproxy(t, basicAuth, "ConnectPort "+secure.port())
	_, socks := startMicrosocks(t)
	_, lockedSocks := startMicrosocks(t, "-u", proxyUser, "-P", proxyWord)
	credentials := proxyUser + ":" + proxyWord + "@"

	config := "list_wait: 20s\nmcp_servers:\n"
	ways := map[string]*origin{}
	for name, proxy := range map[string]string{
		"tiny": "http://" + tiny, "bare": tiny, "guarded": "http://" + credentials + guarded,
		"named": "http://" + credentials + proxyName + guarded[strings.IndexByte(guarded, ':'):],
		"socks": "socks5://" + socks, "socksh": "socks5h://" + socks, "socksy": "socks://" + socks,
		"locked": "socks5://" + credentials + lockedSocks,
	} {
		through := "egress: {proxy: " + jsonOf(proxy) + "}"
		config += entry(name+"_plain", "http://"+toolsName+":"+plain.port()+"/mcp", through)
		config += entry(name+"_secure", "https://"+toolsName+":"+secure.port()+"/mcp", through, "ssl_verify: "+corp.file)
		config += entry(name+"_number", "https://"+toolsHost+":"+secure.port()+"/mcp", through, "ssl_verify: "+corp.file)
		ways[name+"_plain"], ways[name+"_secure"], ways[name+"_number"] = plain, secure, secure
	}
	config += entry("straight", "http://"+toolsName+":"+plain.port()+"/mcp")
	s := mcptest.StartSidecar(t, config)
	a := &mcptest.Agent{URL: s.URL}
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			served(t, a, "mcp_"+way+"_echo", `{"way":"`+way+`"}`, `{"way":"`+way+`"}`)
			o.through(t, way, exitHost)
		})
	}
	t.Run("straight", func(t *testing.T) {
		served(t, a, "mcp_straight_echo", "{}", "{}")
		plain.through(t, "straight", toolsHost)
	})
	secretsStay(t, s, plain, secure)
}

// secretsStay: neither log nor servers learn the proxies' credentials.
func secretsStay(t *testing.T, s *mcptest.Sidecar, origins ...*origin) {
	t.Helper()
	if strings.Contains(s.Log(), proxyWord) {
		t.Errorf("the log has the proxy's password:\n%s", s.Log())
	}
	for _, o := range origins {
		for _, h := range o.headers() {
			if h.Get("Proxy-Authorization") != "" {
				t.Errorf("the server got Proxy-Authorization %q", h.Get("Proxy-Authorization"))
			}
		}
	}
}

// TestProxiesUnderLoad: no call of eight clients fails because of how a proxy treats
// its connections. Tinyproxy ends each one after an answer, and does not say so.
func TestProxiesUnderLoad(t *testing.T) {
	t.Parallel()
	needsNetwork(t)
	corp := newAuthority(t)
	plain, secure := startOrigin(t, toolsHost, nil), startOrigin(t, toolsHost, corp.pair.Server())
	_, tiny := startTinyproxy(t)
	_, socks := startMicrosocks(t)
	plainURL, secureURL := "http://"+toolsName+":"+plain.port()+"/mcp", "https://"+toolsName+":"+secure.port()+"/mcp"
	through := func(url string) string {
		return "supports_parallel_tool_calls: true, egress: {proxy: " + jsonOf(url) + "}"
	}
	s := mcptest.StartSidecar(t, "list_wait: 20s\nmcp_servers:\n"+
		entry("tiny_plain", plainURL, through("http://"+tiny))+
		entry("tiny_secure", secureURL, through("http://"+tiny), "ssl_verify: "+corp.file)+
		entry("socks_plain", plainURL, through("socks5://"+socks)))
	for _, way := range []string{"tiny_plain", "tiny_secure", "socks_plain"} {
		t.Run(way, func(t *testing.T) {
			tool := "mcp_" + way + "_echo"
			served(t, &mcptest.Agent{URL: s.URL}, tool, "{}", "{}")
			l := underLoad(t, s.URL, tool, 8)
			waitFor(t, "500 calls", func() bool { return l.calls.Load() >= 500 })
			l.end(t)
		})
	}
}

// TestEnvironment: the proxy of the environment, and what NO_PROXY exempts.
func TestEnvironment(t *testing.T) {
	needsNetwork(t)
	corp := newAuthority(t)
	plain, secure, other := startOrigin(t, toolsHost, nil), startOrigin(t, toolsHost, corp.pair.Server()), startOrigin(t, otherHost, nil)
	local := startOrigin(t, "127.0.0.1", nil)
	_, tiny := startTinyproxy(t, basicAuth)
	t.Setenv("HTTP_PROXY", "http://nobody:nothing@"+tiny)
	t.Setenv("http_proxy", "http://"+proxyUser+":"+proxyWord+"@"+tiny)
	t.Setenv("HTTPS_PROXY", "http://"+proxyUser+":"+proxyWord+"@"+tiny)
	t.Setenv("NO_PROXY", "elsewhere.test, "+otherName+" 192.0.2.0/24")
	s := mcptest.StartSidecar(t, "list_wait: 20s\negress: {no_proxy: [\""+toolsHost+"/32\"]}\nmcp_servers:\n"+
		entry("plain", "http://"+toolsName+":"+plain.port()+"/mcp")+
		entry("secure", "https://"+toolsName+":"+secure.port()+"/mcp", "ssl_verify: "+corp.file)+
		entry("exempt", "http://"+otherName+":"+other.port()+"/mcp")+
		entry("ours", "http://"+toolsHost+":"+plain.port()+"/mcp")+
		entry("local", "http://localhost:"+local.port()+"/mcp"))
	a := &mcptest.Agent{URL: s.URL}
	for _, c := range []struct {
		way  string
		o    *origin
		from string
	}{{"plain", plain, exitHost}, {"secure", secure, exitHost}, {"exempt", other, otherHost}, {"ours", plain, toolsHost}, {"local", local, "127.0.0.1"}} {
		served(t, a, "mcp_"+c.way+"_echo", "{}", "{}")
		c.o.through(t, c.way, c.from)
	}
	secretsStay(t, s, plain, secure, other, local)
}

// A switch is an address whose connections go to one proxy or another.
type proxySwitch struct {
	addr string

	mu    sync.Mutex
	l     net.Listener
	to    string
	conns map[net.Conn]bool
	pumps sync.WaitGroup
}

func newSwitch(t *testing.T) *proxySwitch {
	t.Helper()
	s := &proxySwitch{addr: proxyHost + ":" + freePort(t), conns: map[net.Conn]bool{}}
	t.Cleanup(s.off)
	return s
}

// turn sends new connections to another proxy, and ends the old ones.
func (s *proxySwitch) turn(t *testing.T, to string) {
	t.Helper()
	s.off()
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.l, s.to = l, to
	s.mu.Unlock()
	s.pumps.Go(func() { s.accept(l, to) })
}

// off has nobody listen.
func (s *proxySwitch) off() {
	s.mu.Lock()
	if s.l != nil {
		s.l.Close()
		s.l = nil
	}
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.pumps.Wait()
}

func (s *proxySwitch) accept(l net.Listener, to string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.pumps.Go(func() { s.join(l, c, to) })
	}
}

func (s *proxySwitch) join(l net.Listener, c net.Conn, to string) {
	defer c.Close()
	p, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer p.Close()
	s.mu.Lock()
	if s.l != l {
		s.mu.Unlock()
		return
	}
	s.conns[c], s.conns[p] = true, true
	s.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { io.Copy(p, c); p.Close() })
	io.Copy(c, p)
	c.Close()
	both.Wait()
	s.mu.Lock()
	delete(s.conns, c)
	delete(s.conns, p)
	s.mu.Unlock()
}
