package wire

import (
	"bytes"
	"unicode/utf8"
)

// Unquote returns the text of a JSON string; ok is false when raw is none. Bad
// UTF-8 and lone surrogates become U+FFFD.
func Unquote(raw []byte) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return string(in), true
	}
	return string(appendText(nil, in)), true
}

// appendText appends the text of the inside of a valid JSON string.
func appendText(dst, in []byte) []byte {
	for i := 0; i < len(in); {
		if c := in[i]; c == '\\' && i+1 < len(in) {
			r, n := unescape(in[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		if in[i] < utf8.RuneSelf {
			dst = append(dst, in[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(in[i:])
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst
}

// unescape reads the escape at in[0]; a lone surrogate is U+FFFD.
func unescape(in []byte) (r rune, n int) {
	switch in[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
	default:
		return rune(in[1]), 2
	}
	hi, ok := hex4(in, 2)
	if !ok {
		return utf8.RuneError, min(len(in), 6)
	}
	if hi < 0xd800 || hi > 0xdfff {
		return hi, 6
	}
	if lo, ok := hex4(in, 8); ok && in[6] == '\\' && in[7] == 'u' && hi < 0xdc00 && lo >= 0xdc00 && lo <= 0xdfff {
		return (hi-0xd800)<<10 + (lo - 0xdc00) + 0x10000, 12
	}
	return utf8.RuneError, 6
}

const hexDigits = "0123456789abcdef"

// AppendQuote appends s as a JSON string. Bad UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// Repair replaces bad UTF-8 and lone surrogate escapes in valid JSON by U+FFFD
// and returns how many there were; without any, out is raw itself.
func Repair(raw []byte) (out []byte, n int) {
	start := 0
	for i := 0; i < len(raw); {
		size, bad := 1, false
		switch c := raw[i]; {
		case c == '\\' && i+1 < len(raw):
			var r rune
			r, size = unescape(raw[i:])
			bad = r == utf8.RuneError && raw[i+1] == 'u' && !isReplacement(raw[i:])
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRune(raw[i:])
			bad = r == utf8.RuneError && size == 1
		}
		if bad {
			out = append(append(out, raw[start:i]...), "\ufffd"...)
			start = i + size
			n++
		}
		i += size
	}
	if n == 0 {
		return raw, 0
	}
	return append(out, raw[start:]...), n
}

// isReplacement reports whether the escape at in[0] spells U+FFFD itself.
func isReplacement(in []byte) bool {
	r, ok := hex4(in, 2)
	return ok && r == utf8.RuneError
}
