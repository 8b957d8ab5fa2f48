package upstream

import (
	"cmp"
	"slices"
	"strings"
)

// shortestSecret keeps scrub from eating "1" and "on" out of every line.
const shortestSecret = 4

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
	r.keepSecret(r.Settings.OAuth.ClientSecret)
	if len(r.Settings.ClientCert) > 2 {
		r.keepSecret(r.Settings.ClientCert[2])
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
