package upstream

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	hdrVersion = "Mcp-Protocol-Version"
	hdrSession = "Mcp-Session-Id"
	hdrMethod  = "Mcp-Method"
	hdrName    = "Mcp-Name"

	maxSessionID = 1 << 10
	maxHeaders   = 512     // maps that are kept for the next request,
	maxKeptName  = 256     // for names up to this length
	maxNameValue = 8 << 10 // of Mcp-Name as it is sent; many servers take no more
)

// ours are headers that settings cannot change: the protocol's, to which belong
// all that begin with Mcp-Param-, and those by which HTTP frames a message.
var ours = []string{hdrVersion, hdrSession, hdrMethod, hdrName, "Content-Type", "Accept", "Accept-Encoding",
	"Content-Length", "Transfer-Encoding", "Connection", "Host", "Te", "Trailer", "Upgrade", "Expect",
	"Keep-Alive", "Proxy-Connection", "Last-Event-Id", "Idempotency-Key", "X-Idempotency-Key"}

// baseHeader is what every request to a server carries. The map belongs to the
// connection, whose requests go to the configured origin and nowhere else.
func baseHeader(r *Resolved, e *env) http.Header {
	h := maps.Clone(r.Header)
	if h == nil {
		h = http.Header{}
	}
	for _, k := range ours {
		delete(h, k)
	}
	maps.DeleteFunc(h, func(k string, _ []string) bool { return isParam(k) })
	h["Content-Type"] = []string{"application/json"}
	h["Accept"] = []string{"application/json, text/event-stream"}
	h["Accept-Encoding"] = []string{"identity"}
	if _, set := h["User-Agent"]; !set {
		h["User-Agent"] = []string{"mcp-sidecar/" + e.version()}
	}
	if u := r.URL.User; u != nil && h.Get("Authorization") == "" {
		pass, _ := u.Password()
		h["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pass))}
	}
	return h
}

// A session is what the requests of one handshake have in common. In the modern
// era that is only the version. Its maps are never changed once they were made,
// so that all requests can share them.
type session struct {
	id      string // empty when the server keeps none
	version string // empty before the handshake
	era     Era
	base    http.Header

	proof proof
	// quiet ends the standing stream; nil when there is none.
	quiet context.CancelFunc
	// listening is closed after the first attempt to open that stream; nil when
	// there is none.
	listening chan struct{}
	// deaf is set when that stream is not to be had.
	deaf atomic.Bool
	// standing is set while that stream is open.
	standing atomic.Bool
	// early is nil when nothing is asked upon the handshake.
	early *early

	mu   sync.RWMutex
	made map[target]http.Header
}

// A target is what a modern request repeats in its headers.
type target struct{ method, name string }

func (c *httpConn) newSession(era Era, version, id string) *session {
	h := maps.Clone(c.header)
	if version != "" {
		h[hdrVersion] = []string{version}
	}
	if id != "" {
		h[hdrSession] = []string{id}
	}
	return &session{id: id, version: version, era: era, base: h,
		proof: proof{opened: time.Now()}, made: map[target]http.Header{}}
}

// header returns the headers of one request. They must not be changed.
func (s *session) header(method, name string) http.Header {
	if s.era != Modern {
		return s.base
	}
	t := target{method, name}
	s.mu.RLock()
	h, ok := s.made[t]
	s.mu.RUnlock()
	if ok {
		return h
	}
	h = maps.Clone(s.base)
	h[hdrMethod] = []string{encodeValue(method)}
	if name != "" {
		h[hdrName] = []string{encodeValue(name)}
	}
	if len(method)+len(name) > maxKeptName {
		return h
	}
	s.mu.Lock()
	if len(s.made) < maxHeaders {
		s.made[t] = h
	}
	s.mu.Unlock()
	return h
}

// unfit says what of a call does not fit the headers that repeat it, or nil.
func (s *session) unfit(c *Call) error {
	if s.era != Modern {
		return nil
	}
	for _, v := range []struct{ what, header, value string }{{"method", hdrMethod, c.Method}, {"name", hdrName, c.Name}} {
		n := len(v.value)
		if n <= maxNameValue {
			n = len(encodeValue(v.value))
		}
		if n > maxNameValue {
			return fmt.Errorf("a %s of %d bytes does not fit the %s header, at most %d", v.what, n, v.header, maxNameValue)
		}
	}
	return unfitParams(c.Header)
}

// encodeValue writes a value as the MCP specification wants it in a header:
// plain if it survives there, else in its base64 form.
func encodeValue(v string) string {
	const open, end = "=?base64?", "?="
	looksEncoded := strings.HasPrefix(v, open) && strings.HasSuffix(v, end)
	if !looksEncoded && !strings.ContainsFunc(v, notPlain) && strings.Trim(v, " ") == v {
		return v
	}
	return open + base64.StdEncoding.EncodeToString([]byte(v)) + end
}

func notPlain(c rune) bool { return c < ' ' || c > '~' }

// validSession reports whether a server's session id is one that the protocol
// allows and that we care to repeat with each request.
func validSession(id string) bool {
	if len(id) > maxSessionID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
