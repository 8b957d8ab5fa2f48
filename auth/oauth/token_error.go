package oauth

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Codes of RFC 6749, 5.2, that change what happens next.
const (
	codeInvalidGrant  = "invalid_grant"
	codeInvalidClient = "invalid_client"
)

// A TokenError is an answer of a token endpoint that brought no token.
type TokenError struct {
	// Server is the MCP server's name, Origin the endpoint's scheme and host.
	Server, Origin string
	// Code is the answer's error: invalid_grant, invalid_client and so on. Empty
	// when it had none.
	Code   string
	Status int // of the HTTP answer
	// Description is what the endpoint said, without tags and secrets, cut short.
	Description string
}

func (e *TokenError) Error() string {
	what := fmt.Sprintf("server %s: oauth: token endpoint %s answered %d", e.Server, e.Origin, e.Status)
	if e.Code != "" {
		what += " " + e.Code
	}
	switch {
	case e.Status/100 == 3:
		return what + ": redirects of token requests are not followed"
	case e.Description != "":
		return what + ": " + e.Description
	}
	return what
}

// passing are codes that another try may not meet again.
var passing = []string{"temporarily_unavailable", "server_error", "slow_down"}

// clean takes out what no error may repeat, whatever the endpoint made of it.
func (e *TokenError) clean(secrets []string) {
	e.Description = redact(e.Description, secrets)
	if redact(e.Code, secrets) != e.Code {
		e.Code = redacted
	}
}

// final reports whether the endpoint has refused us, rather than that it, or what
// is in between, is unwell: asking again would change nothing.
func (e *TokenError) final() bool {
	switch {
	case e.Code == codeInvalidGrant:
		return true // some say so with 500
	case slices.Contains(passing, e.Code):
		return false
	case e.Code != "":
		return e.Status/100 == 2 || e.Status/100 == 4 && e.Status != http.StatusTooManyRequests
	}
	return e.Status == http.StatusBadRequest || e.Status == http.StatusUnauthorized
}

// maxSaid bounds a description in runes, maxExcerpt what one is made of.
const (
	maxSaid    = 200
	maxExcerpt = 4 << 10
)

const redacted = "[redacted]"

var (
	// hidden are the parts of a page that nobody reads.
	hidden = regexp.MustCompile(`(?is)<(script|style)\b.*?</(script|style)\s*>`)
	tags   = regexp.MustCompile(`<[^>]*>?`)
	// labelled are values that say of themselves what they are.
	labelled = regexp.MustCompile(`(?i)\b((?:access_|refresh_|id_)?token|code_verifier|client_secret|client_assertion|assertion|secret|password|api_?key|bearer|basic)(["']?\s*[=:]\s*["']?|\s+["'])[^\s"'&,;]+`)
	// codes stand in URLs; an error's code does not.
	codes = regexp.MustCompile(`(?i)\bcode=[^\s"'&,;]+`)
	// bearers follow their scheme's name.
	bearers = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`)
	// runs are long words of the characters that tokens are made of.
	runs = regexp.MustCompile(`[A-Za-z0-9._~+/=%-]{20,}`)
)

// redact makes foreign text fit for an error: one line without tags, none of the
// secrets, and nothing that looks like one.
func redact(s string, secrets []string) string {
	s = cut(s, maxExcerpt)
	// Some of the secrets hold characters that would be changed below.
	s = without(s, secrets)
	if joined := strings.Join(strings.FieldsFunc(tags.ReplaceAllString(s, ""), unseen), ""); without(joined, secrets) != joined {
		return redacted // tags or lines had parted one
	}
	s = tags.ReplaceAllString(hidden.ReplaceAllString(s, " "), " ")
	s = strings.Join(strings.FieldsFunc(s, unseen), " ")
	s = labelled.ReplaceAllString(s, "${1}${2}"+redacted)
	s = codes.ReplaceAllString(s, "code="+redacted)
	s = bearers.ReplaceAllString(s, "${1} "+redacted)
	s = runs.ReplaceAllStringFunc(s, secretive)
	if utf8.RuneCountInString(s) > maxSaid {
		s = string([]rune(s)[:maxSaid-1]) + "…"
	}
	return s
}

// cut never parts a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "")
	}
	return strings.ToValidUTF8(s[:n], "")
}

func unseen(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }

// minSecret is the length below which a secret would take half of every sentence
// with it.
const minSecret = 4

func without(s string, secrets []string) string {
	for _, x := range secrets {
		if len(x) >= minSecret {
			s = strings.ReplaceAll(s, x, redacted)
		}
	}
	return s
}

// secretive hides a long word unless it is made of plain words.
func secretive(word string) string {
	if strings.ContainsAny(word, "0123456789") || mixedCase(word) {
		return redacted
	}
	return word
}

// mixedCase reports whether capitals stand elsewhere than words have them.
func mixedCase(s string) bool {
	turns := 0
	for i := 1; i < len(s); i++ {
		if lower(s[i-1]) && upper(s[i]) {
			turns++
		}
	}
	return turns > 2
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func upper(c byte) bool { return 'A' <= c && c <= 'Z' }
