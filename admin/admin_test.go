package admin

import (
	"net/http/httptest"
	"testing"
	"time"
)

func TestProbes(t *testing.T) {
	var h Health
	want := func(path string, code int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "10.244.0.5:8809"
		h.Handler().ServeHTTP(w, r)
		if w.Code != code || w.Body.String() != body {
			t.Errorf("%s: got %d %q, want %d %q", path, w.Code, w.Body, code, body)
		}
	}
	want("/startupz", 503, "starting\n")
	want("/readyz", 503, "starting\n")
	want("/livez", 200, "ok\n")
	h.Started()
	h.Beat(time.Now())
	want("/startupz", 200, "ok\n")
	want("/readyz", 200, "ok\n")
	want("/livez", 200, "ok\n")
	h.Draining()
	h.Beat(time.Now().Add(-11 * time.Second))
	want("/startupz", 200, "ok\n")
	want("/readyz", 503, "draining\n")
	want("/livez", 503, "a loop is stuck\n")

	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/livez", nil))
	if w.Code != 405 {
		t.Errorf("POST: got %d, want 405", w.Code)
	}
}
