package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A fakeSSE is a server of the transport HTTP+SSE with one stream at /sse.
type fakeSSE struct {
	*httptest.Server
	// endpoint is what the stream says first. If empty, "/messages?session=1".
	endpoint string
	// open, if set, answers GET before everything else if it returns true.
	open func(w http.ResponseWriter, r *http.Request) bool
	// post, if set, answers POST before everything else if it returns true.
	post func(w http.ResponseWriter, r *http.Request, m rpc) bool
	// call answers tools/call for every tool but "alive", in a goroutine.
	call func(f *fakeSSE, m rpc)
	// accepted is the status of a POST that is taken. If zero, 202.
	accepted int
	// through, if set, writes to the stream in place of w itself.
	through func(w http.ResponseWriter) func(text string)

	mu      sync.Mutex
	seen    []rpc
	streams []http.Header // of the GETs
	say     func(text string)
	end     chan struct{} // closed to end the stream
}

func newSSE(t testing.TB, f *fakeSSE) *fakeSSE {
	t.Helper()
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeSSE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet:
		f.stream(w, r)
	case r.URL.Path == "/messages":
		f.message(w, r)
	default:
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	}
}

func (f *fakeSSE) stream(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.streams = append(f.streams, r.Header.Clone())
	f.mu.Unlock()
	if f.open != nil && f.open(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	end := f.speakThrough(w)
	to := f.endpoint
	if to == "" {
		to = "/messages?session=1"
	}
	f.send("event: endpoint\ndata: " + to + "\n\n")
	select {
	case <-r.Context().Done():
	case <-end:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say = nil
}

// speakThrough makes w the stream that send writes to.
func (f *fakeSSE) speakThrough(w http.ResponseWriter) (end chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = make(chan struct{})
	if f.through != nil {
		f.say = f.through(w)
		return f.end
	}
	f.say = func(text string) {
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
	}
	return f.end
}

// send writes to the stream, if there is one.
func (f *fakeSSE) send(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.say != nil {
		f.say(text)
	}
}

// cut ends the stream.
func (f *fakeSSE) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.end)
}

// event sends a message as an event.
func (f *fakeSSE) event(msg string) { f.send("event: message\ndata: " + msg + "\n\n") }

func (f *fakeSSE) answer(m rpc, res string) {
	f.event(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + res + `}`)
}

func (f *fakeSSE) message(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m := rpc{Header: r.Header.Clone(), Body: string(body)}
	if json.Unmarshal(body, &m) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, m)
	f.mu.Unlock()
	if f.post != nil && f.post(w, r, m) {
		return
	}
	go f.handle(m)
	status := f.accepted
	if status == 0 {
		status = http.StatusAccepted
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "Accepted")
}

func (f *fakeSSE) handle(m rpc) {
	switch {
	case m.Method == "initialize":
		f.answer(m, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"sse","version":"1"}}`)
	case m.Method == "tools/call" && m.Params.Name != "alive":
		if f.call != nil {
			f.call(f, m)
		}
	case m.Method == "tools/list":
		f.answer(m, `{"tools":[{"name":"alive","inputSchema":{"type":"object"}}]}`)
	case m.ID != nil && m.Method != "":
		f.answer(m, `{"content":[]}`)
	}
}

// got returns the messages with a method, in order.
func (f *fakeSSE) got(method string) (out []rpc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.seen {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// opened returns the headers of the streams so far.
func (f *fakeSSE) opened() []http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]http.Header(nil), f.streams...)
}

// dialedSSE returns a connection to f that ends with the test.
func dialedSSE(t testing.TB, f *fakeSSE, s *Settings, e env, headers ...string) *lineConn {
	t.Helper()
	c, err := dialSSE(t.Context(), resolved(t, f.URL+"/sse", s, headers...), e)
	if err != nil {
		t.Fatalf("dialSSE: %v", err)
	}
	t.Cleanup(c.Close)
	return c.(*lineConn)
}

// refusesSSE dials and wants an error of a kind that holds text.
func refusesSSE(t *testing.T, f *fakeSSE, kind Kind, text string) {
	t.Helper()
	c, err := dialSSE(t.Context(), resolved(t, f.URL+"/sse", nil), env{})
	if err == nil {
		c.Close()
		t.Fatal("no error")
	}
	if KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (kind %v), want kind %v, %q", err, KindOf(err), kind, text)
	}
}
