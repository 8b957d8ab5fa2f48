package egress

import (
	"fmt"
	"regexp"
	"strings"
)

// Settings is the egress block of the configuration.
type Settings struct {
	// Proxy is the URL of an http, https, socks5 or socks5h proxy, with
	// credentials or without, for connections that NoProxy does not exempt. If
	// empty, the environment decides. If "direct", there is none.
	Proxy string `yaml:"proxy"`
	// NoProxy exempts hosts, on top of the environment's NO_PROXY.
	NoProxy []string `yaml:"no_proxy,stringorlist"`
	// CAFile is a PEM bundle to verify https proxies with, and nothing else. If
	// empty, the system's roots.
	CAFile string `yaml:"ca_file"`
	// ResolveNames makes the addresses of NO_PROXY match names that resolve to
	// them. If false, they match literal addresses only.
	ResolveNames bool `yaml:"resolve_names"`
}

// direct is the setting that means no proxy.
const direct = "direct"

// reference is ${…} as it stands in a setting before it is resolved.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// Validate reports every fault. It opens nothing.
func (s *Settings) Validate(bad func(key, msg string)) {
	if msg := proxyFault(s.Proxy); msg != "" {
		bad("proxy", msg)
	}
	for _, entry := range s.NoProxy {
		for _, e := range splitList(entry) {
			if _, err := parseEntry(e); err != nil && !strings.Contains(e, "${") {
				bad("no_proxy", fmt.Sprintf("%q: %v", clip(e), err))
			}
		}
	}
	if s.CAFile != "" && strings.TrimSpace(s.CAFile) == "" {
		bad("ca_file", "is an empty path")
	}
}

// Server is the egress block of one server.
type Server struct {
	// Proxy is as in Settings, for this server only. It beats Settings.Proxy, the
	// environment and NO_PROXY, but loopback targets stay direct. If empty, the
	// common settings hold.
	Proxy string `yaml:"proxy"`
	// Allow is what a stdio server's child may reach: hosts, *.suffixes, CIDRs,
	// each with a port or without (80 and 443). If nil, the child gets no proxy of
	// ours. If empty, it may reach nothing.
	Allow []string `yaml:"allow,stringorlist"`
	// Via is "corporate" or "direct": how the child's connections leave. If
	// empty, corporate.
	Via string `yaml:"via"`
}

// Fenced reports whether the server's child gets a proxy of its own.
func (s *Server) Fenced() bool { return s.Allow != nil }

// Validate reports every fault. It opens nothing.
func (s *Server) Validate(stdio bool, bad func(key, msg string)) {
	if msg := proxyFault(s.Proxy); msg != "" {
		bad("proxy", msg)
	}
	if stdio && s.Proxy != "" && !s.Fenced() {
		bad("proxy", "has no effect on a child without allow: set the variables in env, or allow")
	}
	if !stdio && s.Fenced() {
		bad("allow", "works with stdio servers only")
	}
	for _, raw := range s.Allow {
		if _, err := parseRule(raw); err != nil && !strings.Contains(raw, "${") {
			bad("allow", fmt.Sprintf("%q: %v", clip(raw), err))
		}
	}
	switch {
	case s.Via != "" && s.Via != "corporate" && s.Via != direct:
		bad("via", fmt.Sprintf("is corporate or direct, not %q", clip(s.Via)))
	case s.Via != "" && !s.Fenced():
		bad("via", "set, but allow is not")
	case s.Via == direct && s.Proxy != "" && s.Proxy != direct:
		bad("via", "is direct, but a proxy is set")
	}
}

// proxyFault says what is wrong with a proxy setting, or nothing. It never
// quotes it: it may hold credentials.
func proxyFault(raw string) string {
	if raw == "" || raw == direct || strings.HasPrefix(raw, "${") {
		return "" // even the scheme is unknown until the reference is resolved
	}
	if _, err := parseProxy(reference.ReplaceAllString(raw, "1")); err != nil {
		return err.Error()
	}
	return ""
}

// clip shortens what comes from outside before it is shown.
func clip(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
