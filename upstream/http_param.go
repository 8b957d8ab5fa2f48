package upstream

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Bounds of the headers that repeat a call's arguments. Many servers take no more
// than 16 KiB of headers in all.
const (
	paramPrefix   = "Mcp-Param-"
	maxParams     = 32
	maxParamValue = 8 << 10
	maxParamBytes = 16 << 10
	maxTraceState = 1 << 10
)

// header returns the headers of the request. They must not be changed: the
// session's are shared, so a call that brings some of its own gets a copy.
func (x *exchange) header() http.Header {
	h, call := x.s.header(x.call.Method, x.call.Name), x.call
	params := call.Header
	if x.s.era != Modern {
		params = nil
	}
	if len(params) == 0 && call.Traceparent == "" && call.Tracestate == "" {
		return h
	}
	h = maps.Clone(h)
	for _, p := range params {
		if name := paramName(p.Name); name != "" {
			h[name] = []string{encodeValue(p.Value)}
		}
	}
	setTrace(h, "Traceparent", call.Traceparent)
	setTrace(h, "Tracestate", call.Tracestate)
	return h
}

// setTrace replaces a configured header of that name only by a usable value.
func setTrace(h http.Header, name, value string) {
	if value != "" && len(value) <= maxTraceState && !strings.ContainsFunc(value, notPlain) {
		h[name] = []string{value}
	}
}

// paramName is the header's whole name in canonical form, with its prefix added
// if need be; empty when it cannot be one. Tools that want such a header are
// withheld, so that none of their calls gets here.
func paramName(name string) string {
	if !isParam(name) {
		name = paramPrefix + name
	}
	if len(name) == len(paramPrefix) || len(name) > maxKeptName || strings.ContainsFunc(name, notToken) {
		return ""
	}
	return http.CanonicalHeaderKey(name)
}

// isParam reports whether a header is one that repeats an argument.
func isParam(name string) bool {
	return len(name) >= len(paramPrefix) && strings.EqualFold(name[:len(paramPrefix)], paramPrefix)
}

// unfitParams says which header of a call is over a bound, or nil.
func unfitParams(params []Param) error {
	if len(params) > maxParams {
		return fmt.Errorf("%s is one %s header too many, at most %d", paramName(params[maxParams].Name), paramPrefix+"*", maxParams)
	}
	total := 0
	for _, p := range params {
		name, n := paramName(p.Name), len(p.Value)
		if n <= maxParamValue {
			n = len(encodeValue(p.Value))
		}
		if n > maxParamValue {
			return fmt.Errorf("an argument of %d bytes does not fit the %s header, at most %d", n, name, maxParamValue)
		}
		if total += len(name) + n; total > maxParamBytes {
			return fmt.Errorf("the %s headers are over %d bytes in all with %s", paramPrefix+"*", maxParamBytes, name)
		}
	}
	return nil
}

// relistGap keeps apart the listings that refusals of our headers lead to.
const relistGap = 10 * time.Second

// headersDiffer has the tools listed anew when a server did not find in the
// headers what it wants there: which arguments they repeat may have changed.
func (x *exchange) headersDiffer(code int) {
	if code == wire.CodeHeaderMismatch && x.call.Method == "tools/call" && x.c.mayRelist(time.Now()) {
		x.c.env.notified("notifications/tools/list_changed", nil)
	}
}

func (c *httpConn) mayRelist(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.relisted.IsZero() && now.Sub(c.relisted) < relistGap {
		return false
	}
	c.relisted = now
	return true
}
