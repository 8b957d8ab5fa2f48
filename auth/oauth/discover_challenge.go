package oauth

import (
	"net/http"
	"strings"
	"unicode"
)

const (
	maxChallenges  = 16 << 10 // bytes of WWW-Authenticate that are read
	maxDescription = 200
	maxWord        = 30
)

// ParseChallenge reads WWW-Authenticate. It makes the best of whatever it is: a
// header that cannot be read says nothing.
func ParseChallenge(status int, h http.Header) Challenge {
	c := Challenge{Status: status}
	left := maxChallenges
	for _, v := range h.Values("WWW-Authenticate") {
		if left -= len(v); left < 0 {
			break
		}
		p := challengeParser{rest: v}
		for name, value, ok := p.next(); ok; name, value, ok = p.next() {
			c.take(p.scheme, name, value)
		}
	}
	return c
}

// take keeps the first value of each parameter. Metadata may be named with any
// scheme (RFC 9728, 5.1); the rest is of schemes that carry access tokens.
func (c *Challenge) take(scheme, name, value string) {
	keep := func(to *string, v string) {
		if *to == "" {
			*to = v
		}
	}
	if name == "resource_metadata" && len(value) <= maxURL {
		keep(&c.ResourceMetadata, value)
	}
	if scheme != "bearer" && scheme != "dpop" {
		return
	}
	switch name {
	case "scope":
		keep(&c.Scope, strings.Join(tokens(strings.Fields(value)), " "))
	case "error":
		if len(tokens([]string{value})) == 1 {
			keep(&c.Error, clip(value, 64))
		}
	case "error_description":
		keep(&c.ErrorDescription, readable(value))
	}
}

// readable is a text of others that can be shown: one line, short, and without
// the long words that tokens are.
func readable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, clip(s, 4*maxDescription))
	words := strings.Fields(s)
	for i, w := range words {
		if len(w) > maxWord && !strings.HasPrefix(w, "https://") {
			words[i] = "[…]"
		}
	}
	return clip(strings.Join(words, " "), maxDescription)
}

// A challengeParser walks through the parameters of a list of challenges
// (RFC 9110, 11.6.1). It forgives missing commas, which occur.
type challengeParser struct {
	scheme string // of the parameter that next returned
	rest   string
}

func (p *challengeParser) next() (name, value string, ok bool) {
	for {
		p.rest = strings.TrimLeft(p.rest, " \t,")
		word := p.token()
		if word == "" {
			if p.rest == "" {
				return "", "", false
			}
			p.rest = p.rest[1:] // nothing that belongs here
			continue
		}
		after := strings.TrimLeft(p.rest, " \t")
		if !strings.HasPrefix(after, "=") {
			p.scheme = strings.ToLower(word)
			continue
		}
		p.rest = strings.TrimLeft(after[1:], " \t")
		return strings.ToLower(word), p.value(), true
	}
}

func (p *challengeParser) token() string { return p.until(`,="` + " \t") }

func (p *challengeParser) until(stops string) string {
	end := strings.IndexAny(p.rest, stops)
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	return word
}

// value reads a quoted string or a token. One without its second quote ends with
// the header.
func (p *challengeParser) value() string {
	if !strings.HasPrefix(p.rest, `"`) {
		return p.until(", \t")
	}
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch ch := p.rest[i]; {
		case ch == '"':
			p.rest = p.rest[i+1:]
			return b.String()
		case ch == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		default:
			b.WriteByte(ch)
		}
	}
	p.rest = ""
	return b.String()
}
