package policy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Cleaner takes out of text what a person would not see and a model would
// read: tag characters, runs of selectors, bidirectional overrides, characters
// without width, control characters and terminal sequences. Characters that are
// none become U+FFFD. What scripts and emoji need stays. The zero value and nil
// clean everything.
type Cleaner struct {
	// Off leaves text alone. Bad UTF-8 is repaired all the same.
	Off bool
	// KeepMeta leaves _meta alone.
	KeepMeta bool
}

// Text cleans one string and reports whether it changed. Cleaning twice changes
// nothing more.
func (c *Cleaner) Text(s string) (string, bool) {
	valid := strings.ToValidUTF8(s, "\ufffd")
	if !c.text() || nextSuspect(valid, 0) >= len(valid) {
		return valid, valid != s
	}
	out, n := cleanText(nil, valid)
	if n == 0 {
		return valid, valid != s
	}
	return string(out), true
}

// nextSuspect returns the index of the next suspect character from i on, or
// len(s). s must be UTF-8.
func nextSuspect(s string, i int) int {
	for i < len(s) {
		c := s[i]
		n := int(step[c])
		if n == 0 && c == '\\' {
			n = 1
		}
		if n == 0 {
			var r rune
			if r, n = utf8.DecodeRuneInString(s[i:]); suspect(r) {
				return i
			}
		}
		i += n
	}
	return len(s)
}

// cleanText writes the clean s, which must be UTF-8, over dst and returns how many characters it took
// out or replaced. A decision looks at nothing but the clean text so far and at
// the raw text to come, and what it keeps for the sake of a neighbour has that
// neighbour beside it in the clean text too: so cleaning is idempotent.
func cleanText(dst []byte, s string) (out []byte, removed int) {
	out = slices.Grow(dst[:0], len(s))
	for i := 0; ; {
		j := nextSuspect(s, i)
		out = append(out, s[i:j]...)
		if j == len(s) {
			return out, removed
		}
		keep, drop, with := judge(out, s, j)
		out = append(out, s[j:j+keep]...)
		out = append(out, with...)
		removed += utf8.RuneCountInString(s[j+keep : j+keep+drop])
		i = j + keep + drop
	}
}

// judge decides on the suspect at s[i:] after the clean text so far: how many
// bytes stay, how many of the next go, and what stands in for those.
func judge(done []byte, s string, i int) (keep, drop int, with string) {
	r, n := utf8.DecodeRuneInString(s[i:])
	next := s[i+n:]
	switch {
	case isNonchar(r):
		return 0, n, "\ufffd"
	case r == 0x1b || 0x80 <= r && r < 0xa0:
		return 0, sequence(s[i:]), ""
	case isTag(r):
		if f := flag(done, s[i:]); f > 0 {
			return f, 0, ""
		}
		return 0, n, ""
	}
	if harmless(done, r, next, i == 0) {
		return n, 0, ""
	}
	return 0, n, ""
}

// harmless reports whether an invisible character does its job where it stands.
// Two of them never stand in a row, which is how bytes are hidden in text; only an
// emoji's style and its joiner may.
func harmless(done []byte, r rune, next string, first bool) bool {
	last, _ := utf8.DecodeLastRune(done)
	switch {
	case r == 0xfeff:
		return first
	case len(done) == 0:
		return false
	case r == 0x200d && endsInEmoji(done):
		after, _ := utf8.DecodeRuneInString(next)
		return unicode.Is(pictographic, after)
	case r == 0x200c || r == 0x200d:
		after, _ := utf8.DecodeRuneInString(next)
		return unicode.Is(virama, last) || joins(done) && joinChar(after)
	case isSelector(r):
		return selects(last, r, next)
	case 0x180b <= r && r <= 0x180f && r != 0x180e:
		return unicode.Is(unicode.Mongolian, last) && unicode.IsLetter(last)
	case r == 0xad || r == 0x34f:
		return !suspect(last) && unicode.IsGraphic(last) && !unicode.IsSpace(last)
	}
	return false
}

// selects reports whether the variation selector r means something after base:
// text or emoji style of a symbol, or one variant of an ideograph.
func selects(base, r rune, next string) bool {
	if unicode.Is(unicode.Han, base) && unicode.IsLetter(base) {
		return true
	}
	if r != 0xfe0e && r != 0xfe0f {
		return false
	}
	if base == '#' || base == '*' || '0' <= base && base <= '9' {
		return strings.HasPrefix(next, "\u20e3") // a keycap
	}
	return unicode.Is(pictographic, base)
}

// endsInEmoji looks behind an emoji's own modifiers, which are two at most.
func endsInEmoji(done []byte) bool {
	for range 3 {
		r, n := utf8.DecodeLastRune(done)
		if !isSkinTone(r) && r != 0xfe0f {
			return unicode.Is(pictographic, r)
		}
		done = done[:len(done)-n]
	}
	return false
}

// joins reports whether done ends in a letter or mark of a joining script. Marks
// that many scripts share belong to the letter under them.
func joins(done []byte) bool {
	for range 8 {
		r, n := utf8.DecodeLastRune(done)
		if suspect(r) || !unicode.Is(unicode.Inherited, r) || !unicode.IsMark(r) {
			return joinChar(r)
		}
		done = done[:len(done)-n]
	}
	return false
}

// joinChar reports whether r is a letter or mark of a joining script. None of
// them is suspect, save the two Khmer vowels that are never shown and Mongolian
// selectors.
func joinChar(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsMark(r)) && !suspect(r) && unicode.Is(joining, r)
}

// flags are the subdivision flags that Unicode recommends: England, Scotland and
// Wales. Any other text in tag characters is not a flag that anybody can see.
var flags = [...]string{tags("gbeng"), tags("gbsct"), tags("gbwls")}

func tags(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(0xe0000 + r)
	}
	b.WriteRune(0xe007f)
	return b.String()
}

// flag returns the length of a registered flag's tags at the start of s, if they
// follow a black flag.
func flag(done []byte, s string) int {
	if r, _ := utf8.DecodeLastRune(done); r != 0x1f3f4 {
		return 0
	}
	for _, f := range flags {
		if strings.HasPrefix(s, f) {
			return len(f)
		}
	}
	return 0
}
