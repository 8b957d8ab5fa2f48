package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

const pingBody = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// TestRequestForms holds the fault lines about how HTTP requests are formed:
// H5, H7, H8, H23 and the reports hoop#1764 and go-sdk#957.
func TestRequestForms(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.RequestBytes = 100 << 10 })
	for _, tt := range []struct {
		name, method, path string
		header             []string
		body               string
		status             int
		says               string
	}{
		{"plain", "POST", "/mcp", nil, pingBody, 200, `"result":{}`},
		{"slash", "POST", "/mcp/", nil, pingBody, 200, `"result":{}`},
		{"one server", "POST", "/mcp/files", nil, pingBody, 200, `"result":{}`},
		{"profile", "POST", "/p/default/mcp", nil, pingBody, 200, `"result":{}`},
		{"profile and server", "POST", "/p/default/mcp/files", nil, pingBody, 200, `"result":{}`},
		{"unknown server", "POST", "/mcp/nobody", nil, pingBody, 404, "no MCP endpoint"},
		{"unknown profile", "POST", "/p/x/mcp", nil, pingBody, 404, "no MCP endpoint"},
		{"empty profile", "POST", "/p//mcp", nil, pingBody, 404, "no MCP endpoint"},
		{"root", "POST", "/", nil, pingBody, 404, "no MCP endpoint"},
		{"two slashes", "POST", "//mcp", nil, pingBody, 404, ""},
		{"two slashes inside", "POST", "/mcp//files", nil, pingBody, 404, ""},
		{"dots", "POST", "/mcp/../mcp", nil, pingBody, 404, ""},
		{"encoded dots", "POST", "/mcp/%2e%2e/mcp", nil, pingBody, 404, ""},
		{"encoded dot", "POST", "/mcp/%2e", nil, pingBody, 404, ""},
		{"encoded letter", "POST", "/mcp/%66iles", nil, pingBody, 404, ""},
		{"encoded slash", "POST", "/mcp%2ffiles", nil, pingBody, 404, ""},
		{"deeper", "POST", "/mcp/files/x", nil, pingBody, 404, ""},
		{"prefix", "POST", "/mcpx", nil, pingBody, 404, ""},
		{"metrics", "GET", "/metrics", nil, "", 404, ""},
		{"pprof", "GET", "/debug/pprof/", nil, "", 404, ""},

		{"no token", "POST", "/mcp", []string{"Authorization", ""}, pingBody, 401, "bearer token"},
		{"no token, no such server", "POST", "/mcp/nobody", []string{"Authorization", ""}, pingBody, 401, "bearer token"},

		{"get", "GET", "/mcp", nil, "", 405, ""},
		{"head", "HEAD", "/mcp", nil, "", 405, ""},
		{"delete", "DELETE", "/mcp", nil, "", 405, ""},
		{"put", "PUT", "/mcp", nil, pingBody, 405, ""},
		{"patch", "PATCH", "/mcp", nil, pingBody, 405, ""},
		{"trace", "TRACE", "/mcp", nil, "", 405, ""},
		{"options", "OPTIONS", "/mcp", nil, "", 405, ""},
		{"get of no session", "GET", "/mcp", []string{"Mcp-Session-Id", "nope"}, "", 404, "session not found"},
		{"delete of no session", "DELETE", "/mcp", []string{"Mcp-Session-Id", "nope"}, "", 404, "session not found"},

		{"charset", "POST", "/mcp", []string{"Content-Type", "application/json; charset=utf-8"}, pingBody, 200, ""},
		{"charset, upper case", "POST", "/mcp", []string{"Content-Type", "Application/JSON;charset=UTF-8"}, pingBody, 200, ""},
		{"utf-16", "POST", "/mcp", []string{"Content-Type", "application/json; charset=utf-16"}, pingBody, 415, "charset"},
		{"text", "POST", "/mcp", []string{"Content-Type", "text/plain"}, pingBody, 415, "application/json"},
		{"multipart", "POST", "/mcp", []string{"Content-Type", "multipart/form-data; boundary=x"}, pingBody, 415, ""},
		{"no type", "POST", "/mcp", []string{"Content-Type", ""}, pingBody, 415, "no Content-Type"},

		{"accepts all", "POST", "/mcp", []string{"Accept", "*/*"}, pingBody, 200, ""},
		{"accepts json", "POST", "/mcp", []string{"Accept", "application/json"}, pingBody, 200, `{"jsonrpc"`},
		{"accepts events", "POST", "/mcp", []string{"Accept", "text/event-stream"}, pingBody, 200, "event: message\ndata: {"},
		{"accepts nothing of ours", "POST", "/mcp", []string{"Accept", "text/html"}, pingBody, 406, ""},
		{"refuses ours", "POST", "/mcp", []string{"Accept", "application/json;q=0"}, pingBody, 406, ""},

		{"too long", "POST", "/mcp", nil, strings.Repeat("x", 100<<10+1), 413, "limits.request_bytes"},
		{"empty", "POST", "/mcp", nil, "", 400, "-32700"},
		{"bom", "POST", "/mcp", nil, "\ufeff" + pingBody, 400, "-32700"},
		{"batch", "POST", "/mcp", nil, "[" + pingBody + "]", 400, "-32600"},
		{"not an object", "POST", "/mcp", nil, "7", 400, "-32600"},
	} {
		r := w.send(tt.method, tt.path, tt.body, tt.header...)
		if r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s: got %d %q, want %d with %q", tt.name, r.status, r.body, tt.status, tt.says)
		}
		if r.status == 405 && r.header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow is %q", tt.name, r.header.Get("Allow"))
		}
	}
}

// raw sends bytes as they are and returns the status line and all that follows.
func (w *world) raw(request string) (status int, all string) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.srv.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, request)
	b, _ := io.ReadAll(bufio.NewReader(c))
	fmt.Sscanf(string(b), "HTTP/1.%d %d", new(int), &status)
	return status, string(b)
}

// TestRawRequests holds what only raw bytes can say: H4, H11 to H13 and H17.
func TestRawRequests(t *testing.T) {
	w := newWorld(t)
	const auth = "Authorization: Bearer " + token + "\r\nConnection: close\r\n"
	const typed = auth + "Content-Type: application/json\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(pingBody))
	for _, tt := range []struct {
		name, request string
		status        int
	}{
		{"good", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + length + "\r\n" + pingBody, 200},
		{"http/1.0 without host", "POST /mcp HTTP/1.0\r\n" + typed + length + "\r\n" + pingBody, 400},
		{"two hosts", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n" + typed + length + "\r\n" + pingBody, 400},
		{"evil host", "POST /mcp HTTP/1.1\r\nHost: evil.example\r\n" + typed + length + "\r\n" + pingBody, 403},
		{"absolute form, evil", "POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + length + "\r\n" + pingBody, 403},
		{"connect", "CONNECT /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + "\r\n", 405},
		{"options star", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n" + auth + "\r\n", 404},
		{"te and te", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + "Transfer-Encoding: chunked, identity\r\n\r\n", 501},
		{"space before colon", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + "X-A : b\r\n" + length + "\r\n" + pingBody, 400},
		{"nul in header", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + "X-A: \x00\r\n" + length + "\r\n" + pingBody, 400},
		{"two lengths", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + length + "Content-Length: 3\r\n\r\n" + pingBody, 400},
		{"two session ids", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + "Mcp-Session-Id: a\r\nMCP-SESSION-ID: b\r\n" + length + "\r\n" + pingBody, 400},
		{"large headers", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + "X-A: " + strings.Repeat("a", 40<<10) + "\r\n\r\n", 431},
		{"empty body", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + typed + "Content-Length: 0\r\n\r\n", 400},
	} {
		status, all := w.raw(tt.request)
		if status != tt.status {
			t.Errorf("%s: got %d, want %d\n%s", tt.name, status, tt.status, all)
		}
	}
}

// TestChunkedBodyAcrossBuffers reads a body of unknown length that outgrows the
// pooled buffer.
func TestChunkedBodyAcrossBuffers(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.RequestBytes = 300 << 10 })
	for _, n := range []int{10, smallBody - 200, smallBody, 2*smallBody + 1, 290 << 10, 301 << 10} {
		text := strings.Repeat("x", n)
		r := w.request("POST", "/mcp", "")
		r.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow","arguments":{"t":"` + text + `"}}}`))
		r.ContentLength = -1
		got := w.do(r)
		if n > 300<<10 {
			if got.status != 413 {
				t.Errorf("%d bytes: got %d, want 413", n, got.status)
			}
			continue
		}
		if got.status != 200 || !strings.Contains(got.body, text) {
			t.Errorf("%d bytes: got %d and %d bytes", n, got.status, len(got.body))
		}
	}
	if !w.front.budget.unused() {
		t.Error("the budget was not given back")
	}
}

// TestNothingOfTheConnectionReachesServers is R11 and H11: a call carries what
// its body says, and nothing else of what the agent sent.
func TestNothingOfTheConnectionReachesServers(t *testing.T) {
	w := newWorld(t)
	w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow"}}`,
		"Cookie", "c=SECRET", "X-Forwarded-For", "SECRET", "X_Forwarded_For", "SECRET",
		"X-User-Id", "SECRET", "Connection", "Authorization, X-User-Id")
	for _, c := range w.seen() {
		if s := fmt.Sprintf("%+v", c); strings.Contains(s, "SECRET") || strings.Contains(s, token) {
			t.Errorf("a server saw %s", s)
		}
	}
	if len(w.seen()) != 1 {
		t.Errorf("%d calls, want 1", len(w.seen()))
	}
}

func FuzzDecodeName(f *testing.F) {
	f.Add("=?base64?aGk=?=")
	f.Add("=?base64?=")
	f.Add("plain")
	f.Fuzz(func(t *testing.T, v string) {
		if s, ok := decodeName(v); ok && strings.HasPrefix(v, sentinelHead) && strings.HasSuffix(v, sentinelTail) &&
			len(v) >= len(sentinelHead)+len(sentinelTail) && strings.Contains(s, "\xff") {
			t.Errorf("decoded %q to %q", v, s)
		}
	})
}
