package evil

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// statuses are those of U2, with the headers that belong to them.
var statuses = []struct {
	id     string
	code   int
	header string
}{
	{"400", 400, ""}, {"401", 401, ""}, {"401w", 401, `WWW-Authenticate: Bearer realm="evil"`}, {"403", 403, ""}, {"404", 404, ""},
	{"405", 405, "Allow: GET"}, {"408", 408, ""}, {"409", 409, ""}, {"421", 421, ""},
	{"429", 429, ""}, {"429r", 429, "Retry-After: 1"}, {"429x", 429, "Retry-After: 999999999"},
	{"500", 500, ""}, {"502", 502, ""}, {"503", 503, ""}, {"503r", 503, "Retry-After: 1"}, {"504", 504, ""},
}

// webFaults are what servers behind HTTP do to a request.
func webFaults() []Fault {
	all := []Fault{
		{ID: "U1a", Says: "does not listen", Start: true, web: webFault{closed: true}},
		{ID: "U1b", Says: "resets each connection at once", Start: true, serve: resets},
		{ID: "U1c", Says: "resets in the middle of the headers", web: webFault{call: mcptest.ResetInHeaders}},
		{ID: "U1d", Says: "resets in the middle of the body", web: webFault{call: mcptest.ResetInBody}},
		{ID: "U1e", Says: "takes connections and never answers", Start: true, serve: holds},
		{ID: "U1f", Says: "resets before any byte of an answer", web: webFault{call: mcptest.Reset}},
		{ID: "U4a", Says: "answers with 400 MiB of JSON", web: webFault{call: mcptest.Huge(400 << 20)}},
		{ID: "U4b", Says: "answers with 400 MiB in gzip that nobody asked for", web: webFault{call: bomb(400)}},
		{ID: "U4c", Says: "answers in brotli that is broken", web: webFault{call: encoded("br", "\x0b\x02\x80{}\x03")}},
		{ID: "U4d", Says: "answers in chunks without end", web: webFault{call: endlessChunks}},
		{ID: "U4e", Says: "promises more bytes than it sends", web: webFault{call: lying(+100)}},
		{ID: "U4f", Says: "promises fewer bytes than it sends", web: webFault{call: lying(-10)}},
		{ID: "U4g", Says: "answers in zstd that nobody asked for", web: webFault{call: encoded("zstd", "\x28\xb5\x2f\xfd\x04\x00\x11\x00\x00{}")}},
		{ID: "U4h", Says: "answers one byte a second", web: webFault{call: trickle}},
		{ID: "U4i", Says: "answers with 200 KB of headers", web: webFault{call: manyHeaders}},
		{ID: "U8a", Says: "redirects by 301 within its origin", web: webFault{call: mcptest.Redirect(301, "/other")}},
		{ID: "U8b", Says: "redirects by 302 within its origin", web: webFault{call: mcptest.Redirect(302, "/other")}},
		{ID: "U8c", Says: "redirects by 307 within its origin", Fine: true, web: webFault{call: mcptest.Redirect(307, "/other"), around: otherPath}},
		{ID: "U8d", Says: "redirects by 308 within its origin", Fine: true, web: webFault{call: mcptest.Redirect(308, "/other"), around: otherPath}},
		{ID: "U8e", Says: "redirects to another origin", web: webFault{around: abroad}},
		{ID: "U8f", Says: "redirects to an address that cloud machines keep secrets at", web: webFault{call: mcptest.Redirect(307, "http://169.254.169.254/latest/meta-data/")}},
		{ID: "U8g", Says: "redirects in a circle", web: webFault{call: mcptest.Redirect(307, "/mcp")}},
		{ID: "U12", Says: "never answers this call", web: webFault{call: mcptest.Hang}},
		{ID: "U13", Says: "fails five calls by 503, serves five, and so on", web: webFault{around: flaps}},
		{ID: "U13b", Says: "fails this call by 503 after 300 ms", web: webFault{call: late503}},
	}
	for _, st := range statuses {
		headers := []string{"Content-Type: text/plain"}
		if st.header != "" {
			headers = append(headers, st.header)
		}
		all = append(all, Fault{
			ID: "U2-" + st.id, Says: strings.TrimSpace(fmt.Sprintf("refuses by %d %s", st.code, st.header)),
			web: webFault{call: mcptest.Status(st.code, "no such luck", headers...)},
		})
	}
	return of(Web, HTTP, all)
}

// resets drops the connection with what was sent.
func resets(_ *Server, c net.Conn) {
	if tc, ok := c.(*net.TCPConn); ok {
		tc.SetLinger(0)
	}
}

// holds keeps a connection until the other side, or a minute, has gone.
func holds(_ *Server, c net.Conn) { io.Copy(io.Discard, c) }

func encoded(how, body string) mcptest.Fault {
	return mcptest.Status(200, body, "Content-Type: application/json", "Content-Encoding: "+how)
}

// bomb answers with so many MiB in gzip: a thousandth of that goes out, and it is
// compressed once.
func bomb(mib int) mcptest.Fault {
	return func(w http.ResponseWriter, _ *http.Request, m *mcptest.Message) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		before, after, _ := strings.Cut(message(m, says(m, "$TEXT")), "$TEXT")
		w.Write(gzipped(before))
		many := gzipped(strings.Repeat("a", 1<<20))
		for range mib {
			if _, err := w.Write(many); err != nil {
				return
			}
		}
		w.Write(gzipped(after))
	}
}

// gzipped is a whole gzip member; members that follow one another are one stream.
func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.Bytes()
}

func endlessChunks(w http.ResponseWriter, r *http.Request, m *mcptest.Message) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[`, m.ID)
	chunk := bytes.Repeat([]byte(" "), 64<<10)
	for n := 0; n < floodMost && r.Context().Err() == nil; n += len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// lying gives a length that is off by some bytes.
func lying(by int) mcptest.Fault {
	return func(w http.ResponseWriter, _ *http.Request, m *mcptest.Message) {
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer c.Close()
		body := message(m, says(m, "here"))
		fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body)+by, body)
		buf.Flush()
	}
}

func trickle(w http.ResponseWriter, r *http.Request, m *mcptest.Message) {
	w.Header().Set("Content-Type", "application/json")
	body := message(m, says(m, "here"))
	for end := time.Now().Add(hangFor); len(body) > 0 && time.Now().Before(end); body = body[1:] {
		io.WriteString(w, body[:1])
		http.NewResponseController(w).Flush()
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return
		}
	}
}

func manyHeaders(w http.ResponseWriter, _ *http.Request, m *mcptest.Message) {
	for i := range 200 {
		w.Header().Set(fmt.Sprintf("X-Evil-%d", i), strings.Repeat("x", 1000))
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, message(m, says(m, "here")))
}

// otherPath serves misbehave where the redirects point; the rest is served there
// as everywhere.
func otherPath(_ *Server, w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/other" || r.Method != http.MethodPost {
		return false
	}
	m, err := readMessage(w, r)
	if err != nil || called(m) != misbehave {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, message(m, says(m, "here")))
	return true
}

// misbehaves reports whether a request calls misbehave, and notes it.
func (s *Server) misbehaves(w http.ResponseWriter, r *http.Request) (*mcptest.Message, bool) {
	if r.Method != http.MethodPost {
		return nil, false
	}
	m, err := readMessage(w, r)
	if err != nil || called(m) != misbehave {
		return m, false
	}
	s.Journal.Note(ran, mcptest.Text(mcptest.Member(m.Params, "arguments"), "key"))
	return m, true
}

func abroad(s *Server, w http.ResponseWriter, r *http.Request) bool {
	m, ok := s.misbehaves(w, r)
	if ok {
		mcptest.Redirect(307, s.other)(w, r, m)
	}
	return ok
}

func late503(w http.ResponseWriter, r *http.Request, _ *mcptest.Message) {
	select {
	case <-time.After(300 * time.Millisecond):
	case <-r.Context().Done():
	}
	http.Error(w, "overloaded", http.StatusServiceUnavailable)
}

func flaps(s *Server, w http.ResponseWriter, r *http.Request) bool {
	if _, ok := s.misbehaves(w, r); !ok {
		return false
	}
	s.web.mu.Lock()
	n := s.web.calls
	s.web.calls++
	s.web.mu.Unlock()
	if n/5%2 == 1 {
		return false
	}
	http.Error(w, "overloaded", http.StatusServiceUnavailable)
	return true
}
