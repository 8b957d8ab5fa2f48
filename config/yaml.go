package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds that keep the parser's own cost in check: it recurses once per key of a
// mapping and once per level, and its work grows with the square of either.
const (
	maxYAMLBytes  = 2 << 20
	maxTokens     = 200_000
	maxKeys       = 12_000 // of one mapping
	maxMerged     = 200_000
	maxProperties = 8 // tags and anchors in a row
)

// readYAML reads one YAML document. An empty one is a nil node.
func readYAML(f *file, data []byte) (n *node, faults []Fault) {
	if len(data) > maxYAMLBytes {
		return nil, []Fault{f.whole(fmt.Sprintf("larger than %d MiB, the limit of a YAML document", maxYAMLBytes>>20))}
	}
	defer func() {
		if recover() != nil { // the parser is not ours, and what it reads may be anything
			n, faults = nil, []Fault{f.whole("not valid YAML")}
		}
	}()
	tokens, fault := scan(f, string(data))
	if fault != nil {
		return nil, []Fault{*fault}
	}
	doc, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, []Fault{yamlSyntax(f, err)}
	}
	return (&yamlReader{f: f, anchors: map[string]*node{}}).documents(doc)
}

func yamlSyntax(f *file, err error) Fault {
	var se *yaml.SyntaxError
	if !errors.As(err, &se) {
		return f.whole("not valid YAML")
	}
	return f.fault(f.token(se.Token), "", "not valid YAML: "+plainer(se.Message))
}

// plainer says in our words what the parser says often.
func plainer(msg string) string {
	if strings.Contains(msg, "'\t'") {
		return "a tab cannot indent, use spaces"
	}
	msg = strings.ReplaceAll(msg, "\n", " ")
	if strings.Contains(msg, "value is not allowed in this context") {
		return msg + " (text that holds a colon with a blank behind it belongs in quotes)"
	}
	for _, brackets := range []string{"must be specified", "character corresponding to", "invalid key for this map", "unexpected scalar value type"} {
		if strings.Contains(msg, brackets) {
			return msg + " (within [ ] and { }, text that holds any of : , # [ ] { } belongs in quotes)"
		}
	}
	return msg
}

// yamlReader turns the parser's tree into nodes.
type yamlReader struct {
	f       *file
	anchors map[string]*node
	merged  int
	faults  []Fault
}

func (r *yamlReader) bad(at *node, msg string) {
	r.faults = append(r.faults, r.f.fault(at, "", msg))
}

func (r *yamlReader) documents(doc *ast.File) (*node, []Fault) {
	var root *node
	for _, d := range doc.Docs {
		if d.Body == nil || d.Body.Type() == ast.DirectiveType || d.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			r.bad(r.f.token(d.Body.GetToken()), "a second document: a configuration is one document")
			break
		}
		root = r.value(d.Body)
	}
	if root == nil {
		return nil, r.faults
	}
	if msg := root.excess(); msg != "" {
		return nil, append(r.faults, r.f.whole(msg))
	}
	return root, r.faults
}

func (r *yamlReader) value(n ast.Node) *node {
	if n == nil {
		return &node{file: r.f, size: 1, height: 1}
	}
	out := r.f.token(n.GetToken())
	switch v := n.(type) {
	case *ast.AnchorNode:
		return r.anchor(v)
	case *ast.AliasNode:
		return r.alias(v)
	case *ast.TagNode:
		return r.tag(v)
	case *ast.MappingNode:
		out.kind = mapping
		r.members(out, v.Values)
	case *ast.MappingValueNode:
		out.kind = mapping
		r.members(out, []*ast.MappingValueNode{v})
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range v.Values {
			out.items = append(out.items, r.item(item))
		}
	default:
		scalar(out, n)
	}
	out.measure()
	return out
}

// item reads an item of a list. What stands in brackets within braces is text as far
// as it goes, host:443 too: the parser takes each colon for the end of a key there,
// where YAML wants a blank behind it.
func (r *yamlReader) item(n ast.Node) *node {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return r.value(n)
	}
	v := m.Values[0]
	key, colon, val := v.Key.GetToken(), v.Start, v.Value.GetToken()
	if !plain(key) || !plain(val) || !follows(key, colon) || !follows(colon, val) {
		return r.value(n)
	}
	out := r.f.token(key)
	out.kind, out.text = text, key.Value+":"+val.Value
	out.measure()
	return out
}

// plain reports whether a token is text without quotes, whatever it may mean.
func plain(tk *token.Token) bool {
	switch tk.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.BoolType, token.NullType,
		token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType:
		return true
	}
	return false
}

// follows reports whether nothing stands between two tokens of one line.
func follows(first, then *token.Token) bool {
	a, b := first.Position, then.Position
	return a.Line == b.Line && a.Column+utf8.RuneCountInString(first.Value) == b.Column
}

func scalar(out *node, n ast.Node) {
	switch v := n.(type) {
	case *ast.StringNode:
		out.kind, out.text = text, v.Value
	case *ast.LiteralNode:
		out.kind, out.text = text, v.Value.Value
	case *ast.BoolNode:
		out.kind, out.text = boolean, v.Token.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = number, n.GetToken().Value
	}
}

func (r *yamlReader) anchor(v *ast.AnchorNode) *node {
	out := r.value(v.Value)
	r.anchors[v.Name.GetToken().Value] = out
	return out
}

// alias shares the anchor's node: its size counts again, its memory does not.
func (r *yamlReader) alias(v *ast.AliasNode) *node {
	name := v.Value.GetToken().Value
	if n := r.anchors[name]; n != nil {
		return n
	}
	at := r.f.token(v.GetToken())
	r.bad(at, fmt.Sprintf("alias *%.64s has no anchor before it (text that begins with * belongs in quotes)", name))
	at.kind, at.text = text, "*"+name // what was meant, so that nobody misses it too
	at.measure()
	return at
}

func (r *yamlReader) tag(v *ast.TagNode) *node {
	out := r.value(v.Value)
	switch v.Start.Value {
	case "!!str":
		c := *out
		if c.kind == null {
			c.text = ""
		}
		if c.kind != list && c.kind != mapping {
			c.kind = text
		}
		return &c
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		return out
	}
	r.bad(r.f.token(v.Start), fmt.Sprintf("tag %.64q is not supported", v.Start.Value))
	return out
}

func (r *yamlReader) members(out *node, values []*ast.MappingValueNode) {
	seen := make(map[string]*node, len(values))
	var merges []*node
	for _, v := range values {
		if v.Key.IsMergeKey() {
			merges = append(merges, r.value(v.Value))
			continue
		}
		key, at, ok := r.key(v.Key)
		val := r.value(v.Value)
		if !ok {
			continue
		}
		if first := seen[key]; first != nil {
			r.bad(at, duplicate(key, first))
			continue
		}
		seen[key] = at
		out.pairs = append(out.pairs, pair{key: key, at: at, val: val})
	}
	for _, m := range merges {
		r.merge(out, seen, m)
	}
}

// merge takes over the keys of m that out does not have; earlier ones win.
func (r *yamlReader) merge(out *node, seen map[string]*node, m *node) {
	if m.kind == list {
		for _, item := range m.items {
			if item.kind == list {
				r.bad(item, "<< takes a mapping or a list of mappings")
				continue
			}
			r.merge(out, seen, item)
		}
		return
	}
	if m.kind != mapping {
		r.bad(m, "<< takes a mapping or a list of mappings")
		return
	}
	before := r.merged
	if r.merged += len(m.pairs); r.merged > maxMerged {
		if before <= maxMerged {
			r.bad(m, fmt.Sprintf("more than %d keys are merged with <<", maxMerged))
		}
		return
	}
	for _, p := range m.pairs {
		if seen[p.key] == nil {
			seen[p.key] = p.at
			out.pairs = append(out.pairs, p)
		}
	}
}

// key reads a mapping's key, which must be a scalar.
func (r *yamlReader) key(k ast.MapKeyNode) (string, *node, bool) {
	var n ast.Node = k
	if q, ok := k.(*ast.MappingKeyNode); ok {
		n = q.Value
	}
	val := r.value(n)
	if val.kind == list || val.kind == mapping || val.kind == null {
		r.bad(r.f.token(k.GetToken()), fmt.Sprintf("a key must be a string, not %s", val.kind))
		return "", nil, false
	}
	return val.text, r.f.token(k.GetToken()), true
}
