package policy

import (
	"strings"
	"unicode/utf8"
)

// isGlob tells patterns from exact names, as Hermes does.
func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?[") }

// glob is a compiled pattern with the meaning of Python's fnmatchcase: * and ?
// cross every character, [!x] negates, an unclosed [ stands for itself.
type glob []token

// A token matches one character, or any run of them.
type token struct {
	kind tokenKind
	lit  rune
	set  []span
	not  bool
}

type tokenKind uint8

const (
	literal tokenKind = iota
	anyOne
	anyRun
	class
)

// A span is a range of characters, both ends included.
type span struct{ lo, hi rune }

func compileGlob(pattern string) glob {
	var g glob
	p := []rune(pattern)
	for i := 0; i < len(p); {
		switch p[i] {
		case '*':
			if len(g) == 0 || g[len(g)-1].kind != anyRun {
				g = append(g, token{kind: anyRun})
			}
		case '?':
			g = append(g, token{kind: anyOne})
		case '[':
			if end := classEnd(p, i); end > 0 {
				g = append(g, compileClass(p[i+1:end]))
				i = end
				break
			}
			g = append(g, token{lit: '['})
		default:
			g = append(g, token{lit: p[i]})
		}
		i++
	}
	return g
}

// classEnd returns the index of the ] that closes the [ at p[i], or -1. A ]
// right after [ or [! is a member.
func classEnd(p []rune, i int) int {
	j := i + 1
	if j < len(p) && p[j] == '!' {
		j++
	}
	if j < len(p) && p[j] == ']' {
		j++
	}
	for ; j < len(p); j++ {
		if p[j] == ']' {
			return j
		}
	}
	return -1
}

func compileClass(in []rune) token {
	t := token{kind: class}
	if in[0] == '!' {
		t.not, in = true, in[1:]
	}
	for i := 0; i < len(in); {
		if i+2 < len(in) && in[i+1] == '-' {
			t.set = append(t.set, span{in[i], in[i+2]})
			i += 3
			continue
		}
		t.set = append(t.set, span{in[i], in[i]})
		i++
	}
	return t
}

func (t *token) match(r rune) bool {
	switch t.kind {
	case literal:
		return r == t.lit
	case class:
		for _, s := range t.set {
			if s.lo <= r && r <= s.hi {
				return !t.not
			}
		}
		return t.not
	}
	return true
}

// match reports whether the whole of name matches. It goes back to the last *
// only, so that many stars cannot make it explode: the work is bounded by the
// length of the pattern times that of the name.
func (g glob) match(name string) bool {
	gi, ni := 0, 0
	star, mark := -1, 0
	for ni < len(name) {
		r, n := utf8.DecodeRuneInString(name[ni:])
		switch {
		case gi < len(g) && g[gi].kind == anyRun:
			star, mark = gi, ni
			gi++
		case gi < len(g) && g[gi].match(r):
			gi++
			ni += n
		case star >= 0:
			_, n := utf8.DecodeRuneInString(name[mark:])
			mark += n
			gi, ni = star+1, mark
		default:
			return false
		}
	}
	for gi < len(g) && g[gi].kind == anyRun {
		gi++
	}
	return gi == len(g)
}
