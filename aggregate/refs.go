package aggregate

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// refs is what a walk over a JSON Schema learns about its references. Nothing
// is ever fetched.
type refs struct {
	root   []byte
	budget int             // bytes that may still be looked at
	list   []string        // distinct references, in order
	known  map[string]bool // of list
	ids    map[string]bool // $id, and #anchor
	nested bool            // some $id below the root starts a schema of its own
	tables map[string]map[string][]byte

	over     bool   // the budget ended before the answer
	external string // the first reference that leaves the schema
	dangling string // the first local one that leads nowhere
}

// findRefs checks every reference of a schema whose JSON is valid.
func findRefs(schema []byte) *refs {
	r := &refs{root: schema, budget: 256<<10 + 32*len(schema)}
	if !bytes.Contains(schema, []byte("$ref")) && !bytes.Contains(schema, []byte("$dynamicRef")) &&
		!bytes.Contains(schema, []byte(`\u`)) {
		return r
	}
	r.known, r.ids = map[string]bool{}, map[string]bool{}
	r.schema(schema)
	for _, ref := range r.list {
		r.check(ref)
	}
	return r
}

func (r *refs) spend(n int) bool {
	r.budget -= n
	r.over = r.over || r.budget < 0
	return !r.over
}

// schema walks v, which is a schema or an array of them.
func (r *refs) schema(v []byte) {
	switch wire.Kindof(v) {
	case '[':
		if r.spend(len(v)) {
			wire.Elements(v, func(el []byte) bool { r.schema(el); return !r.over })
		}
	case '{':
		if r.spend(len(v)) {
			wire.Each(v, func(key, val []byte) bool { r.keyword(string(key), val, len(v)); return !r.over })
		}
	}
}

func (r *refs) keyword(key string, val []byte, size int) {
	switch key {
	case "$ref", "$dynamicRef":
		if ref, ok := wire.Unquote(val); ok && !r.known[ref] {
			r.known[ref] = true
			r.list = append(r.list, ref)
		}
	case "$id":
		if id, ok := wire.Unquote(val); ok {
			r.ids[strings.TrimSuffix(id, "#")] = true
			r.nested = r.nested || size != len(r.root)
		}
	case "$anchor", "$dynamicAnchor":
		if name, ok := wire.Unquote(val); ok {
			r.ids["#"+name] = true
		}
	case "const", "enum", "default", "example", "examples": // values, not schemas
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		if r.spend(len(val)) {
			wire.Each(val, func(_, el []byte) bool { r.schema(el); return !r.over })
		}
	default:
		r.schema(val)
	}
}

func (r *refs) check(ref string) {
	base, fragment, _ := strings.Cut(ref, "#")
	switch {
	case base != "" && !r.ids[base]:
		if r.external == "" {
			r.external = ref
		}
	case base != "" || r.nested:
		// Relative to some $id within: there is no telling without resolving
		// base URIs, and nothing leaves the schema.
	case fragment == "" || r.ids["#"+fragment]:
	case r.dangling == "" && !r.leads(fragment):
		r.dangling = ref
	}
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// leads reports whether a JSON pointer (RFC 6901) finds something.
func (r *refs) leads(fragment string) bool {
	if !strings.HasPrefix(fragment, "/") {
		return false
	}
	if text, err := url.PathUnescape(fragment); err == nil {
		fragment = text
	}
	tokens := strings.Split(fragment[1:], "/")
	for i, t := range tokens {
		tokens[i] = pointerEscapes.Replace(t)
	}
	at := r.root
	if len(tokens) > 1 {
		at, tokens = r.table(tokens[0])[tokens[1]], tokens[2:]
	}
	for _, token := range tokens {
		if !r.spend(len(at)) {
			return true
		}
		at = step(at, token)
	}
	return at != nil
}

// table indexes the members of one keyword of the root. Big schemas have
// hundreds of references into $defs; each would be a scan of them all.
func (r *refs) table(word string) map[string][]byte {
	if t, ok := r.tables[word]; ok {
		return t
	}
	t := map[string][]byte{}
	if r.spend(2 * len(r.root)) {
		val, _ := wire.Get(r.root, word)
		wire.Each(val, func(key, el []byte) bool { t[string(key)] = el; return true })
	}
	if r.tables == nil {
		r.tables = map[string]map[string][]byte{}
	}
	r.tables[word] = t
	return t
}

func step(v []byte, token string) (found []byte) {
	if wire.Kindof(v) == '{' {
		found, _ = wire.Get(v, token)
		return found
	}
	index, err := strconv.Atoi(token)
	if err != nil || index < 0 {
		return nil
	}
	wire.Elements(v, func(el []byte) bool {
		if index == 0 {
			found = el
		}
		index--
		return found == nil
	})
	return found
}
