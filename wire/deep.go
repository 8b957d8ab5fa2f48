package wire

import "errors"

// TooDeep reports whether err is that Depth was exceeded.
func TooDeep(err error) bool {
	var e *limitError
	return errors.As(err, &e) && e.what == nesting
}

const nesting = "levels of nesting"

// beyond is called with the object or array that is one level too deep.
func (s *scanner) beyond(i int) (int, error) {
	if !s.deeper {
		return i, &limitError{nesting, s.depth}
	}
	return s.nested(i)
}

// nested checks an object or array of any depth. It takes a bit for each level, and
// no stack.
func (s *scanner) nested(i int) (int, error) {
	var open levels
	for {
		var err error
		switch {
		case i < len(s.b) && (s.b[i] == '{' || s.b[i] == '['):
			open.push(s.b[i] == '{')
			i = space(s.b, i+1)
			if i >= len(s.b) || s.b[i] != open.end() {
				i, err = s.part(i, &open)
				if err != nil {
					return i, err
				}
				continue
			}
		default:
			if i, err = s.value(i, 0); err != nil {
				return i, err
			}
		}
		if i, err = s.close(i, &open); err != nil || open.n == 0 {
			return i, err
		}
		if i, err = s.part(space(s.b, i+1), &open); err != nil {
			return i, err
		}
	}
}

// part goes to where the next value of the innermost level starts.
func (s *scanner) part(i int, open *levels) (int, error) {
	if open.end() == ']' {
		return i, nil
	}
	_, at, err := s.key(i)
	return at, err
}

// close ends the levels that end at i. It returns the index of a comma, or the one
// behind the last level.
func (s *scanner) close(i int, open *levels) (int, error) {
	for {
		i = space(s.b, i)
		switch {
		case i < len(s.b) && s.b[i] == ',':
			return i, nil
		case i >= len(s.b) || s.b[i] != open.end():
			return i, s.unexpected(i)
		}
		i++
		if open.n--; open.n == 0 {
			return i, nil
		}
	}
}

// levels are the objects and arrays that are open, a bit each.
type levels struct {
	bits []uint64
	n    int
}

func (l *levels) push(object bool) {
	word, bit := l.n/64, uint64(1)<<(l.n%64)
	if word == len(l.bits) {
		l.bits = append(l.bits, 0)
	}
	l.bits[word] &^= bit
	if object {
		l.bits[word] |= bit
	}
	l.n++
}

// end is what closes the innermost level.
func (l *levels) end() byte {
	if n := l.n - 1; l.bits[n/64]>>(n%64)&1 == 1 {
		return '}'
	}
	return ']'
}
