package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A server that rejects a POST is asked for a stream: stacklok/toolhive#2986,
// NousResearch/hermes-agent#95187.
func TestSSEFallback(t *testing.T) {
	for _, status := range []int{400, 404, 405, 406, 410, 411, 415, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			leaks(t)
			f := newSSE(t, &fakeSSE{})
			inner := f.Config.Handler
			f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/sse" && r.Method == http.MethodPost {
					w.WriteHeader(status)
					return
				}
				inner.ServeHTTP(w, r)
			})
			c := reached(t, resolved(t, f.URL+"/sse", nil))
			if wayOf(c) != sseWay {
				t.Errorf("reached by way %d", wayOf(c))
			}
			alive(t, c)
		})
	}
}

// reached dials over whatever transport works.
func reached(t *testing.T, r *Resolved) conn {
	t.Helper()
	c, err := dialHTTP(t.Context(), r, env{})
	if err != nil {
		t.Fatalf("dialHTTP: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Some servers open their stream whatever the method is.
func TestSSEFallbackOnPost(t *testing.T) {
	leaks(t)
	f := newSSE(t, &fakeSSE{})
	inner := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sse" && r.Method == http.MethodPost {
			events(w, rpc{})("event: endpoint\ndata: /messages?session=2\n\n")
			<-r.Context().Done()
			return
		}
		inner.ServeHTTP(w, r)
	})
	start := time.Now()
	alive(t, reached(t, resolved(t, f.URL+"/sse", nil)))
	if d := time.Since(start); d > probeTime {
		t.Errorf("took %v", d)
	}
}

// What says nothing about the transport leads to no second attempt, nor does
// anything once Streamable HTTP has worked or is asked for.
func TestSSENoFallback(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		edit   func(r *Resolved)
		want   Kind
	}{
		{"401", 401, nil, Unauthorized},
		{"403", 403, nil, Unauthorized},
		{"408", 408, nil, Unreachable},
		{"429", 429, nil, RateLimited},
		{"500", 500, nil, Unreachable},
		{"503", 503, nil, Unreachable},
		{"page", 200, nil, Protocol},
		{"set to http", 405, func(r *Resolved) { r.Settings.Transport = "http" }, Protocol},
		{"set to streamable-http", 405, func(r *Resolved) { r.Settings.Transport = "streamable-http" }, Protocol},
		{"modern only", 405, func(r *Resolved) { r.Protocol = ModernOnly }, Protocol},
		{"has lived", 405, func(r *Resolved) { r.Way = streamableWay }, Protocol},
		{"silent", 0, func(r *Resolved) { r.Settings.ConnectTimeout = 100 * time.Millisecond }, Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			var gets atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					gets.Add(1)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				if tt.status == 0 {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(tt.status)
			}))
			t.Cleanup(srv.Close)
			r := resolved(t, srv.URL, &Settings{})
			if tt.edit != nil {
				tt.edit(r)
			}
			if _, err := dialHTTP(t.Context(), r, env{}); KindOf(err) != tt.want {
				t.Errorf("got %v (kind %v), want kind %v", err, KindOf(err), tt.want)
			}
			if gets.Load() != 0 {
				t.Error("asked for a stream")
			}
		})
	}
}

// Both failures are told, and a login that the stream needs counts.
func TestSSEFallbackFails(t *testing.T) {
	for status, want := range map[int]Kind{404: Protocol, 401: Unauthorized, 500: Protocol, 429: RateLimited} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			leaks(t)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.Header().Set("Retry-After", "7")
					w.WriteHeader(status)
					return
				}
				http.Error(w, "no POST here", http.StatusMethodNotAllowed)
			}))
			t.Cleanup(srv.Close)
			_, err := dialHTTP(t.Context(), resolved(t, srv.URL, nil), env{})
			if KindOf(err) != want {
				t.Fatalf("got %v (kind %v), want kind %v", err, KindOf(err), want)
			}
			for _, text := range []string{`Streamable HTTP: not an MCP endpoint? It answered 405 Method Not Allowed (text/plain; charset=utf-8): "no POST here"; HTTP+SSE: `, fmt.Sprint("answered ", status)} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("got %v, want %q in it", err, text)
				}
			}
		})
	}
}

// A server that was reached over HTTP+SSE is reached so again at once, and over
// Streamable HTTP when it has changed to that.
func TestSSEWayKept(t *testing.T) {
	leaks(t)
	f := newSSE(t, &fakeSSE{})
	r := resolved(t, f.URL+"/sse", nil)
	r.Way = sseWay
	alive(t, reached(t, r))
	if n := len(f.got("server/discover")) + len(f.got("initialize")); n != 1 {
		t.Errorf("%d handshakes", n)
	}
	n := newFake(t, &fakeHTTP{modern: true})
	r = resolved(t, n.URL, nil)
	r.Way = sseWay
	c := reached(t, r)
	if wayOf(c) != streamableWay {
		t.Errorf("reached by way %d", wayOf(c))
	}
	alive(t, c)
	n.Config.Handler = http.NotFoundHandler()
	if _, err := dialHTTP(t.Context(), r, env{}); err == nil || !strings.Contains(err.Error(), "HTTP+SSE: answered 404") || !strings.Contains(err.Error(), "; Streamable HTTP: ") {
		t.Errorf("got %v", err)
	}
}

// A Set finds out once, and comes back over the same way after the stream ended.
func TestSSESet(t *testing.T) {
	leaks(t)
	var posts atomic.Int64
	f := newSSE(t, &fakeSSE{})
	inner := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sse" && r.Method == http.MethodPost {
			posts.Add(1)
		}
		inner.ServeHTTP(w, r)
	})
	set, err := NewSet([]Server{{Name: "s", Settings: &Settings{URL: f.URL + "/sse"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- set.Run(ctx) }()
	call := func() {
		t.Helper()
		if _, err := set.Do(t.Context(), Target{Server: "s"}, toolCall("alive")); err != nil {
			t.Error(err)
		}
	}
	call()
	before := posts.Load()
	if before == 0 {
		t.Error("Streamable HTTP was not tried first")
	}
	f.cut()
	eventually(t, "the end of the connection", func() bool { return set.byName["s"].plain.current() == nil })
	call()
	if n := posts.Load(); n != before {
		t.Errorf("%d more attempts over Streamable HTTP", n-before)
	}
	if n := len(f.opened()); n != 2 {
		t.Errorf("%d streams", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
