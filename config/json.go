package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// readJSON reads JSON, and JSON with comments and trailing commas.
func readJSON(f *file, data []byte) (*node, []Fault) {
	plain, off, msg := stripComments(data)
	if msg != "" {
		return nil, []Fault{f.fault(f.at(data, off), "", msg)}
	}
	r := jsonReader{f: f, source: data, data: plain, dec: json.NewDecoder(bytes.NewReader(plain))}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		r.faults = append(r.faults, r.syntax(err))
		return nil, r.faults
	}
	return n, r.faults
}

type jsonReader struct {
	f      *file
	source []byte // as it was written, for counting characters
	data   []byte // the same without comments, byte for byte
	dec    *json.Decoder
	seen   cursor
	nodes  int
	faults []Fault
}

var errLimit = errors.New("limit")

// next returns the next token and the place where it begins.
func (r *jsonReader) next() (json.Token, *node, error) {
	at := int(r.dec.InputOffset())
	for at < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[at]) >= 0 {
		at++
	}
	tok, err := r.dec.Token()
	return tok, r.place(at), err
}

func (r *jsonReader) place(off int) *node {
	r.seen.to(r.source, off)
	return &node{file: r.f, line: r.seen.line + 1, column: r.seen.column + 1}
}

func (r *jsonReader) value(depth int) (*node, error) {
	tok, at, err := r.next()
	if err != nil {
		return nil, err
	}
	return r.valueFrom(tok, at, depth)
}

func (r *jsonReader) valueFrom(tok json.Token, n *node, depth int) (*node, error) {
	r.nodes++
	if r.nodes > maxNodes {
		return nil, fmt.Errorf("%w: more than %d values", errLimit, maxNodes)
	}
	if depth >= maxDepth {
		return nil, fmt.Errorf("%w: nested more than %d deep", errLimit, maxDepth)
	}
	var err error
	switch v := tok.(type) {
	case bool:
		n.kind, n.text = boolean, fmt.Sprint(v)
	case json.Number:
		n.kind, n.text = number, v.String()
	case string:
		n.kind, n.text = text, v
	case json.Delim:
		if v == '{' {
			n.kind = mapping
			err = r.members(n, depth)
		} else {
			n.kind = list
			err = r.elements(n, depth)
		}
	}
	n.measure()
	return n, err
}

func (r *jsonReader) members(n *node, depth int) error {
	seen := map[string]*node{}
	for r.dec.More() {
		tok, at, err := r.next()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		val, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if first := seen[key]; first != nil {
			r.faults = append(r.faults, r.f.fault(at, "", duplicate(key, first)))
			continue
		}
		seen[key] = at
		n.pairs = append(n.pairs, pair{key: key, at: at, val: val})
	}
	_, err := r.dec.Token()
	return err
}

func (r *jsonReader) elements(n *node, depth int) error {
	for r.dec.More() {
		val, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, val)
	}
	_, err := r.dec.Token()
	return err
}

func (r *jsonReader) end() error {
	_, at, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	r.faults = append(r.faults, r.f.fault(at, "", "data after the end of the document"))
	return nil
}

func (r *jsonReader) syntax(err error) Fault {
	var se *json.SyntaxError
	switch {
	case errors.As(err, &se):
		return r.f.fault(r.place(int(se.Offset)-1), "", "not valid JSON: "+se.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.f.fault(r.place(len(r.data)), "", "not valid JSON: the document ends too early")
	case errors.Is(err, errLimit):
		return r.f.fault(r.place(int(r.dec.InputOffset())), "", strings.TrimPrefix(err.Error(), errLimit.Error()+": "))
	}
	return r.f.fault(r.place(int(r.dec.InputOffset())), "", "not valid JSON")
}

func duplicate(key string, first *node) string {
	return fmt.Sprintf("key %.64q is set twice (first at line %d)", key, first.line)
}

// stripComments replaces comments and trailing commas by blanks, so that every
// byte keeps its place. off is where msg applies.
func stripComments(data []byte) (out []byte, off int, msg string) {
	out = bytes.Clone(data)
	comma := -1 // a comma after which nothing but blanks was seen
	for i := 0; i < len(out); {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			i = endOfString(out, i)
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end := endOfComment(out, i)
			if end < 0 {
				return nil, i, "not valid JSON: a comment has no end"
			}
			blank(out[i:end])
			i = end
		default:
			switch {
			case c == ',':
				comma = i
			case (c == '}' || c == ']') && comma >= 0:
				out[comma] = ' '
				comma = -1
			case c != ' ' && c != '\t' && c != '\r' && c != '\n':
				comma = -1
			}
			i++
		}
	}
	return out, 0, ""
}

func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"', '\n':
			return i + 1
		}
	}
	return len(b)
}

// endOfComment returns where the comment at i ends, or -1.
func endOfComment(b []byte, i int) int {
	if b[i+1] == '/' {
		if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
			return i + n
		}
		return len(b)
	}
	if n := bytes.Index(b[i+2:], []byte("*/")); n >= 0 {
		return i + n + 4
	}
	return -1
}

func blank(b []byte) {
	for i, c := range b {
		if c != '\n' {
			b[i] = ' '
		}
	}
}

// A cursor counts lines and characters as it moves through a text, so that all
// places of a document cost one pass.
type cursor struct{ off, line, column int }

func (c *cursor) to(data []byte, off int) {
	off = max(0, min(off, len(data)))
	if off < c.off {
		*c = cursor{}
	}
	part := data[c.off:off]
	if n := bytes.Count(part, []byte("\n")); n > 0 {
		c.line += n
		c.column = 0
		part = part[bytes.LastIndexByte(part, '\n')+1:]
	}
	c.column += utf8.RuneCount(part)
	c.off = off
}
