package proxy

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
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
	slow    atomic.Bool   // the answer is given up

	keep keeping
	rec  *record // what is kept, from the first event on; nil when nothing is
	rd   *reader // with rec
}

// A keeping says how a stream is kept for an agent that loses its connection. The
// zero value is not at all.
type keeping struct {
	by      *replays
	of      *recorded
	request []byte // the id of the request; nil for several
	primes  bool   // the agent is told where to go on
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
	s.record()
	go s.pump(s.queue)
}

// record begins to keep what is sent.
func (s *stream) record() {
	if s.keep.by == nil {
		return
	}
	s.rd = newReader(func() { s.rc.SetWriteDeadline(time.Now()) })
	s.rec = s.keep.by.open(s.keep.of, s.keep.request, false, s.rd)
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

// abandon notes that the reader of s is gone. True means that s goes on into its
// record, where the agent can fetch it; else s is deaf, and only finish may follow.
func (s *stream) abandon() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && s.rec != nil {
		s.rec.leave(s.rd)
		return true
	}
	s.done = true
	return false
}

// away is how long the agent has had nobody who reads s; zero while it has.
func (s *stream) away() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil {
		return 0
	}
	return s.rec.away()
}

// settle notes that nobody waits for the answer to a request on s any more.
func (s *stream) settle(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec != nil {
		s.rec.settle(id)
	}
}

// alone reports whether nobody reads s, after abandon.
func (s *stream) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec == nil || !s.rec.read()
}

// pump writes events until queue is closed. It is the only writer meanwhile.
func (s *stream) pump(queue *mailbox) {
	defer close(s.drained)
	err := s.open()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	if len(queue.out) == 0 && err == nil {
		err = s.comment()
	}
	for {
		select {
		case m, ok := <-queue.out:
			if !ok {
				return
			}
			id := s.kept(m)
			if err == nil {
				err = s.event(&reply{head: m}, id)
			}
			queue.done(m)
		case <-beat.C:
			if err == nil {
				err = s.comment()
			}
		}
	}
}

// open begins the events.
func (s *stream) open() error {
	openEvents(s.w)
	if s.rec != nil && s.keep.primes {
		if err := s.prime(s.rec.id(0)); err != nil {
			return err
		}
	}
	return s.flush()
}

// kept records a message, and returns the id of its event; nil when it has none.
func (s *stream) kept(msg []byte) []byte {
	if s.rec == nil {
		return nil
	}
	return s.rec.id(s.rec.add(msg))
}

// finish writes the answer; afterwards s writes no more. An error means that the
// agent does not get it from here.
func (s *stream) finish(r reply) error {
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
	err := s.last(r, events)
	if s.rec != nil {
		s.rec.leave(s.rd)
	}
	return err
}

func (s *stream) last(r reply, events bool) error {
	switch {
	case events:
		return s.close(&r)
	case r.silent():
		s.nothing(r.status)
		return nil
	case s.forms&asJSON != 0 || r.status != 0:
		return s.json(r)
	}
	s.record()
	s.open()
	return s.close(&r)
}

// close sends the answer as the last event, if there is one.
func (s *stream) close(r *reply) error {
	if r.silent() {
		r = nil
	}
	var id []byte
	if s.rec != nil {
		id = s.rec.id(s.rec.finish(r))
	}
	if r == nil {
		return nil
	}
	return s.event(r, id)
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

func (s *stream) json(r reply) error {
	h := s.w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(r.size())}
	s.w.WriteHeader(max(r.status, http.StatusOK))
	for _, p := range r.parts() {
		if err := s.write(p); err != nil {
			return err
		}
	}
	return nil
}

// write writes b piece by piece, each within its own time.
func (s *stream) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), writePiece)
		s.arm()
		if s.taken() {
			return errTaken
		}
		if s.slow.Load() {
			return errSlow
		}
		if _, err := s.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// giveUp ends the write of an answer that the agent does not read.
func (s *stream) giveUp() {
	s.slow.Store(true)
	s.rc.SetWriteDeadline(time.Now())
}

// taken reports whether another connection took the stream over. It is asked after
// arm, so that the one who took it can end the write.
func (s *stream) taken() bool {
	if s.rd == nil {
		return false
	}
	select {
	case <-s.rd.taken:
		return true
	default:
		return false
	}
}

// arm gives the next write its time; writers that cannot are test recorders.
func (s *stream) arm() { s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) }

func (s *stream) flush() error {
	s.arm()
	if s.taken() {
		return errTaken
	}
	return s.rc.Flush()
}

var (
	eventHead = []byte("event: message\ndata: ")
	eventTail = []byte("\n\n")
	pulse     = []byte(": still working\n\n")
)

// event writes one message as one event, under an id if that is not nil.
func (s *stream) event(r *reply, id []byte) error {
	head := eventHead
	if id != nil {
		head = append(append(append([]byte("id: "), id...), '\n'), eventHead...)
	}
	if err := s.write(head); err != nil {
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

// prime tells the agent where to go on should it lose the connection, and when.
func (s *stream) prime(id []byte) error {
	return s.write([]byte("id: " + string(id) + "\nretry: " + retryTime + "\ndata: \n\n"))
}

func (s *stream) comment() error {
	if err := s.write(pulse); err != nil {
		return err
	}
	return s.flush()
}
