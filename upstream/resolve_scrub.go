package upstream

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	redacted = "[redacted]"
	// maxScrub bounds the work on one text. Callers show far less.
	maxScrub = 64 << 10
	// cutFrom is the length from which on a text may have been cut before it came
	// here, so that the part of a secret may stand at either end.
	cutFrom = 512
	// longestCut is what is looked for there of one secret.
	longestCut = 4 << 10
)

// scrub replaces the secrets of these settings in text that came from the server.
// All are looked for in the text as it came, so that neither two that overlap nor
// the replacement of one can hide another.
func (r *Resolved) scrub(s string) string {
	s = s[:min(len(s), maxScrub)]
	var hidden mask
	for _, secret := range slices.Concat(r.secrets, r.sent.all()) {
		hidden = hidden.cover(s, secret)
		if len(s) >= cutFrom {
			hidden = hidden.coverEnds(s, secret)
		}
	}
	return hidden.apply(s)
}

// A mask says which bytes of a text must not be shown. It is nil while that is none.
type mask []bool

func (m mask) cover(s, secret string) mask {
	for from := 0; ; {
		i := strings.Index(s[from:], secret)
		if i < 0 {
			return m
		}
		m = m.hide(s, from+i, from+i+len(secret))
		from += i + len(secret)
	}
}

// coverEnds hides the beginning of a secret at the text's end, and the other way round.
func (m mask) coverEnds(s, secret string) mask {
	most := min(len(secret)-1, len(s), longestCut)
	for n := most; n >= shortestSecret; n-- {
		if strings.HasSuffix(s, secret[:n]) {
			m = m.hide(s, len(s)-n, len(s))
			break
		}
	}
	for n := most; n >= shortestSecret; n-- {
		if strings.HasPrefix(s, secret[len(secret)-n:]) {
			return m.hide(s, 0, n)
		}
	}
	return m
}

func (m mask) hide(s string, from, to int) mask {
	if m == nil {
		m = make(mask, len(s))
	}
	for i := from; i < to; i++ {
		m[i] = true
	}
	return m
}

func (m mask) apply(s string) string {
	if m == nil {
		return s
	}
	var out strings.Builder
	for i := range len(s) {
		switch {
		case !m[i]:
			out.WriteByte(s[i])
		case i == 0 || !m[i-1]:
			out.WriteString(redacted)
		}
	}
	return out.String()
}

// written returns the forms besides its own in which a value is likely to be quoted.
func written(v string) []string {
	if len(v) > maxScrub {
		return nil
	}
	quoted := wire.AppendQuote(nil, v)
	escaped, _ := json.Marshal(v) // with HTML's characters as \u003c
	forms := []string{
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
		base64.URLEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)),
		string(quoted[1 : len(quoted)-1]), string(escaped[1 : len(escaped)-1]),
		url.QueryEscape(v), url.PathEscape(v),
	}
	out := forms[:0]
	for _, f := range forms {
		if f != v {
			out = append(out, f)
		}
	}
	return out
}
