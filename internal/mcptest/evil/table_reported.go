package evil

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// reportedFaults are what users of gateways and agents report. R and a number is
// from the trackers of gateways and SDKs, A and a number an issue of
// NousResearch/hermes-agent.
func reportedFaults() []Fault {
	old := mcptest.LegacyVersions
	web := []Fault{
		{ID: "R6a", Says: "refuses GET by 405", Start: true, Fine: true, versions: old, web: webFault{get: status(405, "")}},
		{ID: "R6b", Says: "refuses GET by 400", Start: true, Fine: true, versions: old, web: webFault{get: status(400, "bad request")}},
		{ID: "R6c", Says: "refuses GET by 404", Start: true, Fine: true, versions: old, web: webFault{get: status(404, "not found")}},
		{ID: "R6d", Says: "answers GET with a page", Start: true, Fine: true, versions: old, web: webFault{get: page}},
		{ID: "R6e", Says: "ends the stream of GET at once", Start: true, Fine: true, versions: old, web: webFault{get: status(200, "", "Content-Type: text/event-stream")}},
		{ID: "R6f", Says: "refuses GET by 405 when it is asked again", Start: true, Fine: true, versions: old, web: webFault{around: onceStream}},
		{ID: "R6g", Says: "resets the stream of GET", Start: true, Fine: true, versions: old, web: webFault{get: func(w http.ResponseWriter, r *http.Request) { mcptest.ResetInBody(w, r, nil) }}},
		{ID: "R17", Says: "refuses everything by 401", Start: true, web: webFault{around: refusesAll(401, `WWW-Authenticate: Bearer realm="evil", resource_metadata="http://127.0.0.1:9/meta"`)}},
		{ID: "R18", Says: "never answers its handshake", Start: true, web: webFault{around: hangsIn("initialize", "server/discover")}},
		{ID: "A13383", Says: "loses its sessions and says so by 400", versions: old, web: webFault{around: forgets(http.StatusBadRequest, "Invalid or expired session")}},
		{ID: "A57958", Says: "answers GET and HEAD with a page before any session", Start: true, Fine: true, web: webFault{around: pageFirst}},
		{ID: "A95187", Says: "speaks HTTP+SSE only", Start: true, Fine: true, versions: old, web: webFault{around: talks(false)}},
		{ID: "A113359", Says: "refuses each request by 400 and a text that says why", Start: true, web: webFault{around: refusesAll(400, "Content-Type: text/plain")}},
		{ID: "A19559", Says: "is not ready for four seconds", Start: true, Fine: true, web: webFault{around: late(4 * time.Second)}},
	}
	pipes := []Fault{
		{ID: "R19", Says: "answers with a line of 8 MiB", Fine: true, pipe: pipeFault{call: huge(8 << 20)}},
		{ID: "R21", Says: "ends when the first message is not initialize", Start: true, Fine: true, versions: old, pipe: pipeFault{line: strict()}},
		{ID: "A97245", Says: "never answers ping", Start: true, Fine: true, pipe: pipeFault{line: deaf("ping")}},
		{ID: "A32744", Says: "gets a tool and tells nobody", Fine: true, pipe: pipeFault{call: grows}},
	}
	return append(of(Reported, HTTP, web), of(Reported, Stdio, pipes)...)
}

func status(code int, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { mcptest.Status(code, text, headers...)(w, r, nil) }
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	io.WriteString(w, "<html>Welcome</html>")
}

// onceStream has one standing stream that ends, and never another.
func onceStream(s *Server, w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	s.web.mu.Lock()
	s.web.streams++
	n := s.web.streams
	s.web.mu.Unlock()
	if n > 1 {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return true
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, ": open\n\n")
	return true
}

// refusesAll answers each request alike, and tells what it does not like.
func refusesAll(code int, header string) func(*Server, http.ResponseWriter, *http.Request) bool {
	return func(_ *Server, w http.ResponseWriter, r *http.Request) bool {
		mcptest.Status(code, "unsupported variant 7", header)(w, r, nil)
		return true
	}
}

// hangsIn never answers these methods.
func hangsIn(methods ...string) func(*Server, http.ResponseWriter, *http.Request) bool {
	return func(_ *Server, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		m, err := readMessage(w, r)
		if err != nil {
			return false
		}
		for _, name := range methods {
			if m.Method == name {
				mcptest.Hang(w, r, m)
				return true
			}
		}
		return false
	}
}

func pageFirst(_ *Server, w http.ResponseWriter, r *http.Request) bool {
	if (r.Method != http.MethodGet && r.Method != http.MethodHead) || r.Header.Get(sessionHeader) != "" {
		return false
	}
	page(w, r)
	return true
}

// late refuses by 503 until some time has passed since the first request.
func late(d time.Duration) func(*Server, http.ResponseWriter, *http.Request) bool {
	return func(s *Server, w http.ResponseWriter, _ *http.Request) bool {
		s.web.mu.Lock()
		if s.web.first.IsZero() {
			s.web.first = time.Now()
		}
		ready := time.Since(s.web.first) >= d
		s.web.mu.Unlock()
		if !ready {
			http.Error(w, "starting", http.StatusServiceUnavailable)
		}
		return !ready
	}
}

func strict() func(*Pipe, *mcptest.Message) bool {
	first := true
	return func(_ *Pipe, m *mcptest.Message) bool {
		if first && m.Method != "initialize" {
			fmt.Fprintln(os.Stderr, "the first message must be initialize, got "+strings.ToValidUTF8(m.Method, "?"))
			os.Exit(1)
		}
		first = false
		return false
	}
}

// Grown is the tool that A32744 gets.
const Grown = "grown"

func grows(p *Pipe, m *mcptest.Message) string {
	p.s.good.SetTools(append(goodTools[:len(goodTools):len(goodTools)], `{"name":"`+Grown+`","inputSchema":{"type":"object"}}`)...)
	return says(m, "here")
}
