package evil

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// webState is what an HTTP server remembers.
type webState struct {
	mu       sync.Mutex
	session  string // that of the good server, behind an odd one
	calls    int    // of misbehave
	streams  int    // standing streams so far
	talks    map[string]*io.PipeWriter
	lastTalk int
	first    time.Time // when the first request came
}

// maxBody bounds what is read of a request.
const maxBody = 16 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Journal.Note(hits, r.Method)
	if c := r.Header.Get("Cookie"); c != "" {
		s.Journal.Note(leaks, "Cookie: "+c)
	}
	f := &s.Fault.web
	if f.around != nil && f.around(s, w, r) {
		return
	}
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodGet && f.get != nil:
		f.get(w, r)
	default:
		s.good.ServeHTTP(w, r)
	}
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	m, err := readMessage(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.Method == "notifications/cancelled" {
		s.Journal.Note(cancelled, string(mcptest.Member(m.Params, "requestId")))
	}
	fault := s.Fault.web.call
	if s.Always && fault != nil {
		fault(w, r, m)
		return
	}
	if called(m) == misbehave && fault != nil {
		s.Journal.Note(ran, mcptest.Text(mcptest.Member(m.Params, "arguments"), "key"))
		fault(w, r, m)
		return
	}
	member, ok := s.tool(m, func(d time.Duration) { s.wait(r.Context(), d) })
	if !ok || !s.speaks(m) {
		s.good.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, message(m, member))
}

// speaks leaves calls of an era that is not served to the good server.
func (s *Server) speaks(m *mcptest.Message) bool {
	for _, v := range s.good.Versions {
		if v == mcptest.Modern {
			return true
		}
	}
	return s.good.Versions == nil || !modern(m)
}

// wait notes a caller that hangs up: over HTTP that is how calls are cancelled.
func (s *Server) wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		s.Journal.Note(cancelled, "hung up")
	}
}

// readMessage reads the message and leaves the body to be read again.
func readMessage(w http.ResponseWriter, r *http.Request) (*mcptest.Message, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	m := mcptest.Parse(b)
	return &m, nil
}

// A listening is an HTTP server or a proxy that is up.
type listening struct {
	l     net.Listener
	conns connections
	http  *http.Server
	done  chan struct{}
}

var errNotLoopback = errors.New("evil servers listen on loopback only")

// listen opens addr and serves; s.url is set then.
func (s *Server) listen(addr string) (*listening, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, errNotLoopback
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	up := &listening{l: l, done: make(chan struct{})}
	s.url = s.scheme() + "://" + l.Addr().String() + s.path()
	if s.Fault.web.closed {
		l.Close()
		close(up.done)
		return up, nil
	}
	if up.l, err = s.dress(l); err != nil {
		l.Close()
		return nil, err
	}
	if s.Fault.serve != nil {
		go up.accept(s)
		return up, nil
	}
	up.http = &http.Server{Handler: s, ErrorLog: quiet, ReadHeaderTimeout: hangFor}
	go up.serveHTTP()
	return up, nil
}

func (s *Server) scheme() string {
	if s.Fault.Transport == HTTPS {
		return "https"
	}
	return "http"
}

func (s *Server) path() string {
	if s.Fault.Transport == Proxy {
		return ""
	}
	return "/mcp"
}

func (up *listening) serveHTTP() {
	defer close(up.done)
	up.http.Serve(up.l)
}

// accept hands each connection to the fault.
func (up *listening) accept(s *Server) {
	defer close(up.done)
	for {
		c, err := up.l.Accept()
		if err != nil {
			return
		}
		if !up.conns.add(c) {
			return
		}
		go up.one(s, c)
	}
}

func (up *listening) one(s *Server, c net.Conn) {
	defer up.conns.drop(c)
	c.SetDeadline(time.Now().Add(hangFor))
	s.Fault.serve(s, c)
}

// stop ends everything that is under way.
func (up *listening) stop() {
	up.l.Close()
	up.conns.close()
	if up.http != nil {
		up.http.Close()
	}
	<-up.done
}

// connections are those that are open; once closed there are no more.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]bool
	over bool
	wg   sync.WaitGroup
}

func (cs *connections) add(c net.Conn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.over {
		c.Close()
		return false
	}
	if cs.open == nil {
		cs.open = map[net.Conn]bool{}
	}
	cs.open[c] = true
	cs.wg.Add(1)
	return true
}

func (cs *connections) drop(c net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.Close()
	delete(cs.open, c)
	cs.wg.Done()
}

func (cs *connections) close() {
	cs.mu.Lock()
	cs.over = true
	for c := range cs.open {
		c.Close()
	}
	cs.mu.Unlock()
	cs.wg.Wait()
}
