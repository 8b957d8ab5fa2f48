package proxy

import (
	"net/http"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	hTraceparent = "Traceparent"
	hTracestate  = "Tracestate"
)

// Limits of W3C Trace Context on tracestate.
const (
	maxTracestate = 512
	maxTraceParts = 32
)

// trace gives a call the trace that the agent's request belongs to: that of its
// _meta, or that of its HTTP headers if _meta names none. What is malformed is
// left out, and nothing fails. Baggage never goes on: it may hold what one
// domain tells nobody else.
func (x *exchange) trace(c *upstream.Call) {
	c.Meta, c.Traceparent, c.Tracestate = nil, "", ""
	m := &x.params.meta
	switch {
	case m.trace != nil:
		c.Traceparent, c.Tracestate = traced(m.trace, m.traceState)
	case x.header[hTraceparent] != nil:
		c.Traceparent, c.Tracestate = tracedBy(x.header)
	}
	if c.Traceparent == "" {
		return
	}
	c.Meta = append([]byte(`"traceparent":"`), c.Traceparent...)
	c.Meta = append(c.Meta, '"')
	if c.Tracestate != "" {
		c.Meta = wire.AppendQuote(append(c.Meta, `,"tracestate":`...), c.Tracestate)
	}
}

// traced reads a trace in raw JSON.
func traced(parent, state []byte) (traceparent, tracestate string) {
	p, _ := wire.Unquote(parent)
	if !isTraceparent(p) {
		return "", ""
	}
	if len(state) > 6*maxTracestate { // as long as it can be when all is escaped
		return p, ""
	}
	s, _ := wire.Unquote(state)
	return p, tracestateOf(s)
}

// tracedBy reads a trace in HTTP headers. A list may be spread over several.
func tracedBy(h http.Header) (traceparent, tracestate string) {
	v := h[hTraceparent]
	if len(v) != 1 {
		return "", ""
	}
	p := strings.Trim(v[0], " \t")
	if !isTraceparent(p) {
		return "", ""
	}
	return p, tracestateOf(strings.Join(h[hTracestate], ","))
}

// isTraceparent accepts version 00 of W3C Trace Context.
func isTraceparent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	id, span := s[3:35], s[36:52]
	return isHex(id) && isHex(span) && isHex(s[53:]) && strings.Trim(id, "0") != "" && strings.Trim(span, "0") != ""
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// tracestateOf returns s if it is a list as W3C Trace Context has it, else nothing.
func tracestateOf(s string) string {
	if len(s) > maxTracestate {
		return ""
	}
	n := 0
	for part := range strings.SplitSeq(s, ",") {
		part = strings.Trim(part, " \t")
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		if n++; n > maxTraceParts || !isTraceKey(key) || !isTraceValue(value) {
			return ""
		}
	}
	if n == 0 {
		return ""
	}
	return s
}

func isTraceKey(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for i, c := range []byte(s) {
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !plain && (i == 0 || strings.IndexByte("_-*/@", c) < 0) {
			return false
		}
	}
	return true
}

func isTraceValue(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return true
}
