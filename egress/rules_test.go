package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestKinds(t *testing.T) {
	for ip, want := range map[string]kind{
		"8.8.8.8": public, "2606:4700::1111": public, "64:ff9b::808:808": public, "2002:808:808::": public,
		"10.0.0.1": private, "172.31.0.1": private, "192.168.1.1": private, "100.64.0.1": private, "fd00::1": private,
		"fec0::1": private, "64:ff9b:1::1": private, "64:ff9b::a00:1": private, "2002:a00:1::": private, "::ffff:10.0.0.1": private, "::10.0.0.1": private,
		"127.0.0.1": local, "127.9.9.9": local, "::1": local, "::ffff:127.0.0.1": local, "64:ff9b::7f00:1": local,
		"169.254.169.254": forbidden, "169.254.0.1": forbidden, "::ffff:169.254.169.254": forbidden, "64:ff9b::a9fe:a9fe": forbidden,
		"2002:a9fe:a9fe::": forbidden, "fe80::1": forbidden, "fe80::1%eth0": forbidden, "fd00:ec2::254": forbidden,
		"100.100.100.200": forbidden, "0.0.0.0": forbidden, "0.1.2.3": forbidden, "::": forbidden, "224.0.0.1": forbidden,
		"ff02::1": forbidden, "255.255.255.255": forbidden, "168.63.129.16": forbidden,
		// IPv4 addresses in IPv6 ones, each kind public, inside, here and never.
		"::ffff:0:8.8.8.8": public, "::ffff:0:10.0.0.1": private, "::ffff:0:127.0.0.1": local, "::ffff:0:169.254.169.254": forbidden,
		"::8.8.8.8": public, "::127.0.0.1": local, "::169.254.169.254": forbidden, "::0.0.0.2": forbidden,
		"::ffff:8.8.8.8": public, "::ffff:0.0.0.0": forbidden, "::ffff:0:0.0.0.0": forbidden,
		"64:ff9b::0.0.0.0": forbidden, "64:ff9b::168.63.129.16": forbidden,
		"64:ff9b:1::127.0.0.1": local, "64:ff9b:1::169.254.169.254": forbidden, "64:ff9b:1::8.8.8.8": private,
		"64:ff9b:1:a9fe:a9:fe00::": forbidden, "64:ff9b:1:a9:fe:a9fe::": forbidden, "64:ff9b:1:7:7f:0:100:0": local,
		"64:ff9b:1:808:8:800::": private, "64:ff9b:2::7f00:1": public,
		"2002:7f00:1::": local, "2002:6464:64c8::1": forbidden,
		"2001:0:808:808::f7f7:f7f7": public, "2001:0:808:808::f5ff:fffe": private, "2001:0:808:808::80ff:fffe": local,
		"2001:0:808:808::5601:5601": forbidden, "2001:0:a9fe:a9fe::f7f7:f7f7": forbidden, "2001:1::5601:5601": public,
		"2606:4700::5efe:8.8.8.8": public, "2606:4700::5efe:127.0.0.1": local, "2606:4700::200:5efe:a9fe:a9fe": forbidden,
		"fd00::5efe:8.8.8.8": private,
	} {
		if got := kindOf(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: got %d, want %d", ip, got, want)
		}
	}
	if kindOf(netip.Addr{}) != forbidden {
		t.Error("no address is not forbidden")
	}
}

func TestParseRule(t *testing.T) {
	for _, s := range []string{"", " ", "a b", "a*b", "*a", "**", "http://x.test", "x.test/path", "x:0", "x:65536", ":80", "x:",
		"10.0.0.0/33", "10.0.0.0/8:x", "[fd00::/8", "[fd00::/8]80", "[fd00::/8]:", "fd00::/129", "a..b", "-:-", "user@x.test", "x.test:80:90"} {
		if r, err := parseRule(s); err == nil {
			t.Errorf("%q is %+v", s, r)
		}
	}
}

// A row is one question to the rules about a literal address or a name's address.
func TestFence(t *testing.T) {
	for _, c := range []struct{ allow, host, resolved, port, refused string }{
		{"api.test", "api.test", "192.0.2.1", "443", ""},
		{"api.test", "api.test", "192.0.2.1", "80", ""},
		{"api.test", "api.test", "192.0.2.1", "22", "rules"},
		{"api.test:22", "api.test", "192.0.2.1", "22", ""},
		{"api.test:22", "api.test", "192.0.2.1", "443", "rules"},
		{"api.test", "a.api.test", "192.0.2.1", "443", "rules"},
		{"API.test.", "api.test", "192.0.2.1", "443", ""},
		{"*.api.test", "a.b.api.test", "192.0.2.1", "443", ""},
		{"*.api.test", "api.test", "192.0.2.1", "443", ""},
		{".api.test:8443", "a.api.test", "192.0.2.1", "8443", ""},
		{"*.api.test", "evilapi.test", "192.0.2.1", "443", "rules"},
		{"*", "any.test", "192.0.2.1", "443", ""},
		{"*", "any.test", "192.0.2.1", "22", "rules"},
		{"*:22", "any.test", "192.0.2.1", "22", ""},
		{"", "any.test", "192.0.2.1", "443", "rules"},
		// Addresses.
		{"*", "192.0.2.1", "", "443", ""},
		{"192.0.2.1", "192.0.2.1", "", "443", ""},
		{"192.0.2.1", "::ffff:192.0.2.1", "", "443", ""},
		{"192.0.2.0/24", "192.0.2.9", "", "443", ""},
		{"192.0.2.0/24:5432", "192.0.2.9", "", "5432", ""},
		{"192.0.2.0/24:5432", "192.0.2.9", "", "443", "rules"},
		{"192.0.2.0/24", "192.0.3.9", "", "443", "rules"},
		{"192.0.2.0/24", "any.test", "192.0.2.7", "443", ""},
		{"[2001:db8::/32]:99", "2001:db8::1", "", "99", ""},
		{"2001:db8::/32", "2001:db8::1", "", "443", ""},
		{"[2001:db8::1]:99", "2001:db8::1", "", "99", ""},
		{"api.test", "192.0.2.1", "", "443", "rules"},
		// Inside.
		{"*", "10.0.0.1", "", "443", "inside"},
		{"*", "127.0.0.1", "", "443", "inside"},
		{"10.0.0.0/8", "10.0.0.1", "", "443", ""},
		{"127.0.0.1:9", "127.0.0.1", "", "9", ""},
		{"*", "db.test", "10.0.0.1", "443", "inside"},
		{"*.test", "db.test", "10.0.0.1", "443", "inside"},
		{"db.test", "db.test", "10.0.0.1", "443", ""},
		{"db.test", "db.test", "fd00::1", "443", ""},
		{"*.test,10.0.0.0/8", "db.test", "10.0.0.1", "443", ""},
		{"db.test", "db.test", "127.0.0.1", "443", "inside"},
		{"localhost:9", "localhost", "127.0.0.1", "9", ""},
		{"*:9", "localhost", "127.0.0.1", "9", "inside"},
		// Never.
		{"169.254.0.0/16", "169.254.169.254", "", "80", "metadata"},
		{"0.0.0.0/0,::/0,*", "169.254.169.254", "", "80", "metadata"},
		{"0.0.0.0/0,::/0,*", "::ffff:169.254.169.254", "", "80", "metadata"},
		{"evil.test", "evil.test", "169.254.169.254", "80", "metadata"},
		{"evil.test,169.254.169.254", "evil.test", "169.254.169.254", "80", "metadata"},
		{"fe80::/10", "fe80::1%eth0", "", "80", "metadata"},
		{"*", "0.0.0.0", "", "80", "metadata"},
	} {
		allow := strings.Split(c.allow, ",")
		if c.allow == "" {
			allow = nil
		}
		f, err := compileFence(allow)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]refusal{"rules": refusedRules, "inside": refusedInside, "metadata": refusedMetadata}[c.refused]
		name, ip := readHost(c.host)
		var got refusal
		if ip.IsValid() {
			got = f.literal(ip, c.port)
		} else {
			got = f.resolved(f.name(name, c.port), name, netip.MustParseAddr(c.resolved), c.port)
		}
		if got != want {
			t.Errorf("allow %q, %s (%s) port %s: got %q, want %q", c.allow, c.host, c.resolved, c.port, got, want)
		}
	}
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{"a.test:1", "[fd00::/8]:1", "10.0.0.0/8:1", "*", "*.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRule(s)
		if err == nil && !r.any && r.net.IsValid() == (r.name != "") {
			t.Fatalf("%q is %+v", s, r)
		}
	})
}

func TestPlainName(t *testing.T) {
	for name, want := range map[string]bool{
		"example.com": true, "a_b": true, "1.example": true, "x-1": true,
		"": false, "127.1": false, "2130706433": false, "0x7f000001": false, "1.2.3.0x4": false, "a b": false, "a\r\nb": false, "a..b": false,
	} {
		if got := plainName(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}
