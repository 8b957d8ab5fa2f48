package mcptest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Start serves u on a loopback port until the test ends, and returns the URL of
// its endpoint.
func (u *Upstream) Start(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(u)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

// maxBody bounds what the fakes read.
const maxBody = 64 << 20

// ServeHTTP implements http.Handler: one endpoint for both eras.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		u.stream(w, r)
	case http.MethodDelete:
		u.forget(r.Header.Get("Mcp-Session-Id"))
	case http.MethodPost:
		u.post(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// stream is the standing server-to-client stream of a legacy session.
func (u *Upstream) stream(w http.ResponseWriter, r *http.Request) {
	if !u.known(r.Header.Get("Mcp-Session-Id")) {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, ": open\n\n")
	http.NewResponseController(w).Flush()
	u.relay(w, r)
}

// relay writes what Push is given until the caller goes away.
func (u *Upstream) relay(w http.ResponseWriter, r *http.Request) {
	msgs := make(chan string, maxPushed)
	u.mu.Lock()
	if u.streams == nil {
		u.streams = map[chan string]bool{}
	}
	u.streams[msgs] = true
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.streams, msgs)
	}()
	for {
		select {
		case m := <-msgs:
			io.WriteString(w, Event(m))
			http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// maxPushed is how many messages wait for one stream; more are dropped.
const maxPushed = 1000

// Push sends a message on every standing stream, and returns how many there are.
func (u *Upstream) Push(msg string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.streams {
		select {
		case c <- msg:
		default:
		}
	}
	return len(u.streams)
}

func (u *Upstream) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := Parse(body)
	u.record(Received{Message: m, Raw: body, Header: r.Header.Clone()})
	if f := u.fault(&m); f != nil {
		f(w, r, &m)
		return
	}
	modern := r.Header.Get("Mcp-Protocol-Version") == Modern && m.Method != "initialize"
	if refused := u.refuse(w, r, &m, modern); refused {
		return
	}
	if m.ID == nil || m.Method == "" {
		u.told(&m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if !pause(r, u.delay(&m)) {
		return
	}
	switch {
	case !modern && u.asks(&m):
		u.askHTTP(w, r, &m)
	case modern && u.Lab && m.Method == "subscriptions/listen":
		u.listenHTTP(w, r, &m)
	default:
		u.reply(w, r, &m, modern)
	}
}

// told takes a message that has no answer.
func (u *Upstream) told(m *Message) {
	if m.Method == "notifications/cancelled" {
		u.lab.cancel(string(Member(m.Params, "requestId")))
		return
	}
	u.asked.answer(*m)
}

func (u *Upstream) fault(m *Message) Fault {
	if f := u.Faults[nameOf(m.Params)]; f != nil {
		return f
	}
	return u.Faults[m.Method]
}

// refuse answers requests of an era that u does not speak, and those of
// sessions that it does not know.
func (u *Upstream) refuse(w http.ResponseWriter, r *http.Request, m *Message, modern bool) bool {
	switch {
	case modern && !u.speaks(Modern):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, idOrNull(m), failure(-32000, "Bad Request: Unsupported protocol version"))
	case !modern && m.Method == "initialize" && u.newest(false) != "":
		w.Header().Set("Mcp-Session-Id", u.remember())
		return false
	case !modern && m.Method != "initialize" && !u.known(r.Header.Get("Mcp-Session-Id")):
		http.Error(w, "session not found", http.StatusNotFound)
	default:
		return false
	}
	return true
}

func (u *Upstream) reply(w http.ResponseWriter, r *http.Request, m *Message, modern bool) {
	member, ok := u.labTool(m, modern, r.Context().Done())
	if !ok {
		member = u.member(m, modern)
	}
	body := `{"jsonrpc":"2.0","id":` + idOrNull(m) + `,` + member + `}`
	notes := u.notes(m)
	if !u.SSE && len(notes) == 0 {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, msg := range append(notes, body) {
		io.WriteString(w, Event(msg))
		http.NewResponseController(w).Flush()
	}
}

// Event writes one message as a server-sent event.
func Event(msg string) string {
	return "event: message\ndata: " + strings.ReplaceAll(msg, "\n", "\ndata: ") + "\n\n"
}

func idOrNull(m *Message) string {
	if m.ID == nil {
		return "null"
	}
	return string(m.ID)
}

// pause waits unless the caller goes away first.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
		return false
	}
}

func (u *Upstream) remember() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessions == nil {
		u.sessions = map[string]bool{}
	}
	u.nextID++
	id := fmt.Sprintf("session-%d", u.nextID)
	u.sessions[id] = true
	return id
}

func (u *Upstream) known(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sessions[id]
}

func (u *Upstream) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.sessions, id)
}

// ExpireSessions forgets every session, as a restart of the server would.
func (u *Upstream) ExpireSessions() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.sessions)
}
