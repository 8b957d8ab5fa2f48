package policy

import "strings"

// maxMetaKey bounds a key of _meta; a longer one counts as malformed.
const maxMetaKey = 256

// MetaReserved reports whether MCP keeps a _meta key for itself, under the rule
// of 2025-06-18 (mcp or modelcontextprotocol, then another label) or that of
// 2025-11-25 and later (either as the second label): what one agent ignores,
// another may trust. Labels are like those of DNS, so their case does not count.
//
// Of the reserved keys without a prefix, progressToken and baggage have no
// business in what an agent's model reads; traceparent and tracestate are not
// reserved here, because traces go both ways.
func MetaReserved(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return key == "progressToken" || key == "baggage"
	}
	for i := 0; ; i++ {
		label, rest, more := strings.Cut(prefix, ".")
		if (more || i == 1) && mcpLabel(label) {
			return true
		}
		if !more {
			return false
		}
		prefix = rest
	}
}

func mcpLabel(s string) bool {
	return strings.EqualFold(s, "mcp") || strings.EqualFold(s, "modelcontextprotocol")
}

// MetaMalformed reports whether a _meta key breaks MCP's grammar: labels joined
// by dots and a slash, or nothing, and then a name.
func MetaMalformed(key string) bool {
	if len(key) > maxMetaKey {
		return true
	}
	name := key
	if prefix, rest, ok := strings.Cut(key, "/"); ok {
		for label := range strings.SplitSeq(prefix, ".") {
			if !metaLabel(label) {
				return true
			}
		}
		name = rest
	}
	return !metaName(name)
}

// metaLabel wants a letter, then letters, digits and hyphens, and no hyphen last.
func metaLabel(s string) bool {
	if s == "" || !isAlpha(s[0]) || !isAlnum(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !isAlnum(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

// metaName may be empty; else it starts and ends with a letter or digit.
func metaName(s string) bool {
	if s == "" {
		return true
	}
	if !isAlnum(s[0]) || !isAlnum(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !isAlnum(s[i]) && s[i] != '-' && s[i] != '_' && s[i] != '.' {
			return false
		}
	}
	return true
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isAlnum(c byte) bool { return isAlpha(c) || '0' <= c && c <= '9' }
