package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// BenchmarkHTTPDo is the cost of one call over a loopback connection. The
// server runs in the same process; "floor" is net/http alone against it.
func BenchmarkHTTPDo(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		for _, era := range []Eras{LegacyOnly, ModernOnly} {
			b.Run(fmt.Sprintf("%dKB/era%d", size>>10, era), func(b *testing.B) { benchDo(b, size, era, false) })
		}
		b.Run(fmt.Sprintf("%dKB/sse", size>>10), func(b *testing.B) { benchDo(b, size, ModernOnly, true) })
		b.Run(fmt.Sprintf("%dKB/floor", size>>10), func(b *testing.B) { benchFloor(b, size) })
	}
}

func benchServer(b *testing.B, size int, stream bool) *httptest.Server {
	text := strings.Repeat("x", size)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf := scratch.Get().(*[]byte)
		defer scratch.Put(buf)
		n, _ := io.ReadFull(r.Body, (*buf)[:min(int(r.ContentLength), cap(*buf))])
		body := (*buf)[:n]
		*buf = body[:0]
		id, _ := wire.Get(body, "id")
		m := rpc{ID: id}
		switch method, _ := wire.Get(body, "method"); {
		case string(method) == `"tools/call"` && stream:
			w.Header()["Content-Type"] = []string{"text/event-stream"}
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":`+string(id)+`,"result":{"content":[{"type":"text","text":"`)
			_, _ = io.WriteString(w, text)
			_, _ = io.WriteString(w, "\"}]}}\n\n")
		case string(method) == `"tools/call"`:
			out := make([]byte, 0, size+100)
			out = append(out, `{"jsonrpc":"2.0","id":`...)
			out = append(append(out, id...), `,"result":{"content":[{"type":"text","text":"`...)
			out = append(append(out, text...), `"}]}}`...)
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{fmt.Sprint(len(out))}
			_, _ = w.Write(out)
		case id == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			result(w, m, `{"protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"],"capabilities":{}}`)
		}
	}))
	b.Cleanup(srv.Close)
	return srv
}

func benchDo(b *testing.B, size int, era Eras, stream bool) {
	r := resolved(b, benchServer(b, size, stream).URL, nil, "Authorization", "Bearer abc")
	r.Protocol = era
	c := dialed(b, r, env{})
	call := &Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo","arguments":{"text":"` + strings.Repeat("y", 1000) + `"}}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Do(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

func benchFloor(b *testing.B, size int) {
	srv := benchServer(b, size, false)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"text":"` + strings.Repeat("y", 1000) + `"}}`
	b.ReportAllocs()
	for b.Loop() {
		resp, err := http.Post(srv.URL, "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
