package upstream

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRenewals(t *testing.T) {
	var r renewals
	now := time.Unix(1000, 0)
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if wait := r.begin(now, false); wait != 0 {
			t.Fatalf("%d: wait %v", i, wait)
		}
		if wait := r.begin(now.Add(time.Millisecond), false); wait != want*time.Second-time.Millisecond {
			t.Errorf("%d: got a pause of %v, want %ds", i, wait, want)
		}
		now = now.Add(want * time.Second)
	}
	r.begin(now, false)
	if wait := r.begin(now, true); wait != 0 {
		t.Errorf("proven: wait %v", wait)
	}
	if wait := r.begin(now, false); wait != time.Second {
		t.Errorf("after a proven one: got a pause of %v", wait)
	}
}

func TestProof(t *testing.T) {
	now := time.Unix(1000, 0)
	lost := &Error{Err: &lostSession{}}
	p := proof{opened: now}
	for range 10 { // every second call, as behind a balancer of two
		for range provenCalls - 1 {
			p.add(nil, now)
		}
		p.add(lost, now)
		p.add(errors.New("other"), now)
	}
	if p.given.Load() {
		t.Error("proven in spite of losses")
	}
	for range provenCalls {
		p.add(nil, now)
	}
	if !p.given.Load() {
		t.Error("not proven by calls in a row")
	}
	p = proof{opened: now}
	p.add(lost, now.Add(time.Hour))
	if p.add(nil, now.Add(provenAfter-1)); p.given.Load() {
		t.Error("proven too early")
	}
	if p.add(nil, now.Add(provenAfter)); !p.given.Load() {
		t.Error("not proven by age")
	}
}

// forgetful loses each session before its first call.
func forgetful(t *testing.T, get http.HandlerFunc) *fakeHTTP {
	return newFake(t, &fakeHTTP{legacy: true, get: get, any: func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.ID == nil || m.Method == "initialize" || m.Method == "server/discover" {
			return false
		}
		http.Error(w, "no sticky sessions here", http.StatusNotFound)
		return true
	}})
}

// A balancer without sticky sessions is not asked for sessions without end, and
// reading a list does not make the lists be read.
func TestHTTPRenewPaused(t *testing.T) {
	leaks(t)
	f := forgetful(t, nil)
	var notes atomic.Int64
	c := dialed(t, resolved(t, f.URL, nil), env{notify: func(string, []byte) { notes.Add(1) }})
	for i := range 50 {
		_, err := c.Do(t.Context(), &Call{Method: "tools/list", Safe: true})
		if KindOf(err) != Protocol || !strings.Contains(err.Error(), "lost the session") || i > 0 && !strings.Contains(err.Error(), "opened just before") {
			t.Fatalf("got %v", err)
		}
	}
	if n := len(f.got("initialize")); n != 2 {
		t.Errorf("initialize: sent %d times, want 2", n)
	}
	if n := notes.Load(); n != 0 {
		t.Errorf("%d notifications", n)
	}
}

// The standing stream of a session ends with it: else each held a connection.
func TestHTTPRenewEndsStream(t *testing.T) {
	leaks(t)
	var open atomic.Int64
	f := newFake(t, &fakeHTTP{legacy: true, get: func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	c := dialed(t, resolved(t, f.URL, nil), env{})
	for range 3 {
		eventually(t, "the stream opens", func() bool { return open.Load() == 1 })
		first := c.session.Load()
		first.proof.given.Store(true)
		f.forget()
		alive(t, c)
		if c.session.Load() == first {
			t.Fatal("the session was not opened again")
		}
	}
	eventually(t, "old streams end", func() bool { return open.Load() == 1 })
}
