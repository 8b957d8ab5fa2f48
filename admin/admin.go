// Package admin serves what operators and kubelets ask: is the sidecar started,
// ready, alive. That listens apart from agents and changes nothing; what changes
// something is asked over a unix socket that only the sidecar's own user can open.
package admin

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// stuckAfter is the silence of a loop that counts as being stuck.
const stuckAfter = 10 * time.Second

// Health is what the probes tell. It never depends on servers behind the
// sidecar: those that are down are their own matter. The zero value is a
// program that has not started.
type Health struct {
	started  atomic.Bool
	draining atomic.Bool
	beat     atomic.Int64 // Unix nanoseconds; zero before the first
}

// Started says that the listeners are bound and the first discovery is over.
func (h *Health) Started() { h.started.Store(true) }

// Draining says that new work should go elsewhere.
func (h *Health) Draining() { h.draining.Store(true) }

// Beat is called by the loop that must never stand still.
func (h *Health) Beat(now time.Time) { h.beat.Store(now.UnixNano()) }

// Handler answers /livez, /readyz and /startupz by 200 or 503, whatever the
// Host header says: kubelets send the pod's address.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /startupz", h.probe(func(time.Time) string {
		if !h.started.Load() {
			return "starting"
		}
		return ""
	}))
	mux.HandleFunc("GET /readyz", h.probe(h.unready))
	mux.HandleFunc("GET /livez", h.probe(h.stuck))
	return mux
}

func (h *Health) unready(time.Time) string {
	switch {
	case h.draining.Load():
		return "draining"
	case !h.started.Load():
		return "starting"
	}
	return ""
}

func (h *Health) stuck(now time.Time) string {
	if at := h.beat.Load(); at != 0 && now.Sub(time.Unix(0, at)) > stuckAfter {
		return "a loop is stuck"
	}
	return ""
}

func (h *Health) probe(fault func(time.Time) string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		text := fault(time.Now())
		if text == "" {
			text = "ok"
		} else {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, text+"\n")
	}
}

// Server returns the http.Server of the operations listener.
func (h *Health) Server() *http.Server {
	return &http.Server{
		Handler:           h.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}
