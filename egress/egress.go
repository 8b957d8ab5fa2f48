package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// An Egress decides how connections leave. It may be used concurrently, and what
// it read does not change: a new environment takes a new Egress.
type Egress struct {
	direct           bool // Settings.Proxy says so
	set              *hop // Settings.Proxy
	http, https, all *hop // the environment's, or the system's
	bypass           bypass
	roots            *tls.Source
	lookup           func(ctx context.Context, name string) ([]netip.Addr, error)
	warnings         []string
}

// Options are what Compile needs besides the settings. The zero value is usual.
type Options struct {
	// System returns the proxy settings of the operating system. It is asked only
	// if neither the settings nor the environment name a proxy. If nil, there are none.
	System func() (System, error)
	// Lookup resolves names. If nil, the system's resolver does.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Told is called with what is wrong with a CA bundle that changed. If nil,
	// nobody is told.
	Told func(error)
}

// Compile reads everything once and reports every fault at once: a proxy that
// cannot be used is an error, never a direct connection.
func Compile(s Settings, environ []string) (*Egress, error) {
	return CompileWith(s, environ, Options{})
}

// CompileWith is Compile with options.
func CompileWith(s Settings, environ []string, o Options) (*Egress, error) {
	e := &Egress{lookup: o.Lookup}
	if e.lookup == nil {
		e.lookup = lookup
	}
	env := readEnviron(environ)
	err := errors.Join(e.loadRoots(s.CAFile, o.Told), e.readProxies(s.Proxy, &env, o.System))
	if err != nil {
		return nil, err
	}
	e.exempt("NO_PROXY", splitList(env.noProxy))
	for _, entry := range s.NoProxy {
		e.exempt("egress.no_proxy", splitList(entry))
	}
	if s.ResolveNames {
		e.bypass.resolve = e.lookup
	}
	return e, nil
}

func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func (e *Egress) loadRoots(file string, told func(error)) error {
	roots, err := tls.Client{CAFile: file, Told: told}.Load()
	if fault := (*tls.FileError)(nil); errors.As(err, &fault) {
		return fmt.Errorf("egress.ca_file: %q: %w", fault.Path, fault.Err)
	}
	if err != nil {
		return fmt.Errorf("egress.ca_file: %w", err)
	}
	e.roots = roots
	return nil
}

// readProxies takes the proxies of the first place that names any.
func (e *Egress) readProxies(setting string, env *environment, system func() (System, error)) error {
	switch {
	case setting == direct:
		e.direct = true
		return nil
	case setting != "":
		return e.parse("egress.proxy", setting, &e.set)
	case !env.empty():
		return e.fromEnviron(env)
	case system == nil:
		return nil
	}
	sys, err := system()
	if err != nil {
		return fmt.Errorf("the system's proxy settings: %w", err)
	}
	return e.fromSystem(&sys)
}

func (e *Egress) parse(where, raw string, to **hop) error {
	if raw == "" {
		return nil
	}
	h, err := parseProxy(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	h.roots = e.roots
	*to = h
	return nil
}

// fromEnviron looks at ALL_PROXY only if a scheme has no variable of its own.
func (e *Egress) fromEnviron(env *environment) error {
	errs := []error{e.parse(env.httpName, env.http, &e.http), e.parse(env.httpsName, env.https, &e.https)}
	if env.http == "" || env.https == "" {
		errs = append(errs, e.parse(env.allName, env.all, &e.all))
	}
	return errors.Join(errs...)
}

// exempt adds words of NO_PROXY. One that means nothing costs only itself.
func (e *Egress) exempt(where string, words []string) {
	for _, w := range words {
		entry, err := parseEntry(w)
		if err != nil {
			e.warn("%s: %q is ignored: %v", where, clip(w), err)
			continue
		}
		e.bypass.entries = append(e.bypass.entries, entry)
	}
}

// maxWarnings bounds what a hostile environment makes us say.
const maxWarnings = 50

func (e *Egress) warn(format string, args ...any) {
	if len(e.warnings) < maxWarnings {
		e.warnings = append(e.warnings, fmt.Sprintf(format, args...))
	}
}

// Warnings are the parts of the settings that were ignored, one sentence each.
func (e *Egress) Warnings() []string { return e.warnings }

// Route decides how connections to u leave. It looks at the scheme, host and
// port of u alone. The override is a server's own proxy setting, or empty; it
// beats all but the rule that loopback is direct, and so is what is not http or
// https. A fault of the override is the
// only error. With Settings.ResolveNames it may take two seconds.
func (e *Egress) Route(u *url.URL, override string) (Route, error) {
	return e.route(context.Background(), targetOf(u), override)
}

func (e *Egress) route(ctx context.Context, t target, override string) (Route, error) {
	own, err := e.override(override)
	switch {
	case err != nil:
		return Route{}, err
	case t.loopback() || override == direct || t.scheme != "http" && t.scheme != "https":
		return Route{}, nil
	case own != nil:
		return Route{own}, nil
	}
	h := e.proxyFor(t.scheme)
	if h == nil || e.bypass.matches(ctx, t) {
		return Route{}, nil
	}
	return Route{h}, nil
}

func (e *Egress) override(raw string) (h *hop, err error) {
	if raw != direct {
		err = e.parse("egress.proxy", raw, &h)
	}
	return h, err
}

// proxyFor is the proxy for http or https, before exemptions.
func (e *Egress) proxyFor(scheme string) *hop {
	own := e.http
	if scheme == "https" {
		own = e.https
	}
	switch {
	case e.direct:
		return nil
	case e.set != nil:
		return e.set
	case own != nil:
		return own
	}
	return e.all
}
