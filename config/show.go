package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A Value is a value as it is shown: text for people, and in JSON what it is.
// Durations are strings, and a value that nobody set is null.
type Value struct {
	v any // nil, string, bool, int or []string
}

func (v Value) String() string {
	switch x := v.v.(type) {
	case nil:
		return "unset"
	case []string:
		return "[" + strings.Join(x, ", ") + "]"
	}
	return fmt.Sprint(v.v)
}

// List returns the items of a list, and nil for what is none.
func (v Value) List() []string {
	items, _ := v.v.([]string)
	return items
}

// MarshalJSON keeps lists, numbers and booleans what they are.
func (v Value) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a URL's & stays readable where the caller lets it
	err := enc.Encode(v.v)
	return b.Bytes(), err
}

const redacted = "[redacted]"

func showVerify(s upstream.SSLVerify) any {
	if s.CAFile != "" {
		return s.CAFile
	}
	return !s.Off
}

// show turns a leaf into what a Value holds, without its secrets. This is the one
// place that knows what is secret by what it is: every header, variable and client
// secret, a passphrase, and what may hide in a URL. For arguments see showArgs.
func show(val reflect.Value, path []string) any {
	if val.Kind() == reflect.Pointer {
		return nil
	}
	key, in := path[len(path)-1], path[max(0, len(path)-2)]
	switch x := val.Interface().(type) {
	case time.Duration:
		return x.String()
	case []string:
		return showList(x, key)
	case string:
		switch {
		case key == "proxy":
			return redactProxy(x)
		case path[0] != serversKey:
			return x
		case in == "headers" || in == "env" || key == "client_secret" || in == "identity_header" && key == "value":
			return secret(x)
		case key == "url" || strings.HasSuffix(key, "_url") || strings.HasSuffix(key, "_uri"):
			return RedactURL(x)
		}
	}
	return val.Interface()
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

// showList never returns nil, which would not be a list in JSON.
func showList(items []string, key string) []string {
	if key == "args" {
		return showArgs(items)
	}
	out := append([]string{}, items...)
	if key == "client_cert" && len(out) > 2 {
		out = append(out[:2], slices.Repeat([]string{redacted}, len(out)-2)...)
	}
	return out
}

// redactProxy is RedactURL for what may be written without a scheme.
func redactProxy(raw string) string {
	if raw == "" || pure.MatchString(raw) || strings.Contains(raw, "://") {
		return RedactURL(raw)
	}
	return strings.TrimPrefix(RedactURL("http://"+raw), "http://")
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
