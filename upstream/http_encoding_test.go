package upstream

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

// A flusher compresses what is written, and can send what it has.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// coders are the encodings that are understood.
var coders = map[string]struct {
	name string
	to   func(io.Writer) flusher
}{
	"gzip":        {"gzip", func(w io.Writer) flusher { return gzip.NewWriter(w) }},
	"old gzip":    {"X-GZip", func(w io.Writer) flusher { return gzip.NewWriter(w) }},
	"brotli":      {" br ", func(w io.Writer) flusher { return brotli.NewWriter(w) }},
	"deflate":     {"deflate", func(w io.Writer) flusher { return zlib.NewWriter(w) }},
	"raw deflate": {"deflate", func(w io.Writer) flusher { f, _ := flate.NewWriter(w, 9); return f }},
}

// Answers arrive compressed though nobody asked: whole, as a stream, as a refusal.
func TestHTTPEncodings(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":%s,"result":{"x":1.0}}`
	for name, coder := range coders {
		t.Run(name, func(t *testing.T) {
			f := &fakeHTTP{call: func(w http.ResponseWriter, r *http.Request, m rpc) {
				if got := r.Header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("Accept-Encoding: got %q", got)
				}
				text, kind, status := strings.ReplaceAll(ok, "%s", string(m.ID)), "application/json", 200
				switch m.Params.Name {
				case "stream":
					text, kind = "data: "+text+"\n\n", "text/event-stream"
				case "refusal":
					status = 400
				case "bomb":
					text = strings.Repeat(" ", 4<<20)
				}
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Content-Encoding", coder.name)
				w.WriteHeader(status)
				z := coder.to(w)
				_, _ = io.WriteString(z, text)
				if kind != "text/event-stream" {
					_ = z.Close()
					return
				}
				_ = z.Flush()
				w.(http.Flusher).Flush()
				<-r.Context().Done() // the answer must not wait for the stream's end
			}}
			both(t, f, &Settings{MaxMessageBytes: 100_000}, func(t *testing.T, f *fakeHTTP, c *httpConn) {
				for _, call := range []string{"whole", "stream"} {
					if resp, err := c.Do(t.Context(), toolCall(call)); err != nil || string(resp.Result) != `{"x":1.0}` {
						t.Errorf("%s: got %s, %v", call, resp.Result, err)
					}
				}
				if _, err := c.Do(t.Context(), toolCall("refusal")); KindOf(err) != Protocol || !strings.Contains(err.Error(), `\"x\":1.0`) {
					t.Errorf("refusal: got %v", err)
				}
				if _, err := c.Do(t.Context(), toolCall("bomb")); KindOf(err) != TooLarge || !strings.Contains(err.Error(), "max_message_bytes (100000)") {
					t.Errorf("bomb: got %v", err)
				}
				alive(t, c)
			})
		})
	}
}

func encoded(to func(io.Writer) flusher, b []byte) []byte {
	var out bytes.Buffer
	z := to(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// A body that is not what it says fails its call, and one that breaks off leaves
// open whether the call ran.
func TestHTTPEncodingBroken(t *testing.T) {
	for name, coder := range coders {
		t.Run(name, func(t *testing.T) {
			whole := encoded(coder.to, []byte(strings.Repeat(`{"jsonrpc":"2.0"}`, 10_000)))
			f := &fakeHTTP{call: func(w http.ResponseWriter, _ *http.Request, m rpc) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", coder.name)
				if m.Params.Name == "other" {
					_, _ = io.WriteString(w, strings.Repeat("\xff<html>", 100))
					return
				}
				if m.Params.Name == "short" { // all of it came, and it is half of what it should be
					_, _ = w.Write(whole[:len(whole)/2])
					return
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
				_, _ = w.Write(whole[:len(whole)/2])
			}}
			both(t, f, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
				_, err := c.Do(t.Context(), toolCall("other"))
				if KindOf(err) != Protocol || !strings.Contains(err.Error(), "content encoding") {
					t.Errorf("not what it says: got %v (kind %v)", err, KindOf(err))
				}
				if _, err = c.Do(t.Context(), toolCall("short")); KindOf(err) != Protocol || !strings.Contains(err.Error(), "content encoding") {
					t.Errorf("short: got %v (kind %v)", err, KindOf(err))
				}
				if _, err = c.Do(t.Context(), toolCall("cut")); KindOf(err) != Uncertain {
					t.Errorf("cut: got %v (kind %v)", err, KindOf(err))
				}
				alive(t, c)
			})
		})
	}
	f := &fakeHTTP{call: serve(200, "{}", "Content-Encoding", "gzip, zstd")}
	both(t, f, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
		_, err := c.Do(t.Context(), toolCall("x"))
		if KindOf(err) != Protocol || !strings.Contains(err.Error(), `content encoding "gzip, zstd": not supported and not asked for; gzip, br and deflate are`) {
			t.Errorf("unknown: got %v", err)
		}
		alive(t, c)
	})
}

// The stream of HTTP+SSE may be compressed, and a flood in it is one all the same.
func TestSSEEncodings(t *testing.T) {
	for name, coder := range coders {
		t.Run(name, func(t *testing.T) {
			leaks(t)
			f := newSSE(t, &fakeSSE{})
			f.open = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Encoding", coder.name)
				return false
			}
			f.through = func(w http.ResponseWriter) func(string) {
				z := coder.to(w)
				return func(text string) {
					_, _ = io.WriteString(z, text)
					_ = z.Flush()
					w.(http.Flusher).Flush()
				}
			}
			f.call = func(f *fakeSSE, _ rpc) { f.send(strings.Repeat(": still there\n\n", 100_000)) }
			c := dialedSSE(t, f, &Settings{MaxMessageBytes: 10_000}, env{})
			alive(t, c)
			alive(t, c)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := c.Do(t.Context(), toolCall("x"))
			runtime.ReadMemStats(&after)
			if KindOf(err) != Uncertain || !strings.Contains(err.Error(), "without an event") {
				t.Errorf("bomb: got %v", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("allocated %d MiB for it", got>>20)
			}
		})
	}
}
