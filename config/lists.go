package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// stringList reads a list of strings, in the spellings that option allows.
func stringList(n *node, option string) ([]string, string) {
	switch {
	case option == "names":
		return toolNames(n)
	case n.kind == list:
		return scalars(n)
	case option == "args":
		return args(n)
	case option == "stringorlist" && (n.kind == text || n.kind == number):
		return []string{n.text}, ""
	}
	return nil, fmt.Sprintf("must be a list of strings, not %s%s", n.kind, quotes(n))
}

// scalars takes the source text of each item; the result is never nil, because
// an empty list is not an absent one.
func scalars(n *node) ([]string, string) {
	out := make([]string, 0, len(n.items))
	for i, item := range n.items {
		if item.kind == list || item.kind == mapping || item.kind == null {
			return nil, fmt.Sprintf("item %d must be a string, not %s%s", i, item.kind, quotes(item))
		}
		out = append(out, item.text)
	}
	return out, ""
}

// quotes says how what looks like text became a mapping. It does not repeat it: it
// may hold a secret.
func quotes(n *node) string {
	if n.file == nil || n.file.json { // where all text is in quotes
		return ""
	}
	if n.kind != mapping || len(n.pairs) != 1 || n.pairs[0].val.kind == mapping || n.pairs[0].val.kind == list {
		return ""
	}
	return ": what holds a colon and is meant as text, such as host:port, belongs in quotes"
}

// toolNames reads the names of a filter. A number or a boolean is no name that
// anyone meant, and a filter that is not understood must not let tools through.
func toolNames(n *node) ([]string, string) {
	if n.kind == text {
		return []string{n.text}, ""
	}
	if n.kind != list {
		return nil, fmt.Sprintf("must be a list of strings, not %s", n.kind)
	}
	for i, item := range n.items {
		if item.kind == number || item.kind == boolean {
			return nil, fmt.Sprintf("item %d must be a string, not %s: put the name in quotes", i, item.kind)
		}
	}
	return scalars(n)
}

// args reads what other programs accept for a command's arguments: a string is a
// JSON list or a shell's words, any other scalar is one argument.
func args(n *node) ([]string, string) {
	switch n.kind {
	case null:
		return []string{}, ""
	case mapping:
		return nil, "must be a list of strings, not a mapping" + quotes(n)
	case text:
	default:
		return []string{n.text}, ""
	}
	s := strings.TrimSpace(n.text)
	if strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{") {
		return jsonArgs(s)
	}
	out, err := splitWords(n.text)
	if err != nil {
		return nil, err.Error()
	}
	return out, ""
}

func jsonArgs(s string) ([]string, string) {
	const wrong = "begins like JSON, but is not a JSON list of strings"
	var raw []json.RawMessage
	if json.Unmarshal([]byte(s), &raw) != nil {
		return nil, wrong
	}
	out := make([]string, 0, len(raw))
	for _, r := range raw {
		item := string(r)
		switch r[0] {
		case '{', '[', 'n':
			return nil, wrong
		case '"':
			if json.Unmarshal(r, &item) != nil {
				return nil, wrong
			}
		}
		out = append(out, item)
	}
	return out, ""
}

var (
	errQuote  = errors.New("a quote has no end")
	errEscape = errors.New("ends in a backslash")
)

// splitWords splits as a POSIX shell does, without expanding anything.
func splitWords(s string) ([]string, error) {
	words := []string{}
	var word strings.Builder
	begun := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\r', '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		case '\\':
			if i++; i == len(s) {
				return nil, errEscape
			}
			begun = true
			word.WriteByte(s[i])
		case '\'', '"':
			n, ok := quoted(&word, s[i:])
			if !ok {
				return nil, errQuote
			}
			begun = true
			i += n
		default:
			begun = true
			word.WriteByte(c)
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted writes what stands in the quotes at the start of s, and returns where
// the closing one is.
func quoted(word *strings.Builder, s string) (int, bool) {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i, true
		case s[i] == '\\' && s[0] == '"' && i+1 < len(s) && strings.IndexByte(`"\$`+"`", s[i+1]) >= 0:
			i++
		}
		word.WriteByte(s[i])
	}
	return 0, false
}

// asTools turns the short spellings of tools into the mapping: a list, or a
// string split at commas and blanks, is the list of what to include.
func asTools(n *node) *node {
	if n.kind != text && n.kind != list {
		return n
	}
	inc := n
	if n.kind == text {
		inc = &node{kind: list, file: n.file, line: n.line, column: n.column}
		for _, w := range strings.FieldsFunc(n.text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
			inc.items = append(inc.items, &node{kind: text, text: w, file: n.file, line: n.line, column: n.column})
		}
	}
	return &node{kind: mapping, file: n.file, line: n.line, column: n.column, pairs: []pair{{key: "include", at: n, val: inc}}}
}
