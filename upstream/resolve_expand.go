package upstream

import (
	"maps"
	"slices"
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// An expander copies settings, replaces references on the way, and collects every
// fault under the key it belongs to.
type expander struct {
	vars Vars
	keep func(name, value string)
	errs SettingErrors
}

func (x *expander) bad(err error, path ...string) {
	x.errs = append(x.errs, &SettingError{Path: path, Err: err})
}

// settings copies all that leaves the process. Filters and naming stay as written:
// they are compared with names and not sent anywhere.
func (x *expander) settings(s *Settings) *Settings {
	c := *s
	c.Command = x.path(s.Command, "command")
	c.Args = x.list("args", s.Args)
	c.Env = x.table("env", s.Env)
	c.Cwd = x.path(s.Cwd, "cwd")
	c.URL = x.text(s.URL, "url")
	c.Headers = x.table("headers", s.Headers)
	c.SSLVerify.CAFile = x.path(s.SSLVerify.CAFile, "ssl_verify")
	c.ClientCert = x.cert(s.ClientCert)
	c.ClientKey = x.path(s.ClientKey, "client_key")
	c.Egress.Proxy = x.text(s.Egress.Proxy, "egress", "proxy")
	c.Egress.Allow = x.items(s.Egress.Allow, "egress", "allow")
	c.IdentityHeader = x.identity(s.IdentityHeader)
	x.oauth(&c.OAuth)
	c.Sampling.Endpoint = x.endpoint(s.Sampling.Endpoint)
	return &c
}

func (x *expander) text(s string, path ...string) string {
	out, err := x.vars.expand(s, x.keep)
	if err != nil {
		x.bad(err, path...)
	}
	return out
}

func (x *expander) path(s string, at ...string) string {
	out := x.text(s, at...)
	p, err := x.vars.Path(out)
	if err != nil {
		x.bad(err, at...)
	}
	return p
}

func (x *expander) list(key string, in []string) []string { return x.items(in, key) }

// items keeps nil apart from empty.
func (x *expander) items(in []string, path ...string) []string {
	if in == nil {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = x.text(s, slices.Concat(path, []string{strconv.Itoa(i)})...)
	}
	return out
}

func (x *expander) table(key string, in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		out[k] = x.text(in[k], key, k)
	}
	return out
}

// cert expands the two paths of client_cert; the third item is a passphrase.
func (x *expander) cert(in []string) []string {
	out := x.list("client_cert", in)
	for i := range min(len(out), 2) {
		p, err := x.vars.Path(out[i])
		if err != nil {
			x.bad(err, "client_cert", strconv.Itoa(i))
		}
		out[i] = p
	}
	return out
}

func (x *expander) identity(in *auth.IdentityHeader) *auth.IdentityHeader {
	if in == nil {
		return nil
	}
	c := *in
	c.Name = x.text(in.Name, "identity_header", "name")
	c.Value = x.text(in.Value, "identity_header", "value")
	return &c
}

func (x *expander) oauth(o *auth.OAuth) {
	for _, f := range []struct {
		key   string
		value *string
	}{
		{"client_id", &o.ClientID}, {"client_secret", &o.ClientSecret}, {"client_name", &o.ClientName},
		{"scope", &o.Scope}, {"redirect_uri", &o.RedirectURI}, {"redirect_host", &o.RedirectHost},
		{"client_metadata_url", &o.ClientMetadataURL}, {"user_agent", &o.UserAgent},
		{"private_key_id", &o.PrivateKeyID}, {"assertion_audience", &o.AssertionAudience},
	} {
		*f.value = x.text(*f.value, "oauth", f.key)
	}
	o.AllowHosts = x.items(o.AllowHosts, "oauth", "allow_hosts")
	if len(o.AuthorizeParams) > 0 {
		params := make(map[string]string, len(o.AuthorizeParams))
		for _, k := range slices.Sorted(maps.Keys(o.AuthorizeParams)) {
			params[k] = x.text(o.AuthorizeParams[k], "oauth", "authorize_params", k)
		}
		o.AuthorizeParams = params
	}
	o.PrivateKeyFile = x.path(o.PrivateKeyFile, "oauth", "private_key_file")
	o.AssertionFile = x.path(o.AssertionFile, "oauth", "assertion_file")
}
