package upstream

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	// shortestSecret keeps scrub from eating "1" and "on" out of every line.
	shortestSecret = 4
	// shortestPlain is the same for values whose name says nothing of a secret.
	shortestPlain = 6
)

// What a server is told counts as secret by what it is, not by its name: servers
// and the proxies before them like to quote it in errors, which go to agents and
// into logs. A value that is too short or too common to tell anything stays, unless
// a reference brought it in or its name says that it is a secret.

// keepReferred remembers what a reference brought in, unless its name belongs to
// the baseline that no server treats as a secret, such as PATH and HOME.
func (r *Resolved) keepReferred(name, value string) {
	if !baseline(name) {
		r.keepSecret(value)
	}
}

// keepConfigured remembers values that were written into the settings themselves.
func (r *Resolved) keepConfigured() {
	s := r.Settings
	for k, v := range s.Env {
		if !baseline(k) {
			r.keepNamed(k, v)
		}
	}
	for k, v := range s.Headers {
		r.keepHeader(k, v)
	}
	if id := s.IdentityHeader; id != nil {
		r.keepHeader(id.Name, id.Value)
	}
	r.keepArgs(s.Args)
	r.keepSecret(s.OAuth.ClientSecret)
	if len(s.ClientCert) > 2 {
		r.keepSecret(s.ClientCert[2])
	}
}

// keepNamed remembers a value; its name decides how common it may be.
func (r *Resolved) keepNamed(name, v string) {
	if looksSecret(name) {
		r.keepLink(v)
		r.keepSecret(v)
		return
	}
	r.keepPlain(v)
}

// keepPlain remembers a value unless it is short or ordinary. Of a URL only the
// parts that are no address count.
func (r *Resolved) keepPlain(v string) {
	v = strings.TrimSpace(v)
	if r.keepLink(v) || len(v) < shortestPlain || ordinary(v) {
		return
	}
	r.keepSecret(v)
}

// keepHeader remembers a header's value. An authentication scheme before it is no
// secret, and would be missed in what a server says that it wants.
func (r *Resolved) keepHeader(name, v string) {
	if slices.Contains(ours, http.CanonicalHeaderKey(strings.TrimSpace(name))) {
		return // it is not sent, or no more than the address
	}
	v = strings.TrimSpace(v)
	scheme, rest, ok := strings.Cut(v, " ")
	if !ok || !isScheme(scheme) {
		r.keepNamed(name, v)
		if ok && looksSecret(name) {
			r.keepSecret(rest)
		}
		return
	}
	r.keepSecret(rest)
	if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil && strings.EqualFold(scheme, "basic") {
		user, pass, _ := strings.Cut(string(plain), ":")
		r.keepUser(user, pass)
	}
}

func isScheme(s string) bool {
	switch strings.ToLower(s) {
	case "bearer", "basic", "digest", "token", "apikey", "api-key", "key", "dpop", "negotiate":
		return true
	}
	return false
}

// keepArgs remembers the values of flags, and what looks like a token.
func (r *Resolved) keepArgs(args []string) {
	flag := "" // the one before, which may own the argument
	for _, a := range args {
		name, v, pair := strings.Cut(a, "=")
		if pair && !strings.Contains(name, "://") {
			r.keepNamed(name, v)
		}
		if strings.HasPrefix(a, "-") {
			if bare := strings.TrimLeft(a, "-"); !pair && looksToken(bare) {
				r.keepSecret(bare)
				r.keepSecret(bare[1:]) // of -pVALUE
			}
			flag = a
			continue
		}
		r.keepArg(flag, a)
		flag = ""
	}
}

func (r *Resolved) keepArg(flag, a string) {
	if name, v, ok := strings.Cut(a, ":"); ok && (looksSecret(name) || headerFlag(flag)) && !strings.HasPrefix(v, "//") {
		r.keepHeader(name, v)
	}
	switch {
	case looksSecret(flag) && !strings.Contains(flag, "="):
		r.keepSecret(a)
	case looksToken(a) && !r.keepLink(a):
		r.keepPlain(a)
	case flag == "" || strings.Contains(flag, "=") || bareFlag(flag):
		r.keepLink(a)
	default:
		r.keepPlain(a)
	}
}

func headerFlag(flag string) bool {
	return flag == "-H" || strings.EqualFold(strings.TrimLeft(flag, "-"), "header")
}

// bareFlag is true for flags of launchers that are followed by a program or its
// package, which have to stay in errors.
func bareFlag(flag string) bool {
	switch flag {
	case "-y", "--yes", "-m", "-i", "-it", "--rm", "--from", "--package", "--with", "-q", "--quiet", "-v", "--verbose",
		"--init", "-S", "-u", "--directory", "--project", "--stdio", "-jar":
		return true
	}
	return false
}

// keepURL remembers the parts of the endpoint that are no address.
func (r *Resolved) keepURL() { r.keepParts(r.URL) }

// keepLink does that for a value that is a URL, and reports whether it is one.
func (r *Resolved) keepLink(v string) bool {
	if !strings.Contains(v, "://") {
		return false
	}
	u, err := url.Parse(strings.TrimSpace(v))
	if err != nil || u.Host == "" {
		return false
	}
	r.keepParts(u)
	return true
}

func (r *Resolved) keepParts(u *url.URL) {
	if u.User != nil {
		pass, _ := u.User.Password()
		r.keepUser(u.User.Username(), pass)
	}
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		name, v, ok := strings.Cut(part, "=")
		if !ok {
			v = name
		}
		r.keepNamed(name, v)
		if plain, err := url.QueryUnescape(v); err == nil && plain != v {
			r.keepNamed(name, plain)
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if looksToken(part) {
			r.keepSecret(part)
		}
	}
}

// keepUser remembers a user and password. A user alone is a token.
func (r *Resolved) keepUser(user, pass string) {
	if pass == "" {
		r.keepSecret(user)
	} else {
		r.keepPlain(user)
		r.keepSecret(pass)
	}
	if len(user)+len(pass) > 0 {
		r.keepSecret(user + ":" + pass)
	}
}

// keepSecret remembers a value, its lines, and the tokens within it: of
// {"Authorization":"Bearer x"} a server may quote only the x.
func (r *Resolved) keepSecret(v string) {
	if v = strings.TrimSpace(v); len(v) < shortestSecret {
		return
	}
	r.addSecret(v)
	left := maxPieces
	for line := range strings.Lines(v) {
		if line = strings.TrimSpace(line); len(line) >= shortestPlain && line != v {
			r.addSecret(line)
		}
		if left--; left == 0 {
			return
		}
	}
	for _, piece := range strings.FieldsFunc(v, separates) {
		if piece != v && looksToken(piece) {
			r.addSecret(piece)
		}
		if left--; left == 0 {
			return
		}
	}
}

// maxPieces bounds what one value is taken apart into: a key file of some size.
const maxPieces = 1 << 10

func separates(c rune) bool { return c <= ' ' || strings.ContainsRune(`"'{}[]():,;=&?/@|<>`, c) }

// addSecret appends a value in all forms that scrub looks for.
func (r *Resolved) addSecret(v string) {
	r.secrets = append(r.secrets, v)
	r.secrets = append(r.secrets, written(v)...)
}

// sortSecrets puts long ones first and drops what is there twice.
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
