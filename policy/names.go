package policy

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// DefaultNaming is the template that an empty one stands for.
	DefaultNaming = "mcp_{server}_{tool}"
	// DefaultMaxName is the longest exposed name unless configured otherwise;
	// the tool-calling APIs of several models end there.
	DefaultMaxName = 64

	// mcpMaxName and ownNaming: MCP allows names of 1 to 128 characters.
	mcpMaxName = 128
	// minMaxName leaves a cut name enough text to be told apart by people.
	minMaxName = 24
	// hashChars of base32 hold 50 bits: names cut alike stay distinct.
	hashChars = 10

	toolSlot   = "{tool}"
	serverSlot = "{server}"
)

// A Namer makes the names under which tools and prompts are exposed.
type Namer struct {
	parts []string // literals and slots in order
	own   bool     // the template is {tool} alone
	limit int
}

// CompileNaming checks a naming template. An empty template is DefaultNaming, a
// max of zero is DefaultMaxName, and reserve is taken off max for agents that
// put a prefix of their own in front.
func CompileNaming(template string, max, reserve int) (*Namer, error) {
	if template == "" {
		template = DefaultNaming
	}
	if max == 0 {
		max = DefaultMaxName
	}
	switch {
	case max < 0 || max > mcpMaxName:
		return nil, fmt.Errorf("max name length %d: must be %d to %d", max, minMaxName, mcpMaxName)
	case reserve < 0:
		return nil, fmt.Errorf("reserve %d: must not be negative", reserve)
	case max-reserve < minMaxName:
		return nil, fmt.Errorf("max name length %d less reserve %d: must leave at least %d", max, reserve, minMaxName)
	}
	parts, err := parseTemplate(template)
	if err != nil {
		return nil, fmt.Errorf("naming %q: %w", template, err)
	}
	n := &Namer{parts: parts, own: template == toolSlot, limit: max - reserve}
	if l := n.literals(); l > n.limit/2 {
		return nil, fmt.Errorf("naming %q: %d characters of its own, limit %d (half of a name)", template, l, n.limit/2)
	}
	return n, nil
}

// parseTemplate splits a template into literals and slots.
func parseTemplate(template string) ([]string, error) {
	var parts []string
	for rest := template; rest != ""; {
		part := nextPart(rest)
		if err := checkPart(part); err != nil {
			return nil, err
		}
		parts = append(parts, part)
		rest = rest[len(part):]
	}
	switch {
	case strings.Count(template, toolSlot) != 1:
		return nil, fmt.Errorf("must hold %s exactly once", toolSlot)
	case strings.Count(template, serverSlot) > 1:
		return nil, fmt.Errorf("must not hold %s twice", serverSlot)
	}
	return parts, nil
}

func nextPart(rest string) string {
	for _, slot := range []string{toolSlot, serverSlot} {
		if strings.HasPrefix(rest, slot) {
			return slot
		}
	}
	if i := strings.IndexByte(rest[1:], '{'); i >= 0 {
		return rest[:i+1]
	}
	return rest
}

func checkPart(part string) error {
	if part == toolSlot || part == serverSlot {
		return nil
	}
	for _, r := range part {
		if r == '{' || r == '}' {
			return fmt.Errorf("only %s and %s may stand in braces", serverSlot, toolSlot)
		}
		if !plainNameChar(r) {
			return fmt.Errorf("%q is not one of A-Z a-z 0-9 _", r)
		}
	}
	return nil
}

func (n *Namer) literals() int {
	l := 0
	for _, p := range n.parts {
		if p != toolSlot && p != serverSlot {
			l += len(p)
		}
	}
	return l
}

// Name returns the exposed name of a server's tool. It depends on nothing but
// its arguments. Different tools may get one name when they differ only in
// characters that names cannot hold: the caller has to look for that.
func (n *Namer) Name(server, tool string) string {
	if n.own {
		return limitName(ownName(tool), n.limit, server, tool)
	}
	return limitName(expand(n.parts, server, tool), n.limit, server, tool)
}

// Fits reports whether a name may be that of some tool of a server.
func (n *Namer) Fits(server, exposed string) bool {
	if n.own {
		return true
	}
	at := slices.Index(n.parts, toolSlot)
	front, back := expand(n.parts[:at], server, ""), expand(n.parts[at+1:], server, "")
	if len(exposed) == n.limit { // it may have been cut
		front, back = front[:min(len(front), n.limit-hashChars-1)], ""
	}
	return strings.HasPrefix(exposed, front) && strings.HasSuffix(exposed, back)
}

// Wrapper returns the exposed name of a tool that we add to a server. It always
// carries the server's name, also where the template does not.
func (n *Namer) Wrapper(server, tool string) string {
	for _, p := range n.parts {
		if p == serverSlot {
			return n.Name(server, tool)
		}
	}
	return limitName(mapName(server)+"_"+expand(n.parts, server, tool), n.limit, server, tool)
}

// OwnName returns the name of a tool in a view of one server: its own, if MCP
// allows it.
func OwnName(tool string) string {
	return limitName(ownName(tool), mcpMaxName, "", tool)
}

func ownName(tool string) string {
	if tool == "" {
		return "_"
	}
	for _, r := range tool {
		if !plainNameChar(r) && r != '-' && r != '.' {
			return mapName(tool)
		}
	}
	return tool
}

func expand(parts []string, server, tool string) string {
	var b strings.Builder
	for _, p := range parts {
		switch p {
		case toolSlot:
			p = mapName(tool)
		case serverSlot:
			p = mapName(server)
		}
		b.WriteString(p)
	}
	return b.String()
}

// mapName replaces each character outside [A-Za-z0-9_] by one underscore, as
// Hermes does when it prefixes names: its second pass then changes nothing.
func mapName(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !plainNameChar(r) }) < 0 {
		return s
	}
	b := make([]byte, 0, utf8.RuneCountInString(s))
	for _, r := range s {
		if !plainNameChar(r) {
			r = '_'
		}
		b = append(b, byte(r))
	}
	return string(b)
}

func plainNameChar(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// limitName cuts a name that is too long. The hash covers what the name stands
// for before mapping and cutting, so that a cut never makes two tools one.
func limitName(name string, limit int, server, tool string) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashChars]
	return name[:limit-hashChars-1] + "_" + hash
}
