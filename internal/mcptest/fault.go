package mcptest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A Fault answers a request in place of the upstream.
type Fault func(w http.ResponseWriter, r *http.Request, m *Message)

// Status answers with a bare HTTP status and a text, and with the headers
// given as "Name: value".
func Status(code int, text string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ *Message) {
		for _, h := range headers {
			k, v, _ := strings.Cut(h, ": ")
			w.Header().Set(k, v)
		}
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

// Body answers 200 with a content type and a body, in which $ID becomes the
// request's id.
func Body(contentType, body string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, m *Message) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, strings.ReplaceAll(body, "$ID", idOrNull(m)))
	}
}

// Stream answers with an event stream of exactly these bytes, in which $ID
// becomes the request's id.
func Stream(raw string) Fault { return Body("text/event-stream", raw) }

// Hang answers nothing until the caller goes away.
func Hang(_ http.ResponseWriter, r *http.Request, _ *Message) { <-r.Context().Done() }

// Reset closes the connection with a TCP reset before any byte.
func Reset(w http.ResponseWriter, _ *http.Request, _ *Message) { hijack(w, "") }

// ResetInHeaders sends half a response head, then resets.
func ResetInHeaders(w http.ResponseWriter, _ *http.Request, _ *Message) {
	hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: applica")
}

// ResetInBody announces more than it sends, then resets.
func ResetInBody(w http.ResponseWriter, _ *http.Request, _ *Message) {
	hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{\"jsonrpc\":\"2.0\",")
}

// hijack writes raw bytes and resets the connection.
func hijack(w http.ResponseWriter, raw string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	io.WriteString(c, raw)
	if tc, ok := c.(*net.TCPConn); ok {
		tc.SetLinger(0)
	}
	c.Close()
}

// Huge answers with a result of about n bytes of text.
func Huge(n int) Fault {
	return func(w http.ResponseWriter, _ *http.Request, m *Message) {
		w.Header().Set("Content-Type", "application/json")
		writeHuge(w, m, n)
	}
}

// GzipBomb answers with a result of about n bytes, compressed.
func GzipBomb(n int) Fault {
	return func(w http.ResponseWriter, _ *http.Request, m *Message) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		writeHuge(z, m, n)
		z.Close()
	}
}

func writeHuge(w io.Writer, m *Message, n int) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, idOrNull(m))
	chunk := bytes.Repeat([]byte("a"), 64<<10)
	for n > 0 {
		k, err := w.Write(chunk[:min(n, len(chunk))])
		if err != nil {
			return
		}
		n -= k
	}
	io.WriteString(w, `"}]}}`)
}

// Endless sends an event stream of comments until the caller goes away.
func Endless(w http.ResponseWriter, r *http.Request, _ *Message) {
	w.Header().Set("Content-Type", "text/event-stream")
	line := ": " + strings.Repeat("x", 1000) + "\n"
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}

// Redirect sends the caller to another URL.
func Redirect(code int, to string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ *Message) {
		w.Header().Set("Location", to)
		w.WriteHeader(code)
	}
}

// Faults are ways in which an HTTP upstream fails a single request, by name.
// Those that need an address of the test's own are made with Redirect.
var Faults = map[string]Fault{
	"reset":                  Reset,
	"reset in headers":       ResetInHeaders,
	"reset in body":          ResetInBody,
	"empty 200":              Body("application/json", ""),
	"html 200":               Body("text/html", "<html>Sign in</html>"),
	"json cut off":           Body("application/json", `{"jsonrpc":"2.0","id":$ID,"result":{`),
	"other id":               Body("application/json", `{"jsonrpc":"2.0","id":"nobody","result":{}}`),
	"other id in stream":     Stream("data: {\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":{}}\n\n"),
	"id of another type":     Body("application/json", `{"jsonrpc":"2.0","id":[$ID],"result":{}}`),
	"no answer in stream":    Stream(": nothing\n\n"),
	"stream cut off":         Stream("data: {\"jsonrpc\":\"2.0\","),
	"brotli unasked":         Status(200, "\x0b\x02\x80{}\x03", "Content-Type: application/json", "Content-Encoding: br"),
	"gzip that is none":      Status(200, "plain", "Content-Type: application/json", "Content-Encoding: gzip"),
	"20 MiB":                 Huge(20 << 20),
	"20 MiB in gzip":         GzipBomb(20 << 20),
	"scalar":                 Body("application/json", "42"),
	"null":                   Body("application/json", "null"),
	"two values":             Body("application/json", `{"jsonrpc":"2.0","id":$ID,"result":{}} {}`),
	"neither result nor err": Body("application/json", `{"jsonrpc":"2.0","id":$ID}`),
	"accepted":               Status(202, ""),
	"no content":             Status(204, ""),
}

// HTTPFailures are the statuses with which servers and the proxies before them
// refuse a request.
var HTTPFailures = []int{400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 413, 415, 421, 425, 429, 500, 501, 502, 503, 504, 520}

// Refused returns a URL on a port where nobody listens.
func Refused(t testing.TB) string {
	t.Helper()
	return "http://127.0.0.1:" + strconv.Itoa(FreePort(t)) + "/mcp"
}

// Ports for FreePort lie below those that the system gives to whoever asks for
// port 0 or dials out: one of those could take it before its user listens.
const firstPort, ports = 15000, 16000

// FreePort returns a loopback port that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Free is FreePort for those who have no test at hand.
func Free() (port int, err error) {
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(firstPort+rand.IntN(ports))); err == nil {
			return l.Addr().(*net.TCPAddr).Port, l.Close()
		}
	}
	return 0, err
}

// Blackhole returns a URL whose listener takes connections and never answers.
func Blackhole(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String() + "/mcp"
}
