package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// A scanner checks JSON by the grammar of RFC 8259. In strict mode, for what
// agents send, it also refuses bad text and members that come twice.
type scanner struct {
	b       []byte
	depth   int
	members int
	strict  bool
	deeper  bool // what is too deep goes to beyond
	flags   Flags
	keys    [][]byte // decoded keys of the open objects, innermost last
}

var (
	errEnd   = errors.New("unexpected end of JSON")
	errUTF8  = errors.New("text is not valid UTF-8")
	errLone  = errors.New("lone surrogate in a string")
	errTrail = errors.New("data after the JSON value")
)

// A duplicateError is valid JSON that readers would understand differently.
type duplicateError struct{ key string }

func (e *duplicateError) Error() string { return fmt.Sprintf("member %.64q comes twice", e.key) }

// A limitError names the limit that was hit.
type limitError struct {
	what string
	max  int
}

func (e *limitError) Error() string { return fmt.Sprintf("more than %d %s", e.max, e.what) }

func (s *scanner) unexpected(i int) error {
	if i >= len(s.b) {
		return errEnd
	}
	return fmt.Errorf("unexpected byte 0x%02x at offset %d", s.b[i], i)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func space(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// value checks the value that starts at i and returns the index behind it.
func (s *scanner) value(i, depth int) (int, error) {
	if i >= len(s.b) {
		return i, errEnd
	}
	switch c := s.b[i]; c {
	case '"':
		return s.text(i)
	case '{':
		return s.object(i, depth)
	case '[':
		return s.array(i, depth)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number(i)
		}
	}
	return i, s.unexpected(i)
}

func (s *scanner) literal(i int, word string) (int, error) {
	if len(s.b)-i < len(word) {
		return i, errEnd
	}
	if string(s.b[i:i+len(word)]) != word {
		return i, s.unexpected(i)
	}
	return i + len(word), nil
}

func (s *scanner) digits(i int) (int, error) {
	if i >= len(s.b) || s.b[i] < '0' || s.b[i] > '9' {
		return i, s.unexpected(i)
	}
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	return i, nil
}

func (s *scanner) number(i int) (int, error) {
	if s.b[i] == '-' {
		i++
	}
	var err error
	if i < len(s.b) && s.b[i] == '0' {
		i++
	} else if i, err = s.digits(i); err != nil {
		return i, err
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i, err = s.digits(i + 1); err != nil {
			return i, err
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		i++
		if i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i, nil
}

func (s *scanner) array(i, depth int) (int, error) {
	if depth >= s.depth {
		return s.beyond(i)
	}
	i = space(s.b, i+1)
	if i < len(s.b) && s.b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = s.value(i, depth+1); err != nil {
			return i, err
		}
		i = space(s.b, i)
		if i >= len(s.b) {
			return i, errEnd
		}
		switch s.b[i] {
		case ']':
			return i + 1, nil
		case ',':
			i = space(s.b, i+1)
		default:
			return i, s.unexpected(i)
		}
	}
}

func (s *scanner) object(i, depth int) (int, error) {
	if depth >= s.depth {
		return s.beyond(i)
	}
	base, n := len(s.keys), 0
	var many map[string]bool
	i = space(s.b, i+1)
	if i < len(s.b) && s.b[i] == '}' {
		return i + 1, nil
	}
	for {
		if n++; n > s.members {
			return i, &limitError{"members in an object", s.members}
		}
		key, at, err := s.key(i)
		if err != nil {
			return i, err
		}
		if s.strict {
			if many, err = s.once(base, key, many); err != nil {
				return i, err
			}
		}
		if i, err = s.value(at, depth+1); err != nil {
			return i, err
		}
		i = space(s.b, i)
		if i >= len(s.b) {
			return i, errEnd
		}
		if s.b[i] == '}' {
			s.keys = s.keys[:base]
			return i + 1, nil
		}
		if s.b[i] != ',' {
			return i, s.unexpected(i)
		}
		i = space(s.b, i+1)
	}
}

// key checks a member's name and colon; it returns the decoded name and where
// the value starts.
func (s *scanner) key(i int) (key []byte, at int, err error) {
	if i >= len(s.b) || s.b[i] != '"' {
		return nil, i, s.unexpected(i)
	}
	end, err := s.text(i)
	if err != nil {
		return nil, i, err
	}
	key = decodeKey(s.b[i+1 : end-1])
	i = space(s.b, end)
	if i >= len(s.b) || s.b[i] != ':' {
		return nil, i, s.unexpected(i)
	}
	return key, space(s.b, i+1), nil
}

// once records a key of the object whose keys start at base. Small objects are
// compared in place; large ones get a map, so that time stays linear.
func (s *scanner) once(base int, key []byte, many map[string]bool) (map[string]bool, error) {
	open := s.keys[base:]
	if many == nil && len(open) >= 32 {
		many = make(map[string]bool, 2*len(open))
		for _, k := range open {
			many[string(k)] = true
		}
	}
	if many != nil {
		if many[string(key)] {
			return many, &duplicateError{string(key)}
		}
		many[string(key)] = true
		return many, nil
	}
	for _, k := range open {
		if bytes.Equal(k, key) {
			return nil, &duplicateError{string(key)}
		}
	}
	s.keys = append(s.keys, key)
	return nil, nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has the high bit of a byte set where x holds a quote, a backslash, a
// control or DEL. Bytes above the first such one may be set wrongly.
func special(x uint64) uint64 {
	q, e, d := x^(ones*'"'), x^(ones*'\\'), x^(ones*0x7f)
	q = (q - ones) &^ q
	e = (e - ones) &^ e
	d = (d - ones) &^ d
	return (q | e | d | (x-ones*0x20)&^x) & highs
}

// text checks the string that starts at the quote b[i].
func (s *scanner) text(i int) (int, error) {
	b, high := s.b, uint64(0)
	i++
	start := i
	for {
		for len(b)-i >= 8 {
			x := binary.LittleEndian.Uint64(b[i:])
			m := special(x)
			if m == 0 {
				high |= x
				i += 8
				continue
			}
			n := bits.TrailingZeros64(m) / 8
			high |= x & (1<<(8*n) - 1)
			i += n
			break
		}
		if i >= len(b) {
			return i, errEnd
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, s.plain(b[start:i], high)
		case c == '\\':
			next, err := s.escape(i)
			if err != nil {
				return i, err
			}
			i = next
		case c < 0x20:
			return i, s.unexpected(i)
		case c == 0x7f:
			s.flags |= Escapes
			i++
		default:
			high |= uint64(c)
			i++
		}
	}
}

// plain judges the raw text of a string; high has bits of 0x80 if it is not ASCII.
func (s *scanner) plain(raw []byte, high uint64) error {
	if high&highs == 0 {
		return nil
	}
	s.flags |= NonASCII
	if !utf8.Valid(raw) {
		s.flags |= BadText
		if s.strict {
			return errUTF8
		}
	}
	return nil
}

// escape checks the escape at the backslash b[i] and returns the index behind it.
func (s *scanner) escape(i int) (int, error) {
	if i+1 >= len(s.b) {
		return i, errEnd
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'n', 'r', 't':
		return i + 2, nil
	case 'b', 'f':
		s.flags |= Escapes
		return i + 2, nil
	case 'u':
	default:
		return i, s.unexpected(i + 1)
	}
	s.flags |= Escapes
	r, ok := hex4(s.b, i+2)
	if !ok {
		return i, s.unexpected(min(i+2, len(s.b)))
	}
	i += 6
	if r < 0xd800 || r > 0xdfff {
		return i, nil
	}
	if r < 0xdc00 && i+1 < len(s.b) && s.b[i] == '\\' && s.b[i+1] == 'u' {
		if lo, ok := hex4(s.b, i+2); ok && lo >= 0xdc00 && lo <= 0xdfff {
			return i + 6, nil
		}
	}
	s.flags |= BadText
	if s.strict {
		return i, errLone
	}
	return i, nil
}

// hex4 reads four hexadecimal digits at b[i:].
func hex4(b []byte, i int) (rune, bool) {
	if len(b)-i < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Valid checks that b is one JSON value and returns what its strings hold.
func Valid(b []byte, l Limits) (Flags, error) {
	s := scanner{b: b, depth: l.depth(), members: l.members(), deeper: l.Deeper}
	i, err := s.value(space(b, 0), 0)
	if err == nil && space(b, i) != len(b) {
		err = errTrail
	}
	return s.flags, err
}
