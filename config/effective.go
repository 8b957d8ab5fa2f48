package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A Setting is one effective value, ready to be shown.
type Setting struct {
	Path string `json:"path"`
	// Value never holds a secret.
	Value string `json:"value"`
	// Origin is file:line, a flag, a variable's name, or "default".
	Origin string `json:"origin"`
}

const redacted = "[redacted]"

// limitDefaults words what zero means in the limits, for people.
var limitDefaults = map[string]string{
	"limits.request_bytes": "16777216", "limits.in_flight_bytes": "268435456", "limits.depth": "128",
	"limits.sessions": "1000", "limits.session_idle": "1h0m0s", "limits.connections": "1000",
	"limits.page_bytes": "4194304", "limits.stream_queue": "256", "limits.answer_bytes": "10420224",
	"profiles.default.max_name_length": "as above", "profiles.default.naming": "as above",
	"profiles.default.utility_tools": "true", "profiles.default.servers": "all",
	"auth.token_file": "in the state directory", "log.level": "info", "log.format": "text",
}

// Effective returns every value in force and where it comes from: all of the top
// level, and of the servers what is set. Secrets are redacted by what a setting
// is, not by what it looks like.
func (c *Config) Effective() []Setting {
	v := viewer{origin: c.origin}
	doc := document{
		Listen: c.Listen, OpsListen: c.OpsListen, Naming: c.Naming, MaxNameLength: c.MaxNameLength, ListWait: &c.ListWait,
		Profiles: c.Profiles, Auth: c.Auth, Policy: Policy{Cleaning: &c.Cleaning}, Limits: c.Limits, StateDir: c.StateDir, Log: c.Log,
	}
	if doc.OpsListen == "" {
		doc.OpsListen = "off"
	}
	v.all = true
	v.walk(reflect.ValueOf(doc), nil)
	if from := c.origins["insecure-no-auth"]; from != "" {
		v.out = append(v.out, Setting{"insecure_no_auth", fmt.Sprint(c.InsecureNoAuth), from})
	}
	v.all = false
	for i := range c.Servers {
		s := &c.Servers[i]
		v.origin = s.origin
		v.walk(reflect.ValueOf(s.Settings), []string{serversKey, s.Name})
	}
	return v.out
}

// origin says where a top-level value comes from.
func (c *Config) origin(path []string) string {
	if from := c.origins[strings.Join(path, ".")]; from != "" {
		return from
	}
	return origin(c.document.lookup(path), "default")
}

func (s *Server) origin(path []string) string {
	return origin(s.node.lookup(path[2:]), fmt.Sprintf("%s:%d", s.File, s.Line))
}

func origin(at *node, otherwise string) string {
	if at == nil || at.file == nil {
		return otherwise
	}
	return fmt.Sprintf("%s:%d", at.file.name, at.line)
}

// A viewer collects settings from structs.
type viewer struct {
	all    bool // zero values too
	origin func(path []string) string
	out    []Setting
}

func (v *viewer) walk(s reflect.Value, path []string) {
	for _, f := range fields(s.Type()) {
		v.value(s.Field(f.index), extend(path, f.key))
	}
}

func (v *viewer) value(val reflect.Value, path []string) {
	if !v.all && val.IsZero() {
		return
	}
	if val.Kind() == reflect.Pointer && !val.IsNil() {
		val = val.Elem()
	}
	switch {
	case val.Type() == sslVerifyType:
		v.add(path, showVerify(val.Interface().(upstream.SSLVerify)))
	case val.Kind() == reflect.Struct:
		v.walk(val, path)
	case val.Kind() == reflect.Map:
		for _, k := range slices.Sorted(maps.Keys(asMap(val))) {
			v.value(val.MapIndex(reflect.ValueOf(k)), extend(path, k))
		}
	default:
		v.add(path, show(val, path))
	}
}

func (v *viewer) add(path []string, shown string) {
	p := join(path...)
	from := v.origin(path)
	if text, ok := limitDefaults[p]; ok && from == "default" && (shown == "" || shown == "0" || shown == "0s" || shown == "[]" || shown == "unset") {
		shown = text
	}
	v.out = append(v.out, Setting{Path: p, Value: shown, Origin: from})
}

func asMap(v reflect.Value) map[string]struct{} {
	m := make(map[string]struct{}, v.Len())
	for _, k := range v.MapKeys() {
		m[k.String()] = struct{}{}
	}
	return m
}

func showVerify(s upstream.SSLVerify) string {
	if s.CAFile != "" {
		return s.CAFile
	}
	return fmt.Sprint(!s.Off)
}

// show formats a leaf without its secrets. This is the one place that knows what
// is secret: every header, variable and client secret, a passphrase, and what
// may hide in a URL or in an argument.
func show(val reflect.Value, path []string) string {
	if val.Kind() == reflect.Pointer {
		return "unset"
	}
	key, in := path[len(path)-1], path[max(0, len(path)-2)]
	switch x := val.Interface().(type) {
	case time.Duration:
		return x.String()
	case []string:
		return "[" + strings.Join(showList(x, key), ", ") + "]"
	case string:
		switch {
		case path[0] != serversKey:
			return x
		case in == "headers" || in == "env" || key == "client_secret" || in == "identity_header" && key == "value":
			return secret(x)
		case key == "url" || strings.HasSuffix(key, "_url") || strings.HasSuffix(key, "_uri"):
			return RedactURL(x)
		}
	}
	return fmt.Sprint(val.Interface())
}

// pure is a value that is one reference and nothing else: it names a secret
// without being one.
var pure = regexp.MustCompile(`^\$\{(env:)?[A-Za-z_][A-Za-z0-9_]*\}$`)

func secret(s string) string {
	if s == "" || pure.MatchString(s) {
		return s
	}
	return redacted
}

func showList(items []string, key string) []string {
	out := slices.Clone(items)
	for i, s := range out {
		switch {
		case key == "args":
			out[i] = showArg(s)
		case key == "client_cert" && i == 2:
			out[i] = redacted
		}
	}
	return out
}

var flagName = regexp.MustCompile(`^(-[A-Za-z0-9]|--[A-Za-z][A-Za-z0-9-]*)$`)

// showArg keeps the names of flags: any other argument may be a token.
func showArg(s string) string {
	name, _, assigned := strings.Cut(s, "=")
	switch {
	case pure.MatchString(s) || flagName.MatchString(s):
		return s
	case assigned && flagName.MatchString(name):
		return name + "=" + redacted
	}
	return redacted
}

// RedactURL hides the parts of a URL that may be secret: the user and password,
// the values of the query, the fragment.
func RedactURL(raw string) string {
	rest, _, _ := strings.Cut(raw, "#")
	rest, query, asked := strings.Cut(rest, "?")
	if scheme, after, ok := strings.Cut(rest, "://"); ok {
		authority, path, slash := strings.Cut(after, "/")
		if i := strings.LastIndexByte(authority, '@'); i >= 0 {
			authority = redacted + authority[i:]
		}
		rest = scheme + "://" + authority
		if slash {
			rest += "/" + path
		}
	}
	if !asked {
		return rest
	}
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if name, _, ok := strings.Cut(p, "="); ok {
			parts[i] = name + "=" + redacted
		} else {
			parts[i] = redacted
		}
	}
	return rest + "?" + strings.Join(parts, "&")
}
