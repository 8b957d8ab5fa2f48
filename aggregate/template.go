package aggregate

import (
	"errors"
	"fmt"
	"strings"
)

// A template is a URI template (RFC 6570) as a matcher. Matching takes time in
// proportion to the URI and the number of parts, whatever the template.
type template struct {
	parts    []part
	literals int // bytes outside of expressions: how specific the template is
	wild     int // expressions, those that may span "/" counted twice
}

// A part is a literal, or an expression: an optional leading byte and a run of
// bytes that are not in stop.
type part struct {
	literal string
	lead    byte
	stop    string
	min     int  // bytes that the run has at least
	absent  bool // the whole may be missing
}

const maxExpressions = 32

var errBraces = errors.New("uriTemplate has braces that do not match or hold nothing")

func parseTemplate(s string) (*template, error) {
	t := new(template)
	for s != "" {
		literal, rest, open := strings.Cut(s, "{")
		if strings.Contains(literal, "}") {
			return nil, errBraces
		}
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
			t.literals += len(literal)
		}
		if !open {
			break
		}
		expr, rest, closed := strings.Cut(rest, "}")
		if !closed || expr == "" {
			return nil, errBraces
		}
		if len(t.parts) > 2*maxExpressions {
			return nil, fmt.Errorf("uriTemplate has over %d expressions", maxExpressions)
		}
		t.expression(expr)
		s = rest
	}
	return t, nil
}

func (t *template) expression(expr string) {
	p := part{stop: "/?#", min: 1}
	list := strings.ContainsAny(expr, "*,")
	switch c := expr[0]; c {
	case '+':
		p.stop = ""
	case '#':
		p = part{lead: c, absent: true}
	case '/':
		p = part{lead: c, stop: "/?#", absent: true}
		if list {
			p.stop = "?#"
		}
	case '?', '&':
		p = part{lead: c, stop: "#", absent: true}
	case '.', ';':
		p = part{lead: c, stop: "/?#", absent: true}
	}
	t.wild++
	if !strings.Contains(p.stop, "/") {
		t.wild++
	}
	t.parts = append(t.parts, p)
}

// beats reports whether t is more specific than o.
func (t *template) beats(o *template) bool {
	if t.literals != o.literals {
		return t.literals > o.literals
	}
	return t.wild < o.wild
}

// A matcher tries templates on one URI. What one server's templates may cost is
// bounded: its own templates then stop to match, nobody else's.
type matcher struct {
	uri      string
	src      int32
	left     int // steps for this server
	at, next []bool
}

const maxMatchSteps = 4 << 20

func newMatcher(uri string) *matcher { return &matcher{uri: uri, src: -1} }

// match reports whether the template could have been expanded to the URI.
func (m *matcher) match(src int32, t *template) bool {
	if len(t.parts) == 0 || !strings.HasPrefix(m.uri, t.parts[0].literal) {
		return false // most templates end here
	}
	if src != m.src {
		m.src, m.left = src, maxMatchSteps
	}
	if m.left -= (len(m.uri) + 1) * len(t.parts); m.left < 0 {
		return false
	}
	if m.at == nil {
		m.at, m.next = make([]bool, len(m.uri)+1), make([]bool, len(m.uri)+1)
	}
	clear(m.at)
	m.at[0] = true // where the parts so far may end
	for i := range t.parts {
		clear(m.next)
		if !t.parts[i].advance(m.uri, m.at, m.next) {
			return false
		}
		m.at, m.next = m.next, m.at
	}
	return m.at[len(m.uri)]
}

// advance sets in next where the part may end when it starts at one of at; it
// reports whether there is any such place.
func (p *part) advance(uri string, at, next []bool) (any bool) {
	run := false // some start before i reaches i over bytes that may be in the run
	for i := range at {
		if p.literal != "" {
			if at[i] && strings.HasPrefix(uri[i:], p.literal) {
				next[i+len(p.literal)], any = true, true
			}
			continue
		}
		if i > 0 {
			c := uri[i-1]
			starts := at[i-1] && (p.lead == 0 || c == p.lead)
			inside := strings.IndexByte(p.stop, c) < 0
			run = run && inside || starts && (p.lead != 0 || inside)
		}
		if run || at[i] && p.absent {
			next[i], any = true, true
		}
	}
	return any
}
