package egress

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// A hop is one proxy.
type hop struct {
	scheme string // http, https or socks5
	host   string // the name that an https proxy's certificate is for
	addr   string // host:port
	user   *url.Userinfo
	name   string      // for people: scheme://host:port
	roots  *tls.Source // for https
}

// proxySchemes are the schemes of proxies: what each is spoken as, and its port.
// socks5 always leaves names to the proxy, as socks5h says.
var proxySchemes = map[string]struct{ as, port string }{
	"http":    {"http", "80"},
	"https":   {"https", "443"},
	"socks5":  {"socks5", "1080"},
	"socks5h": {"socks5", "1080"},
	"socks":   {"socks5", "1080"},
}

// parseProxy reads a proxy's URL. Its errors never quote it: it may hold
// credentials. What net/http takes for an HTTP proxy in silence (socks4, ftp) is
// an error.
func parseProxy(raw string) (*hop, error) {
	raw = strings.TrimSpace(raw)
	if strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return nil, errors.New("invalid proxy URL: holds a blank or a control character")
	}
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("invalid proxy URL (in credentials, characters such as / @ # need %-escapes)")
	}
	scheme, ok := proxySchemes[u.Scheme]
	switch {
	case !ok:
		return nil, fmt.Errorf("proxies of scheme %q are not supported: use http, https, socks5 or socks5h", clip(u.Scheme))
	case u.Hostname() == "":
		return nil, errors.New("invalid proxy URL: no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		// Most likely a password with one of these characters; what looks like the
		// host would be a part of it.
		return nil, errors.New("invalid proxy URL: something follows the host (in credentials, / ? # need %-escapes)")
	}
	host, err := ascii(u.Hostname())
	if err != nil {
		return nil, errors.New("invalid proxy URL: the host is not a valid name")
	}
	port := u.Port()
	if port == "" {
		port = scheme.port
	}
	if !validPort(port) {
		return nil, errors.New("invalid proxy URL: the port must be 1 to 65535")
	}
	addr := net.JoinHostPort(host, port)
	h := &hop{scheme: scheme.as, host: host, addr: addr, user: u.User, name: scheme.as + "://" + addr}
	return h, h.credentialsFault()
}

// credentialsFault reports credentials that SOCKS5 cannot carry.
func (h *hop) credentialsFault() error {
	if h.scheme != "socks5" || h.user == nil {
		return nil
	}
	pass, _ := h.user.Password()
	if n := len(h.user.Username()); n == 0 || n > 255 || len(pass) > 255 {
		return errors.New("invalid proxy URL: socks5 takes a user and a password of at most 255 bytes each")
	}
	return nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0 && s[0] != '0'
}

// ascii is a name as it goes to the resolver.
func ascii(name string) (string, error) {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return idna.Lookup.ToASCII(name)
		}
	}
	return name, nil
}
