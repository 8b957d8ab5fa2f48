package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// leave works out how connections to the server leave, and with which certificates.
// What is wrong with a file or a proxy setting is this server's fault alone, and
// never makes the connection a less guarded one.
func (r *Resolved) leave(e *egress.Egress, told func(error)) error {
	if r.URL == nil {
		return nil
	}
	var err error
	if e != nil && r.Socket == "" {
		if r.route, err = e.Route(r.URL, r.Settings.Egress.Proxy); err != nil {
			if cause := errors.Unwrap(err); cause != nil {
				err = cause // without the key, which setting names
			}
			return &Error{Server: r.Server, Kind: Config, Err: setting(err, "egress", "proxy")}
		}
	}
	if r.tls, err = r.loadTLS(told); err != nil {
		return &Error{Server: r.Server, Kind: Config, Err: err}
	}
	return nil
}

// Leaves reports what keeps connections to the server from leaving as its settings
// say: a proxy or a rule that cannot be used, a file that cannot be. told hears of a
// client certificate outside its time. Nothing is dialled.
func (r *Resolved) Leaves(e *egress.Egress, told func(error)) error {
	var errs SettingErrors
	if r.Command != "" {
		r.Settings.Egress.Validate(true, func(key, msg string) {
			errs = append(errs, &SettingError{Path: []string{"egress", key}, Err: errors.New(msg)})
		})
	}
	if len(errs) > 0 {
		return &Error{Server: r.Server, Kind: Config, Err: errs}
	}
	err := r.leave(e, told)
	if f := (*tls.FileError)(nil); errors.As(err, &f) {
		return &Error{Server: r.Server, Kind: Config, Err: setting(fmt.Errorf("%q: %w", f.Path, f.Err), r.placeOf(f)...)}
	}
	return err
}

// placeOf is the setting that names a file: a key may stand behind its certificate.
func (r *Resolved) placeOf(f *tls.FileError) []string {
	c := r.Settings.ClientCert
	if i := slices.Index(c, f.Path); len(c) > 1 && i >= 0 && strings.HasPrefix(f.Key, "client_") {
		return []string{"client_cert", strconv.Itoa(i)}
	}
	return []string{f.Key}
}

// loadTLS reads the files that the settings name; nil when they name none.
func (r *Resolved) loadTLS(told func(error)) (*tls.Source, error) {
	s := r.Settings
	c := tls.Client{CAFile: s.SSLVerify.CAFile, SkipVerify: s.SSLVerify.Off, Told: told}
	switch len(s.ClientCert) {
	case 0:
	case 1:
		c.CertFile, c.KeyFile = s.ClientCert[0], s.ClientKey
	default:
		c.CertFile, c.KeyFile = s.ClientCert[0], s.ClientCert[1]
	}
	if len(s.ClientCert) == 3 {
		c.Passphrase = s.ClientCert[2]
	}
	if c.CAFile == "" && !c.SkipVerify && c.CertFile == "" {
		return nil, nil
	}
	src, err := c.Load()
	if err != nil {
		return nil, err
	}
	return src, nil
}

// errNoFence is for programs that run no proxy for children.
var errNoFence = errors.New("egress.allow is set, but no proxy for children runs here")

// fence sends a child's connections through a proxy of its own, if the settings
// say what it may reach. The function that it returns ends that.
func (r *Resolved) fence(c *egress.Children) (lift func(), err error) {
	rules := r.Settings.Egress
	switch {
	case r.Command == "" || !rules.Fenced():
		return func() {}, nil
	case c == nil:
		return nil, &Error{Server: r.Server, Kind: Config, Err: errNoFence}
	}
	environ, lift, err := c.Open(r.Server, rules)
	if err != nil {
		return nil, &Error{Server: r.Server, Kind: Config, Err: fmt.Errorf("egress: %w", err)}
	}
	r.Env = append(withoutProxies(r.Env), environ...)
	return lift, nil
}

// withoutProxies leaves out what would lead past the child's own proxy.
func withoutProxies(environ []string) []string {
	out := make([]string, 0, len(environ)+9)
	for _, kv := range environ {
		if k, _, _ := strings.Cut(kv, "="); !proxyVar(k) {
			out = append(out, kv)
		}
	}
	return out
}

// ResolveEgress replaces every reference in the egress block of the configuration.
func ResolveEgress(s egress.Settings, v Vars) (egress.Settings, error) {
	x := expander{vars: v}
	s.Proxy = x.text(s.Proxy, "egress", "proxy")
	s.CAFile = x.text(s.CAFile, "egress", "ca_file")
	s.NoProxy = x.items(s.NoProxy, "egress", "no_proxy")
	if len(x.errs) > 0 {
		return egress.Settings{}, x.errs
	}
	return s, nil
}
