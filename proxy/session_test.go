package proxy

import (
	"errors"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
)

// TestSessionLimit is H15: at the limit the longest idle session goes, of the
// caller that has most; none that asks or listens.
func TestSessionLimit(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Sessions = 6 })
	st, view := &w.front.sessions, mustView(w)
	a, b, c := auth.Caller{ID: "a"}, auth.Caller{ID: "b"}, auth.Caller{ID: "c"}
	now := time.Now().UnixNano()
	open := func(by auth.Caller) *session {
		t.Helper()
		s, err := st.open(by, view, "2025-11-25", capabilities{})
		if err != nil {
			t.Fatal(err)
		}
		now++
		s.used.Store(now)
		return s
	}
	b1 := open(b) // the longest idle of all
	busy, listening := open(a), open(a)
	busy.begin("1", func() {})
	listening.streams.Add(1)
	a1, a2, _ := open(a), open(a), open(a)
	for range 2 {
		open(b)
	}
	for name, tt := range map[string]struct {
		s     *session
		lives bool
	}{"b1": {b1, true}, "busy": {busy, true}, "listening": {listening, true}, "a1": {a1, false}, "a2": {a2, false}} {
		if got := st.m[tt.s.id] != nil; got != tt.lives {
			t.Errorf("%s: lives is %v, want %v", name, got, tt.lives)
		}
	}
	if n := st.count(); n != 6 || st.has[a] != 3 || st.has[b] != 3 {
		t.Errorf("%d sessions, %v", n, st.has)
	}
	for _, s := range st.m {
		s.streams.Add(1)
	}
	if _, err := st.open(c, view, "2025-11-25", capabilities{}); !errors.Is(err, errSessions) {
		t.Errorf("all listen: got %v", err)
	}
	r := w.post(initialize)
	if r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("all listen: %d %s", r.status, r.body)
	}
}

// A leaky agent keeps nobody out.
func TestLeakyAgent(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Sessions = 5 })
	first := w.open("2025-11-25")
	var last string
	for range 50 {
		last = w.open("2025-11-25")
	}
	other := w.open("2025-11-25", "Authorization", "Bearer "+token+"-2")
	for range 50 {
		last = w.open("2025-11-25")
	}
	if r := w.post(pingBody, "Mcp-Session-Id", first); r.status != 404 {
		t.Errorf("the oldest: %d", r.status)
	}
	if r := w.post(pingBody, "Mcp-Session-Id", last); r.status != 200 {
		t.Errorf("the newest: %d", r.status)
	}
	if r := w.post(pingBody, "Mcp-Session-Id", other, "Authorization", "Bearer "+token+"-2"); r.status != 200 {
		t.Errorf("another caller's: %d", r.status)
	}
}
