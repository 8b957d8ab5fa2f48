package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

func (c *check) http() {
	if c.s.URL != "" {
		if msg := urlFault(c.s.URL); msg != "" {
			c.bad(msg, "url")
		}
	}
	seen := map[string]string{}
	for _, k := range sortedKeys(c.s.Headers) {
		c.header(k, c.s.Headers[k])
		canon := http.CanonicalHeaderKey(strings.TrimSpace(k))
		if prev, ok := seen[canon]; ok {
			c.bad(fmt.Sprintf("the same header as %q", prev), "headers", k)
		}
		seen[canon] = k
	}
	if c.s.Transport == "sse" && c.s.protocol() == ModernOnly {
		c.bad(sseIsLegacy, "transport")
	}
	if c.s.ClientKey != "" && len(c.s.ClientCert) == 0 && c.s.whose()&^forURL == 0 {
		c.missing("set, but client_cert is not", "client_key")
	}
	c.clientCert()
	c.identity()
}

func (c *check) clientCert() {
	n := len(c.s.ClientCert)
	if n > 3 {
		c.bad("is a path, or a list of [cert, key] or [cert, key, passphrase]", "client_cert")
	}
	if n > 1 && c.s.ClientKey != "" {
		c.bad("client_cert names the key already", "client_key")
	}
	for _, p := range c.s.ClientCert[:min(n, 2)] {
		if strings.TrimSpace(p) == "" {
			c.bad("holds an empty path", "client_cert")
		}
	}
}

var refused = map[string]string{
	// net/http takes either name as leave to send a POST a second time.
	"Idempotency-Key":   "is refused: it would allow calls to be sent twice",
	"X-Idempotency-Key": "is refused: it would allow calls to be sent twice",
	"Content-Length":    "is set by the transport",
	"Transfer-Encoding": "is set by the transport",
	"Connection":        "is set by the transport",
	"Trailer":           "is set by the transport",
	"Mcp-Session-Id":    "is set by the protocol",
}

func (c *check) header(key, val string) {
	name := strings.TrimSpace(key)
	if why, ok := refused[http.CanonicalHeaderKey(name)]; ok {
		c.bad(why, "headers", key)
	}
	if msg := auth.HeaderFault(name, val); msg != "" {
		c.bad(msg, "headers", key)
	}
}

func (c *check) identity() {
	h := c.s.IdentityHeader
	if h == nil {
		return
	}
	if c.s.URL == "" {
		c.bad("works with HTTP servers only", "identity_header")
	}
	if why, ok := refused[http.CanonicalHeaderKey(strings.TrimSpace(h.Name))]; ok {
		c.bad(why, "identity_header", "name")
	}
	c.moot(c.s.explicit(h.Name), "is in headers too, and that one is sent", "identity_header", "name")
	h.Validate(func(key, msg string) { c.bad(msg, "identity_header", key) })
}

// explicit reports whether headers have one of that name, which wins then.
func (s *Settings) explicit(name string) bool {
	for k := range s.Headers {
		if strings.EqualFold(strings.TrimSpace(k), strings.TrimSpace(name)) {
			return true
		}
	}
	return false
}

// unixScheme is what a url begins with that is a path to a socket.
const unixScheme = "http+unix://"

func onSocket(raw string) bool {
	return len(raw) >= len(unixScheme) && strings.EqualFold(raw[:len(unixScheme)], unixScheme)
}

// reference is ${…} as it stands in a setting before it is resolved.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// urlFault never quotes the URL: it may hold credentials.
func urlFault(raw string) string {
	if strings.ContainsFunc(raw, unicode.IsControl) {
		return "invalid URL: holds a control character"
	}
	if strings.HasPrefix(raw, "${") {
		return "" // even the scheme is unknown until the reference is resolved
	}
	raw = reference.ReplaceAllString(raw, "1")
	if onSocket(raw) {
		if host, _, _ := strings.Cut(raw[len(unixScheme):], "/"); host == "" {
			return "invalid URL: no socket path, write http+unix://%2Fpath%2Fto.sock/mcp"
		}
		return ""
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "invalid URL" + whyNoURL(err)
	case !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		return "invalid URL: the scheme must be http, https or http+unix"
	case u.Hostname() == "":
		return "invalid URL: no host"
	case u.Port() != "" && !validPort(u.Port()):
		return "invalid URL: the port must be 1 to 65535"
	}
	return ""
}

// whyNoURL says it without the parts of the URL that net/url quotes.
func whyNoURL(err error) string {
	for _, w := range []struct{ part, says string }{
		{"invalid port", "what follows the host's colon is no port; characters of a password that mean something in URLs are written %XX"},
		{"missing ']'", "the [ of an IPv6 address is not closed"},
		{"URL escape", "a % stands for itself only as %25"},
		{"invalid character", "the host holds a character that no host name has"},
		{"userinfo", "characters of a user name or password that mean something in URLs are written %XX"},
		{"first path segment", "it begins with no scheme such as https://"},
		{"missing protocol scheme", "it begins with no scheme such as https://"},
	} {
		if strings.Contains(err.Error(), w.part) {
			return ": " + w.says
		}
	}
	return ""
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}
