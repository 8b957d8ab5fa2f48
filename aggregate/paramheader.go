package aggregate

import (
	"bytes"
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// annotation is the keyword of a tool's input schema by which a server wants an
// argument repeated in an HTTP header (MCP 2026-07-28, Streamable HTTP).
const annotation = "x-mcp-header"

// Limits of the annotations of one tool.
const (
	MaxParamHeaders = 32
	maxParamName    = 128 // bytes of a header's name behind its prefix
)

// ParamHeaders are those of one tool.
type ParamHeaders []ParamHeader

// A ParamHeader is an argument that requests over HTTP repeat in a header.
type ParamHeader struct {
	// Name is that of the header in canonical form, such as Mcp-Param-Region.
	Name string
	// Path leads to the argument, one property name for each level.
	Path []string
}

// mirrors reports whether the server reads arguments from headers.
func (s *Source) mirrors() bool {
	return s.Listing != nil && s.Listing.Info.HTTP && s.Listing.Info.Era == upstream.Modern
}

// annotations reads which arguments go into headers, and withholds a tool whose
// annotations break a rule: the protocol demands it. From the schemas of servers
// that read no headers they are taken out, so that agents do not send any.
//
// It looks at what the server sent, before that is cleaned: cleaning could make
// a name that no header can have into one.
func (v *vetting) annotations(flags wire.Flags) error {
	if v.kind != Tools || flags&wire.Escapes == 0 && !bytes.Contains(v.body, []byte(annotation)) {
		return nil
	}
	from, to, ok := wire.Find(v.body, "inputSchema")
	if !ok {
		return nil
	}
	schema := v.body[from:to]
	if v.mirrors {
		list, err := paramHeaders(schema)
		if len(list) > 0 {
			v.params = &list
		}
		return err
	}
	plain, err := unannotated(schema)
	if err == nil && len(plain) < len(schema) {
		v.splice(from, to, plain)
	}
	return err
}

// paramHeaders returns the annotated arguments of a schema whose JSON is valid.
func paramHeaders(schema []byte) (ParamHeaders, error) {
	var list ParamHeaders
	w := schemaWalk{budget: budgetOf(schema)}
	w.visit = func(s []byte, path []string, chain bool) (err error) {
		n := 0
		wire.Each(s, func(key, val []byte) bool {
			if string(key) == annotation {
				n++
				err = claim(&list, s, val, path, chain)
			}
			return err == nil
		})
		if err == nil && n > 1 {
			err = fmt.Errorf("%s comes twice for %q", annotation, dotted(path))
		}
		return err
	}
	if err := w.schema(schema, nil, true); err != nil {
		return nil, err
	}
	return list, nil
}

// claim adds one annotation to the list, if it follows the rules.
func claim(list *ParamHeaders, schema, val []byte, path []string, chain bool) error {
	if !chain || len(path) == 0 {
		return fmt.Errorf("%s stands where it names no argument", annotation)
	}
	at := dotted(path)
	name, ok := wire.Unquote(val)
	switch {
	case !ok:
		return fmt.Errorf("%s of %q is %s, not a string", annotation, at, about(val))
	case !isToken(name):
		return fmt.Errorf("%s of %q is %q, which no header can be called", annotation, at, clip(name, 32))
	case !primitive(schema):
		return fmt.Errorf("%s of %q needs the type string, integer or boolean", annotation, at)
	case slices.ContainsFunc(path, func(s string) bool { return strings.ContainsFunc(s, unseen) }):
		return fmt.Errorf("%s of %q: its name holds characters that cannot be seen", annotation, at)
	case len(*list) == MaxParamHeaders:
		return fmt.Errorf("%s is used more than %d times", annotation, MaxParamHeaders)
	}
	p := ParamHeader{Name: textproto.CanonicalMIMEHeaderKey("Mcp-Param-" + name), Path: slices.Clone(path)}
	for _, other := range *list {
		if other.Name == p.Name { // canonical names are equal when only their case differs
			return fmt.Errorf("%s %q is used twice", annotation, clip(name, 32))
		}
	}
	*list = append(*list, p)
	return nil
}

func dotted(path []string) string { return clip(strings.Join(path, "."), 64) }

// isToken reports whether s can be (part of) a header's name, RFC 9110.
func isToken(s string) bool {
	if s == "" || len(s) > maxParamName {
		return false
	}
	for _, c := range []byte(s) {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return true
}

// primitive reports whether a schema has exactly one type, whose values a header
// can hold. The protocol leaves number out: its text is not unique.
func primitive(schema []byte) bool {
	n, good := 0, false
	wire.Each(schema, func(key, val []byte) bool {
		if string(key) == "type" {
			n++
			text, _ := wire.Unquote(val)
			good = text == "string" || text == "integer" || text == "boolean"
		}
		return true
	})
	return n == 1 && good
}

// unannotated returns a schema without its annotations; the other bytes stay.
func unannotated(schema []byte) ([]byte, error) {
	out := bytes.Clone(schema)
	var gone [][]byte
	w := schemaWalk{budget: budgetOf(schema)}
	w.visit = func(s []byte, _ []string, _ bool) error {
		for {
			from, to, ok := wire.FindMember(s, annotation)
			if !ok {
				return nil
			}
			// White space in its place: the walk goes on over this object, which must
			// stay valid JSON. The bytes leave at the end.
			gone = append(gone, s[from:to])
			for i := range s[from:to] {
				s[from+i] = ' '
			}
		}
	}
	if err := w.schema(out, nil, true); err != nil {
		return nil, err
	}
	for _, g := range gone {
		clear(g) // no valid JSON holds a zero byte
	}
	return slices.DeleteFunc(out, func(b byte) bool { return b == 0 }), nil
}

var errEntangled = errors.New("inputSchema is too entangled to look for " + annotation)

func budgetOf(schema []byte) int { return 256<<10 + 32*len(schema) }

// A schemaWalk visits every schema within a schema, outer ones first. It takes
// what it does not know for schemas too, but not values such as defaults.
type schemaWalk struct {
	budget int // bytes that may still be looked at
	// visit gets the path of property names that leads to s. chain is true while
	// nothing but properties lies on it.
	visit func(s []byte, path []string, chain bool) error
}

func (w *schemaWalk) spend(v []byte) error {
	if w.budget -= len(v); w.budget < 0 {
		return errEntangled
	}
	return nil
}

// schema walks v, which is a schema or an array of them.
func (w *schemaWalk) schema(v []byte, path []string, chain bool) (err error) {
	switch wire.Kindof(v) {
	case '[':
		if err = w.spend(v); err != nil {
			return err
		}
		wire.Elements(v, func(el []byte) bool {
			err = w.schema(el, nil, false)
			return err == nil
		})
	case '{':
		if err = w.spend(v); err != nil {
			return err
		}
		if err = w.visit(v, path, chain); err != nil {
			return err
		}
		wire.Each(v, func(key, val []byte) bool {
			err = w.keyword(string(key), val, path, chain)
			return err == nil
		})
	}
	return err
}

func (w *schemaWalk) keyword(key string, val []byte, path []string, chain bool) (err error) {
	switch key {
	case "const", "enum", "default", "example", "examples", annotation:
		return nil
	case "properties":
		return w.table(val, path, chain)
	case "patternProperties", "$defs", "definitions", "dependentSchemas":
		return w.table(val, nil, false)
	}
	return w.schema(val, nil, false)
}

// table walks an object of schemas by name.
func (w *schemaWalk) table(val []byte, path []string, chain bool) (err error) {
	if err := w.spend(val); err != nil {
		return err
	}
	wire.Each(val, func(name, el []byte) bool {
		var to []string
		if chain {
			to = append(path[:len(path):len(path)], string(name))
		}
		err = w.schema(el, to, chain)
		return err == nil
	})
	return err
}
