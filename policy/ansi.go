package policy

import (
	"strings"
	"unicode/utf8"
)

// sequence returns the length of the terminal sequence at the start of s, which
// begins with ESC or a C1 control: what a terminal would swallow (ECMA-48). It
// is at least that one character.
func sequence(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r != 0x1b {
		return introduced(s, n, r)
	}
	if n == len(s) {
		return n
	}
	if c := s[n]; 0x40 <= c && c < 0x60 && c != '\\' {
		return introduced(s, n+1, rune(c)+0x40)
	}
	return short(s, n)
}

// introduced returns the end of the sequence whose introducer, a C1 control in
// one or two characters, ends at i.
func introduced(s string, i int, c1 rune) int {
	switch c1 {
	case 0x9b:
		return csi(s, i)
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // DCS, SOS, OSC, PM, APC
		return controlString(s, i, c1 == 0x9d)
	}
	return i
}

// csi skips parameters, intermediates and the final byte. Without a final byte
// the sequence ends before what cannot be part of it.
func csi(s string, i int) int {
	for i < len(s) && 0x30 <= s[i] && s[i] < 0x40 {
		i++
	}
	for i < len(s) && 0x20 <= s[i] && s[i] < 0x30 {
		i++
	}
	if i < len(s) && 0x40 <= s[i] && s[i] < 0x7f {
		i++
	}
	return i
}

// controlString ends with its terminator: ST, or BEL after OSC. Another control
// that no string may hold aborts it, as in a terminal; it then ends there or
// with its line, whichever is first, so that a stray introducer does not swallow
// a whole text.
func controlString(s string, i int, osc bool) int {
	line := -1
	for j := i; j < len(s); {
		r, n := utf8.DecodeRuneInString(s[j:])
		switch {
		case r == 0x9c:
			return j + n
		case r == 0x1b && strings.HasPrefix(s[j+n:], `\`):
			return j + n + 1
		case r == 0x07 && osc:
			return j + n
		case r == 0x1b, r == 0x18, r == 0x1a, 0x80 <= r && r < 0xa0:
			return unterminated(line, j)
		case (r == '\n' || r == '\r') && line < 0:
			line = j
		}
		j += n
	}
	return unterminated(line, len(s))
}

func unterminated(line, end int) int {
	if line >= 0 {
		return line
	}
	return end
}

// short skips a two-character escape, or one with intermediates such as the
// choice of a character set; a stray ESC stands alone.
func short(s string, i int) int {
	j := i
	for j < len(s) && 0x20 <= s[j] && s[j] < 0x30 {
		j++
	}
	if j < len(s) && 0x30 <= s[j] && s[j] < 0x7f {
		return j + 1
	}
	return i
}
