//go:build npm

package parts

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// wayHeader names the server's entry in the configuration, so that an origin can
// tell the connections of several apart.
const wayHeader = "X-Way"

// An origin is a server that knows where each request came from.
type origin struct {
	up   *mcptest.Upstream
	addr string

	mu   sync.Mutex
	from map[string]map[string]int // way -> host -> requests
	seen []http.Header
}

// startOrigin serves the tool echo, and /page, on a host of the network.
func startOrigin(t *testing.T, host string, secure *tls.Config) *origin {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{up: &mcptest.Upstream{Tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`}}, addr: l.Addr().String(), from: map[string]map[string]int{}}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	s := &http.Server{Handler: o}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return o
}

func (o *origin) port() string {
	_, port, _ := net.SplitHostPort(o.addr)
	return port
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	o.mu.Lock()
	way := r.Header.Get(wayHeader)
	if o.from[way] == nil {
		o.from[way] = map[string]int{}
	}
	o.from[way][host]++
	o.seen = append(o.seen, r.Header.Clone())
	o.mu.Unlock()
	if r.URL.Path == "/page" {
		io.WriteString(w, "a page for "+host)
		return
	}
	o.up.ServeHTTP(w, r)
}

// hosts are those that requests of a way came from.
func (o *origin) hosts(way string) map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[string]int{}
	for host, n := range o.from[way] {
		all[host] = n
	}
	return all
}

// through holds that there were requests of a way, all of them from this host.
func (o *origin) through(t *testing.T, way, host string) {
	t.Helper()
	if from := o.hosts(way); len(from) != 1 || from[host] == 0 {
		t.Errorf("requests of %s came from %v, want all from %s", way, from, host)
	}
}

// headers are those of all requests.
func (o *origin) headers() []http.Header {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]http.Header(nil), o.seen...)
}
