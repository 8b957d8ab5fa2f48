package upstream

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// shortestSecret keeps scrub from eating "1" and "on" out of every line.
const shortestSecret = 4

// longValue is from where on a value of a URL's query is taken for a secret,
// whatever its name is.
const longValue = 8

// keepReferred remembers what a reference brought in, unless its name belongs to
// the baseline that no server treats as a secret, such as PATH and HOME.
func (r *Resolved) keepReferred(name, value string) {
	if !baseline(name) {
		r.keepSecret(value)
	}
}

// keepConfigured remembers values that were written into the settings themselves.
func (r *Resolved) keepConfigured() {
	for k, v := range r.Settings.Env {
		if looksSecret(k) {
			r.keepSecret(v)
		}
	}
	for k, v := range r.Settings.Headers {
		if looksSecret(k) {
			r.keepSecret(v)
			_, token, _ := strings.Cut(v, " ")
			r.keepSecret(token)
		}
	}
	for i, a := range r.Settings.Args {
		if i > 0 && strings.HasPrefix(r.Settings.Args[i-1], "-") && looksSecret(r.Settings.Args[i-1]) {
			r.keepSecret(a)
		}
		if name, v, ok := strings.Cut(a, "="); ok && looksSecret(name) {
			r.keepSecret(v)
		}
	}
	if id := r.Settings.IdentityHeader; id != nil {
		r.keepSecret(id.Value)
	}
	r.keepSecret(r.Settings.OAuth.ClientSecret)
	if len(r.Settings.ClientCert) > 2 {
		r.keepSecret(r.Settings.ClientCert[2])
	}
}

// keepURL remembers the parts of the URL that are no address: servers and the
// proxies before them like to quote it.
func (r *Resolved) keepURL() {
	if pass, ok := r.URL.User.Password(); ok {
		r.keepSecret(pass)
	}
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, v, ok := strings.Cut(part, "=")
		if !ok {
			v = name
		}
		if len(v) < longValue && !looksSecret(name) {
			continue
		}
		r.keepSecret(v)
		if plain, err := url.QueryUnescape(v); err == nil {
			r.keepSecret(plain)
		}
	}
}

func (r *Resolved) keepSecret(v string) {
	if v = strings.TrimSpace(v); len(v) >= shortestSecret {
		r.secrets = append(r.secrets, v)
	}
}

// sortSecrets puts long ones first, so that one which contains another goes whole.
func (r *Resolved) sortSecrets() {
	slices.SortFunc(r.secrets, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	r.secrets = slices.Compact(r.secrets)
}

// looksSecret goes by the name of a variable or header.
func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"TOKEN", "KEY", "SECRET", "PASS", "PWD", "AUTH", "CRED", "COOKIE", "SESSION",
		"SIGNATURE", "DSN", "_URL", "_URI", "CONNECTION", "_PAT", "PRIVATE"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// scrub replaces the secrets of these settings in text that came from the server.
func (r *Resolved) scrub(s string) string {
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}
