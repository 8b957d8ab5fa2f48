package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func outward(t *testing.T, allow ...string) *Outward {
	t.Helper()
	o, err := CompileOutward(allow)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// What a URL shows by itself.
func TestOutwardURL(t *testing.T) {
	for _, tc := range []struct {
		url   string
		allow string // blank separated
		own   string
		want  string // part of the error; empty: passes
	}{
		{url: "https://as.example.com/x"},
		{url: "https://8.8.8.8/"},
		{url: "https://[2606:4700::1111]/"},
		{url: "http://169.254.169.254/latest", want: "link-local"},
		{url: "https://metadata.google.internal/", want: "metadata"},
		{url: "https://127.0.0.1/", want: "loopback"},
		{url: "https://[::1]/", want: "loopback"},
		{url: "https://localhost/", want: "loopback"},
		{url: "https://LOCALHOST/", want: "loopback"},
		{url: "https://a.localhost/", want: "loopback"},
		{url: "https://localhost./", want: "not a plain host"},
		{url: "https://as.example.com./", want: "not a plain host"},
		{url: "https://10.0.0.5/", want: "private"},
		{url: "https://172.16.9.9/", want: "private"},
		{url: "https://192.168.1.1/", want: "private"},
		{url: "https://100.64.0.1/", want: "private"},
		{url: "https://[fd00::1]/", want: "private"},
		{url: "https://[fe80::1]/", want: "link-local"},
		{url: "https://[fe80::1%25eth0]/", want: "not a plain host"},
		{url: "https://[::1%25lo]/", want: "not a plain host"},
		{url: "https://[::ffff:10.0.0.1]/", want: "private"},
		{url: "https://[::ffff:127.0.0.1]/", want: "loopback"},
		{url: "https://[::ffff:a9fe:a9fe]/", want: "link-local"},
		{url: "https://[64:ff9b::10.0.0.1]/", want: "private"},
		{url: "https://[2002:7f00:1::]/", want: "loopback"},
		{url: "https://[::]/", want: "special"},
		{url: "https://0.0.0.0/", want: "special"},
		{url: "https://0/", want: "not a plain host"},
		{url: "https://0x7f000001/", want: "not a plain host"},
		{url: "https://0x7f.1/", want: "not a plain host"},
		{url: "https://127.1/", want: "not a plain host"},
		{url: "https://2130706433/", want: "not a plain host"},
		{url: "https://0177.0.0.1/", want: "not a plain host"},
		{url: "https://①②⑦.⓪.⓪.①/", want: "not a plain host"},
		{url: "https://as.example.com:0/", want: "not a plain host"},
		{url: "https://as.example.com:99999/", want: "not a plain host"},
		{url: "https://as_1.example.com/"},
		{url: "https://xn--bcher-kva.example/"},
		// An allow list overrides, a network not for special addresses.
		{url: "https://10.0.0.5/", allow: "10.0.0.0/8"},
		{url: "https://10.0.0.5:8443/", allow: "10.0.0.0/8"},
		{url: "https://10.0.0.5:8443/", allow: "10.0.0.5:443", want: "private"},
		{url: "https://127.0.0.1/", allow: "127.0.0.1"},
		{url: "https://localhost:9/", allow: "localhost"},
		{url: "https://169.254.169.254/", allow: "169.254.0.0/16 0.0.0.0/0", want: "link-local"},
		{url: "https://169.254.169.254/", allow: "169.254.169.254"},
		{url: "https://0x7f.1/", allow: "127.0.0.0/8", want: "not a plain host"},
		// The origin that a person configured.
		{url: "https://10.0.0.5:8443/x", own: "https://10.0.0.5:8443/mcp"},
		{url: "https://10.0.0.5:9000/x", own: "https://10.0.0.5:8443/mcp", want: "private"},
		{url: "https://10.0.0.6/x", own: "https://10.0.0.5/mcp", want: "private"},
		{url: "https://mcp.svc./x", own: "https://mcp.svc./mcp"},
		{url: "http://127.0.0.1:9/", own: "http://localhost:8000/mcp"},
		{url: "http://[::1]:9/", own: "http://127.0.0.1:8000/mcp"},
		{url: "http://a.localhost:9/", own: "http://127.0.0.1:8000/mcp"},
		{url: "http://10.0.0.1:9/", own: "http://127.0.0.1:8000/mcp", want: "private"},
		{url: "http://169.254.169.254/", own: "http://127.0.0.1:8000/mcp", want: "link-local"},
		{url: "http://0.0.0.0:8000/", own: "http://127.0.0.1:8000/mcp", want: "special"},
	} {
		t.Run(tc.url+" "+tc.allow+" "+tc.own, func(t *testing.T) {
			o := outward(t, strings.Fields(tc.allow)...)
			if tc.own != "" {
				o = o.With(mustURL(t, tc.own))
			}
			switch err := o.URL(mustURL(t, tc.url)); {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// What a name turns out to be.
func TestOutwardAddr(t *testing.T) {
	for _, tc := range []struct {
		name, addr, allow string
		ok                bool
	}{
		{"as.example.com", "8.8.8.8", "", true},
		{"as.example.com", "10.1.2.3", "", false},
		{"as.example.com", "10.1.2.3", "as.example.com", true},
		{"as.example.com", "10.1.2.3", "*.example.com", true},
		{"as.example.com", "10.1.2.3", "10.1.0.0/16", true},
		{"as.example.com", "10.1.2.3", "other.example.com 10.2.0.0/16", false},
		{"as.example.com", "127.0.0.1", "as.example.com", true},
		{"as.example.com", "127.0.0.1", "*.example.com", false},
		{"as.example.com", "127.0.0.1", "127.0.0.0/8", true},
		{"as.example.com", "169.254.169.254", "as.example.com *.example.com 169.254.0.0/16", false},
		{"as.example.com", "::ffff:10.1.2.3", "", false},
		{"localhost", "127.0.0.1", "localhost", true},
	} {
		err := outward(t, strings.Fields(tc.allow)...).Addr(tc.name, netip.MustParseAddr(tc.addr), "443")
		if (err == nil) != tc.ok {
			t.Errorf("%s is %s, allowed %q: got %v", tc.name, tc.addr, tc.allow, err)
		}
	}
}

func TestOutwardEntries(t *testing.T) {
	_, err := CompileOutward([]string{"ok.example", "*", "10.0.0.0/99", "a b", "host:70000"})
	if err == nil || strings.Count(err.Error(), "\n") != 3 || strings.Contains(err.Error(), "ok.example") {
		t.Errorf("got %v", err)
	}
}
