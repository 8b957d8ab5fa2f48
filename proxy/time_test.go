package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A pipeListener hands out one end of in-memory connections, whose deadlines
// follow the clock of a synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// bubble runs f with a served world on the fake clock.
func bubble(t *testing.T, f func(t *testing.T, w *world, l *pipeListener), opts ...option) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, keeper: new(Keeper)}
		w.build("default", "", sources(), 0)
		o := Options{Views: w.keeper, Upstreams: w, Callers: &auth.Callers{Open: true}, Version: "1"}
		for _, opt := range opts {
			opt(&o)
		}
		w.front = New(o)
		l, srv := newPipeListener(), Server(w.front)
		go srv.Serve(l)
		f(t, w, l)
		w.front.Drain()
		srv.Close()
		time.Sleep(time.Second) // connections close in steps
	})
}

func httpRequest(body string) string {
	return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// TestSlowRequests is H19.
func TestSlowRequests(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		for _, tt := range []struct {
			name, sent string
			within     time.Duration
		}{
			{"header", "POST /mcp HTTP/1.1\r\nHost: local", 6 * time.Second},
			{"body", strings.TrimSuffix(httpRequest(pingBody), "}"), bodyTimeout + time.Second},
		} {
			c, start := l.dial(), time.Now()
			io.WriteString(c, tt.sent)
			io.ReadAll(c)
			if d := time.Since(start); d > tt.within {
				t.Errorf("slow %s: held for %v", tt.name, d)
			}
			c.Close()
		}
		if !w.front.budget.unused() {
			t.Error("the budget was not given back")
		}
	})
}

// TestHeartbeat: a long call is never silent for more than 30 s, and the answer
// comes as an event then.
func TestHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) {
			time.Sleep(100 * time.Second)
			return result(`{"content":[]}`), nil
		}
		c := l.dial()
		defer c.Close()
		go io.WriteString(c, httpRequest(fmt.Sprintf(callSlow, 1)))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, last, beats := bufio.NewReader(resp.Body), time.Now(), 0
		for {
			line, err := r.ReadString('\n')
			if silence := time.Since(last); silence > heartbeat {
				t.Errorf("%v of silence", silence)
			}
			last = time.Now()
			if strings.HasPrefix(line, ":") {
				beats++
			}
			if strings.HasPrefix(line, "data: ") {
				if line != `data: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}`+"\n" {
					t.Errorf("got %q", line)
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if beats != 3 {
			t.Errorf("%d comments in 100 s, want 3", beats)
		}
	})
}

// TestReaderThatStops is H25: the write deadline drops the stream.
func TestReaderThatStops(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		done := make(chan error, 1)
		w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
			c.Notify("notifications/progress", []byte(`{"progressToken":1,"progress":1}`))
			<-ctx.Done()
			done <- ctx.Err()
			return upstream.Response{}, ctx.Err()
		}
		c := l.dial()
		defer c.Close()
		body := modernBody("1", "tools/call", `{"name":"mcp_files_slow"}`, `,"progressToken":1`)
		head := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp_files_slow\r\n"
		io.WriteString(c, strings.Replace(httpRequest(body), "Content-Type", head+"Content-Type", 1))
		start := time.Now()
		<-done
		if d := time.Since(start); d > writeTimeout+time.Second {
			t.Errorf("the server was held for %v", d)
		}
	})
}

func TestIdleSessionsExpire(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.front.Run(ctx)
		view, _ := w.keeper.View("default", "")
		idle, _ := w.front.sessions.open(auth.Caller{ID: "a"}, view, "2025-11-25", capabilities{})
		listening, _ := w.front.sessions.open(auth.Caller{ID: "a"}, view, "2025-11-25", capabilities{})
		listening.streams.Add(1)
		asking, _ := w.front.sessions.open(auth.Caller{ID: "a"}, view, "2025-11-25", capabilities{})
		asking.begin("1", func() {})
		used, _ := w.front.sessions.open(auth.Caller{ID: "a"}, view, "2025-11-25", capabilities{})
		for range 6 {
			time.Sleep(30 * time.Minute)
			w.front.sessions.find(used.id, auth.Caller{ID: "a"}, view)
		}
		for name, tt := range map[string]struct {
			s     *session
			lives bool
		}{"idle": {idle, false}, "listening": {listening, true}, "asking": {asking, true}, "used": {used, true}} {
			if got := w.front.sessions.find(tt.s.id, auth.Caller{ID: "a"}, view) != nil; got != tt.lives {
				t.Errorf("%s: lives is %v, want %v", name, got, tt.lives)
			}
		}
		if n := len(view.subs); n != 3 {
			t.Errorf("%d subscribers, want 3", n)
		}
	})
}

// TestDebounce: many changes within 100 ms are told once, a change that is
// undone never.
func TestDebounce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		view, _ := w.keeper.View("default", "")
		s := newSession("x", auth.Caller{}, view, "2025-11-25", capabilities{})
		told := func() (out []string) {
			time.Sleep(time.Second)
			synctest.Wait()
			s.tell(func(b []byte) error { out = append(out, string(b)); return nil })
			return out
		}
		for i := range 115 {
			w.build("default", "", more(fmt.Sprintf("tool_%d", i)), 0)
		}
		if got := told(); len(got) != 1 || got[0] != toolsChanged {
			t.Errorf("after a storm: %q", got)
		}
		w.build("default", "", sources(), 0)
		w.build("default", "", more("tool_114"), 0)
		if got := told(); len(got) != 0 {
			t.Errorf("after a change and back: %q", got)
		}
		w.build("default", "", sources(), 0)
		s.sawList(s.snapshot(), 0)
		if got := told(); len(got) != 0 {
			t.Errorf("after it listed: %q", got)
		}
	})
}

func TestLimitListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newPipeListener()
		l := LimitListener(in, Limits{Connections: 2})
		accepted := make(chan net.Conn, 10)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- c
			}
		}()
		go in.dial()
		go in.dial()
		go in.dial()
		synctest.Wait()
		if n := len(accepted); n != 2 {
			t.Errorf("%d accepted, want 2", n)
		}
		c := <-accepted
		c.Close()
		c.Close()
		synctest.Wait()
		if n := len(accepted); n != 2 {
			t.Errorf("%d waiting after a close, want 2", n)
		}
		l.Close()
		l.Close()
		for range accepted {
		}
	})
}
