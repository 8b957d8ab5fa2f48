package upstream

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// Eras says which eras a server may be spoken to in.
type Eras uint8

// The protocol settings. Auto probes and remembers.
const (
	Auto Eras = iota
	ModernOnly
	LegacyOnly
)

// A Resolved is one server's settings with every reference replaced, for one
// profile at one moment. It holds secrets: never print one.
type Resolved struct {
	Server, Profile string
	// Settings is a copy of what was written, with references replaced and ~ expanded.
	Settings *Settings

	// Command is the absolute path of a stdio server's program, else empty.
	Command string
	Args    []string
	// Env is the complete environment of the child, sorted.
	Env []string
	// Dir is the child's working directory; empty for our own.
	Dir string
	// lifted is what screening would refuse the server for, if it were not off.
	lifted error

	// URL is the endpoint of an HTTP server, else nil. For a unix socket its scheme
	// is http and its host is localhost.
	URL *url.URL
	// Socket is the path of the unix socket to dial; empty for TCP.
	Socket string
	// Header holds the configured headers and the identity header.
	Header http.Header

	Protocol Eras
	// EraHint is the era that an earlier connection had. If nil, not known.
	EraHint *Era
	// Once keeps the search for the era to one process.
	Once bool
	// Way is how the server was reached by an earlier connection.
	Way httpWay

	route   egress.Route // how connections leave; direct until leave
	tls     *tls.Source  // nil when the settings name no file
	tokens  Tokens       // nil without OAuth
	secrets []string     // longest first; see scrub
	sent    *recently    // tokens, which are secrets too
}

// Resolve replaces every reference in s and works out what to start or dial.
// parent is the environment that the child's baseline comes from. It opens
// nothing but the files that ${file:...} names. Errors are *Error of kind Config.
func (s *Settings) Resolve(name, profile string, v Vars, parent []string) (*Resolved, error) {
	if profile == "" {
		profile = "default"
	}
	r := &Resolved{Server: name, Profile: profile, Protocol: s.protocol(), sent: new(recently)}
	if err := r.fill(s, v, parent); err != nil {
		return nil, &Error{Server: name, Kind: Config, Err: err}
	}
	r.sortSecrets()
	return r, nil
}

func (s *Settings) protocol() Eras {
	switch strings.ToLower(strings.TrimSpace(s.Protocol)) {
	case "modern", "stateless", VersionModern:
		return ModernOnly
	case "legacy", "handshake":
		return LegacyOnly
	}
	return Auto
}

func (r *Resolved) fill(s *Settings, v Vars, parent []string) error {
	x := expander{vars: v, keep: r.keepReferred}
	r.Settings = x.settings(s)
	if len(x.errs) > 0 {
		return x.errs
	}
	r.keepConfigured()
	switch {
	case s.Builtin != "":
		return nil
	case s.URL != "" && !(s.Transport == "stdio" && s.Command != ""):
		return r.http(v)
	case s.Command != "":
		return r.stdio(v, parent)
	}
	return errors.New("neither command nor url nor builtin is set")
}

var errNUL = errors.New("holds a NUL byte")

func (r *Resolved) stdio(v Vars, parent []string) error {
	s := r.Settings
	environ, err := childEnv(parent, s)
	if err != nil {
		return err
	}
	for i, a := range s.Args {
		if strings.ContainsRune(a, 0) {
			return setting(errNUL, "args", strconv.Itoa(i))
		}
	}
	if strings.ContainsRune(s.Cwd, 0) {
		return setting(errNUL, "cwd")
	}
	r.Args, r.Dir = s.Args, s.Cwd
	r.Command, err = lookCommand(s.Command, r.Dir, v.Home, environ)
	if err != nil {
		return setting(err, "command")
	}
	if err := r.screen(); err != nil {
		return err
	}
	prependPath(environ, r.Command)
	r.Env = sortedEnv(environ)
	return nil
}

func (r *Resolved) http(v Vars) error {
	u, socket, err := parseEndpoint(strings.TrimSpace(r.Settings.URL), v)
	if err != nil {
		return setting(err, "url")
	}
	r.URL, r.Socket = u, socket
	r.keepURL()
	r.Header, err = buildHeader(r.Settings.Headers)
	if err != nil {
		return err
	}
	return addIdentity(r.Header, r.Settings.IdentityHeader, r.Profile)
}

// buildHeader checks names and values: net/http would refuse them one call at a time.
func buildHeader(in map[string]string) (http.Header, error) {
	h := make(http.Header, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		key := http.CanonicalHeaderKey(strings.TrimSpace(name))
		if err := checkHeader(key, in[name]); err != nil {
			return nil, setting(err, "headers", name)
		}
		if _, twice := h[key]; twice {
			return nil, setting(fmt.Errorf("%s is set twice", key), "headers", name)
		}
		h[key] = []string{strings.Trim(in[name], " \t")}
	}
	return h, nil
}

func checkHeader(key, value string) error {
	if key == "" || strings.ContainsFunc(key, notToken) {
		return fmt.Errorf("%q is not a header name", clip(key))
	}
	if key == "Idempotency-Key" || key == "X-Idempotency-Key" {
		// net/http takes either as leave to send a POST again, which would run a tool twice.
		return fmt.Errorf("%s is refused: it makes the HTTP client repeat calls", key)
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("the value of %s holds a control character", key)
		}
	}
	return nil
}

func notToken(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// addIdentity adds the header that tells the server who calls. One that is
// configured by hand wins; an incomplete one is not sent.
func addIdentity(h http.Header, id *auth.IdentityHeader, profile string) error {
	if id == nil {
		return nil
	}
	value := id.Value
	if id.ValueFrom == "profile" {
		value = profile
	}
	key := http.CanonicalHeaderKey(strings.TrimSpace(id.Name))
	if key == "" || value == "" {
		return nil
	}
	if err := checkHeader(key, value); err != nil {
		return setting(err, "identity_header")
	}
	if _, explicit := h[key]; !explicit {
		h[key] = []string{value}
	}
	return nil
}

// parseEndpoint reads an endpoint. A unix socket is written with its path as an
// escaped host: http+unix://%2Frun%2Fx.sock/mcp, which net/url would refuse.
func parseEndpoint(raw string, v Vars) (u *url.URL, socket string, err error) {
	const unix = "http+unix://"
	if len(raw) >= len(unix) && strings.EqualFold(raw[:len(unix)], unix) {
		host, path, _ := strings.Cut(raw[len(unix):], "/")
		if socket, err = socketPath(host, v); err != nil {
			return nil, "", err
		}
		raw = "http://localhost/" + path
	}
	u, err = url.Parse(raw)
	switch {
	case err != nil:
		return nil, "", errors.New("cannot be parsed") // the cause would repeat the URL and its secrets
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "", fmt.Errorf("the scheme must be http, https or http+unix, not %q", clip(u.Scheme))
	case u.Hostname() == "":
		return nil, "", errors.New("names no host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, socket, nil
}

func socketPath(host string, v Vars) (string, error) {
	const most = 103 // the shortest sun_path of our platforms, less its NUL
	p, err := url.PathUnescape(host)
	if err != nil {
		return "", errors.New("the socket's path is not escaped properly")
	}
	if p, err = v.Path(p); err != nil {
		return "", err
	}
	switch {
	case !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0):
		return "", fmt.Errorf("%q is not an absolute socket path; write http+unix://%%2Fpath%%2Fto.sock/mcp", clip(p))
	case len(p) > most:
		return "", fmt.Errorf("the socket's path is longer than %d bytes", most)
	}
	return p, nil
}

// Identity is a digest of everything that the server can see of us, which is
// what two agents must have in common to share a connection.
func (r *Resolved) Identity() [32]byte {
	s, d := r.Settings, digest{}
	d.add("stdio", r.Command, r.Dir)
	d.add(r.Args...)
	d.add(r.Env...)
	d.add("http", r.Socket, s.Transport, s.Auth, s.Builtin, fmt.Sprint(r.Protocol))
	if r.URL != nil {
		d.add(r.URL.String())
	}
	for _, k := range slices.Sorted(maps.Keys(r.Header)) {
		d.add(k)
		d.add(r.Header[k]...)
	}
	d.add("tls", fmt.Sprint(s.SSLVerify.Off), s.SSLVerify.CAFile, s.ClientKey)
	d.add(s.ClientCert...)
	d.add("egress", r.route.Key(), s.Egress.Proxy, s.Egress.Via)
	d.add(s.Egress.Allow...)
	o := &s.OAuth
	d.add("oauth", o.ClientID, o.ClientSecret, o.ClientName, o.Scope, o.RedirectURI, o.ClientMetadataURL,
		o.TokenEndpointAuthMethod, o.ApplicationType, o.UserAgent, o.Flow,
		o.Grant, o.PrivateKeyFile, o.PrivateKeyID, o.SigningAlgorithm, o.AssertionFile, o.AssertionAudience)
	d.add(o.AllowHosts...)
	return sha256.Sum256(d.buf)
}

// A digest joins lists of strings so that no two different ones are equal.
type digest struct{ buf []byte }

func (d *digest) add(list ...string) {
	d.buf = binary.AppendUvarint(d.buf, uint64(len(list)))
	for _, s := range list {
		d.buf = binary.AppendUvarint(d.buf, uint64(len(s)))
		d.buf = append(d.buf, s...)
	}
}
