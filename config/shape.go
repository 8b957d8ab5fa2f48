package config

import (
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// scan splits the text into tokens, and stops at the first broken limit.
func scan(f *file, src string) (token.Tokens, *Fault) {
	var s scanner.Scanner
	var sh shape
	var all token.Tokens
	s.Init(src)
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		for _, tk := range some {
			if msg := sh.see(tk); msg != "" {
				fault := f.fault(f.token(tk), "", msg)
				return nil, &fault
			}
		}
		all.Add(some...)
		if err != nil {
			return all, nil // the parser finds the invalid token and words the error
		}
	}
}

// shape follows the nesting of a document as its tokens pass.
type shape struct {
	tokens, flow, properties int
	prev                     *token.Token
	levels                   []level // of block collections, by column
}

type level struct{ column, keys int }

// see returns the limit that the token breaks, if any.
func (s *shape) see(tk *token.Token) string {
	s.tokens++
	switch tk.Type {
	case token.MappingStartType, token.SequenceStartType:
		s.flow++
	case token.MappingEndType, token.SequenceEndType:
		s.flow--
	case token.SequenceEntryType, token.MappingKeyType:
		s.enter(tk.Position.Column)
	case token.MappingValueType:
		if s.prev != nil {
			s.enter(s.prev.Position.Column)
		}
	}
	switch {
	case tk.Type == token.TagType || tk.Type == token.AnchorType:
		s.properties++
	case s.prev == nil || s.prev.Type != token.AnchorType: // an anchor's name follows it
		s.properties = 0
	}
	s.prev = tk
	switch {
	case s.tokens > maxTokens:
		return fmt.Sprintf("more than %d tokens, the limit of a YAML document", maxTokens)
	case s.flow+len(s.levels) > 2*maxDepth:
		return fmt.Sprintf("nested more than %d deep", maxDepth)
	case len(s.levels) > 0 && s.levels[len(s.levels)-1].keys > maxKeys:
		return fmt.Sprintf("more than %d keys in one mapping", maxKeys)
	case s.properties > maxProperties:
		return fmt.Sprintf("more than %d tags and anchors in a row", maxProperties)
	}
	return ""
}

// enter counts a key or item of the block collection at a column.
func (s *shape) enter(column int) {
	for n := len(s.levels); n > 0 && s.levels[n-1].column > column; n-- {
		s.levels = s.levels[:n-1]
	}
	if n := len(s.levels); n > 0 && s.levels[n-1].column == column {
		s.levels[n-1].keys++
		return
	}
	s.levels = append(s.levels, level{column: column, keys: 1})
}
