package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	sys := func() (System, error) { return System{HTTP: "sys:1", SOCKS: "sysocks:2"}, nil }
	for _, c := range []struct {
		name, setting, override string
		environ                 []string
		system                  func() (System, error)
		http, https             string
	}{
		{name: "nothing", http: "direct", https: "direct"},
		{name: "lower case wins", environ: []string{"HTTP_PROXY=http://up:1", "http_proxy=http://low:1", "HTTPS_PROXY=http://s:1"}, http: "http://low:1", https: "http://s:1"},
		{name: "an empty one unsets", environ: []string{"HTTPS_PROXY=http://up:1", "https_proxy=", "ALL_PROXY=http://all:1"}, http: "http://all:1", https: "http://all:1"},
		{name: "own variable before all", environ: []string{"all_proxy=http://all:1", "HTTPS_PROXY=http://s:1"}, http: "http://all:1", https: "http://s:1"},
		{name: "all in lower case wins", environ: []string{"ALL_PROXY=http://up:1", "all_proxy=http://low:1"}, http: "http://low:1", https: "http://low:1"},
		{name: "httpoxy", environ: []string{"REQUEST_METHOD=GET", "HTTP_PROXY=http://evil:1", "HTTPS_PROXY=http://s:1"}, http: "direct", https: "http://s:1"},
		{name: "httpoxy, lower case", environ: []string{"REQUEST_METHOD=GET", "http_proxy=http://ok:1"}, http: "http://ok:1", https: "direct"},
		{name: "unused garbage", environ: []string{"http_proxy=a:1", "https_proxy=b:1", "ALL_PROXY=socks4://x", "HTTP_PROXY=ftp://x"}, http: "http://a:1", https: "http://b:1"},
		{name: "setting", setting: "socks://h", environ: []string{"HTTP_PROXY=http://up:1"}, http: "socks5://h:1080", https: "socks5://h:1080"},
		{name: "setting before garbage", setting: "https://h", environ: []string{"HTTP_PROXY=ftp://up:1"}, http: "https://h:443", https: "https://h:443"},
		{name: "setting direct", setting: "direct", environ: []string{"HTTP_PROXY=http://up:1"}, http: "direct", https: "direct"},
		{name: "override", setting: "direct", override: "http://own:1", environ: []string{"NO_PROXY=*"}, http: "http://own:1", https: "http://own:1"},
		{name: "override direct", setting: "http://h:1", override: "direct", http: "direct", https: "direct"},
		{name: "system", system: sys, http: "http://sys:1", https: "socks5://sysocks:2"},
		{name: "system after environment", system: sys, environ: []string{"http_proxy=http://e:1"}, http: "http://e:1", https: "direct"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := CompileWith(Settings{Proxy: c.setting}, c.environ, Options{System: c.system})
			if err != nil {
				t.Fatal(err)
			}
			got := []string{route(t, e, "http://x.test", c.override).String(), route(t, e, "https://x.test", c.override).String()}
			if diff := cmp.Diff([]string{c.http, c.https}, got); diff != "" {
				t.Error(diff)
			}
			for _, local := range []string{"http://localhost", "https://127.0.0.1", "http+unix://socket"} {
				if r := route(t, e, local, c.override); r.Proxied() {
					t.Errorf("%s: got %v, want direct", local, r)
				}
			}
		})
	}
}

func TestFaultsAtOnce(t *testing.T) {
	s := Settings{CAFile: "testdata/none.pem"}
	_, err := Compile(s, []string{"http_proxy=socks4://u:s3cret@h", "HTTPS_PROXY=http://u:s3cret@h:99999"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"egress.ca_file: ", "none.pem", `http_proxy: proxies of scheme "socks4"`, "HTTPS_PROXY: invalid proxy URL: the port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a secret in %v", err)
	}
	_, err = CompileWith(Settings{}, nil, Options{System: func() (System, error) { return System{}, errors.New("no scutil") }})
	if err == nil || err.Error() != "the system's proxy settings: no scutil" {
		t.Errorf("got %v", err)
	}
	e, err := Compile(Settings{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Route(&url.URL{Scheme: "http", Host: "x"}, "ftp://h"); err == nil {
		t.Error("an override that cannot be used is no error")
	}
}

func TestParseProxy(t *testing.T) {
	for _, c := range []struct{ raw, name, fault string }{
		{raw: "http://h", name: "http://h:80"},
		{raw: "http://h:3128/", name: "http://h:3128"},
		{raw: "h:3128", name: "http://h:3128"},
		{raw: "10.0.0.1:3128", name: "http://10.0.0.1:3128"},
		{raw: "[fd00::1]:3128", name: "http://[fd00::1]:3128"},
		{raw: " HTTPS://H ", name: "https://H:443"},
		{raw: "u:p@h:1", name: "http://h:1"},
		{raw: "socks5://u:p@h", name: "socks5://h:1080"},
		{raw: "socks5h://h:9", name: "socks5://h:9"},
		{raw: "socks://h", name: "socks5://h:1080"},
		{raw: "http://b%C3%BCcher.example", name: "http://xn--bcher-kva.example:80"},
		{raw: "socks4://h", fault: `"socks4" are not supported`},
		{raw: "socks4a://h", fault: "not supported"},
		{raw: "ftp://h", fault: `"ftp" are not supported`},
		{raw: "http://", fault: "no host"},
		{raw: "http://:80", fault: "no host"},
		{raw: "http://h:0", fault: "port"},
		{raw: "http://h:65536", fault: "port"},
		{raw: "http://h:x", fault: "invalid proxy URL"},
		{raw: "http://u:s3/cret@h", fault: "invalid proxy URL"},
		{raw: "http://u:3/cret@h", fault: "follows the host"},
		{raw: "http://u:3#cret@h", fault: "follows the host"},
		{raw: "http://u:3?cret@h", fault: "follows the host"},
		{raw: "http://h h", fault: "blank"},
		{raw: "http://h\r\nX: y", fault: "control character"},
		{raw: "socks5://:p@h", fault: "socks5 takes a user"},
		{raw: "socks5://" + strings.Repeat("u", 256) + ":p@h", fault: "255 bytes"},
	} {
		h, err := parseProxy(c.raw)
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%q: %v", c.raw, err)
		case c.fault == "" && h.name != c.name:
			t.Errorf("%q: got %q, want %q", c.raw, h.name, c.name)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%q: got error %v, want %q", c.raw, err, c.fault)
		case c.fault != "" && strings.Contains(err.Error(), "cret"):
			t.Errorf("%q: a secret in %v", c.raw, err)
		}
	}
}

func FuzzParseProxy(f *testing.F) {
	f.Add("http://u:p@h:1/")
	f.Add("socks5://[::1%25x]:9")
	f.Fuzz(func(t *testing.T, raw string) {
		h, err := parseProxy(raw)
		if err == nil && (h.addr == "" || strings.ContainsAny(h.name, "\r\n@ ")) {
			t.Fatalf("%q: %+v", raw, h)
		}
	})
}

func TestNothingPrintsCredentials(t *testing.T) {
	e, err := Compile(Settings{Proxy: "http://user:s3cret@h:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := route(t, e, "http://x", "")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, r); s != "http://h:1" {
			t.Errorf("%s: got %q", verb, s)
		}
	}
	other := route(t, e, "http://x", "http://user:other@h:1")
	if r.Key() == other.Key() || r.Key() == (Route{}).Key() || r.Key() != route(t, e, "http://y", "").Key() {
		t.Error("keys do not tell routes apart")
	}
}

func TestValidate(t *testing.T) {
	var got []string
	bad := func(key, msg string) { got = append(got, key+": "+msg) }
	s := Settings{Proxy: "socks4://h", NoProxy: []string{"ok.test, a*b", "${MORE}"}, CAFile: " "}
	s.Validate(bad)
	(&Server{Allow: []string{"ok.test", "x:y", "10.0.0.0/64", "${HOST}:443"}, Via: "elsewhere", Proxy: "http://u:${PASS}@h"}).Validate(true, bad)
	(&Server{Allow: []string{}, Via: "corporate"}).Validate(false, bad)
	(&Server{Via: "direct", Proxy: "http://"}).Validate(false, bad)
	(&Server{Proxy: "direct"}).Validate(true, bad)
	(&Server{Proxy: "http://h", Via: "direct", Allow: []string{"*"}}).Validate(true, bad)
	(&Server{Proxy: "${PROXY}", Allow: []string{}}).Validate(true, bad)
	(&Server{}).Validate(true, bad)
	want := []string{
		`proxy: proxies of scheme "socks4" are not supported: use http, https, socks5 or socks5h`,
		`no_proxy: "a*b": is not a host, a .suffix, an address or a CIDR`,
		`ca_file: is an empty path`,
		`allow: "x:y": the port must be 1 to 65535`,
		`allow: "10.0.0.0/64": is not a host, a *.suffix, an address or a CIDR, with :port or without`,
		`via: is corporate or direct, not "elsewhere"`,
		`allow: works with stdio servers only`,
		`proxy: invalid proxy URL: no host`,
		`via: set, but allow is not`,
		`proxy: has no effect on a child without allow: set the variables in env, or allow`,
		`via: is direct, but a proxy is set`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const scutil = `<dictionary> {
  ExceptionsList : <array> {
    0 : *.local
    1 : 169.254/16
    2 : 10.*
    3 : a*b
  }
  ExcludeSimpleHostnames : 1
  FTPPassive : 1
  HTTPEnable : 1
  HTTPPort : 8080
  HTTPProxy : proxy.test
  HTTPSEnable : 0
  HTTPSPort : 8081
  HTTPSProxy : off.test
  ProxyAutoConfigEnable : 1
  SOCKSEnable : 1
  SOCKSPort : 1081
  SOCKSProxy : fd00::1
  __SCOPED__ : <dictionary> {
    en0 : <dictionary> {
      HTTPProxy : scoped.test
    }
  }
}
`

func TestSystem(t *testing.T) {
	got := ParseScutil([]byte(scutil))
	want := System{HTTP: "proxy.test:8080", SOCKS: "[fd00::1]:1081", Except: []string{"*.local", "169.254/16", "10.*", "a*b"}, ExceptSimple: true, Script: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	e, err := CompileWith(Settings{}, nil, Options{System: func() (System, error) { return got, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for u, want := range map[string]string{
		"http://x.test": "http://proxy.test:8080", "https://x.test": "socks5://[fd00::1]:1081", "http://a.local": "direct",
		"http://169.254.1.1": "direct", "http://10.3.2.1": "direct", "http://intranet": "direct", "http://11.3.2.1": "http://proxy.test:8080",
	} {
		if r := route(t, e, u, "").String(); r != want {
			t.Errorf("%s: got %s, want %s", u, r, want)
		}
	}
	if w := e.Warnings(); len(w) != 2 {
		t.Errorf("warnings: %q", w)
	}
	if diff := cmp.Diff(System{}, ParseScutil([]byte("<dictionary> {\n} }} x : y"))); diff != "" {
		t.Error(diff)
	}
}
