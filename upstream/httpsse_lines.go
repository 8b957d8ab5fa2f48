package upstream

import (
	"bytes"
	"io"
)

const (
	sseChunk = 32 << 10 // what one read may bring
	sseHeld  = 64 << 10 // of an event's data, until its name is certain
	sseField = 16       // bytes of a field's name that are looked at
)

// An sseLines reads a text/event-stream and hands out the data of each message
// event as one line. It holds little of an event, so that the limit of a line is
// that of a message, and one that is too large costs its call and no more.
// Events of other names are counted as noise, but for endpoint.
type sseLines struct {
	r io.Reader
	// most bounds the bytes that come without an event.
	most int
	// endpoint gets the data of events of that name, and must not keep it.
	endpoint func(data []byte)
	noise    func(n int)

	buf      []byte
	from, to int // of buf, what is not parsed
	lf       int // the first LF in buf[from:to], or to; not known when before from
	err      error
	quiet    int // bytes since the last event

	out   []byte // an event's data, joined to one line
	ready int    // out[:ready] may be handed out,
	given int    // and out[:given] was

	// The event and the line in progress.
	name    []byte
	data    bool
	flowing bool // it is a message too large to be held, and is handed out piecemeal
	field   []byte
	colon   bool // field is complete,
	value   bool // and its value has begun
	marked  bool // a byte order mark can come no more
	skipLF  bool // the last line ended in CR
}

// Read implements io.Reader.
func (s *sseLines) Read(p []byte) (int, error) {
	for idle := 0; idle < maxIdleReads; {
		if s.given < s.ready {
			n := copy(p, s.out[s.given:s.ready])
			s.given += n
			return n, nil
		}
		if s.ready > 0 {
			s.empty()
		}
		if s.from < s.to {
			s.parse()
			continue
		}
		if s.err != nil {
			return 0, s.err
		}
		if idle++; s.fill() {
			idle = 0
		}
	}
	return 0, io.ErrNoProgress
}

// empty forgets data that was handed out, and with a large event its room.
func (s *sseLines) empty() {
	s.out, s.ready, s.given = s.out[:0], 0, 0
}

// fill reads more; false when nothing came.
func (s *sseLines) fill() bool {
	if s.buf == nil {
		s.buf = make([]byte, sseChunk)
	}
	n, err := s.r.Read(s.buf)
	s.from, s.to, s.lf, s.err = 0, n, -1, err
	if s.quiet += n; s.quiet > s.most {
		s.to, s.err = 0, errStreamSize
	}
	return n > 0
}

// parse goes on to the end of an event, or of what was read.
func (s *sseLines) parse() {
	for s.from < s.to && s.ready == 0 {
		if s.skipLF {
			s.skipLF = false
			if s.buf[s.from] == '\n' {
				s.from++
				continue
			}
		}
		end, ok := s.lineEnd()
		s.part(s.buf[s.from:end])
		s.from = end
		if ok {
			s.skipLF = s.buf[end] == '\r'
			s.from++
			s.endLine()
		}
	}
}

// lineEnd returns where the line ends, or what was read. The next LF is looked for
// once, so that many lines that end in CR do not make the search quadratic.
func (s *sseLines) lineEnd() (int, bool) {
	if s.lf < s.from {
		s.lf = s.to
		if i := bytes.IndexByte(s.buf[s.from:s.to], '\n'); i >= 0 {
			s.lf = s.from + i
		}
	}
	if i := bytes.IndexByte(s.buf[s.from:s.lf], '\r'); i >= 0 {
		return s.from + i, true
	}
	return s.lf, s.lf < s.to
}

// part takes a piece of a line.
func (s *sseLines) part(b []byte) {
	if !s.colon {
		i := bytes.IndexByte(b, ':')
		if i < 0 {
			s.addField(b)
			return
		}
		s.addField(b[:i])
		s.begin()
		s.colon, b = true, b[i+1:]
	}
	if !s.value && len(b) > 0 {
		s.value = true
		if b[0] == ' ' {
			b = b[1:]
		}
	}
	s.add(b)
}

func (s *sseLines) addField(b []byte) {
	s.field = append(s.field, b[:min(len(b), sseField-len(s.field))]...)
}

// begin is called when a field's name is complete.
func (s *sseLines) begin() {
	if !s.marked {
		s.marked = true
		s.field = bytes.TrimPrefix(s.field, bom)
	}
	switch string(s.field) {
	case "data":
		if s.data {
			s.hold([]byte{' '}) // between the tokens of a message it means what a newline does
		}
		s.data = true
	case "event":
		s.name = s.name[:0]
	}
}

// add takes a piece of the field's value.
func (s *sseLines) add(b []byte) {
	switch string(s.field) {
	case "data":
		s.hold(b)
	case "event":
		s.name = append(s.name, b[:min(len(b), maxEventName-len(s.name))]...)
	}
}

// hold adds to the data, until that is more than can be held: then a message flows
// on from here, and anything else is given up.
func (s *sseLines) hold(b []byte) {
	s.out = append(s.out, b...)
	switch {
	case len(s.out) <= sseHeld && !s.flowing:
	case s.isMessage():
		s.flowing = true
		s.ready, s.quiet = len(s.out), 0
	default:
		s.out = s.out[:sseHeld]
	}
}

func (s *sseLines) isMessage() bool {
	return len(s.name) == 0 || string(s.name) == "message"
}

// endLine ends a field, or the event if the line is empty.
func (s *sseLines) endLine() {
	if !s.colon {
		s.begin()
	}
	blank := !s.colon && len(s.field) == 0
	s.field, s.colon, s.value = s.field[:0], false, false
	if blank {
		s.endEvent()
	}
}

func (s *sseLines) endEvent() {
	switch {
	case !s.data:
	case s.flowing || s.isMessage():
		s.out = append(s.out, '\n')
		s.ready, s.quiet = len(s.out), 0
	default:
		if string(s.name) == "endpoint" {
			s.endpoint(s.out)
		} else {
			s.noise(1)
		}
		s.out, s.quiet = s.out[:0], 0
	}
	s.name, s.data, s.flowing = s.name[:0], false, false
}
