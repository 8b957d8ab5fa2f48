package proxy

import (
	"net/http"
	"time"
)

// listen serves the GET stream of a legacy session: news until the agent hangs
// up, the session ends or the sidecar drains.
func (f *Front) listen(in *inbound) {
	s, ok := f.sessionOf(in)
	if !ok {
		return
	}
	if in.forms&asEvents == 0 {
		http.Error(in.w, "want Accept: text/event-stream", http.StatusNotAcceptable)
		return
	}
	s.streams.Add(1)
	defer s.leave()
	st := &stream{w: in.w, rc: in.rc, counts: &f.counts}
	openEvents(in.w)
	if st.flush() != nil {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-s.wake:
			err = s.tell(st.message)
		case msg := <-s.mail.out:
			err = st.message(msg)
			s.mail.done(msg)
		case <-beat.C:
			err = st.comment()
		case <-in.r.Context().Done():
			return
		case <-s.gone:
			return
		case <-f.closing:
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *session) leave() {
	s.streams.Add(-1)
	s.touch()
}

func (s *stream) message(b []byte) error { return s.event(&reply{head: b}) }

// delete ends a session at its agent's wish.
func (f *Front) delete(in *inbound) {
	if s, ok := f.sessionOf(in); ok {
		f.sessions.end(s)
		in.w.WriteHeader(http.StatusNoContent)
	}
}

// sessionOf finds the session that GET and DELETE need, or answers.
func (f *Front) sessionOf(in *inbound) (*session, bool) {
	id, ok := first(in.r.Header, hSession)
	if !ok || in.version == versionModern {
		notAllowed(in.w)
		return nil, false
	}
	s := f.sessions.find(id, in.caller, in.view)
	if s == nil {
		noSession(in.w, nil)
	}
	return s, s != nil
}
