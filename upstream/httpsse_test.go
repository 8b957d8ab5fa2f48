package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A message of ours is a POST to the endpoint, and the server's come as events.
func TestSSE(t *testing.T) {
	for _, to := range []string{"", "messages", "http://HOST/messages?session=1", "//HOST/messages", "/messages#part"} {
		for _, accepted := range []int{200, 202, 204} {
			t.Run(fmt.Sprint(to, accepted), func(t *testing.T) {
				leaks(t)
				f := newSSE(t, &fakeSSE{accepted: accepted})
				f.endpoint = strings.ReplaceAll(to, "HOST", f.Listener.Addr().String())
				c := dialedSSE(t, f, nil, env{}, "Authorization", "Bearer s3cret", "Accept", "text/html")
				for range 3 {
					alive(t, c)
				}
				in := c.Info()
				if in.Era != Legacy || in.Version != "2024-11-05" || in.PID != 0 || wayOf(c) != sseWay {
					t.Errorf("Info: got %+v", in)
				}
				var methods []string
				for _, m := range f.seen {
					methods = append(methods, m.Method)
				}
				want := []string{"initialize", "notifications/initialized", "tools/call", "tools/call", "tools/call"}
				if diff := cmp.Diff(want, methods); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
				checkSSEHeaders(t, f)
			})
		}
	}
}

func checkSSEHeaders(t *testing.T, f *fakeSSE) {
	t.Helper()
	get, post := f.opened()[0], f.seen[0].Header
	for _, tt := range []struct{ what, got, want string }{
		{"GET Authorization", get.Get("Authorization"), "Bearer s3cret"},
		{"GET Accept", get.Get("Accept"), "text/event-stream"},
		{"GET Content-Type", get.Get("Content-Type"), ""},
		{"POST Authorization", post.Get("Authorization"), "Bearer s3cret"},
		{"POST Content-Type", post.Get("Content-Type"), "application/json"},
		{"POST session", post.Get(hdrSession), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.what, tt.got, tt.want)
		}
	}
}

// U16: messages go to the stream's own origin, or nowhere.
func TestSSEEndpointRefused(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a stranger got %s", r.Method)
	}))
	t.Cleanup(stranger.Close)
	for _, tt := range []struct{ to, text string }{
		{stranger.URL + "/messages?token=hidden", "another origin, " + stranger.URL + "/messages, which is refused"},
		{"//169.254.169.254/latest", "another origin, http://169.254.169.254/latest"},
		{"https://127.0.0.1/messages", "another origin"},
		{"file:///etc/passwd", "no URL"},
		{"mailto:someone", "no URL"},
		{"http://%zz/", "no URL"},
		{"/\x01", "no URL"},
		{" ", "an endpoint of 0 bytes"},
		{"/" + strings.Repeat("x", maxLocation), "an endpoint of 4097 bytes, not 1 to 4096"},
		{"/" + strings.Repeat("x", 100_000), "bytes, not 1 to 4096"},
	} {
		t.Run(fmt.Sprintf("%.40s", tt.to), func(t *testing.T) {
			leaks(t)
			f := newSSE(t, &fakeSSE{endpoint: tt.to})
			refusesSSE(t, f, Protocol, tt.text)
			if len(f.seen) != 0 {
				t.Errorf("sent %v", f.seen)
			}
		})
	}
}

// What the GET may bring in place of a stream.
func TestSSENoStream(t *testing.T) {
	reply := func(status int, kind, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	for _, tt := range []struct {
		name string
		open func(http.ResponseWriter, *http.Request) bool
		kind Kind
		text string
	}{
		{"401", reply(401, "text/plain", "who?"), Unauthorized, "set auth: oauth, or a header"},
		{"403", reply(403, "text/plain", ""), Unauthorized, "answered 403"},
		{"404", reply(404, "text/plain", "no such page"), Protocol, `answered 404 Not Found (text/plain): "no such page"`},
		{"405", reply(405, "text/plain", ""), Protocol, "answered 405"},
		{"429", reply(429, "text/plain", ""), RateLimited, "answered 429"},
		{"503", reply(503, "text/plain", ""), Unreachable, "answered 503"},
		{"page", reply(200, "text/html", "<html>"), Protocol, `answered 200 OK (text/html): "<html>"`},
		{"ends at once", reply(200, "text/event-stream", ""), Unreachable, "the server ended the event stream"},
		{"ends within the first event", reply(200, "text/event-stream", "event: endpoint\ndata: /messages\n"), Unreachable, "the server ended the event stream"},
		{"redirect", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "http://other.example/sse")
			w.WriteHeader(302)
			return true
		}, Protocol, "redirects (302) to http://other.example/sse, which is not followed"},
		{"hangs up", func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, Unreachable, "open event stream"},
		{"unknown encoding", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Encoding", "zstd")
			return false
		}, Protocol, `content encoding "zstd": not supported`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			refusesSSE(t, newSSE(t, &fakeSSE{open: tt.open}), tt.kind, tt.text)
		})
	}
}

// A stream that says nothing holds the handshake no longer than its limit.
func TestSSESilent(t *testing.T) {
	leaks(t)
	for name, open := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"no head": func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		},
		"no endpoint": func(w http.ResponseWriter, r *http.Request) bool {
			events(w, rpc{})(": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n")
			<-r.Context().Done()
			return true
		},
	} {
		f := newSSE(t, &fakeSSE{open: open})
		s := &Settings{ConnectTimeout: 100 * time.Millisecond}
		if _, err := dialSSE(t.Context(), resolved(t, f.URL+"/sse", s), env{}); KindOf(err) != Timeout {
			t.Errorf("%s: got %v", name, err)
		}
		if len(f.seen) != 0 {
			t.Errorf("%s: sent %v without an endpoint", name, f.seen)
		}
	}
	f := newSSE(t, &fakeSSE{post: func(w http.ResponseWriter, _ *http.Request, _ rpc) bool { return true }})
	s := &Settings{ConnectTimeout: 100 * time.Millisecond}
	if _, err := dialSSE(t.Context(), resolved(t, f.URL+"/sse", s), env{}); KindOf(err) != Timeout {
		t.Errorf("no answer to initialize: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dialSSE(ctx, resolved(t, f.URL+"/sse", nil), env{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

// The status of a POST that is refused is the call's error, and no other's.
func TestSSEPostStatus(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		kind   Kind
		text   string
		lost   bool // with the connection
	}{
		{400, "bad", Protocol, `answered 400 Bad Request (text/plain): "bad"`, false},
		{401, "", Unauthorized, "set auth: oauth, or a header", false},
		{403, "", Unauthorized, "answered 403", false},
		{408, "", Uncertain, "answered 408", false},
		{413, "", Protocol, "answered 413", false},
		{429, "", RateLimited, "answered 429", false},
		{500, "", Uncertain, "answered 500", false},
		{502, "<html>", Uncertain, "answered 502", false},
		{503, "", Unreachable, "answered 503", false},
		{400, "Invalid session ID", Unreachable, "lost the session", true},
		{404, "Could not find session", Unreachable, "lost the session", true},
		{410, "", Unreachable, "lost the session", true},
	} {
		t.Run(fmt.Sprint(tt.status, tt.lost), func(t *testing.T) {
			leaks(t)
			f := newSSE(t, &fakeSSE{post: func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
				if m.Params.Name != "x" {
					return false
				}
				w.Header().Set("Content-Type", "text/plain")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
				return true
			}})
			c := dialedSSE(t, f, nil, env{})
			_, err := c.Do(t.Context(), toolCall("x"))
			if KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v (kind %v), want kind %v, %q", err, KindOf(err), tt.kind, tt.text)
			}
			var e *Error
			if errors.As(err, &e) && (tt.status == 429 || tt.status == 503) && e.RetryAfter != 7*time.Second {
				t.Errorf("RetryAfter: got %v", e.RetryAfter)
			}
			if n := len(f.got("tools/call")); n != 1 {
				t.Errorf("sent %d times", n)
			}
			if tt.lost {
				<-c.Done()
				if KindOf(c.Err()) != Unreachable {
					t.Errorf("Err: got %v", c.Err())
				}
				return
			}
			alive(t, c)
		})
	}
}

// A server that refuses our notification works all the same.
func TestSSENotificationRefused(t *testing.T) {
	leaks(t)
	f := newSSE(t, &fakeSSE{post: func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.Method == "notifications/initialized" {
			w.WriteHeader(http.StatusBadRequest)
		}
		return m.Method == "notifications/initialized"
	}})
	alive(t, dialedSSE(t, f, nil, env{}))
}

// The end of the stream is the end of the connection: what was sent may have run.
func TestSSEStreamEnds(t *testing.T) {
	leaks(t)
	entered := make(chan struct{})
	f := newSSE(t, &fakeSSE{call: func(f *fakeSSE, _ rpc) { entered <- struct{}{}; f.cut() }})
	c := dialedSSE(t, f, nil, env{})
	done := make(chan error, 1)
	go func() { _, err := c.Do(t.Context(), toolCall("x")); done <- err }()
	<-entered
	if err := <-done; KindOf(err) != Uncertain || !strings.Contains(err.Error(), "the server ended the event stream") {
		t.Errorf("got %v", err)
	}
	<-c.Done()
	if KindOf(c.Err()) != Unreachable {
		t.Errorf("Err: got %v", c.Err())
	}
	if _, err := c.Do(t.Context(), toolCall("alive")); KindOf(err) != Unreachable {
		t.Errorf("later call: got %v", err)
	}
	if n := len(f.got("tools/call")); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

// A POST whose connection dies may have arrived, unless there was none.
func TestSSEPostLost(t *testing.T) {
	leaks(t)
	f := newSSE(t, &fakeSSE{post: func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.Params.Name == "x" {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
		}
		return m.Params.Name == "x"
	}})
	c := dialedSSE(t, f, nil, env{})
	call := toolCall("x")
	call.Safe = true // even then it is not ours to repeat
	if _, err := c.Do(t.Context(), call); KindOf(err) != Uncertain {
		t.Errorf("cut: got %v", err)
	}
	if n := len(f.got("tools/call")); n != 1 {
		t.Errorf("sent %d times", n)
	}
	alive(t, c)
	_ = f.Listener.Close()
	var err error
	eventually(t, "a call without a connection", func() bool {
		c.link.h.transport.CloseIdleConnections()
		_, err = c.Do(t.Context(), toolCall("alive"))
		return err != nil
	})
	if KindOf(err) != Unreachable {
		t.Errorf("refused: got %v", err)
	}
}

// Some servers answer a POST only when they have done what it asks. Meanwhile the
// call hears its progress, and others go on.
func TestSSEHeldPost(t *testing.T) {
	leaks(t)
	release := make(chan struct{})
	f := newSSE(t, &fakeSSE{})
	f.post = func(w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Params.Name != "slow" {
			return false
		}
		f.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.ID) + `,"progress":1}}`)
		select {
		case <-release:
			f.answer(m, `"done"`)
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	c := dialedSSE(t, f, nil, env{})
	heard := make(chan string, 1)
	call := toolCall("slow")
	call.ProgressToken = []byte(`"mine"`)
	call.Notify = func(method string, params []byte) { heard <- method + string(params) }
	done := make(chan string, 1)
	go func() {
		resp, err := c.Do(t.Context(), call)
		done <- fmt.Sprint(string(resp.Result), err)
	}()
	if got, want := waitNote(t, heard), `notifications/progress{"progressToken":"mine","progress":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for range 3 {
		alive(t, c)
	}
	close(release)
	if got, want := waitNote(t, done), `"done"<nil>`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A call that is given up is cancelled, and lets go of its POST.
func TestSSECancel(t *testing.T) {
	leaks(t)
	entered, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	f := newSSE(t, &fakeSSE{post: func(_ http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Params.Name != "x" {
			return false
		}
		entered <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
		return true
	}})
	c := dialedSSE(t, f, nil, env{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if _, err := c.Do(ctx, toolCall("x")); !errors.Is(err, context.Canceled) || KindOf(err) != 0 {
		t.Errorf("cancelled: got %v", err)
	}
	<-gone
	call := toolCall("x")
	call.Timeout = 30 * time.Millisecond
	if _, err := c.Do(t.Context(), call); KindOf(err) != Timeout || !strings.Contains(err.Error(), "no answer within 30ms") {
		t.Errorf("timed out: got %v", err)
	}
	<-gone
	eventually(t, "two notifications/cancelled", func() bool { return len(f.got("notifications/cancelled")) == 2 })
	for i, m := range f.got("notifications/cancelled") {
		if want := `"requestId":` + string(f.got("tools/call")[i].ID); !strings.Contains(m.Body, want) {
			t.Errorf("got %s, want %s", m.Body, want)
		}
	}
	alive(t, c)
}

// Close ends calls in flight and the stream, and is not held up.
func TestSSEClose(t *testing.T) {
	leaks(t)
	entered := make(chan struct{})
	f := newSSE(t, &fakeSSE{post: func(_ http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Params.Name != "x" {
			return false
		}
		entered <- struct{}{}
		<-r.Context().Done()
		return true
	}})
	c := dialedSSE(t, f, nil, env{})
	done := make(chan error)
	go func() { _, err := c.Do(context.Background(), toolCall("x")); done <- err }()
	<-entered
	c.Close()
	c.Close()
	if err := <-done; KindOf(err) != Closed {
		t.Errorf("call in flight: got %v", err)
	}
	if _, err := c.Do(t.Context(), toolCall("alive")); err == nil {
		t.Error("a call after Close succeeded")
	}
	eventually(t, "the stream's end", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.say == nil
	})
}

// What is too large costs its call, and what is no message costs nothing.
func TestSSEHostileStream(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":%s,"result":{"x":1.0}}`
	big := strings.Repeat("y", 200_000)
	for _, tt := range []struct {
		name, say string
		kind      Kind
		text      string
	}{
		{"without a name", "data: " + ok + "\n\n", 0, ""},
		{"without a space", "data:" + ok + "\n\n", 0, ""},
		{"name last", "data: " + ok + "\nevent: message\n\n", 0, ""},
		{"in pieces", "data: {\"jsonrpc\":\ndata: \"2.0\",\"id\":%s,\ndata: \"result\":{\"x\":1.0}}\n\n", 0, ""},
		{"CR", "event: message\rdata: " + ok + "\r\r", 0, ""},
		{"CR LF", "event: message\r\ndata: " + ok + "\r\n\r\n", 0, ""},
		{"id and retry", "id: 1\nretry: 0\nretry: 999999999999\nfoo: bar\ndata: " + ok + "\n\n", 0, ""},
		{"comments", strings.Repeat(": still there\n\n", 10_000) + "data: " + ok + "\n\n", 0, ""},
		{"other names", "event: ping\ndata: 1\n\nevent: status\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":1}\n\nevent: note\ndata: " + big + "\n\ndata: " + ok + "\n\n", 0, ""},
		{"second endpoint", "event: endpoint\ndata: http://evil.example/\n\nevent: endpoint\ndata: /elsewhere\n\ndata: " + ok + "\n\n", 0, ""},
		{"junk", "data: hello\n\ndata:\n\ndata: {\"level\":\"info\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\ndata: " + ok + "\n\n", 0, ""},
		{"batch", "data: [{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}," + ok + "]\n\n", 0, ""},
		{"too large", `data: {"jsonrpc":"2.0","id":%s,"result":{"x":"` + big + "\"}}\n\n", TooLarge, "max_message_bytes (100000)"},
		{"too large, id last", `data: {"result":{"x":"` + big + `"},"jsonrpc":"2.0","id":%s}` + "\n\n", TooLarge, "max_message_bytes (100000)"},
		{"cut JSON", `data: {"jsonrpc":"2.0","id":%s,"result":{"x":` + "\n\n", Protocol, "cannot be read"},
		{"error is a string", `data: {"jsonrpc":"2.0","id":%s,"error":"bad"}` + "\n\n", Protocol, "neither a result nor an error object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			f := newSSE(t, &fakeSSE{call: func(f *fakeSSE, m rpc) { f.send(strings.ReplaceAll(tt.say, "%s", string(m.ID))) }})
			c := dialedSSE(t, f, &Settings{MaxMessageBytes: 100_000}, env{})
			resp, err := c.Do(t.Context(), toolCall("x"))
			if KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("got %v (kind %v), want kind %v, %q", err, KindOf(err), tt.kind, tt.text)
			}
			if err == nil && string(resp.Result) != `{"x":1.0}` {
				t.Errorf("got %s", resp.Result)
			}
			alive(t, c)
		})
	}
}

// Bytes that lead to no event end in the end.
func TestSSEFlood(t *testing.T) {
	block := strings.Repeat(": still there\n\n", 1000)
	for name, text := range map[string]string{"comments": block, "one line": "x", "fields": "id: 1\n"} {
		t.Run(name, func(t *testing.T) {
			leaks(t)
			f := newSSE(t, &fakeSSE{call: func(f *fakeSSE, _ rpc) {
				for range 64 * 10_000 / len(block) * 2 {
					f.send(strings.Repeat(text, len(block)/len(text)))
				}
			}})
			c := dialedSSE(t, f, &Settings{MaxMessageBytes: 10_000}, env{})
			_, err := c.Do(t.Context(), toolCall("x"))
			if KindOf(err) != Uncertain || !strings.Contains(err.Error(), "64 times max_message_bytes (10000) without an event") {
				t.Errorf("got %v", err)
			}
			<-c.Done()
		})
	}
}

// What the server says outside of calls is heard, and its ping is answered.
func TestSSENotifications(t *testing.T) {
	leaks(t)
	f := newSSE(t, &fakeSSE{})
	var e env
	var noise atomic.Int64
	e.noise = func(n int) { noise.Add(int64(n)) }
	ch := heardNotes(&e)
	c := dialedSSE(t, f, nil, e)
	f.event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if got, want := waitNote(t, ch), "notifications/tools/list_changed "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.event(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	eventually(t, "the answer to ping", func() bool {
		for _, m := range f.got("") {
			if string(m.ID) == `"p"` && string(m.Result) == "{}" {
				return true
			}
		}
		return false
	})
	f.event("junk")
	alive(t, c)
	if noise.Load() != 1 {
		t.Errorf("%d events of noise", noise.Load())
	}
}

// Many calls at once each get their own answer.
func TestSSEManyCalls(t *testing.T) {
	leaks(t)
	f := newSSE(t, &fakeSSE{call: func(f *fakeSSE, m rpc) { f.answer(m, `"`+m.Params.Name+`"`) }})
	c := dialedSSE(t, f, nil, env{})
	done := make(chan string, 100)
	for i := range cap(done) {
		go func() {
			name := fmt.Sprint("t", i)
			resp, err := c.Do(t.Context(), toolCall(name))
			if err != nil || string(resp.Result) != `"`+name+`"` {
				done <- fmt.Sprintf("%s: got %s, %v", name, resp.Result, err)
				return
			}
			done <- ""
		}()
	}
	for range cap(done) {
		if s := waitNote(t, done); s != "" {
			t.Error(s)
		}
	}
}

// The transport belongs to one era.
func TestSSEIsLegacy(t *testing.T) {
	r := resolved(t, "http://127.0.0.1:1/sse", &Settings{Transport: "sse"})
	r.Protocol = ModernOnly
	if _, err := dialHTTP(t.Context(), r, env{}); KindOf(err) != Config {
		t.Errorf("modern only: got %v", err)
	}
	s := &Settings{URL: "http://e.example/", Transport: "sse", Protocol: "modern"}
	want := []Fault{{Path: []string{"transport"}, Msg: sseIsLegacy}}
	if diff := cmp.Diff(want, s.Validate("x")); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	s.Protocol = ""
	if faults := s.Validate("x"); len(faults) != 0 {
		t.Errorf("got %v", faults)
	}
}
