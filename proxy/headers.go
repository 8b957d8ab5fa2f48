package proxy

import (
	"encoding/base64"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Header names in the form in which http.Header keeps them.
const (
	hSession = "Mcp-Session-Id"
	hVersion = "Mcp-Protocol-Version"
	hMethod  = "Mcp-Method"
	hName    = "Mcp-Name"

	hLastEvent = "Last-Event-Id"
)

// maxNameHeader bounds Mcp-Name in bytes: it may hold any URI.
const maxNameHeader = 8 << 10

// single are the headers that must not come twice: readers would differ.
var single = [...]string{hSession, hVersion, hMethod, hName, "Content-Type", hLastEvent}

// repeated returns the name of a header that came twice.
func repeated(h http.Header) string {
	for _, name := range single {
		if len(h[name]) > 1 {
			return name
		}
	}
	return ""
}

// first returns the value of a header whose name is in canonical form.
func first(h http.Header, name string) (value string, ok bool) {
	if v := h[name]; len(v) > 0 {
		return strings.Trim(v[0], " \t"), true
	}
	return "", false
}

// wrongContent says why the body cannot be read as JSON; empty if it can.
func wrongContent(h http.Header) string {
	v, ok := first(h, "Content-Type")
	if !ok || v == "" {
		return "no Content-Type, want application/json"
	}
	if v == "application/json" {
		return ""
	}
	typ, params, err := mime.ParseMediaType(v)
	if err != nil || typ != "application/json" {
		return "want Content-Type application/json"
	}
	if cs, ok := params["charset"]; ok && !strings.EqualFold(cs, "utf-8") {
		return "want charset utf-8 or none"
	}
	return ""
}

// forms says in which forms an agent takes an answer.
type forms uint8

const (
	asJSON forms = 1 << iota
	asEvents
)

// accepted reads the Accept header. Agents that name only one of the two forms
// are served in it.
func accepted(h http.Header) forms {
	values := h["Accept"]
	if len(values) == 0 {
		return asJSON | asEvents
	}
	var f forms
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			f |= formOf(part)
		}
	}
	return f
}

func formOf(part string) forms {
	typ, params, _ := strings.Cut(part, ";")
	if q := strings.ReplaceAll(params, " ", ""); q == "q=0" || q == "q=0.0" {
		return 0
	}
	switch strings.ToLower(strings.Trim(typ, " \t")) {
	case "*/*":
		return asJSON | asEvents
	case "application/json", "application/*":
		return asJSON
	case "text/event-stream", "text/*":
		return asEvents
	}
	return 0
}

const (
	sentinelHead = "=?base64?"
	sentinelTail = "?="
)

// decodeName decodes the value of Mcp-Name: plain, or base64 between markers
// that are lower case exactly.
func decodeName(v string) (string, bool) {
	if len(v) > maxNameHeader {
		return "", false
	}
	if !strings.HasPrefix(v, sentinelHead) || !strings.HasSuffix(v, sentinelTail) || len(v) < len(sentinelHead)+len(sentinelTail) {
		return v, true
	}
	in := v[len(sentinelHead) : len(v)-len(sentinelTail)]
	b, err := base64.StdEncoding.Strict().DecodeString(in)
	if err != nil || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}
