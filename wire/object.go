package wire

import "bytes"

// skip returns the index behind the value at b[i], which must be valid JSON.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return skipText(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && !isSpace(b[i]) {
		i++
	}
	return i
}

// skipText returns the index behind the string that starts at the quote b[i].
func skipText(b []byte, i int) int {
	for i++; ; {
		j := bytes.IndexByte(b[min(i, len(b)):], '"')
		if j < 0 {
			return len(b)
		}
		j += i
		k := j
		for k > i && b[k-1] == '\\' {
			k--
		}
		if (j-k)%2 == 0 {
			return j + 1
		}
		i = j + 1
	}
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipText(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

// decodeKey returns the text of a raw key; only escaped ones are copied.
func decodeKey(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return appendText(nil, raw)
}

// A member is one member of an object by its ranges.
type member struct {
	key             []byte // decoded
	start, from, to int    // of the key's quote, of the value, behind the value
}

// members walks the members of the object b, which must be valid JSON.
func members(b []byte, f func(m member) bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	i++
	for {
		i = space(b, i)
		if i >= len(b) || b[i] != '"' {
			return
		}
		end := skipText(b, i)
		if end-1 <= i {
			return
		}
		m := member{key: decodeKey(b[i+1 : end-1]), start: i}
		i = space(b, end)
		if i >= len(b) || b[i] != ':' {
			return
		}
		m.from = space(b, i+1)
		m.to = skip(b, m.from)
		if !f(m) {
			return
		}
		i = space(b, m.to)
		if i >= len(b) || b[i] != ',' {
			return
		}
		i++
	}
}

// Each calls f with every member of obj until f returns false. key is decoded,
// val aliases obj. obj must be valid JSON; if it is no object there is no call.
func Each(obj []byte, f func(key, val []byte) bool) {
	members(obj, func(m member) bool { return f(m.key, obj[m.from:m.to]) })
}

// Elements calls f with every element of arr until f returns false.
func Elements(arr []byte, f func(val []byte) bool) {
	i := space(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return
	}
	i++
	for {
		i = space(arr, i)
		if i >= len(arr) || arr[i] == ']' {
			return
		}
		end := skip(arr, i)
		if end == i || !f(arr[i:end]) {
			return
		}
		i = space(arr, end)
		if i >= len(arr) || arr[i] != ',' {
			return
		}
		i++
	}
}

// Find returns the range of the value of the first member called name.
func Find(obj []byte, name string) (from, to int, ok bool) {
	members(obj, func(m member) bool {
		if string(m.key) == name {
			from, to, ok = m.from, m.to, true
		}
		return !ok
	})
	return from, to, ok
}

// Get returns the value of the first member called name.
func Get(obj []byte, name string) (val []byte, ok bool) {
	from, to, ok := Find(obj, name)
	if !ok {
		return nil, false
	}
	return obj[from:to], true
}

// FindMember returns the range of the first member called name with its key and
// one comma beside it: cutting it out leaves a valid object.
func FindMember(obj []byte, name string) (from, to int, ok bool) {
	prev := -1 // behind the value before
	members(obj, func(m member) bool {
		if string(m.key) != name {
			prev = m.to
			return true
		}
		from, to, ok = m.start, m.to, true
		return false
	})
	if !ok {
		return 0, 0, false
	}
	if next := space(obj, to); next < len(obj) && obj[next] == ',' {
		return from, space(obj, next+1), true
	}
	if prev >= 0 {
		from = prev
	}
	return from, to, true
}

// Kindof tells what a value is by its first byte: one of { [ " t f n, 0 for any
// number, or zero for none of them.
func Kindof(val []byte) byte {
	if len(val) == 0 {
		return 0
	}
	switch c := val[0]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}
	return 0
}
