//go:build npm

package parts

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

// calm calls tools of healthy servers all the time.
type calm struct {
	stop context.CancelFunc
	all  sync.WaitGroup

	mu     sync.Mutex
	count  int
	failed []string
	most   time.Duration
}

// keepCalm calls each tool ten times a second until check.
func keepCalm(t *testing.T, url string, tools ...string) *calm {
	ctx, stop := context.WithCancel(t.Context())
	c := &calm{stop: stop}
	for _, tool := range tools {
		c.all.Go(func() { c.callOn(ctx, url, tool) })
	}
	return c
}

func (c *calm) callOn(ctx context.Context, url, tool string) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	a := &mcptest.Agent{URL: url, Client: client}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		r, err := a.Call(context.WithoutCancel(ctx), tool, "{}")
		c.note(tool, r, err, time.Since(began))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (c *calm) note(tool string, r *mcptest.Reply, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.most = max(c.most, took)
	if (err != nil || r.Content() != "{}") && len(c.failed) < 5 {
		text := fmt.Sprintf("%s: %v", tool, err)
		if err == nil {
			text += fmt.Sprintf(" %.300s", r.Body)
		}
		c.failed = append(c.failed, text)
	}
}

// check ends the calls. None may have failed, or taken as long as a time-out.
func (c *calm) check(t *testing.T) {
	t.Helper()
	c.stop()
	c.all.Wait()
	for _, f := range c.failed {
		t.Errorf("a healthy server's call failed: %s", f)
	}
	if c.most > 2*time.Second || c.count == 0 {
		t.Errorf("%d calls of healthy servers, the longest took %v", c.count, c.most)
	}
}

// A way is how a proxy fails.
type way struct {
	name string
	// to is the address of that proxy. If empty, nobody listens.
	to func(t *testing.T) string
	// secure is what the error of a tunnel says besides the proxy's name.
	secure string
	// plain are the codes of a call without a tunnel: there the proxy's answer
	// cannot always be told from the server's.
	plain []string
}

func ways() []way {
	tiny := func(lines ...string) func(*testing.T) string {
		return func(t *testing.T) string { _, addr := startTinyproxy(t, lines...); return addr }
	}
	all := []way{
		{"nobody", func(*testing.T) string { return "" }, "connection refused", []string{"PROXY"}},
		// Tinyproxy's answer to a wrong password is 401, not 407.
		{"another password", tiny("BasicAuth " + proxyUser + " other"), ": 401 Unauthorized", nil},
		{"not for us", tiny("Allow 192.0.2.1"), ": 403 Forbidden", nil},
		{"no tunnels there", tiny(basicAuth, "ConnectPort 443"), ": 403 Forbidden", []string{""}},
		{"socks", func(t *testing.T) string { _, addr := startMicrosocks(t); return addr }, "not HTTP", nil},
	}
	for id, secure := range map[string]string{"P6b": "407 Proxy Authentication Required", "P6c": "502 Bad Gateway", "P6e": "bytes follow the answer",
		"P6f": "exceeds", "P6g": "closed the connection without an answer", "P6h": "not HTTP", "P6j": "403 Forbidden"} {
		w := way{id, evilProxy(id), secure, nil}
		if id == "P6b" {
			w.plain = []string{"PROXY"}
		}
		all = append(all, w)
	}
	return all
}

// evilProxy is the address of one that fails in its own way.
func evilProxy(id string) func(*testing.T) string {
	return func(t *testing.T) string {
		u, err := url.Parse(evil.Start(t, id, false).URL)
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
}

// behindSwitch are servers behind a switch, and healthy ones beside them.
type behindSwitch struct {
	sw            *proxySwitch
	good          string
	plain, secure *origin
	s             *mcptest.Sidecar
	a             *mcptest.Agent
	calm          *calm
}

// startBehindSwitch starts them with settings of those behind the switch.
func startBehindSwitch(t *testing.T, settings ...string) *behindSwitch {
	t.Helper()
	corp := newAuthority(t)
	b := &behindSwitch{sw: newSwitch(t), plain: startOrigin(t, toolsHost, nil), secure: startOrigin(t, toolsHost, corp.pair.Server())}
	_, b.good = startTinyproxy(t, basicAuth)
	b.sw.turn(t, b.good)
	through := func(addr string) string {
		return "egress: {proxy: " + jsonOf("http://"+proxyUser+":"+proxyWord+"@"+addr) + "}"
	}
	plainURL, secureURL, trust := "http://"+toolsName+":"+b.plain.port()+"/mcp", "https://"+toolsName+":"+b.secure.port()+"/mcp", "ssl_verify: "+corp.file
	settings = append(settings, through(b.sw.addr), "lifecycle: {retry_pause: 0.1, retry_pause_max: 0.5, probe_interval: 1, wake_wait: 3}")
	b.s = mcptest.StartSidecar(t, "list_wait: 20s\nmcp_servers:\n"+
		serverEntry("plain", plainURL, append(settings, "breaker: {failures: -1}")...)+
		serverEntry("secure", secureURL, append(settings, trust, "breaker: {failures: 2, open: 600}")...)+
		entry("straight", plainURL)+
		entry("fine", secureURL, through(b.good), trust))
	b.a = &mcptest.Agent{URL: b.s.URL}
	b.calm = keepCalm(t, b.s.URL, "mcp_straight_echo", "mcp_fine_echo")
	return b
}

// fails has the proxy fail, calls both servers, and mends it.
func (b *behindSwitch) fails(t *testing.T, w way) {
	b.sw.off()
	if to := w.to(t); to != "" {
		b.sw.turn(t, to)
	}
	defer b.mended(t)
	call(t, b.a, "mcp_secure_echo", "{}") // perhaps on the connection that was cut
	call(t, b.a, "mcp_plain_echo", "{}")
	for range 4 { // more often than the breaker would bear
		r := call(t, b.a, "mcp_secure_echo", "{}")
		text := r.Content()
		if codeOf(r) != "PROXY" || !r.IsToolError() || !strings.Contains(text, `server "secure"`) || !strings.Contains(text, "proxy http://"+b.sw.addr) || !strings.Contains(text, w.secure) {
			t.Errorf("secure: %.600s, want MCPS-PROXY that names the server and the proxy, and %q", text, w.secure)
		}
		r = call(t, b.a, "mcp_plain_echo", "{}")
		if w.plain != nil && !slices.Contains(w.plain, codeOf(r)) || w.plain == nil && !strings.Contains(r.Content(), `server "plain"`) {
			t.Errorf("plain: %.600s, want one of %q", r.Content(), w.plain)
		}
		if strings.Contains(string(r.Body)+text, proxyWord) {
			t.Errorf("the agent learns the password: %s %s", text, r.Body)
		}
	}
}

// mended holds that both serve at the first call after the proxy is well. The one
// without a tunnel may have taken the proxy's refusals for the server's.
func (b *behindSwitch) mended(t *testing.T) {
	t.Helper()
	b.sw.turn(t, b.good)
	if r := call(t, b.a, "mcp_secure_echo", "{}"); r.Content() != "{}" {
		t.Errorf("secure, the proxy being well again: %.600s", r.Content())
	}
	served(t, b.a, "mcp_plain_echo", "{}", "{}")
}

// TestProxyFails: the proxy of servers in use fails in every way. Calls say so, with
// its name and without its credentials. The server's breaker does not count it.
func TestProxyFails(t *testing.T) {
	t.Parallel()
	needsNetwork(t)
	b := startBehindSwitch(t, "connect_timeout: 3s")
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) { b.fails(t, w) })
	}
	b.calm.check(t)
	secretsStay(t, b.s, b.plain, b.secure)
}

// TestProxyHangs: the proxy takes connections and says nothing. Its silence is
// bounded, and is neither the server's nor a sign that a call may have run.
func TestProxyHangs(t *testing.T) {
	t.Parallel()
	needsNetwork(t)
	b := startBehindSwitch(t, "connect_timeout: 1s", "timeout: 2s")
	b.sw.turn(t, evilProxy("P6d")(t))
	// A call that met the end of a tunnel through the proxy before may have run.
	if r := call(t, b.a, "mcp_secure_echo", "{}"); codeOf(r) != "PROXY" && codeOf(r) != "UNCERTAIN" {
		t.Errorf("got %.600s", r.Content())
	}
	for range 3 {
		began := time.Now()
		r := call(t, b.a, "mcp_secure_echo", "{}")
		text := r.Content()
		if took := time.Since(began); took > 8*time.Second || codeOf(r) != "PROXY" || !strings.Contains(text, "proxy http://"+b.sw.addr) || strings.Contains(text, "may have") {
			t.Errorf("after %v: %.600s, want MCPS-PROXY", took, text)
		}
	}
	b.mended(t)
	b.calm.check(t)
}

// TestProxyNeverWell: a server that cannot be reached from the start is told of in
// the log and at the end of the start, and the others are listed.
func TestProxyNeverWell(t *testing.T) {
	t.Parallel()
	needsNetwork(t)
	corp := newAuthority(t)
	plain, secure := startOrigin(t, toolsHost, nil), startOrigin(t, toolsHost, corp.pair.Server())
	_, guarded := startTinyproxy(t, basicAuth)
	_, narrow := startTinyproxy(t, "ConnectPort 443")
	_, closed := startTinyproxy(t, "Allow 192.0.2.1")
	_, locked := startMicrosocks(t, "-u", proxyUser, "-P", proxyWord)
	nobody := proxyHost + ":" + freePort(t)
	const wrong = "wr0ng-w0rd"
	cases := []struct{ way, scheme, user, proxy, says string }{
		{"wrong", "http", "ada:" + wrong + "@", guarded, "401 Unauthorized"},
		{"none", "http", "", guarded, "407 Proxy Authentication Required (the proxy's URL has no credentials)"},
		{"narrow", "http", "", narrow, "403 Forbidden"},
		{"closed", "http", "", closed, "403 Forbidden"},
		{"nobody", "http", "ada:" + wrong + "@", nobody, "connection refused"},
		{"socks_wrong", "socks5", "ada:" + wrong + "@", locked, "authentication failed"},
		{"socks_none", "socks5", "", locked, "no acceptable authentication"},
		{"not_tls", "https", "", guarded, "connect_timeout"},
	}
	config := "list_wait: 3s\nmcp_servers:\n" + entry("straight", "http://"+toolsName+":"+plain.port()+"/mcp")
	for _, c := range cases {
		config += entry(c.way, "https://"+toolsName+":"+secure.port()+"/mcp", "egress: {proxy: "+jsonOf(c.scheme+"://"+c.user+c.proxy)+"}", "ssl_verify: "+corp.file, "connect_timeout: 2s")
	}
	s := mcptest.StartSidecar(t, config)
	calm := keepCalm(t, s.URL, "mcp_straight_echo")
	for _, c := range cases {
		t.Run(c.way, func(t *testing.T) {
			waitFor(t, fmt.Sprintf("the log to tell of %s, %q and %q", c.way, c.proxy, c.says), func() bool {
				return logged(s, "server="+c.way+" ", "proxy "+c.scheme+"://"+c.proxy, c.says)
			})
		})
	}
	all, err := (&mcptest.Agent{URL: s.URL}).Tools(t.Context())
	if err != nil || len(all) != 1 || all["mcp_straight_echo"] == nil {
		t.Errorf("%v, listed are %d tools", err, len(all))
	}
	calm.check(t)
	if strings.Contains(s.Log(), wrong) {
		t.Errorf("the log has a password:\n%s", s.Log())
	}
}

// logged reports whether a line of the log has all these words.
func logged(s *mcptest.Sidecar, words ...string) bool {
	for line := range strings.Lines(s.Log()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}
