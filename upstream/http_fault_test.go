package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve returns a call handler that sends one fixed reply.
func serve(status int, body string, header ...string) func(http.ResponseWriter, *http.Request, rpc) {
	return func(w http.ResponseWriter, _ *http.Request, m rpc) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "%s", string(m.ID)))
	}
}

// both runs a test against a server of each era.
func both(t *testing.T, f *fakeHTTP, s *Settings, do func(t *testing.T, f *fakeHTTP, c *httpConn)) {
	t.Helper()
	for era, name := range map[Era]string{Modern: "modern", Legacy: "legacy"} {
		t.Run(name, func(t *testing.T) {
			leaks(t)
			fake := newFake(t, &fakeHTTP{modern: era == Modern, legacy: era == Legacy, call: f.call, any: f.any})
			do(t, fake, dialed(t, resolved(t, fake.URL, s), env{}))
		})
	}
}

// A list may hold what is nested too deep, which costs its entry. Other answers may not.
func TestHTTPDeep(t *testing.T) {
	deep := `{"tools":[{"name":"deep","x":` + strings.Repeat(`{"a":[`, 100_000) + strings.Repeat(`]}`, 100_000) + `},{"name":"1"}]}`
	deeply := func(w http.ResponseWriter, _ *http.Request, m rpc) { result(w, m, deep) }
	any := func(w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == "tools/list" {
			deeply(w, r, m)
		}
		return m.Method == "tools/list"
	}
	both(t, &fakeHTTP{call: deeply, any: any}, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
		r, err := c.Do(t.Context(), &Call{Method: "tools/list"})
		if err != nil || string(r.Result) != deep {
			t.Errorf("list: %v, %d bytes", err, len(r.Result))
		}
		if _, err := c.Do(t.Context(), toolCall("x")); KindOf(err) != Protocol {
			t.Errorf("call: got %v", err)
		}
		alive(t, c)
	})
}

// Each HTTP status has its kind, and none of them hurts the next call (U2).
func TestHTTPStatus(t *testing.T) {
	const null = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"nope"}}`
	const ours = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad","data":{"n":9007199254740993}}}`
	for _, tt := range []struct {
		status int
		body   string
		kind   Kind
		text   string
	}{
		{201, `{}`, Protocol, "answered 201 Created"},
		{202, "", Protocol, "took the request for a notification"},
		{204, "", Protocol, "answered 204"},
		{304, "", Protocol, "answered 304"},
		{400, "broken", Protocol, `answered 400 Bad Request (application/json): "broken"`},
		{400, null, Protocol, "nope"},
		{400, ours, 0, ""},
		{401, ours, Unauthorized, "set auth: oauth, or a header"},
		{403, "", Unauthorized, "answered 403 Forbidden"},
		{404, ours, 0, ""},
		{405, "", Protocol, "answered 405"},
		{408, "", Uncertain, "answered 408"},
		{409, "", Protocol, "answered 409"},
		{421, "", Protocol, "answered 421"},
		{429, ours, RateLimited, "answered 429"},
		{500, ours, 0, ""},
		{500, "", Uncertain, "answered 500"},
		{502, "<html>", Uncertain, "answered 502"},
		{503, "", Unreachable, "answered 503"},
		{504, "", Uncertain, "answered 504"},
	} {
		t.Run(fmt.Sprintf("%d %.30s", tt.status, tt.body), func(t *testing.T) {
			f := &fakeHTTP{call: serve(tt.status, tt.body, "Retry-After", "7")}
			both(t, f, nil, func(t *testing.T, f *fakeHTTP, c *httpConn) {
				resp, err := c.Do(t.Context(), toolCall("x"))
				if KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v (kind %v), want kind %v, %q", err, KindOf(err), tt.kind, tt.text)
				}
				if tt.kind == 0 && string(resp.Error) != `{"code":-32602,"message":"bad","data":{"n":9007199254740993}}` {
					t.Errorf("error object: got %s", resp.Error)
				}
				var e *Error
				if errors.As(err, &e) && (tt.status == 429 || tt.status == 503) && e.RetryAfter != 7*time.Second {
					t.Errorf("RetryAfter: got %v", e.RetryAfter)
				}
				if n := len(f.got("tools/call")); n != 1 {
					t.Errorf("sent %d times", n)
				}
				alive(t, c)
			})
		})
	}
}

func packed(b []byte) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.String()
}

// What a 200 can bring besides an answer fails this call, says why, and nothing else.
func TestHTTPBodies(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":%s,"result":{"x":1.0}}`
	bomb := packed(bytes.Repeat([]byte{' '}, 4<<20))
	for _, tt := range []struct {
		name   string
		body   string
		header []string
		kind   Kind
		text   string
	}{
		{"plain", ok, nil, 0, ""},
		{"charset and case", ok, []string{"Content-Type", "Application/JSON; charset=utf-8"}, 0, ""},
		{"white space", " \r\n" + ok + "\n", nil, 0, ""},
		{"batch", `[{"jsonrpc":"2.0","method":"notifications/message","params":{}},` + ok + `]`, nil, 0, ""},
		{"gzip bomb", bomb, []string{"Content-Encoding", "gzip"}, TooLarge, "max_message_bytes (100000)"},
		{"gzip that is none", "hello", []string{"Content-Encoding", "gzip"}, Protocol, "gzip"},
		{"html", "<html>", []string{"Content-Type", "text/html"}, Protocol, "answered 200 OK (text/html)"},
		{"no type", ok, []string{"Content-Type", ""}, Protocol, "answered 200 OK"},
		{"empty", "", nil, Protocol, "no JSON-RPC message"},
		{"cut JSON", ok[:30], nil, Protocol, "no JSON-RPC message"},
		{"no JSON", "oops", nil, Protocol, "no JSON-RPC message"},
		{"empty batch", "[]", nil, Protocol, "without an answer"},
		{"only a notification", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, nil, Protocol, "without an answer"},
		{"id of another type", `{"jsonrpc":"2.0","id":"%s","result":{}}`, nil, Protocol, `answered id "`},
		{"other id", `{"jsonrpc":"2.0","id":99999,"result":{}}`, nil, Protocol, "answered id 99999, not"},
		{"null id", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`, nil, Protocol, "answered id null"},
		{"error is a string", `{"jsonrpc":"2.0","id":%s,"error":"bad"}`, nil, Protocol, "error that is no object"},
		{"too large", ok + strings.Repeat(" ", 200_000), nil, TooLarge, "max_message_bytes"},
		{"deep", `{"jsonrpc":"2.0","id":%s,"result":` + strings.Repeat("[", 40_000) + strings.Repeat("]", 40_000) + `}`, nil, Protocol, "no JSON-RPC message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeHTTP{call: serve(200, tt.body, tt.header...)}
			both(t, f, &Settings{MaxMessageBytes: 100_000}, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
				resp, err := c.Do(t.Context(), toolCall("x"))
				if KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Fatalf("got %v (kind %v), want kind %v, %q", err, KindOf(err), tt.kind, tt.text)
				}
				if err == nil && string(resp.Result) != `{"x":1.0}` {
					t.Errorf("got %s", resp.Result)
				}
				alive(t, c)
			})
		})
	}
	t.Run("gzip", func(t *testing.T) {
		f := &fakeHTTP{call: func(w http.ResponseWriter, r *http.Request, m rpc) {
			serve(200, packed([]byte(strings.ReplaceAll(ok, "%s", string(m.ID)))), "Content-Encoding", "gzip")(w, r, m)
		}}
		both(t, f, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
			if resp, err := c.Do(t.Context(), toolCall("x")); err != nil || string(resp.Result) != `{"x":1.0}` {
				t.Errorf("got %s, %v", resp.Result, err)
			}
		})
	})
}

// A body without end is cut off at the limit, whatever it is, and memory stays low (U4).
func TestHTTPEndlessBody(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for name, start := range map[string]string{
		"json":     `application/json|{"jsonrpc":"2.0","id":1,"result":"`,
		"event":    "text/event-stream|data: ",
		"comment":  "text/event-stream|:",
		"refusal":  "text/plain|",
		"one name": "text/event-stream|event: ",
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeHTTP{call: func(w http.ResponseWriter, _ *http.Request, _ rpc) {
				kind, head, _ := strings.Cut(start, "|")
				w.Header().Set("Content-Type", kind)
				_, err := io.WriteString(w, head)
				for sent := 0; err == nil && sent < 400<<20; sent += len(chunk) {
					_, err = w.Write(chunk)
				}
			}}
			both(t, f, &Settings{MaxMessageBytes: 1 << 20}, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := c.Do(t.Context(), toolCall("x"))
				runtime.ReadMemStats(&after)
				want := TooLarge
				if name == "refusal" {
					want = Protocol
				}
				if KindOf(err) != want {
					t.Errorf("got %v", err)
				}
				if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
					t.Errorf("allocated %d MiB for it", got>>20)
				}
				alive(t, c)
			})
		})
	}
}

// Many small events or comments are bounded in sum as well.
func TestHTTPEndlessStream(t *testing.T) {
	f := &fakeHTTP{call: func(w http.ResponseWriter, _ *http.Request, m rpc) {
		w.Header().Set("Content-Type", "text/event-stream")
		block := []byte(strings.Repeat(": still there\n\ndata: {}\n\n", 1000))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}}
	both(t, f, &Settings{MaxMessageBytes: 10_000}, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
		_, err := c.Do(t.Context(), toolCall("x"))
		if KindOf(err) != TooLarge || !strings.Contains(err.Error(), "64 times max_message_bytes (10000)") {
			t.Errorf("got %v", err)
		}
		alive(t, c)
	})
}

// A Content-Length that promises too much is refused before a byte is read; one
// that promises more than comes leaves the outcome open.
func TestHTTPLyingLength(t *testing.T) {
	for _, tt := range []struct {
		length string
		kind   Kind
	}{{"99999999999", TooLarge}, {"5000", Uncertain}} {
		f := &fakeHTTP{call: func(w http.ResponseWriter, _ *http.Request, _ rpc) {
			conn, rw, _ := w.(http.Hijacker).Hijack()
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n{\"jsonrpc\"", tt.length)
			_ = rw.Flush()
			_ = conn.Close()
		}}
		both(t, f, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
			_, err := c.Do(t.Context(), toolCall("x"))
			if KindOf(err) != tt.kind {
				t.Errorf("%s: got %v", tt.length, err)
			}
			alive(t, c)
		})
	}
}

// A call that reached the server is never sent again, however the connection
// dies: not by us, not by net/http on a kept-alive connection (U1).
func TestHTTPAtMostOnce(t *testing.T) {
	raw := func(text string) func(http.ResponseWriter, *http.Request, rpc) {
		return func(w http.ResponseWriter, _ *http.Request, _ rpc) {
			conn, rw, _ := w.(http.Hijacker).Hijack()
			_, _ = rw.WriteString(text)
			_ = rw.Flush()
			_ = conn.Close()
		}
	}
	for name, reply := range map[string]string{
		"nothing":      "",
		"half a head":  "HTTP/1.1 200 OK\r\nContent-Ty",
		"half a chunk": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"js",
		"half a line":  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"jso",
		"no HTTP":      "SSH-2.0-x\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			both(t, &fakeHTTP{call: raw(reply)}, nil, func(t *testing.T, f *fakeHTTP, c *httpConn) {
				for n := 1; n <= 3; n++ {
					alive(t, c) // so that a connection is kept
					call := toolCall("x")
					call.Safe = true // even then it is not ours to repeat
					if _, err := c.Do(t.Context(), call); KindOf(err) != Uncertain {
						t.Errorf("got %v", err)
					}
					if got := len(f.got("tools/call")); got != 2*n {
						t.Fatalf("the server saw %d calls, want %d", got, 2*n)
					}
				}
			})
		})
	}
}

// A kept connection that the server closed meanwhile is replaced without a word.
func TestHTTPStaleConnection(t *testing.T) {
	both(t, &fakeHTTP{}, nil, func(t *testing.T, f *fakeHTTP, c *httpConn) {
		closed := make(chan struct{}, 100)
		c.work.Wait() // for the listener, which the fake refuses
		c.transport.CloseIdleConnections()
		dial := c.transport.DialContext
		c.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &watched{Conn: conn, closed: closed}, err
		}
		for range 5 {
			alive(t, c)
			f.CloseClientConnections()
			<-closed
		}
	})
}

// A watched connection tells when our side has closed it.
type watched struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (w *watched) Close() error {
	w.once.Do(func() { w.closed <- struct{}{} })
	return w.Conn.Close()
}

func TestHTTPCancel(t *testing.T) {
	entered := make(chan struct{}, 1)
	gone := make(chan struct{}, 1)
	f := &fakeHTTP{call: func(_ http.ResponseWriter, r *http.Request, _ rpc) {
		entered <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}}
	for name, streaming := range map[string]bool{"before the head": false, "on the stream": true} {
		t.Run(name, func(t *testing.T) {
			if streaming {
				inner := f.call
				f.call = func(w http.ResponseWriter, r *http.Request, m rpc) {
					events(w, m)("data:\n\n")
					inner(w, r, m)
				}
			}
			both(t, f, nil, func(t *testing.T, f *fakeHTTP, c *httpConn) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-entered; cancel() }()
				_, err := c.Do(ctx, toolCall("x"))
				if !errors.Is(err, context.Canceled) || KindOf(err) != 0 {
					t.Errorf("cancelled: got %v (kind %v)", err, KindOf(err))
				}
				<-gone
				call := toolCall("x")
				call.Timeout = 30 * time.Millisecond
				_, err = c.Do(t.Context(), call)
				if KindOf(err) != Timeout || !strings.Contains(err.Error(), "no answer within 30ms") {
					t.Errorf("timed out: got %v", err)
				}
				<-gone
				<-entered
				checkCancelled(t, f, c)
				alive(t, c)
			})
		})
	}
}

// checkCancelled wants a notification per call given up from the legacy era, and
// none in the modern one, where the end of the request says it.
func checkCancelled(t *testing.T, f *fakeHTTP, c *httpConn) {
	t.Helper()
	if c.Info().Era == Modern {
		if n := len(f.got("notifications/cancelled")); n != 0 {
			t.Errorf("%d notifications to a modern server", n)
		}
		return
	}
	eventually(t, "two notifications/cancelled", func() bool { return len(f.got("notifications/cancelled")) == 2 })
	for i, m := range f.got("notifications/cancelled") {
		if want := `"requestId":` + string(f.got("tools/call")[i].ID); !strings.Contains(m.Body, want) {
			t.Errorf("got %s, want %s", m.Body, want)
		}
	}
}

// Close ends calls in flight, ends the session, and is not held up.
func TestHTTPClose(t *testing.T) {
	entered := make(chan struct{}, 1)
	f := &fakeHTTP{call: func(_ http.ResponseWriter, r *http.Request, _ rpc) {
		entered <- struct{}{}
		<-r.Context().Done()
	}}
	both(t, f, nil, func(t *testing.T, f *fakeHTTP, c *httpConn) {
		done := make(chan error)
		go func() { _, err := c.Do(context.Background(), toolCall("x")); done <- err }()
		<-entered
		if c.Err() != nil {
			t.Errorf("Err before Close: %v", c.Err())
		}
		c.Close()
		c.Close()
		if err := <-done; KindOf(err) != Closed {
			t.Errorf("call in flight: got %v", err)
		}
		<-c.Done()
		if KindOf(c.Err()) != Closed {
			t.Errorf("Err: got %v", c.Err())
		}
		if _, err := c.Do(t.Context(), toolCall("alive")); KindOf(err) != Closed {
			t.Errorf("call after Close: got %v", err)
		}
		deletes := f.got("DELETE")
		if (len(deletes) == 1) != (c.Info().Era == Legacy) || len(deletes) == 1 && deletes[0].Header.Get(hdrSession) != "s0" {
			t.Errorf("DELETE: got %v", deletes)
		}
	})
}
