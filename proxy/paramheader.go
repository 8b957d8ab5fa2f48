package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// mirror gives a call the headers that repeat its arguments. They are made from
// the body; those of a modern agent must say the same, and are not looked at
// otherwise. Headers that no parameter asks for are ignored.
func (x *exchange) mirror(c *upstream.Call, list aggregate.ParamHeaders) *wire.Error {
	var values [aggregate.MaxParamHeaders][]byte
	pick(x.params.args, list, 0, ^uint64(0), values[:])
	for i := range list {
		p := &list[i]
		text, ok := headerText(values[i])
		if x.modern && x.header != nil {
			if err := checkParam(p.Name, x.header, values[i], text, ok); err != nil {
				return err
			}
		}
		if !ok {
			continue
		}
		if len(text) > maxNameHeader {
			return badParams(fmt.Sprintf("an argument of more than %d bytes does not fit the %s header", maxNameHeader, p.Name))
		}
		c.Header = append(c.Header, upstream.Param{Name: p.Name, Value: text})
	}
	return nil
}

// pick finds the arguments of a list in one walk over them. among says which of
// the list lie within obj, below depth names of their paths.
func pick(obj []byte, list aggregate.ParamHeaders, depth int, among uint64, values [][]byte) {
	wire.Each(obj, func(key, val []byte) bool {
		var within uint64
		for i := range list {
			path := list[i].Path
			if among&(1<<i) == 0 || path[depth] != string(key) {
				continue
			}
			if len(path) == depth+1 {
				values[i] = val
			} else {
				within |= 1 << i
			}
		}
		if within != 0 {
			pick(val, list, depth+1, within, values)
		}
		return true
	})
}

// headerText is what a header says for a raw argument; false for what is absent
// or null, and for what no header can hold.
func headerText(val []byte) (text string, ok bool) {
	switch wire.Kindof(val) {
	case '"':
		return wire.Unquote(val)
	case 't', 'f':
		return string(val), true
	case '0':
		return decimal(string(val)), true
	}
	return "", false
}

// maxSafe is the largest integer that every client keeps exactly.
const maxSafe = 1<<53 - 1

// decimal writes a number without fraction and exponent if it is an integer that
// can be written so, and else as it came.
func decimal(num string) string {
	if n, err := strconv.ParseInt(num, 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if f, err := strconv.ParseFloat(num, 64); err == nil && f >= -maxSafe && f <= maxSafe && f == float64(int64(f)) {
		return strconv.FormatInt(int64(f), 10)
	}
	return num
}

// checkParam holds a header against the argument val, whose text is want; ok is
// false when there is nothing to repeat.
func checkParam(name string, h http.Header, val []byte, want string, ok bool) *wire.Error {
	got := h[name]
	switch {
	case !ok && len(got) > 0:
		return mismatch("the " + name + " header repeats an argument that is not there")
	case !ok:
		return nil
	case len(got) == 0:
		return mismatch("the " + name + " header is missing")
	case len(got) > 1:
		return mismatch("more than one " + name + " header")
	}
	v := strings.Trim(got[0], " \t")
	text, ok := decodeName(v)
	if !ok || strings.ContainsFunc(v, unfitForHeader) {
		return mismatch("the " + name + " header cannot be decoded")
	}
	if text != want && !(wire.Kindof(val) == '0' && isNumber(text) && decimal(text) == want) {
		return mismatch("the " + name + " header differs from the body")
	}
	return nil
}

func unfitForHeader(c rune) bool { return (c < ' ' && c != '\t') || c > '~' }

func isNumber(s string) bool {
	_, err := wire.Valid([]byte(s), wire.Limits{})
	return err == nil && wire.Kindof([]byte(s)) == '0'
}
