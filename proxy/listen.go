package proxy

import (
	"net/http"
	"time"
)

// listen serves the GET streams of a legacy session: news until the agent hangs
// up, the session ends or the sidecar drains, or the rest of another stream.
func (f *Front) listen(in *inbound) {
	s, ok := f.sessionOf(in)
	if !ok {
		return
	}
	if in.forms&asEvents == 0 {
		http.Error(in.w, "want Accept: text/event-stream", http.StatusNotAcceptable)
		return
	}
	if id, _ := first(in.r.Header, hLastEvent); id != "" {
		f.revisit(in, s, id)
		return
	}
	f.news(in, s, nil, 0)
}

// news serves a GET stream: r behind event n, or a new one if r is nil.
func (f *Front) news(in *inbound, s *session, r *record, n uint64) {
	v := f.visit(in, s, r, n)
	defer f.end(v)
	err := v.open(in, s)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for err == nil {
		var more <-chan struct{}
		if _, more, err = v.catchUp(); err != nil {
			return
		}
		select {
		case <-more:
		case <-s.wake:
			err = s.tell(v.say)
		case msg := <-s.mail.out:
			err = v.say(msg)
			s.mail.done(msg)
		case <-beat.C:
			err = v.st.comment()
		case <-v.rd.taken:
			return
		case <-in.r.Context().Done():
			return
		case <-s.gone:
			return
		case <-f.closing:
			return
		}
	}
}

func (s *session) leave() {
	s.streams.Add(-1)
	s.touch()
}

// retell has all lists told anew: the agent may have missed that they changed.
func (s *session) retell() {
	s.news.Lock()
	defer s.news.Unlock()
	s.news.waiting = s.kinds
	s.poke()
}

func (s *stream) message(b []byte) error { return s.event(&reply{head: b}, nil) }

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
