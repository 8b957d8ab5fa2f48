package auth

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// A Guard keeps web pages away from the endpoint: it checks the Host and
// Origin headers against lists, and answers preflights of allowed origins.
type Guard struct {
	// Hosts are allowed values of the Host header, as host (any port) or
	// host:port. Loopback names, Listen and the address that the connection
	// came in on always pass.
	Hosts []string
	// Origins are the exact web origins that may call, besides the endpoint's own.
	Origins []string
	// Listen is the configured listen addresses, as host:port.
	Listen []string
	// Refused, if set, hears of each request that is turned away.
	Refused func(r *http.Request, reason string)
}

func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, reason string) {
	if g.Refused != nil {
		g.Refused(r, reason)
	}
	w.Header().Set("Connection", "close")
	http.Error(w, reason, http.StatusForbidden)
}

// Wrap returns a handler that lets only good requests through to next.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return &guarded{guard: g, next: next}
}

type guarded struct {
	guard *Guard
	next  http.Handler
}

func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host == "" {
		w.Header().Set("Connection", "close")
		http.Error(w, "no Host header", http.StatusBadRequest)
		return
	}
	if !overUnix(r) && !h.guard.hostAllowed(r) {
		h.guard.refuse(w, r, "this Host is not allowed, see auth.allowed_hosts")
		return
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		h.next.ServeHTTP(w, r)
		return
	}
	if len(origins) > 1 || !h.guard.originAllowed(r, origins[0]) {
		h.guard.refuse(w, r, "this Origin is not allowed, see auth.allowed_origins")
		return
	}
	cors(w.Header(), origins[0])
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		preflight(w, r)
		return
	}
	h.next.ServeHTTP(w, r)
}

func (g *Guard) hostAllowed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	name := hostname(host)
	if isLoopback(name) || slices.Contains(g.Listen, host) {
		return true
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.String() == host {
		return true
	}
	return slices.ContainsFunc(g.Hosts, func(h string) bool {
		h = strings.ToLower(h)
		return h == host || h == name
	})
}

// originAllowed also lets the endpoint's own origin pass: its Host has been
// checked before, so no foreign name can stand there.
func (g *Guard) originAllowed(r *http.Request, origin string) bool {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return origin == scheme+r.Host || slices.Contains(g.Origins, origin)
}

// hostname cuts the port off a Host header.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isLoopback(name string) bool {
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

func cors(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, Retry-After")
	h.Add("Vary", "Origin")
}

// corsHeaders are the request headers that pages may send, in lower case.
var corsHeaders = []string{"accept", "authorization", "content-type", "last-event-id"}

func preflight(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, name := range strings.Split(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if slices.Contains(corsHeaders, name) || strings.HasPrefix(name, "mcp-") {
			allow = append(allow, name)
		}
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	if len(allow) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(allow, ", "))
	}
	h.Set("Access-Control-Max-Age", "600")
	h.Set("Connection", "close") // nobody knows yet who asks
	w.WriteHeader(http.StatusNoContent)
}
