package upstream

import "errors"

// A diesAnyway is about a process that ended upon the probe for its era, and whose
// successor ended upon initialize: it was neither that it minded.
type diesAnyway struct{ err error }

func (e *diesAnyway) Error() string { return e.err.Error() }
func (e *diesAnyway) Unwrap() error { return e.err }

// endedBy reports whether a handshake failed because the process is no more.
func endedBy(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Unreachable && e.Op != "start"
}

func asDying(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Err = &diesAnyway{e.Err}
	return &c
}

// firstWords is how the next process is met: as one of the era that the server had
// before, and whether another process may be started to find out. One that dies
// either way is met once for each pause of the backoff. Where nothing is known of it
// that is by initialize, which some servers need to have first; a server of the
// modern era refuses it, and is asked for that then.
func (s *server) firstWords() (era *Era, once bool) {
	if era = s.era.Load(); s.guessed.Load() {
		era = nil
	}
	once = s.dies.Load()
	if once && era == nil {
		legacy := Legacy
		era = &legacy
	}
	return era, once
}

// foundEra notes what the server is. A server that was taken for a legacy one
// because it died is probed again when its connection is made the next time.
func (s *server) foundEra(era Era) {
	unknown := s.era.Load() == nil || s.guessed.Load()
	s.guessed.Store(s.dies.Swap(false) && unknown && era == Legacy)
	s.era.Store(&era)
}
