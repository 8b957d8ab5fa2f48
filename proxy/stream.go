package proxy

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// heartbeat is the longest silence towards an agent that takes events.
	heartbeat = 30 * time.Second
	// writeTimeout bounds the writing of one piece.
	writeTimeout = 30 * time.Second
	// writePiece is how much is written under one deadline.
	writePiece = 256 << 10
)

// A stream carries the answer to one POST: plain JSON, or events from the first
// notification or the first long silence on.
type stream struct {
	w       http.ResponseWriter
	rc      http.ResponseController
	forms   forms
	counts  *counts
	size    int // of queue
	timer   *time.Timer
	mu      sync.Mutex
	queue   *mailbox      // made with the first event; closed by finish
	drained chan struct{} // closed by pump
	done    bool          // nothing more is taken
}

func newStream(w http.ResponseWriter, rc http.ResponseController, f forms, queue int, c *counts) *stream {
	s := &stream{w: w, rc: rc, forms: f, size: queue, counts: c}
	if f&asEvents != 0 {
		s.timer = time.AfterFunc(heartbeat, s.wake)
	}
	return s
}

// wake begins the events after a long silence.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && s.queue == nil {
		s.begin()
	}
}

// begin starts the writer of events; s.mu is held.
func (s *stream) begin() {
	s.queue, s.drained = newMailbox(s.size, waitingBytes), make(chan struct{})
	go s.pump(s.queue)
}

// notify hands on a notification. It never blocks: a reader that is too slow
// loses notifications, never the answer.
func (s *stream) notify(method string, params []byte) {
	if s.forms&asEvents == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	if s.queue == nil {
		s.begin()
	}
	if len(params) > waitingBytes || !s.queue.put(wire.AppendNotification(nil, method, params)) {
		s.counts.dropped.Add(1)
	}
}

// deliver hands on a message that must arrive, such as a question.
func (s *stream) deliver(msg []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || s.forms&asEvents == 0 {
		return false
	}
	if s.queue == nil {
		s.begin()
	}
	return s.queue.put(msg)
}

// abandon makes s deaf: its reader is gone. Only finish may follow.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
}

// pump writes events until queue is closed. It is the only writer meanwhile.
func (s *stream) pump(queue *mailbox) {
	defer close(s.drained)
	openEvents(s.w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	err := s.flush()
	if len(queue.out) == 0 && err == nil {
		err = s.comment()
	}
	for {
		select {
		case m, ok := <-queue.out:
			if !ok {
				return
			}
			if err == nil {
				err = s.event(&reply{head: m})
			}
			queue.done(m)
		case <-beat.C:
			if err == nil {
				err = s.comment()
			}
		}
	}
}

// finish writes the answer; afterwards s writes no more.
func (s *stream) finish(r reply) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Lock()
	s.done = true
	events := s.queue != nil
	if events {
		close(s.queue.out)
	}
	s.mu.Unlock()
	if events {
		<-s.drained
	}
	s.last(r, events)
}

func (s *stream) last(r reply, events bool) {
	switch {
	case events && r.silent():
	case events:
		s.event(&r)
	case r.silent():
		s.nothing(r.status)
	case s.forms&asJSON != 0 || r.status != 0:
		s.json(r)
	default:
		openEvents(s.w)
		s.event(&r)
	}
}

// nothing answers a request that the agent itself cancelled: with an empty
// stream, or with the bare status.
func (s *stream) nothing(status int) {
	if s.forms&asEvents != 0 && status == 0 {
		openEvents(s.w)
		s.flush()
		return
	}
	s.w.WriteHeader(http.StatusAccepted)
}

func openEvents(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"}
	w.WriteHeader(http.StatusOK)
}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

func (s *stream) json(r reply) {
	h := s.w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(r.size())}
	s.w.WriteHeader(max(r.status, http.StatusOK))
	for _, p := range r.parts() {
		if s.write(p) != nil {
			return
		}
	}
}

// write writes b piece by piece, each within its own time.
func (s *stream) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), writePiece)
		s.arm()
		if _, err := s.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// arm gives the next write its time; writers that cannot are test recorders.
func (s *stream) arm() { s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) }

func (s *stream) flush() error {
	s.arm()
	return s.rc.Flush()
}

var (
	eventHead = []byte("event: message\ndata: ")
	eventTail = []byte("\n\n")
	pulse     = []byte(": still working\n\n")
)

// event writes one message as one event.
func (s *stream) event(r *reply) error {
	if err := s.write(eventHead); err != nil {
		return err
	}
	for _, p := range r.parts() {
		if err := s.write(oneLine(p)); err != nil {
			return err
		}
	}
	if err := s.write(eventTail); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) comment() error {
	if err := s.write(pulse); err != nil {
		return err
	}
	return s.flush()
}
