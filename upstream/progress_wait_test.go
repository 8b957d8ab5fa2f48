package upstream

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Progress lets a call go on that would be given up without, and never beyond its
// time-out. The server is asked for it where the agent wants none, too.
func TestProgressWait(t *testing.T) {
	for _, tt := range []struct {
		name         string
		every, until time.Duration // of progress; when the answer comes
		token        string        // of the agent
		method       string
		took         time.Duration
		says         string // of the error
	}{
		{"no news", time.Hour, 20 * time.Second, `"t"`, "tools/call", 5 * time.Second, "no progress within 5s (progress_timeout)"},
		{"news", 4 * time.Second, 20 * time.Second, `"t"`, "tools/call", 20 * time.Second, ""},
		{"news that the agent does not want", 4 * time.Second, 20 * time.Second, "", "tools/call", 20 * time.Second, ""},
		{"news for ever", 4 * time.Second, time.Hour, `"t"`, "tools/call", 30 * time.Second, "no answer within 30s"},
		{"news come too late", 6 * time.Second, 20 * time.Second, `"t"`, "tools/call", 5 * time.Second, "no progress"},
		{"a task is waited for", time.Hour, 20 * time.Second, "", "tasks/result", 20 * time.Second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := &script{}
				a.answer = func(s *script, m *wire.Message) (string, string) {
					if m.Method != tt.method {
						return "", ""
					}
					meta, _ := wire.Get(m.Params, "_meta")
					token, _ := wire.Get(meta, "progressToken")
					began := time.Now()
					for i := 1; time.Since(began) < tt.until; i++ {
						time.Sleep(min(tt.every, tt.until-time.Since(began)))
						if token != nil {
							fmt.Fprintf(s.out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n", token, i)
						}
					}
					return `{"content":[]}`, ""
				}
				w := newSetWorld(t, map[string]*script{"a": a}, Options{}, func(_ string, s *Settings) {
					s.ProgressTimeout, s.Timeout = 5*time.Second, 30*time.Second
				})
				defer w.stop()
				synctest.Wait()
				var told atomic.Int64
				c := &Call{Method: tt.method, Params: []byte(`{"name":"t"}`), Notify: func(method string, params []byte) {
					if told.Add(1); !strings.Contains(string(params), `"progressToken":`+tt.token) || tt.token == "" {
						t.Errorf("told %s", params)
					}
				}}
				if tt.token != "" {
					c.ProgressToken = []byte(tt.token)
				}
				began := time.Now()
				_, err := w.Do(t.Context(), Target{Server: "a"}, c)
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				switch {
				case tt.says == "" && err != nil, tt.says != "" && (KindOf(err) != Timeout || !strings.Contains(err.Error(), tt.says)):
					t.Errorf("got %v (kind %d), want %q", err, KindOf(err), tt.says)
				}
				if n := told.Load(); tt.token != "" && tt.every == 4*time.Second && n < 4 {
					t.Errorf("the agent heard %d notifications", n)
				}
				time.Sleep(time.Hour) // the server's end
			})
		})
	}
}

// While the agent is asked, nobody waits for the server. What ends a call otherwise
// stays what it is.
func TestProgressWaitRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Settings{ProgressTimeout: 5 * time.Second}
		o := newOwner(&server{name: "a", settings: s}, plainRoute)
		slow := stubConn(func(ctx context.Context, c *Call) (Response, error) {
			c.Ask(ctx, Question{})
			c.Ask(ctx, Question{})
			return Response{}, nil
		})
		ask := func(context.Context, Question) ([]byte, *wire.Error) { time.Sleep(time.Minute); return nil, nil }
		if _, err := o.doPatiently(t.Context(), slow, &Call{Method: "tools/call", Ask: ask}); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		given := stubConn(func(ctx context.Context, c *Call) (Response, error) { <-ctx.Done(); return Response{}, ctx.Err() })
		if _, err := o.doPatiently(ctx, given, &Call{Method: "tools/call"}); err != context.DeadlineExceeded {
			t.Errorf("the caller's own end: %v", err)
		}
		lost := stubConn(func(context.Context, *Call) (Response, error) { return Response{}, io.ErrUnexpectedEOF })
		if _, err := o.doPatiently(t.Context(), lost, &Call{Method: "tools/call"}); err != io.ErrUnexpectedEOF {
			t.Errorf("the connection's end: %v", err)
		}
	})
}

// stubConn is a connection of which only calls matter.
type stubConn func(ctx context.Context, c *Call) (Response, error)

func (f stubConn) Do(ctx context.Context, c *Call) (Response, error) { return f(ctx, c) }
func (stubConn) Close()                                              {}
func (stubConn) Done() <-chan struct{}                               { return nil }
func (stubConn) Err() error                                          { return nil }
func (stubConn) Info() *Info                                         { return &Info{} }
