package upstream

import (
	"net/netip"
	"path"
	"strings"
)

const (
	shortToken = 10 // with three classes of characters that alternate
	longToken  = 16 // with two
	anyToken   = 32 // of anything that no separator interrupts
)

// looksToken reports whether a word is more likely random than written by a person:
// by its length, and by how often letters, capitals and digits alternate.
func looksToken(s string) bool {
	if len(s) < shortToken {
		return false
	}
	var all, run shape
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
		c := classOf(s[i])
		all.add(c)
		if run.add(c); c == other {
			run = shape{}
		}
		if run.n >= anyToken || run.n >= longToken && run.mixed() {
			return true
		}
	}
	if len(s) >= longToken {
		return all.changes >= 4
	}
	return all.changes >= 3 && all.seen[lower] && all.seen[upper] && all.seen[digit]
}

// A shape is what looksToken learns of some bytes.
type shape struct {
	n, changes int
	seen       [4]bool
	last       class
}

func (s *shape) add(c class) {
	capitalised := s.last == upper && c == lower
	if c != other && s.last != other && c != s.last && !capitalised {
		s.changes++
	}
	s.n++
	s.seen[c], s.last = true, c
}

func (s *shape) mixed() bool { return s.seen[digit] && (s.seen[lower] || s.seen[upper]) }

// A class of characters. What is no letter or digit separates.
type class uint8

const (
	other class = iota
	lower
	upper
	digit
)

func classOf(c byte) class {
	switch {
	case c >= 'a' && c <= 'z':
		return lower
	case c >= 'A' && c <= 'Z':
		return upper
	case c >= '0' && c <= '9':
		return digit
	}
	return other
}

// ordinary is true for values that tell nothing and stand in many texts.
func ordinary(v string) bool {
	return isCommon(v) || isNumber(v) || isAddress(v) || isPath(v)
}

func isCommon(v string) bool {
	switch strings.ToLower(v) {
	case "enabled", "disabled", "always", "production", "development", "staging", "testing", "default",
		"warning", "verbose", "silent", "notice", "critical", "localhost", "streamable-http", "streamable", "stateless",
		"en_us.utf-8", "c.utf-8", "application/json", "text/plain", "text/event-stream", "python", "python3", "nodejs",
		"public", "private", "readonly", "read-only", "read-write", "sandbox", "latest", "stable", "server", "client",
		"request", "response", "session", "unknown", "invalid", "missing", "sqlite", "postgres", "memory", "console":
		return true
	}
	return false
}

// isNumber is true for up to seven digits, with dots as in a version.
func isNumber(v string) bool {
	digits := 0
	for i := range len(v) {
		switch {
		case classOf(v[i]) == digit:
			digits++
		case v[i] != '.':
			return false
		}
	}
	return digits <= 7
}

func isAddress(v string) bool {
	if _, err := netip.ParseAddr(v); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(v)
	host, _, _ := strings.Cut(v, ":")
	return err == nil || strings.EqualFold(host, "localhost")
}

// isPath is true for the paths of files and scripts that hold no token.
func isPath(v string) bool {
	switch path.Ext(v) {
	case ".py", ".js", ".mjs", ".cjs", ".ts", ".jar", ".sh", ".rb", ".json", ".yaml", ".yml", ".toml", ".db", ".sqlite":
	default:
		if !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "./") && !strings.HasPrefix(v, "../") && !strings.HasPrefix(v, "~/") {
			return false
		}
	}
	for i := range len(v) {
		if classOf(v[i]) == other && !strings.ContainsRune("/._-~: ", rune(v[i])) {
			return false
		}
	}
	for part := range strings.FieldsFuncSeq(v, func(c rune) bool { return c == '/' || c == ':' }) {
		if looksToken(part) {
			return false
		}
	}
	return true
}
