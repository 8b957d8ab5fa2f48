package policy

import (
	"encoding/binary"
	"unicode/utf8"
)

// finding is what a look at JSON text turned up.
type finding uint8

const (
	// dirty: a character or escape that cleaning has to judge.
	dirty finding = 1 << iota
	// spelled: an escape for a letter of _meta, which may thus hide.
	spelled
)

// step holds for each byte how far a scan may go on from it without a closer
// look; zero asks for that look. It is indexed by first bytes only: the rest of
// a multi-byte character is stepped over.
var step = makeStep()

func makeStep() (t [256]uint8) {
	for c := range t {
		t[c] = 1
		switch {
		case c < 0x80 && suspect(rune(c)), c == '\\':
			t[c] = 0
		case 0xc2 <= c && c < 0xe0:
			t[c] = 2
		case 0xe0 <= c && c < 0xf0:
			t[c] = 3
		case 0xf0 <= c && c < 0xf5:
			t[c] = 4
		}
	}
	// The first bytes of the suspects; a test compares with suspect.
	for _, c := range []int{0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf0, 0xf1, 0xf2, 0xf3, 0xf4} {
		t[c] = 0
	}
	return t
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainWord reports whether eight bytes hold neither a backslash nor DEL nor
// anything beyond ASCII. Other controls cannot stand raw in valid JSON.
func plainWord(w uint64) bool {
	slash, del := w^(ones*'\\'), w^(ones*0x7f)
	return (w|(slash-ones)&^slash|(del-ones)&^del)&highs == 0
}

// quoteWord reports whether one of eight bytes may be a quotation mark.
func quoteWord(w uint64) bool {
	quote := w ^ (ones * '"')
	return (quote-ones)&^quote&highs != 0
}

// scan looks through valid JSON text without minding its structure: what it
// looks for can only stand in strings. It ends early once it has found stop.
func scan(b []byte, stop finding) (f finding) {
	for i := 0; i < len(b) && f&stop == 0; {
		if i+8 <= len(b) && plainWord(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
			continue
		}
		for end := min(i+16, len(b)); i < end; {
			n := int(step[b[i]])
			if n == 0 {
				var found finding
				n, found = look(b[i:])
				f |= found
			}
			i += n
		}
	}
	return f
}

// scanString returns the end of the JSON string that opens at b[i].
func scanString(b []byte, i int) (end int, f finding) {
	for i++; i < len(b); {
		if i+8 <= len(b) {
			if w := binary.LittleEndian.Uint64(b[i:]); plainWord(w) && !quoteWord(w) {
				i += 8
				continue
			}
		}
		if b[i] == '"' {
			return i + 1, f
		}
		n := int(step[b[i]])
		if n == 0 {
			var found finding
			n, found = look(b[i:])
			f |= found
		}
		i += n
	}
	return len(b), f
}

// look judges the character or escape at b[0] and returns its length.
func look(b []byte) (n int, f finding) {
	switch c := b[0]; {
	case c == '\\':
		return lookEscape(b)
	case c < utf8.RuneSelf:
		return 1, dirty
	case len(b) >= 2 && 0xc2 <= c && c < 0xe0:
		return 2, dirtyIf(suspect(rune(c&0x1f)<<6 | rune(b[1]&0x3f)))
	case len(b) >= 3 && c == 0xe1 && b[1] != 0x85 && b[1] != 0x9e && b[1] != 0xa0:
		return 3, 0
	case len(b) >= 3 && c == 0xe3:
		return 3, dirtyIf(b[1] == 0x85 && b[2] == 0xa4)
	case len(b) >= 3 && c == 0xe2:
		return 3, dirtyIf(b[1] == 0x80 && b[2] >= 0x8b && suspect(0x2000|rune(b[2]&0x3f)) || b[1] == 0x81 && b[2] >= 0xa0 && b[2] < 0xb0)
	case len(b) >= 3 && c == 0xef && b[1] == 0xbc: // full-width punctuation
		return 3, 0
	case len(b) >= 4 && c == 0xf0 && b[1] == 0x9f && b[2] != 0xbf: // emoji
		return 4, 0
	}
	r, n := utf8.DecodeRune(b)
	return n, dirtyIf(n == 1 || suspect(r))
}

func dirtyIf(yes bool) finding {
	if yes {
		return dirty
	}
	return 0
}

// lookEscape judges the escape at b[0]. Half of a surrogate pair counts as dirty
// when it stands alone, and so does an escape that breaks off.
func lookEscape(b []byte) (n int, f finding) {
	if len(b) < 2 {
		return 1, dirty
	}
	if b[1] != 'u' {
		return 2, dirtyIf(b[1] == 'b' || b[1] == 'f')
	}
	r, ok := hex4(b, 2)
	switch {
	case !ok:
		return 2, dirty
	case 0xd800 <= r && r < 0xe000:
		return lookPair(b, r)
	case r == '_' || r == 'm' || r == 'e' || r == 't' || r == 'a':
		return 6, spelled
	}
	return 6, dirtyIf(suspect(r))
}

func lookPair(b []byte, hi rune) (n int, f finding) {
	if len(b) < 12 || b[6] != '\\' || b[7] != 'u' || hi >= 0xdc00 {
		return 6, dirty
	}
	lo, ok := hex4(b, 8)
	if !ok || lo < 0xdc00 || lo >= 0xe000 {
		return 6, dirty
	}
	return 12, dirtyIf(suspect((hi-0xd800)<<10 + (lo - 0xdc00) + 0x10000))
}

// hex4 reads four hexadecimal digits at b[i:].
func hex4(b []byte, i int) (r rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r |= rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return r, true
}

// skipSpace returns the index of the first byte from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the end of the JSON string that opens at b[i].
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the end of the value at b[i].
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + min(1, depth+1)
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}
