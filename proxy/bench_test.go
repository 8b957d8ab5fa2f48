package proxy

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// sink is a ResponseWriter that keeps nothing.
type sink struct {
	h      http.Header
	status int
	n      int
}

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { s.n += len(b); return len(b), nil }
func (s *sink) Flush()                      {}

func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

type rewind struct{ bytes.Reader }

func (r *rewind) Close() error { return nil }

// BenchmarkCall measures the front's own share of a tools/call: everything but
// the socket and the server.
func BenchmarkCall(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}} {
		text := strings.Repeat("x", size.n)
		for _, era := range []string{"legacy", "modern"} {
			b.Run(size.name+"/"+era, func(b *testing.B) { benchCall(b, text, era == "modern") })
		}
	}
}

type fixedUpstreams struct{ resp upstream.Response }

func (f *fixedUpstreams) Do(context.Context, upstream.Target, *upstream.Call) (upstream.Response, error) {
	return f.resp, nil
}

func benchCall(b *testing.B, text string, modern bool) {
	w := &world{t: b, keeper: new(Keeper)}
	w.build("default", "", sources(), 0)
	front := New(Options{
		Views: w.keeper, Callers: &auth.Callers{Open: true},
		Upstreams: &fixedUpstreams{result(`{"content":[{"type":"text","text":"` + text + `"}]}`)},
	})
	params := `{"name":"mcp_files_slow","arguments":{"text":"` + text + `"}}`
	body, header := request("tools/call", params), http.Header{}
	if modern {
		body = modernBody("1", "tools/call", params)
		h := modernHeader("tools/call", "mcp_files_slow")
		for i := 0; i < len(h); i += 2 {
			header.Set(h[i], h[i+1])
		}
	}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	raw, rd := []byte(body), new(rewind)
	r := httptest.NewRequest("POST", "/mcp", rd)
	r.Header, r.ContentLength = header, int64(len(raw))
	out := &sink{h: http.Header{}}
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		rd.Reset(raw)
		clear(out.h)
		front.ServeHTTP(out, r)
	}
	if out.status != 200 || out.n == 0 {
		b.Fatalf("status %d, %d bytes", out.status, out.n)
	}
}
