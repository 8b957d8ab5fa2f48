package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func twoCallers() *auth.Callers {
	c := new(auth.Callers)
	c.Accept([]string{token, token + "-2"})
	return c
}

// asCaller is httpRequest with a token and more headers.
func asCaller(token, body string, header ...string) string {
	h := "Authorization: Bearer " + token + "\r\n"
	for i := 0; i < len(header); i += 2 {
		h += header[i] + ": " + header[i+1] + "\r\n"
	}
	return strings.Replace(httpRequest(body), "Content-Type", h+"Content-Type", 1)
}

// hungUp sends a request, waits until it rests, and hangs up.
func hungUp(l *pipeListener, raw string) {
	c := l.dial()
	io.WriteString(c, raw)
	synctest.Wait()
	c.Close()
	synctest.Wait()
}

// hanging answers no call before release, and counts those that run.
type hanging struct {
	release             chan struct{}
	running, ran, ended atomic.Int32
}

// newHanging must be called where it is used: channels belong to a bubble.
func newHanging() *hanging { return &hanging{release: make(chan struct{})} }

func (h *hanging) answer(ctx context.Context, _ *upstream.Call) (upstream.Response, error) {
	h.running.Add(1)
	h.ran.Add(1)
	defer h.running.Add(-1)
	select {
	case <-h.release:
		h.ended.Add(1)
		return result(`{"content":[]}`), nil
	case <-ctx.Done():
		return upstream.Response{}, ctx.Err()
	}
}

// behind serves a world behind a limit of connections.
func behind(t *testing.T, connections int, f func(w *world, l *pipeListener), opts ...option) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, keeper: new(Keeper)}
		w.build("default", "", sources(), 0)
		o := Options{Views: w.keeper, Upstreams: w, Callers: twoCallers(), Version: "1"}
		for _, opt := range opts {
			opt(&o)
		}
		w.front = New(o)
		l := newPipeListener()
		srv := Server((&auth.Guard{}).Wrap(w.front))
		go srv.Serve(LimitListener(l, Limits{Connections: connections}))
		f(w, l)
		w.front.Drain()
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // connections close in steps
	})
}

// answers reports whether the front takes another connection and answers on it.
func answers(w *world, l *pipeListener) bool {
	got := make(chan bool, 1)
	var c net.Conn
	go func() {
		c = l.dial()
		io.WriteString(c, asCaller(token+"-2", pingBody))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		got <- err == nil && resp.StatusCode == 200
		c.Close()
	}()
	select {
	case ok := <-got:
		return ok
	case <-time.After(time.Second):
		return false
	}
}

// Calls that legacy agents gave up hold no connection: what no server has seen
// is dropped, the rest goes on, but holds nothing up when the sidecar stops.
func TestAbandonedCallsHoldNoConnection(t *testing.T) {
	var h *hanging
	behind(t, 4, func(w *world, l *pipeListener) {
		h = newHanging()
		w.answer = h.answer
		view := mustView(w)
		s, err := w.front.sessions.open(callerFor(w, token), view, "2025-11-25", capabilities{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			hungUp(l, asCaller(token, fmt.Sprintf(callSlow, i), "Mcp-Session-Id", s.id))
		}
		if n := w.front.Stats().Strays; n != 1 || h.running.Load() != 1 {
			t.Errorf("%d strays and %d calls, want 1: the rest waited for its turn", n, h.running.Load())
		}
		for _, e := range w.front.lanes.m {
			if e.refs != 1 {
				t.Errorf("%d calls are in the lane, want 1", e.refs)
			}
		}
		if !answers(w, l) {
			t.Error("the connections are taken")
		}
		time.Sleep(time.Minute)
		if h.running.Load() != 1 {
			t.Error("the call does not go on")
		}
		start := time.Now()
		w.front.Drain()
		synctest.Wait()
		took := time.Since(start)
		if n := w.front.Stats().Strays; n != 0 || took != 0 {
			t.Errorf("%d strays are left after %v", n, took)
		}
		hungUp(l, asCaller(token, fmt.Sprintf(callSlow, 99), "Mcp-Session-Id", s.id))
		if n := w.front.Stats().Strays; n != 0 {
			t.Errorf("%d strays came later", n)
		}
	}, func(o *Options) { o.Serial = func(string) bool { return true } })
	if h.ran.Load() != 2 || h.ended.Load() != 0 {
		t.Errorf("%d calls ran and %d ended, want 2 that were cancelled", h.ran.Load(), h.ended.Load())
	}
}

func TestStraysAreBounded(t *testing.T) {
	behind(t, 4, func(w *world, l *pipeListener) {
		h := newHanging()
		w.answer = h.answer
		for i := range maxStrays + 5 {
			hungUp(l, asCaller(token, fmt.Sprintf(callSlow, i)))
		}
		hungUp(l, asCaller(token+"-2", fmt.Sprintf(callSlow, 1)))
		if n := w.front.Stats().Strays; n != maxStrays+1 || h.running.Load() != maxStrays+1 {
			t.Errorf("%d strays and %d calls, want %d", n, h.running.Load(), maxStrays+1)
		}
		close(h.release)
		synctest.Wait()
		if n := w.front.Stats().Strays; n != 0 || !w.front.budget.unused() {
			t.Errorf("%d strays left", n)
		}
	})
}

// The rest of a batch is dropped when its agent is gone.
func TestAbandonedBatch(t *testing.T) {
	var h *hanging
	behind(t, 4, func(w *world, l *pipeListener) {
		h = newHanging()
		w.answer = h.answer
		s, err := w.front.sessions.open(callerFor(w, token), mustView(w), versionBatches, capabilities{})
		if err != nil {
			t.Fatal(err)
		}
		batch := "[" + fmt.Sprintf(callSlow, 1) + "," + fmt.Sprintf(callSlow, 2) + "]"
		hungUp(l, asCaller(token, batch, "Mcp-Session-Id", s.id))
		close(h.release)
	})
	if h.ran.Load() != 1 {
		t.Errorf("%d calls ran, want 1", h.ran.Load())
	}
}

func TestLanesAreBounded(t *testing.T) {
	h := newHanging()
	w := newWorld(t, func(o *Options) { o.Serial = func(string) bool { return true } })
	w.answer = h.answer
	id := w.open("2025-11-25")
	got := make(chan httpReply, maxLane+1)
	for i := range maxLane + 1 {
		go func() { got <- w.post(fmt.Sprintf(callSlow, i), "Mcp-Session-Id", id) }()
	}
	r := <-got
	if !strings.Contains(r.body, "MCPS-BUSY") || !strings.Contains(r.body, `"isError":true`) {
		t.Errorf("one too many: %s", r.body)
	}
	close(h.release)
	for range maxLane {
		if r := <-got; strings.Contains(r.body, "isError") {
			t.Errorf("one that may wait: %s", r.body)
		}
	}
}

// Strangers do not keep connections.
func TestStrangersAreShownOut(t *testing.T) {
	for name, head := range map[string]string{
		"no token":         "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"wrong token":      "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n",
		"two tokens":       "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n",
		"another path":     "GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"another host":     "GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"another origin":   "GET /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n",
		"no host":          "GET /mcp HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"preflight itself": "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nAccess-Control-Request-Method: POST\r\n\r\n",
	} {
		behind(t, 2, func(w *world, l *pipeListener) {
			for range 2 {
				c := l.dial()
				defer c.Close()
				go io.Copy(io.Discard, c)
				io.WriteString(c, head)
			}
			time.Sleep(time.Second)
			if !answers(w, l) {
				t.Errorf("%s: the connections are taken", name)
			}
		})
	}
}

func callerFor(w *world, token string) auth.Caller {
	r, _ := http.NewRequest("POST", "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	c, err := w.front.opt.Callers.Identify(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}
