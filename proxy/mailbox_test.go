package proxy

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A session that does not listen keeps few bytes of what servers log.
func TestLogsAreBoundedInBytes(t *testing.T) {
	w := newWorld(t)
	id := w.open("2025-11-25")
	s := w.front.sessions.find(id, callerOf(w), mustView(w))
	w.logs("files", "error", strings.Repeat("x", maxLog))
	if n := len(s.mail.out); n != 0 || w.front.Stats().Dropped != 1 {
		t.Errorf("one too long: %d wait, %d dropped", n, w.front.Stats().Dropped)
	}
	for range waitingLogs {
		w.logs("files", "error", strings.Repeat("x", maxLog/2))
	}
	if n := s.mail.bytes.Load(); n > waitingLogBytes || len(s.mail.out) != 7 {
		t.Errorf("%d messages of %d bytes wait", len(s.mail.out), n)
	}
	r := w.stream(t, id)
	for range 7 {
		r.next()
	}
	w.logs("files", "error", "there is room again")
	if got := r.next(); !strings.Contains(got, "room again") {
		t.Errorf("got %.100s", got)
	}
}

// What waits for a reader that stopped is bounded in bytes too.
func TestSlowReaderKeepsFewBytes(t *testing.T) {
	const n, size = 200, 128 << 10
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		sent, release := make(chan bool), make(chan bool)
		w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
			for range n {
				c.Notify("notifications/message", []byte(`{"level":"error","data":"`+strings.Repeat("x", size)+`"}`))
			}
			c.Notify("notifications/message", []byte(`{"level":"error","data":"`+strings.Repeat("x", waitingBytes)+`"}`))
			close(sent)
			<-release
			return result(`{"content":[]}`), nil
		}
		c := l.dial()
		io.WriteString(c, httpRequest(fmt.Sprintf(callSlow, 1)))
		<-sent
		if kept := n + 1 - w.front.Stats().Dropped; kept < 4 || kept > waitingBytes/size {
			t.Errorf("%d of %d bytes are kept", kept, size)
		}
		close(release)
		got, err := io.ReadAll(io.LimitReader(c, 6*size))
		if err != nil || len(got) != 6*size {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		c.Close()
	})
}

// Over pipes notifications are dropped in the same way; answers of any size wait.
func TestSlowPipe(t *testing.T) {
	const n, size = 200, 128 << 10
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, keeper: new(Keeper)}
		w.build("default", "", sources(), 0)
		w.front = New(Options{Views: w.keeper, Upstreams: w})
		w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
			for range n {
				c.Notify("notifications/message", []byte(`{"level":"error","data":"`+strings.Repeat("x", size)+`"}`))
			}
			return result(`{"content":[{"type":"text","text":"` + strings.Repeat("y", 2*waitingBytes) + `"}]}`), nil
		}
		k := w.talk(t, t.Context())
		for i := range 3 {
			k.say(fmt.Sprintf(callSlow, i))
		}
		synctest.Wait()
		if kept := 3*n - w.front.Stats().Dropped; kept < 4 || kept > waitingBytes/size {
			t.Errorf("%d of %d bytes are kept", kept, size)
		}
		k.in.Close()
		answered := 0
		for line := k.hear(); line != "EOF"; line = k.hear() {
			if strings.Contains(line, `"result"`) {
				answered++
			}
		}
		if err := <-k.done; err != nil || answered != 3 {
			t.Errorf("%d answers, %v", answered, err)
		}
	})
}
