package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// What streams look like: ids within sessions, and what primes agents to come back
// only for those that bear it.
func TestEventIDs(t *testing.T) {
	const prime = "id: T-1-0\nretry: 1000\ndata: \n\n"
	event := func(id, data string) string {
		if id != "" {
			id = "id: T-1-" + id + "\n"
		}
		return id + "event: message\ndata: " + data + "\n\n"
	}
	for _, tt := range []struct {
		name, version string
		header        []string
		ids, primed   bool
	}{
		{name: "no session"},
		{name: "2025-11-25", version: "2025-11-25", ids: true, primed: true},
		{name: "header too", version: "2025-11-25", header: []string{"Mcp-Protocol-Version", "2025-11-25"}, ids: true, primed: true},
		{name: "older by its header", version: "2025-11-25", header: []string{"Mcp-Protocol-Version", "2025-06-18"}, ids: true},
		{name: "2025-06-18", version: "2025-06-18", ids: true},
		{name: "2025-03-26", version: "2025-03-26", ids: true},
		{name: "2024-11-05", version: "2024-11-05", ids: true},
	} {
		for _, accept := range []string{"application/json, text/event-stream", "text/event-stream"} {
			t.Run(tt.name+" "+accept, func(t *testing.T) {
				w := newWorld(t)
				w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
					if len(accept) > 20 { // else the answer alone is an event
						c.Notify("notifications/progress", []byte(`{"progressToken":"p","progress":1}`))
					}
					return result(`{}`), nil
				}
				header := append([]string{"Accept", accept}, tt.header...)
				if tt.version != "" {
					id := w.open(tt.version)
					header = append(header, "Mcp-Session-Id", id)
					defer func() { w.send("DELETE", "/mcp", "", "Mcp-Session-Id", id) }()
				}
				got := strings.Replace(w.post(fmt.Sprintf(slowProgress, 5), header...).body, ": still working\n\n", "", 1)
				if rest, ok := strings.CutPrefix(got, "id: "); ok {
					tag, _, _ := strings.Cut(rest, "-")
					got = strings.ReplaceAll(got, tag+"-", "T-")
				}
				want, ids := "", []string{"", ""}
				if tt.primed {
					want = prime
				}
				if tt.ids {
					ids = []string{"1", "2"}
				}
				if len(accept) > 20 {
					want += event(ids[0], progressed("1")[0])
					ids = ids[1:]
				}
				want += event(ids[0], answered(5, "{}"))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Modern agents and plain answers are as ever.
func TestEventIDsElsewhere(t *testing.T) {
	w := newWorld(t)
	w.answer = chatty
	r := w.post(modernBody("5", "tools/call", `{"name":"mcp_files_slow"}`, `,"progressToken":"p"`), modernHeader("tools/call", "mcp_files_slow")...)
	if strings.Contains(r.body, "id: ") || strings.Contains(r.body, "retry") {
		t.Errorf("modern: %s", r.body)
	}
	id := w.open("2025-11-25")
	for range 10 {
		w.post(pingBody, "Mcp-Session-Id", id)
	}
	if w.front.replays.bytes != 0 {
		t.Errorf("%d bytes are kept of plain answers", w.front.replays.bytes)
	}
}

// kept counts the streams of a session that are kept, their bytes, and those of
// all sessions. The bytes must add up.
func kept(w *world, s *session) (streams, own, all int) {
	p := &w.front.replays
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0
	for _, r := range s.replay.streams {
		weight := recordWeight
		for _, e := range r.events {
			weight += eventWeight + len(e.msg)
		}
		if weight != r.bytes {
			w.t.Errorf("stream %d weighs %d, not %d", r.number, weight, r.bytes)
		}
		sum += weight
	}
	listed := 0
	for i := range s.replay.by {
		listed += s.replay.by[i].Len()
	}
	if sum != s.replay.bytes || listed != len(s.replay.streams) {
		w.t.Errorf("the session weighs %d in %d streams, not %d in %d", sum, len(s.replay.streams), s.replay.bytes, listed)
	}
	return len(s.replay.streams), s.replay.bytes, p.bytes
}

// Nothing is kept longer than it should be.
func TestReplaysEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(w *world, s *session)
	}{
		{"by time", func(*world, *session) { time.Sleep(replayTime + expiryPause) }},
		{"with the session", func(w *world, s *session) { w.front.sessions.end(s) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			behind(t, 8, func(w *world, l *pipeListener) {
				s := openSession(w, "2025-11-25")
				for i := range 3 {
					c, r := begun(t, w, l, s, i)
					c.hangUp()
					r.show("2", `{}`)
					time.Sleep(time.Second)
				}
				get := listenTo(t, l, resumed(s.id, ""))
				get.hangUp()
				if n, _, _ := kept(w, s); n != 4 {
					t.Errorf("%d streams are kept, want 4", n)
				}
				tt.end(w, s)
				if n, own, all := kept(w, s); n != 0 || own != 0 || all != 0 {
					t.Errorf("%d streams, %d and %d bytes are left", n, own, all)
				}
			})
		})
	}
}

// Limits: an answer that was not kept is replaced by an error, which ends the
// agent's wait; what a running stream sent first is given up last.
func TestReplayBounds(t *testing.T) {
	const lost = `{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"the answer is no longer kept, see limits.replay_bytes"}}`
	big := func(n int) string { return `{"x":"` + strings.Repeat("x", n) + `"}` }
	gone := func(t *testing.T, w *world, l *pipeListener, s *session, id int, frames ...string) *line {
		c, r := begun(t, w, l, s, id)
		c.hangUp()
		r.show(frames...)
		return c
	}
	fetch := func(t *testing.T, l *pipeListener, s *session, c *line) []string {
		n := listenTo(t, l, resumed(s.id, c.last))
		defer n.hangUp()
		if n.resp.StatusCode != 200 {
			return []string{n.resp.Status}
		}
		return n.rest()
	}
	for _, tt := range []struct {
		name  string
		total int
		run   func(t *testing.T, w *world, l *pipeListener)
	}{
		{"an answer over the limit", 1 << 30, func(t *testing.T, w *world, l *pipeListener) {
			s := openSession(w, "2025-11-25")
			a, b := gone(t, w, l, s, 1, `{}`), gone(t, w, l, s, 2, big(70<<10))
			if diff := cmp.Diff([]string{answered(1, "{}"), "EOF"}, fetch(t, l, s, a)); diff != "" {
				t.Errorf("the one before (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{progressed("1")[0], fmt.Sprintf(lost, 2), "EOF"}, append(progressed("1"), fetch(t, l, s, b)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}},
		{"the oldest goes first", 1 << 30, func(t *testing.T, w *world, l *pipeListener) {
			s := openSession(w, "2025-11-25")
			a, b := gone(t, w, l, s, 1, big(40<<10)), gone(t, w, l, s, 2, big(40<<10))
			if diff := cmp.Diff([]string{fmt.Sprintf(lost, 1), "EOF"}, fetch(t, l, s, a)); diff != "" {
				t.Errorf("the first (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{answered(2, big(40<<10)), "EOF"}, fetch(t, l, s, b)); diff != "" {
				t.Errorf("the second (-want +got):\n%s", diff)
			}
		}},
		{"a running stream loses its first events", 1 << 30, func(t *testing.T, w *world, l *pipeListener) {
			s := openSession(w, "2025-11-25")
			c, r := begun(t, w, l, s, 1)
			c.hangUp()
			const n = 2000
			for i := range n {
				r.show(fmt.Sprint(2 + i))
			}
			r.show(`{}`)
			got := fetch(t, l, s, c)
			if len(got) < 100 || len(got) > n-100 || got[len(got)-2] != answered(1, "{}") || got[len(got)-3] != progressed(fmt.Sprint(n + 1))[0] {
				t.Errorf("got %d messages, the last %v", len(got), got[max(0, len(got)-3):])
			}
			if _, n, _ := kept(w, s); n > 64<<10 {
				t.Errorf("%d bytes are kept", n)
			}
		}},
		{"many small streams", 1 << 30, func(t *testing.T, w *world, l *pipeListener) {
			s := openSession(w, "2025-11-25")
			first := gone(t, w, l, s, 0, `{}`)
			for i := range 150 {
				gone(t, w, l, s, 1+i, `{}`)
			}
			if got := fetch(t, l, s, first); got[0] != "400 Bad Request" {
				t.Errorf("the first: %v", got)
			}
			if n, own, _ := kept(w, s); own > 64<<10 || n < 50 {
				t.Errorf("%d bytes of %d streams are kept", own, n)
			}
		}},
		{"all sessions together", 100 << 10, func(t *testing.T, w *world, l *pipeListener) {
			one, two := openSession(w, "2025-11-25"), openSession(w, "2025-11-25")
			a, b := gone(t, w, l, one, 1, big(50<<10)), gone(t, w, l, two, 1, big(50<<10))
			if diff := cmp.Diff([]string{fmt.Sprintf(lost, 1), "EOF"}, fetch(t, l, one, a)); diff != "" {
				t.Errorf("the first (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{answered(1, big(50<<10)), "EOF"}, fetch(t, l, two, b)); diff != "" {
				t.Errorf("the second (-want +got):\n%s", diff)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			behind(t, 8, func(w *world, l *pipeListener) {
				w.front.replays.total = tt.total
				tt.run(t, w, l)
			}, func(o *Options) { o.Limits.ReplayBytes = 64 << 10 })
		})
	}
}
