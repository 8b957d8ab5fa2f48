package evil

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// sessionFaults are about what lasts longer than a request.
func sessionFaults() []Fault {
	old := mcptest.LegacyVersions
	return of(Web, HTTP, []Fault{
		{ID: "U9", Says: "sets a cookie with each answer", Start: true, Fine: true, web: webFault{around: cookies}},
		{ID: "U10a", Says: "gives a session id of 10 KiB", Start: true, versions: old, web: webFault{around: sessions(func(int) string { return strings.Repeat("s", 10<<10) })}},
		{ID: "U10b", Says: "gives a session id that is no ASCII", Start: true, versions: old, web: webFault{around: sessions(func(int) string { return "sessión-\u202e" })}},
		{ID: "U10c", Says: "gives another session id with each answer", Start: true, Fine: true, versions: old, web: webFault{around: sessions(func(n int) string { return fmt.Sprint("s", n) })}},
		{ID: "U10d", Says: "loses its sessions", Fine: true, versions: old, web: webFault{around: forgets(http.StatusNotFound, "session not found")}},
		{ID: "U16", Says: "speaks HTTP+SSE and has its endpoint at another origin", Start: true, versions: old, web: webFault{around: talks(true)}},
	})
}

// An editor changes the headers of an answer before they go out.
type editor struct {
	http.ResponseWriter
	edit func(http.Header)
	done bool
}

func (e *editor) WriteHeader(code int) {
	if !e.done {
		e.edit(e.Header())
	}
	e.done = true
	e.ResponseWriter.WriteHeader(code)
}

func (e *editor) Write(b []byte) (int, error) {
	if !e.done {
		e.WriteHeader(http.StatusOK)
	}
	return e.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (e *editor) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func cookies(s *Server, w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Set-Cookie", "evil=tracked; Path=/; Max-Age=3600")
	return false
}

const sessionHeader = "Mcp-Session-Id"

// sessions answers with session ids of its own; the good server behind keeps
// its first one.
func sessions(name func(n int) string) func(*Server, http.ResponseWriter, *http.Request) bool {
	return func(s *Server, w http.ResponseWriter, r *http.Request) bool {
		s.web.mu.Lock()
		s.web.calls++
		n := s.web.calls
		if got := r.Header.Get(sessionHeader); got != "" {
			s.Journal.Note(answers, got)
			r.Header.Set(sessionHeader, s.web.session)
		}
		s.web.mu.Unlock()
		s.post(&editor{ResponseWriter: w, edit: func(h http.Header) {
			s.web.mu.Lock()
			defer s.web.mu.Unlock()
			if own := h.Get(sessionHeader); own != "" {
				s.web.session = own
			}
			h.Set(sessionHeader, name(n))
		}}, r)
		return true
	}
}

// forgets loses all sessions when misbehave is called, and serves it in the next.
func forgets(status int, text string) func(*Server, http.ResponseWriter, *http.Request) bool {
	return func(s *Server, w http.ResponseWriter, r *http.Request) bool {
		m, ok := s.misbehaves(w, r)
		if !ok {
			return false
		}
		s.web.mu.Lock()
		s.web.calls++
		n := s.web.calls
		s.web.mu.Unlock()
		if n%2 == 1 {
			s.good.ExpireSessions()
			http.Error(w, text, status)
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, message(m, says(m, "here")))
		return true
	}
}

// talks is the transport of 2024-11-05: GET opens the stream, POST is for where
// its first event says.
func talks(abroad bool) func(*Server, http.ResponseWriter, *http.Request) bool {
	return func(s *Server, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodGet:
			s.talk(w, r, abroad)
		case r.Method == http.MethodPost && r.URL.Path == "/messages":
			s.hear(w, r)
		default:
			w.Header().Set("Allow", "GET")
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		}
		return true
	}
}

// talk is one such stream, and the conversation on it.
func (s *Server) talk(w http.ResponseWriter, r *http.Request, abroad bool) {
	in, out := io.Pipe()
	defer out.Close()
	s.web.mu.Lock()
	if s.web.talks == nil {
		s.web.talks = map[string]*io.PipeWriter{}
	}
	s.web.lastTalk++
	id := fmt.Sprint("t", s.web.lastTalk)
	s.web.talks[id] = out
	s.web.mu.Unlock()
	defer s.endTalk(id)
	base := ""
	if abroad {
		base = s.other
	}
	w.Header().Set("Content-Type", "text/event-stream")
	p := &Pipe{s: s, out: events{w}}
	fmt.Fprintf(w, "event: endpoint\ndata: %s/messages?t=%s\n\n", base, id)
	http.NewResponseController(w).Flush()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.serve(in)
	}()
	<-r.Context().Done()
	out.Close()
	<-done
	p.close()
}

func (s *Server) endTalk(id string) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	delete(s.web.talks, id)
}

// hear takes one message for a stream.
func (s *Server) hear(w http.ResponseWriter, r *http.Request) {
	s.web.mu.Lock()
	out := s.web.talks[r.URL.Query().Get("t")]
	s.web.mu.Unlock()
	if out == nil {
		http.Error(w, "no such conversation", http.StatusNotFound)
		return
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		_, err = out.Write(append(b, '\n'))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// events writes lines as events.
type events struct{ w http.ResponseWriter }

func (e events) Write(b []byte) (int, error) {
	if _, err := io.WriteString(e.w, mcptest.Event(strings.TrimSpace(string(b)))); err != nil {
		return 0, err
	}
	return len(b), http.NewResponseController(e.w).Flush()
}
