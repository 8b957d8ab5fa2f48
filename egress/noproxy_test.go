package egress

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Why a row differs from golang.org/x/net/http/httpproxy.
const (
	apex      = "there *.x and .x leave out x itself"
	blanks    = "there blanks do not separate"
	dots      = "there a trailing dot is part of the name"
	inferred  = "there the scheme's port counts as written"
	localName = "there only localhost is a loopback name"
	upper     = "there localhost is one spelling only"
	netPort   = "there what looks like a port belongs to a name"
)

var noProxyRows = []struct {
	entry, url string
	direct     bool
	differs    string // why the oracle says otherwise; empty: it must agree
}{
	// What the seed's agent does, measured.
	{"*.example.com", "https://example.com", true, apex},
	{".example.com", "https://example.com", true, apex},
	{"foo.com bar.com", "https://bar.com", true, blanks},
	{"example.com.", "https://example.com", true, dots},
	{"x.com:443", "https://x.com/", false, inferred},
	{"10.0.0.0/8", "http://10.1.2.3", true, ""},
	{"10.1.2.3/8", "http://10.9.9.9", true, ""},
	{"fd00::/8", "http://[fd12::1]", true, ""},
	{"*", "https://example.com", true, ""},
	{"", "http://127.0.0.2", true, ""},
	{"", "http://localhost:8080", true, ""},

	// Names.
	{"example.com", "https://example.com", true, ""},
	{"example.com", "https://a.example.com", true, ""},
	{"example.com", "https://a.b.example.com:8443", true, ""},
	{"example.com", "https://badexample.com", false, ""},
	{"example.com", "https://example.com.evil.test", false, ""},
	{"example.com", "https://com", false, ""},
	{"EXAMPLE.com", "https://A.Example.COM", true, ""},
	{".example.com", "https://a.example.com", true, ""},
	{"*.example.com", "https://a.b.example.com", true, ""},
	{"*.example.com", "https://aexample.com", false, ""},
	{"example.com", "https://example.com.", true, dots},
	{"*.example.com.", "https://a.example.com.", true, ""},
	{"a_b.example", "http://a_b.example", true, ""},
	{"bücher.example", "http://xn--bcher-kva.example", true, ""},
	{"xn--bcher-kva.example", "http://bücher.example", true, ""},
	{"a.*.com", "http://a.b.com", false, ""},
	{"exam*", "http://example", false, ""},
	{"ple.com", "http://example.com", false, ""},
	{"<local>", "http://intranet", false, ""},
	{"com", "http://example.com", true, ""},

	// Lists.
	{"a.test,b.test", "http://b.test", true, ""},
	{" a.test , b.test ", "http://a.test", true, ""},
	{",,a.test,,", "http://a.test", true, ""},
	{"a.test\tb.test\nc.test", "http://c.test", true, blanks},
	{"a.test, *", "http://other.test", true, ""},
	{"/, ::/999, a.test", "http://a.test", true, ""},

	// Ports.
	{"x.com:8443", "https://x.com:8443", true, ""},
	{"x.com:8443", "https://a.x.com:8443", true, ""},
	{"x.com:8443", "https://x.com", false, ""},
	{"x.com:443", "https://x.com:443", true, ""},
	{"x.com:80", "http://x.com", false, inferred},
	{".x.com:8443", "https://a.x.com:8443", true, ""},
	{"*.x.com:8443", "https://x.com:8443", true, apex},
	{"x.com:0", "http://x.com", false, ""},
	{"x.com:http", "http://x.com", false, ""},
	{":8080", "http://x.com:8080", false, ""},
	{"10.1.2.3:81", "http://10.1.2.3:81", true, ""},
	{"10.1.2.3:81", "http://10.1.2.3:82", false, ""},
	{"[fd00::1]:81", "http://[fd00::1]:81", true, ""},
	{"[fd00::1]:81", "http://[fd00::1]", false, ""},

	// Addresses.
	{"10.1.2.3", "http://10.1.2.3:99", true, ""},
	{"10.1.2.3", "http://10.1.2.33", false, ""},
	{"10.0.0.0/8", "http://11.0.0.1", false, ""},
	{"10.0.0.0/33", "http://10.0.0.1", false, ""},
	{"0.0.0.0/0", "http://8.8.8.8", true, ""},
	{"0.0.0.0/0", "http://[2001:db8::1]", false, ""},
	{"::/0", "http://[2001:db8::1]", true, ""},
	{"fd00::1", "http://[fd00::1]", true, ""},
	{"[fd00::1]", "http://[fd00::1]:8080", true, netPort},
	{"fd00:0:0::1", "http://[fd00::1]", true, ""},
	{"10.0.0.0/8", "http://[::ffff:10.1.2.3]", true, ""},
	{"::ffff:10.1.2.3", "http://10.1.2.3", true, ""},
	{"::ffff:10.0.0.0/104", "http://10.1.2.3", true, ""},
	{"10.1.2.3", "http://[::ffff:10.1.2.3]", true, ""},
	{"::ffff:0.0.0.0/90", "http://10.1.2.3", false, ""},
	{"10.0.0.0/8", "http://10.example.com", false, ""},
	{"3", "http://10.1.2.3", false, ""},
	{".2.3", "http://10.1.2.3", false, ""},
	{"10.*", "http://10.1.2.3", false, ""},
	{"10.0.0.0/8", "http://10.1.2.3.", true, dots},

	// Zones (CVE-2025-22870).
	{"*.example.com", "http://[fe80::1%25.example.com]", false, ""},
	{"example.com", "http://[fd00::1%25.example.com]:80", false, ""},
	{"fe80::/10", "http://[fe80::1%25eth0]", true, ""},
	{"", "http://[::1%25.example.com]", true, ""},

	// Loopback is direct, whatever stands in NO_PROXY.
	{"", "https://127.0.0.1", true, ""},
	{"", "https://[::1]:8443", true, ""},
	{"", "https://[::ffff:127.0.0.1]", true, ""},
	{"", "http://LOCALHOST", true, upper},
	{"", "http://localhost.", true, dots},
	{"", "http://app.localhost", true, localName},
	{"", "http://127.0.0.1.", true, dots},
	{"", "http://localhost.example.com", false, ""},
	{"", "http://notlocalhost", false, ""},
	{"", "http://0.0.0.0", false, ""},
	{"", "http://169.254.169.254", false, ""},
}

func TestNoProxy(t *testing.T) {
	const proxy = "http://proxy.test:3128"
	for _, row := range noProxyRows {
		u, err := url.Parse(row.url)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Compile(Settings{}, []string{"http_proxy=" + proxy, "https_proxy=" + proxy, "NO_PROXY=" + row.entry})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Route(u, "")
		if err != nil {
			t.Fatal(err)
		}
		if r.Proxied() == row.direct {
			t.Errorf("NO_PROXY=%q, %s: got %v, want direct %v", row.entry, row.url, r, row.direct)
		}
		oracle := httpproxy.Config{HTTPProxy: proxy, HTTPSProxy: proxy, NoProxy: row.entry}
		via, err := oracle.ProxyFunc()(u)
		if err != nil {
			t.Fatal(err)
		}
		if agrees := (via == nil) == row.direct; agrees != (row.differs == "") {
			t.Errorf("NO_PROXY=%q, %s: httpproxy agrees: %v, want %v (%s)", row.entry, row.url, agrees, row.differs == "", row.differs)
		}
	}
}

func TestNoProxySources(t *testing.T) {
	s := Settings{Proxy: "proxy.test:3128", NoProxy: []string{"c.test d.test", "e.test"}}
	e, err := Compile(s, []string{"NO_PROXY=a.test", "no_proxy=b.test bad*", "http_proxy=http://other:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a.test", "b.test", "c.test", "d.test", "e.test"} {
		if r := route(t, e, "http://"+host, ""); r.Proxied() {
			t.Errorf("%s: got %v, want direct", host, r)
		}
	}
	if r := route(t, e, "http://f.test", ""); r.String() != "http://proxy.test:3128" {
		t.Errorf("got %v", r)
	}
	if w := e.Warnings(); len(w) != 1 || !strings.Contains(w[0], `"bad*" is ignored`) {
		t.Errorf("warnings: %q", w)
	}
}

func TestResolveNames(t *testing.T) {
	addrs := map[string][]netip.Addr{
		"in.test":     {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:10.1.1.1")},
		"out.test":    {netip.MustParseAddr("192.0.2.1")},
		"silent.test": nil,
	}
	lookup := func(ctx context.Context, name string) ([]netip.Addr, error) {
		if name == "silent.test" {
			<-ctx.Done()
			return addrs["in.test"], ctx.Err()
		}
		if ips, ok := addrs[name]; ok {
			return ips, nil
		}
		return nil, errors.New("no such host")
	}
	for _, c := range []struct {
		url     string
		resolve bool
		noProxy string
		direct  bool
	}{
		{"http://in.test", true, "10.0.0.0/8", true},
		{"http://in.test", false, "10.0.0.0/8", false},
		{"http://in.test", true, "10.1.1.1", true},
		{"http://in.test:81", true, "10.1.1.1:81", true},
		{"http://in.test:82", true, "10.1.1.1:81", false},
		{"http://out.test", true, "10.0.0.0/8", false},
		{"http://none.test", true, "10.0.0.0/8", false},
		{"http://silent.test", true, "10.0.0.0/8", false},
		{"http://192.0.2.1", true, "10.0.0.0/8", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := Settings{Proxy: "proxy.test", ResolveNames: c.resolve}
			e, err := CompileWith(s, []string{"NO_PROXY=" + c.noProxy}, Options{Lookup: lookup})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if r := route(t, e, c.url, ""); r.Proxied() == c.direct {
				t.Errorf("%+v: got %v", c, r)
			}
			if d := time.Since(start); d > resolveWait {
				t.Errorf("%+v: took %v", c, d)
			}
		})
	}
}

func route(t *testing.T, e *Egress, raw, override string) Route {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Route(u, override)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// FuzzEntry looks for words that match what they should not, and for panics.
func FuzzEntry(f *testing.F) {
	for _, row := range noProxyRows {
		f.Add(row.entry, strings.TrimPrefix(strings.TrimPrefix(row.url, "https://"), "http://"))
	}
	f.Fuzz(func(t *testing.T, word, host string) {
		e, err := parseEntry(word)
		if err != nil || e.all {
			return
		}
		if e.net.IsValid() == (e.name != "") {
			t.Fatalf("%q is %+v", word, e)
		}
		name, ip := readHost(host)
		at := target{name: name, ip: ip}
		if e.matches(at) && e.port == "" && ip.IsValid() != e.net.IsValid() {
			t.Fatalf("%q (%+v) matches %q", word, e, host)
		}
	})
}
