package upstream

import (
	"bytes"
	"errors"
	"io"
	"time"
	"unicode"
)

// Bounds of an event stream besides the two sizes that its reader is given.
const (
	maxEventID   = 1 << 10
	maxEventName = 64
	minRetry     = 100 * time.Millisecond
	maxRetry     = time.Minute
	firstEvent   = 4 << 10
	maxIdleReads = 100
)

var (
	errEventSize  = errors.New("event over the limit")
	errStreamSize = errors.New("event stream over the limit")
	errBarren     = errors.New("event stream without events over the limit")
)

// An event is one event of a stream. Data is valid until the next call of next.
type event struct {
	// name is empty for the default, "message".
	name string
	data []byte
}

// An eventReader splits a text/event-stream into events as the WHATWG HTML
// standard says, over raw bytes: data of one line is handed out where it was
// read, more lines are joined in place. Only the data of one event and one
// unfinished line are held, and never more than limit.
type eventReader struct {
	r     io.Reader
	limit int // bytes of one event
	total int // bytes of the stream that may still come
	// barren bounds the bytes of lines without data before an event; zero does not.
	barren int
	idle   int // such bytes since the last event

	buf      []byte // buf[:n] has been read
	n        int
	pos      int // the next line starts here
	scan     int // no line ends in buf[pos:scan]
	lf       int // the first LF at or behind scan, or n
	from, to int // the data of the event in progress, before pos
	data     bool
	name     string
	started  bool // the byte order mark is dealt with
	skipLF   bool // the line before ended in CR
	err      error

	lastID []byte
	retry  time.Duration
}

// newEventReader reads into buf, which it replaces when it is too small.
func newEventReader(r io.Reader, buf []byte, limit, total int) *eventReader {
	return &eventReader{r: r, buf: buf[:cap(buf)], lf: -1, limit: limit, total: total}
}

// again reads on from another stream, of which r's last event is the one before.
// What it had not handed out is gone.
func (r *eventReader) again(src io.Reader) {
	r.r, r.err = src, nil
	r.n, r.pos, r.scan, r.lf = 0, 0, 0, -1
	r.started, r.skipLF = false, false
}

// next returns the next event that has data. An event that the stream's end
// cuts short is dropped; the end itself is io.EOF.
func (r *eventReader) next() (event, error) {
	r.from, r.to, r.data, r.name = 0, 0, false, ""
	for {
		from, to, err := r.line()
		if err != nil {
			return event{}, err
		}
		if from < to {
			r.field(from, to)
			if r.barren > 0 && r.idle > r.barren {
				r.err = errBarren
				return event{}, r.err
			}
			continue
		}
		if r.data {
			return r.dispatch()
		}
		r.name = ""
	}
}

func (r *eventReader) dispatch() (event, error) {
	if r.to-r.from > r.limit {
		r.err = errEventSize
		return event{}, r.err
	}
	r.idle = 0
	return event{name: r.name, data: r.buf[r.from:r.to:r.to]}, nil
}

// field handles the line buf[from:to], which is not empty.
func (r *eventReader) field(from, to int) {
	colon, value := to, to
	if i := bytes.IndexByte(r.buf[from:to], ':'); i >= 0 {
		colon, value = from+i, from+i+1
		if value < to && r.buf[value] == ' ' {
			value++
		}
	}
	r.idle += to - from
	switch string(r.buf[from:colon]) {
	case "data":
		r.idle -= to - from
		r.addData(value, to)
	case "event":
		r.name = eventName(r.buf[value:to])
	case "id":
		r.setID(r.buf[value:to])
	case "retry":
		r.setRetry(r.buf[value:to])
	}
}

// addData joins buf[from:to] to the data. Bytes move to the left only, because
// a line is longer than its value by "data:" at least.
func (r *eventReader) addData(from, to int) {
	if !r.data {
		r.from, r.to, r.data = from, to, true
		return
	}
	r.buf[r.to] = '\n'
	r.to += 1 + copy(r.buf[r.to+1:], r.buf[from:to])
}

func eventName(value []byte) string {
	switch string(value) {
	case "", "message":
		return ""
	case "endpoint":
		return "endpoint"
	}
	return string(value[:min(len(value), maxEventName)])
}

func (r *eventReader) setID(value []byte) {
	// One with a control character could not be sent back in a header.
	if len(value) <= maxEventID && bytes.IndexFunc(value, unicode.IsControl) < 0 {
		r.lastID = append(r.lastID[:0], value...)
	}
}

func (r *eventReader) setRetry(value []byte) {
	ms := int64(0)
	for _, c := range value {
		if c < '0' || c > '9' {
			return
		}
		ms = min(ms*10+int64(c-'0'), maxRetry.Milliseconds())
	}
	if len(value) > 0 {
		r.retry = max(time.Duration(ms)*time.Millisecond, minRetry)
	}
}

// line returns the range of the next line without its end, which is CR LF, LF
// or CR. A CR ends the line at once; the LF that may follow is skipped later,
// so that no event waits for the byte behind it.
func (r *eventReader) line() (from, to int, err error) {
	for {
		if end, ok := r.lineEnd(); ok {
			from = r.pos
			r.skipLF = r.buf[end] == '\r'
			r.pos, r.scan = end+1, end+1
			return from, end, nil
		}
		if err := r.fill(); err != nil {
			return 0, 0, err
		}
	}
}

// lineEnd looks for a line end in what was read. Where the next LF is is kept,
// so that many lines that end in CR do not make the search quadratic.
func (r *eventReader) lineEnd() (int, bool) {
	if !r.begin() {
		return 0, false
	}
	if r.skipLF && r.pos < r.n {
		r.skipLF = false
		if r.buf[r.pos] == '\n' {
			r.pos++
		}
	}
	r.scan = max(r.scan, r.pos)
	if r.lf < r.scan {
		r.lf = r.n
		if i := bytes.IndexByte(r.buf[r.scan:r.n], '\n'); i >= 0 {
			r.lf = r.scan + i
		}
	}
	if i := bytes.IndexByte(r.buf[r.scan:r.lf], '\r'); i >= 0 {
		return r.scan + i, true
	}
	if r.lf < r.n {
		return r.lf, true
	}
	r.scan, r.lf = r.n, r.n-1 // the next search starts with the next read
	return 0, false
}

// begin drops a byte order mark at the stream's start; false asks for more bytes.
func (r *eventReader) begin() bool {
	const bom = "\xef\xbb\xbf"
	if r.started {
		return true
	}
	head := string(r.buf[:min(r.n, len(bom))])
	if head != bom[:len(head)] {
		r.started = true
		return true
	}
	if len(head) < len(bom) {
		return false
	}
	r.started, r.pos = true, len(bom)
	return true
}

// fill reads more bytes, after it made room.
func (r *eventReader) fill() error {
	if r.err == nil && r.n == len(r.buf) {
		r.compact()
		if r.n >= len(r.buf)/4*3 {
			r.grow()
		}
	}
	for range maxIdleReads {
		if r.err != nil {
			return r.err
		}
		n, err := r.r.Read(r.buf[r.n:])
		r.n, r.total, r.err = r.n+n, r.total-n, err
		if r.total < 0 {
			r.err = errStreamSize
		} else if n > 0 {
			return nil
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// compact moves the event's data and the unfinished line to the front.
func (r *eventReader) compact() {
	keep := 0
	if r.data {
		keep = r.to - r.from
		if r.from > 0 {
			copy(r.buf, r.buf[r.from:r.to])
		}
	}
	r.from, r.to = 0, keep
	if keep == r.pos {
		return
	}
	copy(r.buf[keep:], r.buf[r.pos:r.n])
	moved := r.pos - keep
	r.pos, r.scan, r.lf, r.n = keep, r.scan-moved, r.lf-moved, r.n-moved
}

// shrink gives back the room that a large event took, on a stream that may last.
// The event is not valid any more.
func (r *eventReader) shrink() {
	if rest := r.buf[r.pos:r.n]; len(r.buf) > keptScratch && len(rest) <= firstEvent {
		buf := make([]byte, firstEvent)
		r.buf, r.n = buf, copy(buf, rest)
		r.scan, r.lf = max(r.scan-r.pos, 0), -1
		r.from, r.to, r.pos, r.data = 0, 0, 0, false
	}
}

func (r *eventReader) grow() {
	most := r.limit + firstEvent
	if len(r.buf) >= most {
		if r.n == len(r.buf) {
			r.err = errEventSize
		}
		return
	}
	r.buf = widen(r.buf, r.n, min(max(4*len(r.buf), firstEvent), most))
}
