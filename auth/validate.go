package auth

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

const maxItems = 1000

// A report takes one fault: the key within the settings, and what is wrong.
type report = func(key, msg string)

// Validate reports what is wrong. It opens nothing.
func (s *Settings) Validate(rep report) {
	if strings.ContainsRune(s.TokenFile, 0) {
		rep("token_file", "holds a NUL byte")
	}
	if len(s.AllowedHosts) > maxItems {
		rep("allowed_hosts", fmt.Sprintf("more than %d items", maxItems))
	}
	if len(s.AllowedOrigins) > maxItems {
		rep("allowed_origins", fmt.Sprintf("more than %d items", maxItems))
	}
	for _, h := range s.AllowedHosts {
		if !validHost(h) {
			rep("allowed_hosts", fmt.Sprintf("%.80q is not a host or host:port", h))
		}
	}
	for _, o := range s.AllowedOrigins {
		if !validOrigin(o) {
			rep("allowed_origins", fmt.Sprintf("%.80q is not an exact origin such as https://app.example.com", o))
		}
	}
}

func validHost(h string) bool {
	u, err := url.Parse("http://" + h)
	return err == nil && h != "" && u.Host == h && u.User == nil && u.Hostname() != "" && !strings.Contains(h, "*")
}

// validOrigin wants what a browser sends: scheme, host, port, and no more.
func validOrigin(o string) bool {
	u, err := url.Parse(o)
	return err == nil && u.Scheme != "" && u.Scheme+"://"+u.Host == o && validHost(u.Host)
}

// Validate reports what is wrong.
func (h *IdentityHeader) Validate(rep report) {
	if h.Name == "" {
		rep("name", "is missing")
	} else if msg := HeaderFault(strings.TrimSpace(h.Name), h.Value); msg != "" {
		rep("name", msg)
	}
	switch h.ValueFrom {
	case "", "static":
		if h.Value == "" {
			rep("value", "is missing")
		}
	case "profile":
		if h.Value != "" {
			rep("value", "has no meaning when value_from is profile")
		}
	default:
		rep("value_from", "unknown value, use one of static, profile")
	}
}

// HeaderFault says what is wrong with one header, or nothing. It never quotes
// the value.
func HeaderFault(name, value string) string {
	if name == "" || strings.ContainsFunc(name, notToken) {
		return "is not a valid header name"
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) }) {
		return "the value holds a line break or another control character"
	}
	return ""
}

// notToken reports what RFC 9110 keeps out of a field name.
func notToken(r rune) bool {
	alnum := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	return !alnum && (r > 0x7e || !strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

// Validate reports what is wrong.
func (o *OAuth) Validate(rep report) {
	if o.RedirectPort < 0 || o.RedirectPort > 65535 {
		rep("redirect_port", "must be from 0 to 65535")
	}
	if o.Timeout < 0 {
		rep("timeout", "must not be negative")
	}
	o.params(rep)
	for _, w := range []struct {
		key, val string
		known    []string
	}{
		{"flow", o.Flow, []string{"browser", "device"}},
		{"grant", o.Grant, []string{"authorization_code", "client_credentials", "jwt_bearer"}},
		{"signing_algorithm", o.SigningAlgorithm, []string{"ES256", "RS256", "PS256", "EdDSA"}},
		{"application_type", o.ApplicationType, []string{"native", "web"}},
		{"token_endpoint_auth_method", o.TokenEndpointAuthMethod, []string{"none", "client_secret_post", "client_secret_basic", "private_key_jwt"}},
	} {
		if w.val != "" && !slices.Contains(w.known, w.val) {
			rep(w.key, "unknown value, use one of "+strings.Join(w.known, ", "))
		}
	}
}

// ownParams are those of an authorization request that are not the user's to set.
var ownParams = []string{"client_id", "client_secret", "code_challenge", "code_challenge_method", "redirect_uri", "request", "request_uri",
	"resource", "response_mode", "response_type", "scope", "state"}

func (o *OAuth) params(rep report) {
	if len(o.AuthorizeParams) > maxParams {
		rep("authorize_params", fmt.Sprintf("more than %d items", maxParams))
	}
	for _, k := range slices.Sorted(maps.Keys(o.AuthorizeParams)) {
		switch {
		case slices.Contains(ownParams, k):
			rep("authorize_params", fmt.Sprintf("%q is set by the program itself", k))
		case k == "" || strings.ContainsFunc(k, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			rep("authorize_params", fmt.Sprintf("%.80q is not a name of a parameter", k))
		}
	}
}

// maxParams keeps a URL within what browsers and providers take.
const maxParams = 32

// Set reports whether any key of the block is given.
func (o *OAuth) Set() bool { return !reflect.ValueOf(*o).IsZero() }
