package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// An rpc is a message as the fake server got it.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string                     `json:"name"`
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
	Header http.Header     `json:"-"`
	Body   string          `json:"-"`
	Error  json.RawMessage `json:"error"`
	Result json.RawMessage `json:"result"`
}

// A fakeHTTP is a Streamable HTTP server of one era, or of both.
type fakeHTTP struct {
	*httptest.Server
	modern, legacy bool
	// call answers tools/call for every tool but "alive".
	call func(w http.ResponseWriter, r *http.Request, m rpc)
	// any answers before everything else if it returns true.
	any func(w http.ResponseWriter, r *http.Request, m rpc) bool

	// get serves the standing stream. If nil, there is none.
	get http.HandlerFunc

	mu       sync.Mutex
	seen     []rpc
	sessions map[string]bool
}

func newFake(t testing.TB, f *fakeHTTP) *fakeHTTP {
	t.Helper()
	f.sessions = map[string]bool{}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		f.stand(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m := rpc{Header: r.Header.Clone(), Body: string(body)}
	if json.Unmarshal(body, &m) != nil || r.Method == http.MethodDelete {
		m.Method = r.Method
	}
	f.mu.Lock()
	f.seen = append(f.seen, m)
	f.mu.Unlock()
	if f.any != nil && f.any(w, r, m) {
		return
	}
	f.answer(w, r, m)
}

func (f *fakeHTTP) stand(w http.ResponseWriter, r *http.Request) {
	if f.get == nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	f.get(w, r)
}

func (f *fakeHTTP) answer(w http.ResponseWriter, r *http.Request, m rpc) {
	modern := r.Header.Get(hdrVersion) == VersionModern
	switch {
	case m.Method == "server/discover" && f.modern:
		result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "initialize" && f.legacy:
		f.open(w, m)
	case modern && !f.modern, !modern && !f.legacy:
		http.Error(w, "Bad Request: no valid session ID", http.StatusBadRequest)
	case !modern && !f.known(r.Header.Get(hdrSession)):
		http.Error(w, "Session not found", http.StatusNotFound)
	case m.Method == http.MethodDelete, m.ID == nil, m.Error != nil, m.Result != nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/call" && m.Params.Name != "alive":
		f.call(w, r, m)
	default:
		result(w, m, `{"content":[]}`)
	}
}

func (f *fakeHTTP) open(w http.ResponseWriter, m rpc) {
	f.mu.Lock()
	id := fmt.Sprintf("s%d", len(f.sessions))
	f.sessions[id] = true
	f.mu.Unlock()
	w.Header().Set(hdrSession, id)
	result(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be\tkind"}`)
}

func (f *fakeHTTP) known(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[id]
}

// forget makes all sessions unknown, as a restart does.
func (f *fakeHTTP) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.sessions {
		f.sessions[id] = false
	}
}

// got returns the messages with a method, in order.
func (f *fakeHTTP) got(method string) (out []rpc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.seen {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

func result(w http.ResponseWriter, m rpc, res string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, res)
}

// events starts a stream; each call of the returned function sends one event
// with %s as the id of the request.
func events(w http.ResponseWriter, m rpc) func(text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	return func(text string) {
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "%s", string(m.ID)))
		w.(http.Flusher).Flush()
	}
}

// resolved returns what Resolve would for a server at a URL.
func resolved(t testing.TB, raw string, s *Settings, headers ...string) *Resolved {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		s = &Settings{}
	}
	r := &Resolved{Server: "fake", Settings: s, URL: u, Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		r.keepSecret(headers[i+1])
	}
	return r
}

// dialed returns a connection to r's server that ends with the test, which also
// checks that nothing keeps running.
func dialed(t testing.TB, r *Resolved, e env) *httpConn {
	t.Helper()
	c, err := dialHTTP(t.Context(), r, e)
	if err != nil {
		t.Fatalf("dialHTTP: %v", err)
	}
	t.Cleanup(c.Close)
	return c.(*httpConn)
}

// leaks checks at the end of the test that its goroutines are gone.
func leaks(t testing.TB) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

func toolCall(name string) *Call {
	return &Call{Method: "tools/call", Name: name, Params: []byte(`{"name":"` + name + `","arguments":{}}`)}
}

// alive fails the test unless the connection still serves calls.
func alive(t testing.TB, c conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	resp, err := c.Do(ctx, toolCall("alive"))
	if err != nil || string(resp.Result) != `{"content":[]}` {
		t.Fatalf("alive: got %s, %v", resp.Result, err)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: did not happen", what)
		}
	}
}
