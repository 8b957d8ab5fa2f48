package proxy

import (
	"errors"
	"net/http"
	"time"
)

// versionPrimed is the first version whose agents know events without data, and
// are told by one where to go on. Older ones take the lack of data for a fault.
const versionPrimed = "2025-11-25"

// retryTime is how long an agent should wait before it comes back.
const retryTime = "1000"

var errTaken = errors.New("the stream goes on over another connection")

// primes reports whether the agent of a session takes an event without data.
func primes(s *session, header string) bool {
	return s.version >= versionPrimed && (header == "" || header >= versionPrimed)
}

// A visit is one connection that reads a stream from its record.
type visit struct {
	st *stream
	r  *record
	rd *reader
	n  uint64 // the event that was sent last
	s  *session
}

// revisit serves a GET with Last-Event-ID: the rest of that stream, and of no
// other. A stream that is not known is refused with 400. 404 would say that the
// session is gone, and an empty stream would have agents come back forever.
func (f *Front) revisit(in *inbound, s *session, id string) {
	r, n, ok := f.replays.find(&s.replay, id)
	switch {
	case !ok:
		sendError(in.w, http.StatusBadRequest, nil, invalid("unknown Last-Event-ID: that stream is not of this session, or no longer kept"))
		return
	case r == nil: // an old GET stream: nothing on it is waited for
		s.retell()
		f.news(in, s, nil, 0)
		return
	case r.news:
		if r.gap(n) {
			s.retell()
		}
		f.news(in, s, r, n)
		return
	}
	if next, over, _ := r.after(n); over && len(next) == 0 {
		in.w.WriteHeader(http.StatusNoContent) // agents that know events do not come again then
		return
	}
	v := f.visit(in, s, r, n)
	defer f.end(v)
	if v.open(in, s) == nil {
		v.follow(in, s)
	}
}

// gap reports whether something that came behind n is gone.
func (r *record) gap(n uint64) bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return n < r.cut
}

// visit begins to read r, or a new GET stream if r is nil. It must be ended.
func (f *Front) visit(in *inbound, s *session, r *record, n uint64) *visit {
	s.streams.Add(1)
	st := &stream{w: in.w, rc: in.rc, counts: &f.counts}
	st.rd = newReader(func() { st.rc.SetWriteDeadline(time.Now()) })
	v := &visit{st: st, r: r, rd: st.rd, n: n, s: s}
	if r == nil {
		v.r = f.replays.open(&s.replay, nil, true, v.rd)
	} else {
		r.attach(v.rd)
	}
	f.visits.enter(v)
	return v
}

// end ends a visit. While the sidecar drains, nobody comes back.
func (f *Front) end(v *visit) {
	f.visits.exit(v)
	v.r.leave(v.rd)
	v.st.arm() // whoever sent it away ended its time
	v.s.leave()
	if f.draining() {
		f.strays.close()
	}
}

// open sends what comes before the first message.
func (v *visit) open(in *inbound, s *session) error {
	if in.r.ProtoMajor == 1 {
		v.st.w.Header().Set("Connection", "close") // its place is for others then
	}
	openEvents(v.st.w)
	if primes(s, in.version) {
		if err := v.st.prime(v.r.id(v.n)); err != nil {
			return err
		}
	}
	return v.st.flush()
}

// catchUp sends what the record holds behind the last event sent.
func (v *visit) catchUp() (over bool, more <-chan struct{}, err error) {
	for {
		next, over, more := v.r.after(v.n)
		if len(next) == 0 {
			return over, more, nil
		}
		for _, e := range next {
			if err := v.st.event(&reply{head: e.msg}, v.r.id(e.n)); err != nil {
				return false, nil, err
			}
			v.n = e.n
		}
	}
}

// say sends a message on the stream. One that somebody else put there before is
// left to catchUp, and this with it.
func (v *visit) say(msg []byte) error {
	n := v.r.add(msg)
	if n != v.n+1 {
		return nil
	}
	v.n = n
	return v.st.event(&reply{head: msg}, v.r.id(n))
}

// follow sends the rest of the stream of a call. Like a call itself it is not
// cut short when the sidecar drains.
func (v *visit) follow(in *inbound, s *session) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		over, more, err := v.catchUp()
		if over || err != nil {
			return
		}
		select {
		case <-more:
		case <-beat.C:
			if v.st.comment() != nil {
				return
			}
		case <-in.r.Context().Done():
			return
		case <-s.gone:
			return
		case <-v.rd.taken:
			return
		}
	}
}

// keep has a stream kept for the agent of a session. s is nil when there is none,
// request when there are several.
func (f *Front) keep(st *stream, in *inbound, s *session, request []byte) {
	if s == nil {
		return
	}
	k := keeping{by: &f.replays, of: &s.replay, request: request, primes: primes(s, in.version)}
	st.mu.Lock() // the heartbeat's timer runs already
	defer st.mu.Unlock()
	st.keep = k
}
