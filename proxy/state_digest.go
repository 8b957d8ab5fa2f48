package proxy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

type digest = [sha256.Size]byte

// sameArguments returns equal digests for raw arguments that mean the same:
// agents write them anew for a retry, with other white space, another order of
// members, and other spellings of strings and numbers. Arguments that are
// absent are empty ones.
func sameArguments(raw []byte) digest {
	if len(raw) == 0 || string(raw) == "null" {
		raw = emptyObject
	}
	d := digester{b: raw}
	return d.value()
}

// A digester walks one valid JSON value once.
type digester struct {
	b []byte
	i int
}

// peek returns the next byte that is no white space; zero at the end.
func (d *digester) peek() byte {
	for ; d.i < len(d.b); d.i++ {
		switch c := d.b[d.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// more steps over a comma, or over the end of what began.
func (d *digester) more(end byte) bool {
	c := d.peek()
	if c == ',' {
		d.i++
	}
	if c == end {
		d.i++
	}
	return c != end && c != 0
}

func (d *digester) value() digest {
	switch c := d.peek(); c {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return sha256.Sum256(append([]byte{'"'}, d.text()...))
	default:
		start := d.i
		for d.i < len(d.b) && bytes.IndexByte([]byte(",]} \t\r\n"), d.b[d.i]) < 0 {
			d.i++
		}
		if d.i == start {
			d.i = len(d.b) // no JSON: end here
		}
		return sha256.Sum256(appendNumber([]byte{'0'}, d.b[start:d.i]))
	}
}

func (d *digester) text() string {
	start := d.i
	for d.i++; d.i < len(d.b) && d.b[d.i] != '"'; d.i++ {
		if d.b[d.i] == '\\' {
			d.i++
		}
	}
	d.i = min(d.i+1, len(d.b))
	s, _ := wire.Unquote(d.b[start:d.i])
	return s
}

func (d *digester) array() digest {
	h := sha256.New()
	h.Write([]byte{'['})
	d.i++
	for d.more(']') {
		v := d.value()
		h.Write(v[:])
	}
	return digest(h.Sum(nil))
}

// object hashes its members in the order of their names.
func (d *digester) object() digest {
	type member struct {
		name string
		val  digest
	}
	var all []member
	d.i++
	for d.more('}') {
		if d.peek() != '"' {
			break
		}
		name := d.text()
		if d.peek() == ':' {
			d.i++
		}
		all = append(all, member{name, d.value()})
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	h := sha256.New()
	h.Write([]byte{'{'})
	for _, m := range all {
		h.Write(binary.AppendUvarint(nil, uint64(len(m.name))))
		h.Write([]byte(m.name))
		h.Write(m.val[:])
	}
	return digest(h.Sum(nil))
}

// appendNumber appends one spelling for all spellings of a number: its digits
// without zeros at either end, and the power of ten. What is no number is
// appended as it is.
func appendNumber(dst, raw []byte) []byte {
	sign, mant, exp, ok := scanNumber(raw)
	switch {
	case !ok:
		return append(dst, raw...)
	case len(mant) == 0:
		return append(dst, '0')
	}
	dst = append(append(dst, sign...), mant...)
	return strconv.AppendInt(append(dst, 'e'), exp, 10)
}

// scanNumber splits a number into its digits, as an integer, and the power of
// ten that they are multiplied by. Zero has no digits.
func scanNumber(raw []byte) (sign string, mant []byte, exp int64, ok bool) {
	if wire.Kindof(raw) != '0' {
		return "", nil, 0, false
	}
	if raw[0] == '-' {
		sign, raw = "-", raw[1:]
	}
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		n, err := strconv.ParseInt(string(raw[i+1:]), 10, 32)
		if err != nil {
			return "", nil, 0, false
		}
		raw, exp = raw[:i], n
	}
	whole, frac, _ := bytes.Cut(raw, []byte{'.'})
	exp -= int64(len(frac))
	mant = append(append([]byte(nil), whole...), frac...)
	short := bytes.TrimRight(mant, "0")
	exp += int64(len(mant) - len(short))
	return sign, bytes.TrimLeft(short, "0"), exp, true
}
