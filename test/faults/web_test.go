package faults

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// redirected holds that a redirect which is not safe is said and not followed.
func redirected(t *testing.T, w *world) {
	w.serves(t)
	r := w.fails(t, "k", callTime, "CONFIG")
	if !strings.Contains(r.Content(), "is not followed") {
		t.Errorf("got %s", r.Content())
	}
	if got := w.bad.Journal.Leaks(); len(got) > 0 {
		t.Errorf("the other origin got %v", got)
	}
	if n := w.bad.Journal.Ran("k"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func circle(t *testing.T, w *world) {
	w.serves(t)
	w.fails(t, "k", callTime, "CONFIG")
	if n := w.bad.Journal.Ran("k"); n > 4 {
		t.Errorf("the circle was followed %d times", n)
	}
	w.serves(t)
}

func noCookies(t *testing.T, w *world) {
	for range 3 {
		w.serves(t)
	}
	if got := w.bad.Journal.Leaks(); len(got) > 0 {
		t.Errorf("it gets back %v", got)
	}
}

// firstSession holds that the id of the handshake is kept.
func firstSession(t *testing.T, w *world) {
	for range 3 {
		w.serves(t)
	}
	got := w.bad.Journal.Answers()
	for _, id := range got {
		if id != got[0] {
			t.Errorf("it sends %q, then %q", got[0], id)
		}
	}
}

// paused holds that a server which wants to be left alone for long is, and that the
// agent reads so at once.
func paused(t *testing.T, w *world) {
	w.serves(t)
	for range 3 {
		if r := w.fails(t, "k", callTime, "RATE-LIMITED"); !strings.Contains(r.Content(), "Retry after") {
			t.Errorf("got %s", r.Content())
		}
	}
	if n := w.bad.Journal.Ran("k"); n != 1 {
		t.Errorf("the server got %d calls, want 1", n)
	}
}

// needsLogin holds that a server which wants a login is asked no more.
func needsLogin(t *testing.T, w *world) {
	w.logs(t, "set auth: oauth")
	before := w.bad.Journal.Hits(http.MethodPost)
	for range 5 {
		w.unlisted(t)
	}
	if n := w.bad.Journal.Hits(http.MethodPost); n > before || n > 2 {
		t.Errorf("it was asked %d times, %d of them for others", n, n-before)
	}
}

// fewStreams holds that refusals of the standing stream stay rare and hurt no call.
func fewStreams(t *testing.T, w *world) {
	for range 10 {
		w.serves(t)
	}
	if n, most := w.bad.Journal.Hits(http.MethodGet), 3+int(time.Since(w.began)/(5*time.Second)); n > most {
		t.Errorf("it was asked for a stream %d times, want %d at most", n, most)
	}
}
