package config

import (
	"regexp"
	"slices"
	"strings"
)

// showArgs returns the arguments of a command as they may be shown. All that the
// rule goes by is here: the name of a flag or variable in front of a value, and
// the look of the value. References stay as they are written.
func showArgs(args []string) []string {
	out := make([]string, len(args))
	before := "" // the flag whose value the next argument is, if any
	for i, a := range args {
		out[i] = showArg(a, before)
		switch {
		case a == ":": // of JSON: what stands before it is the name
			before = args[max(i-1, 0)]
		case named(a):
			before = a
		default:
			before = ""
		}
	}
	return out
}

// named reports whether an argument says what the next one is.
func named(a string) bool {
	return strings.HasPrefix(a, "-") && !strings.Contains(a, "=") || strings.HasSuffix(a, ":") || strings.EqualFold(a, "bearer")
}

var (
	// flagName is an argument that is the name of a flag and nothing else.
	flagName = regexp.MustCompile(`^(-[A-Za-z0-9]|--[A-Za-z][A-Za-z0-9._-]*)$`)
	// stuck is a short flag with its value behind it, of those that take secrets,
	// and spelled the names of flags that only look like one.
	stuck   = regexp.MustCompile(`^-[eHpu][^-]`)
	spelled = regexp.MustCompile(`^-(enable|endpoint|env|exclude|path|port|prefix|profile|project|url|user)($|[=-])`)
	// secretName is a name whose value is most likely a secret.
	secretName = regexp.MustCompile(`(?i)token|key|secret|pass|pwd|auth|cred|header|cookie|session|bearer|jwt|signature|dsn|connection|private|(^|[-_])pat$`)
	// referred is a value that is made of references, and of what may stand before
	// one in a header.
	referred = regexp.MustCompile(`^(([A-Za-z0-9-]+: ?)?((?i:bearer|basic|token) )?)?(\$\{[^}:]*(:[^}-][^}]*)?\})+$`)
)

func showArg(arg, before string) string {
	name, value, assigned := strings.Cut(arg, "=")
	switch {
	case flagName.MatchString(arg) && !random(arg):
		return arg
	case before == "-e" || before == "--env" || before == "-env":
		return variableOnly(arg)
	case before == "-H" || secretName.MatchString(before):
		return unlessReferred(arg)
	case stuck.MatchString(arg) && !spelled.MatchString(arg):
		return arg[:2] + variableOnly(arg[2:])
	case assigned && (name == "--env" || name == "-env"):
		return name + "=" + variableOnly(value)
	case assigned && secretName.MatchString(name) && plainName.MatchString(name):
		return name + "=" + unlessReferred(value)
	case assigned && flagName.MatchString(name):
		return name + "=" + showText(value)
	}
	return showText(arg)
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	// handed is a variable that is handed on under its name: docker run -e NAME.
	handed = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)
)

// variableOnly keeps the name of NAME=value.
func variableOnly(s string) string {
	if handed.MatchString(s) && !random(s) {
		return s
	}
	if name, value, ok := strings.Cut(s, "="); ok && plainName.MatchString(name) && !random(name) {
		return name + "=" + unlessReferred(value)
	}
	return unlessReferred(s)
}

func unlessReferred(s string) string {
	if s == "" || referred.MatchString(s) && !strings.Contains(s, ":-") {
		return s
	}
	return redacted
}

// showText shows what does not look like a secret by itself.
func showText(s string) string {
	if line := strings.FieldsFunc(s, blankOrQuote); len(line) > 0 && line[0] != s {
		// A line for a shell hides what its words hide.
		if !slices.Equal(showArgs(line), line) {
			return redacted
		}
		return s
	}
	plain, safe := withDefaults(s)
	if !safe || secretText(showAddress(plain)) {
		return redacted
	}
	return showAddress(s)
}

func blankOrQuote(r rune) bool { return strings.ContainsRune(" \t\r\n;\"'`", r) }

// withDefaults puts the defaults of references in their places, and nothing for
// the references themselves. A default of what sounds like a secret is not safe.
func withDefaults(s string) (plain string, safe bool) {
	safe = true
	plain = anyReference.ReplaceAllStringFunc(s, func(ref string) string {
		name, text, ok := strings.Cut(ref[2:len(ref)-1], ":-")
		safe = safe && (text == "" || !secretName.MatchString(name))
		if !ok {
			return ""
		}
		return text
	})
	return plain, safe
}

var anyReference = regexp.MustCompile(`\$\{[^}]*\}`)

// showAddress hides in an address what RedactURL does, and all of it when user and
// password are not where they should be.
func showAddress(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path, "@") && strings.ContainsAny(authority, ":@") {
		return scheme + "://" + redacted
	}
	return RedactURL(s)
}

// userinfo is user:password@host without a scheme.
var userinfo = regexp.MustCompile(`^[^/@\s]+:[^@\s]+@`)

// shapes are how the tokens of well-known services begin.
var shapes = []string{
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_",
	"xox", "xapp-", "eyJ", "AKIA", "ASIA", "AIza", "ya29.", "hf_", "npm_", "shpat_", "lin_api_", "ntn_", "tvly-", "pplx-", "gsk_",
}

// secretText reports whether a text looks like a secret by itself.
func secretText(s string) bool {
	registry := strings.HasPrefix(s, "npm:") || strings.HasPrefix(s, "jsr:")
	if userinfo.MatchString(s) && !registry && !strings.Contains(s, "://") {
		return true
	}
	// Only what is no path can hold a token that slashes are part of.
	if !strings.ContainsAny(s[:min(len(s), 1)], "/.~@") && !strings.ContainsAny(s, ":@") && random(s) {
		return true
	}
	s = digest.ReplaceAllString(s, "")
	return slices.ContainsFunc(strings.FieldsFunc(s, between), func(part string) bool {
		for _, p := range shapes {
			if rest, ok := strings.CutPrefix(part, p); ok && rest != "" {
				return true
			}
		}
		return random(part)
	})
}

// digest is how an image is pinned, which is no secret.
var digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

func between(r rune) bool { return strings.ContainsRune("/:@,=?&#|", r) }

// Bounds of what looks random: the shortest such text, and the length from where
// on it need not change its kind of character as often.
const (
	shortRandom = 12
	longRandom  = 24
)

// hex is a key or an id in hexadecimal digits.
var hex = regexp.MustCompile(`^[0-9a-fA-F-]{32,}$`)

// random reports whether a text looks like no words that anyone would write: its
// characters go from one kind to another too often for that.
func random(s string) bool {
	n := changes(s)
	return hex.MatchString(s) || len(s) >= longRandom && 5*n >= len(s) || len(s) >= shortRandom && 5*n >= 2*len(s)
}

// changes counts how often a letter or digit follows one of another kind. The
// first letter of a word may be a capital.
func changes(s string) (n int) {
	kindOf := func(i int) byte {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			return '0'
		case c >= 'A' && c <= 'Z':
			return 'A'
		case c >= 'a' && c <= 'z':
			return 'a'
		}
		return 0
	}
	for i := 1; i < len(s); i++ {
		was, is := kindOf(i-1), kindOf(i)
		capital := was == 'A' && is == 'a' && (i < 2 || kindOf(i-2) != 'A')
		if was != 0 && is != 0 && was != is && !capital {
			n++
		}
	}
	return n
}
