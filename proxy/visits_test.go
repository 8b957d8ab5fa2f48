package proxy

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// GET streams of one session take no more than their share of the connections: the
// newest ones stay, the others end, and so do their connections.
func TestVisitsOfOneSession(t *testing.T) {
	behind(t, maxVisits+3, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		var open []*line
		ended := make(chan error, 2*maxVisits)
		for i := range 3 * maxVisits {
			n := listenTo(t, l, resumed(s.id, ""))
			if open = append(open, n); i < 2*maxVisits {
				go func() {
					_, err := io.ReadAll(n.r)
					ended <- err
				}()
			}
			time.Sleep(time.Second) // connections close in steps
		}
		for range 2 * maxVisits {
			if err := <-ended; err != nil {
				t.Errorf("a stream ended with %v", err)
			}
		}
		if n := s.streams.Load(); n != maxVisits {
			t.Errorf("%d streams are open, want %d", n, maxVisits)
		}
		if !answers(w, l) {
			t.Error("the connections are taken")
		}
		s.mail.put([]byte(`{"x":1}`))
		heard := make(chan string, len(open))
		for _, n := range open[2*maxVisits:] {
			go func() { heard <- n.next() }()
		}
		if got := <-heard; got != `{"x":1}` {
			t.Errorf("the newest heard %s", got)
		}
		for _, n := range open {
			n.conn.Close()
		}
		synctest.Wait()
		if n := len(w.front.visits.m); n != 0 {
			t.Errorf("%d callers are left", n)
		}
	})
}

// Streams that are resumed count too, and one that hangs in a write ends.
func TestVisitsThatAreResumed(t *testing.T) {
	behind(t, 32, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		c, r := begun(t, w, l, s, 5)
		last := c.last
		c.hangUp()
		again := listenTo(t, l, resumed(s.id, last))
		synctest.Wait()
		r.show("2") // nobody reads: the pipe has no buffer
		start := time.Now()
		var open []*line
		for range maxVisits {
			open = append(open, listenTo(t, l, resumed(s.id, "")))
			synctest.Wait()
		}
		if n := s.streams.Load(); n != maxVisits || time.Since(start) != 0 {
			t.Errorf("%d streams are open after %v, want %d", n, time.Since(start), maxVisits)
		}
		r.show(`{"n":1}`)
		back := listenTo(t, l, resumed(s.id, last))
		if got := back.next(); got != progressed("2")[0] {
			t.Errorf("who came back got %s", got)
		}
		for _, n := range append(open, again, back) {
			n.conn.Close()
		}
	})
}

func TestVisitsOfOneCaller(t *testing.T) {
	behind(t, 256, func(w *world, l *pipeListener) {
		var open []*line
		for range maxCallerVisits + 5 {
			open = append(open, listenTo(t, l, resumed(openSession(w, "2025-11-25").id, "")))
			synctest.Wait()
		}
		for _, n := range open[:5] {
			if got := n.rest(); len(got) != 1 || got[0] != "EOF" {
				t.Errorf("an old one got %q", got)
			}
		}
		c := callerFor(w, token+"-2")
		s, err := w.front.sessions.open(c, mustView(w), "2025-11-25", capabilities{})
		if err != nil {
			t.Fatal(err)
		}
		raw := "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer " + token + "-2\r\nMcp-Session-Id: " + s.id + "\r\n\r\n"
		other := listenTo(t, l, raw)
		synctest.Wait()
		if other.resp.StatusCode != http.StatusOK || len(w.front.visits.m[firstCaller(w)]) != maxCallerVisits || len(w.front.visits.m[c.ID]) != 1 {
			t.Errorf("open: %d and %d", len(w.front.visits.m[firstCaller(w)]), len(w.front.visits.m[c.ID]))
		}
		for _, n := range append(open, other) {
			n.conn.Close()
		}
	})
}

func firstCaller(w *world) string { return callerFor(w, token).ID }
