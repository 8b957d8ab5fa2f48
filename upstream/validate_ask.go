package upstream

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Bounds of what a server may be allowed to ask.
const (
	maxTokensCap = 100_000_000
	maxRPM       = 100_000
	maxRounds    = 10_000
)

// sampling checks what a server may ask of a model.
func (c *check) sampling() {
	s := &c.s.Sampling
	rounds := 0
	if s.MaxToolRounds != nil {
		rounds = *s.MaxToolRounds
	}
	for _, n := range []struct {
		key      string
		val, max int
	}{
		{"max_tokens_cap", s.MaxTokensCap, maxTokensCap}, {"max_rpm", s.MaxRPM, maxRPM}, {"max_tool_rounds", rounds, maxRounds},
	} {
		switch {
		case n.val < 0:
			c.bad("must not be negative", "sampling", n.key)
		case n.val > n.max:
			c.bad(fmt.Sprintf("must be at most %d", n.max), "sampling", n.key)
		}
	}
	if s.Timeout < 0 {
		c.bad("must not be negative", "sampling", "timeout")
	}
	if s.LogLevel != "" && !slices.Contains([]string{"debug", "info", "warning", "warn"}, s.LogLevel) {
		c.bad("unknown value, use one of debug, info, warning", "sampling", "log_level")
	}
	c.endpoint()
	c.models()
	c.useless()
}

// useless advises where a setting does nothing because of another one.
func (c *check) useless() {
	s := &c.s.Sampling
	switch {
	case !on(s.Enabled):
		if s.Endpoint.URL != "" {
			c.advise("sampling is off, so nothing is asked of it", "sampling", "endpoint")
		}
	case s.ExposeClientTools && s.MaxToolRounds != nil && *s.MaxToolRounds == 0:
		c.advise("max_tool_rounds: 0 refuses tools, so this does nothing", "sampling", "expose_client_tools")
	}
	shared := c.s.Isolation == "" || c.s.Isolation == "shared"
	if c.s.MaxProcesses == 1 && c.s.local() && shared && c.s.offers() != 0 {
		c.advise("1 leaves none to ask from: sampling, elicitation and roots reach nobody, unless the server speaks "+
			VersionModern+"; isolation, or 2 and more, lets it ask", "max_processes")
	}
}

// models advises where the settings of models contradict each other, or mean
// something else than they seem to.
func (c *check) models() {
	s := &c.s.Sampling
	if s.AllowedModels != nil && len(s.AllowedModels) == 0 && on(s.Enabled) {
		c.advise("an empty list allows every model: leave the key out, or write enabled: false", "sampling", "allowed_models")
	}
	if s.Endpoint.URL != "" && on(s.Enabled) && s.Model == "" && s.Endpoint.Model == "" && len(s.AllowedModels) == 0 {
		c.advise("no model is named here, so only requests that hint at one are answered", "sampling", "endpoint")
	}
	if len(s.AllowedModels) == 0 {
		return
	}
	for i, m := range s.AllowedModels {
		if strings.ContainsAny(m, "*?") {
			c.advise("names are compared as they are: * and ? stand for themselves", "sampling", "allowed_models", fmt.Sprint(i))
		}
	}
	allowed := func(m string) bool { return m == "" || slices.Contains(s.AllowedModels, m) }
	if on(s.Enabled) && !allowed(s.Model) {
		c.bad("is not in allowed_models, so every request would fail", "sampling", "model")
	}
	if !allowed(s.Endpoint.Model) {
		c.advise("is not in allowed_models, so it is never asked for", "sampling", "endpoint", "model")
	}
}

func on(b *bool) bool { return b == nil || *b }

// endpoint checks where a model is to be asked. Its URL is never quoted.
func (c *check) endpoint() {
	e := &c.s.Sampling.Endpoint
	path := func(key string) []string { return []string{"sampling", "endpoint", key} }
	if strings.ContainsRune(e.KeyFile, 0) {
		c.bad("holds a NUL byte", path("key_file")...)
	}
	if e.URL == "" {
		if e.KeyFile != "" || e.Model != "" {
			c.missing("url is not set", "sampling", "endpoint")
		}
		return
	}
	if strings.HasPrefix(e.URL, "${") {
		return // even the scheme is unknown until the reference is resolved
	}
	u, err := url.Parse(reference.ReplaceAllString(e.URL, "1"))
	switch {
	case err != nil:
		c.bad("invalid URL"+whyNoURL(err), path("url")...)
	case !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		c.bad("invalid URL: the scheme must be https or http", path("url")...)
	case u.Hostname() == "":
		c.bad("invalid URL: no host", path("url")...)
	case u.User != nil:
		c.bad("holds a user name or password: put the key into key_file", path("url")...)
	case strings.Contains(e.URL, "#"):
		c.bad("holds a fragment (#), which is never sent", path("url")...)
	case strings.EqualFold(u.Scheme, "http") && !here(u.Hostname()):
		c.advise("is not encrypted: what servers ask, and the key, can be read on the way", path("url")...)
	}
}

// here reports whether a host is this machine, as it is written.
func here(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// DefaultProcesses is what max_processes is where nobody says so; zero for servers
// that are no processes.
func (s *Settings) DefaultProcesses() int {
	switch {
	case s.Command == "" || !s.local():
		return 0
	case s.Isolation == "" || s.Isolation == "shared":
		return poolMost
	}
	return isolatedMost
}

// elicitation checks what a server may ask of a user.
func (c *check) elicitation() {
	if c.s.Elicitation.Timeout < 0 {
		c.bad("must not be negative", "elicitation", "timeout")
	}
}
