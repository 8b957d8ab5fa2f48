package upstream

import (
	"bytes"
	"io"
	"math"
	"regexp"
	"strconv"
)

const (
	lineChunk = 64 << 10 // what one read may bring: the size of a pipe
	longHead  = 1 << 10  // what is kept of the beginning of a line that is too long
	longTail  = 4 << 10  // and of its end, where a short answer may follow
	maxGuess  = 2 << 20  // what is set aside for a line that is likely long
)

// A text is one line without its newline. Its bytes belong to whoever gets it.
type text struct {
	data []byte // of a long line only the beginning
	long bool   // the line was over the limit and was skipped
	tail []byte // of a long line the end
	open bool   // a long line so far: its end is yet to come
	size int    // of an open line
	cut  bool   // the stream ended before the line did
}

// A lineReader cuts a stream into lines of at most max bytes. A longer one is
// skipped without being held, so that it costs its own call and nothing else. While
// that goes on, next reports it each time another max bytes of it came.
type lineReader struct {
	r   steadyReader
	max int

	buf      []byte
	from, to int
	err      error // of the last read

	acc  []byte // the beginning of a line that spans reads,
	lent bool   // which is in a room that goes back
	size int    // of the last line that spanned reads: the next is likely as long
	skip *text  // not nil while a long line is skipped
	told int    // the size of that line at the last report
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: steadyReader{r: r}, max: max, buf: make([]byte, lineChunk)}
}

// next returns the next line. What stands before the end of the stream without a
// newline is a line too. After an error there is no more.
func (l *lineReader) next() (text, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.from:l.to], '\n'); i >= 0 {
			l.gather(l.buf[l.from : l.from+i])
			l.from += i + 1
			return l.line(), nil
		}
		if l.from < l.to {
			l.gather(l.buf[l.from:l.to])
		}
		l.from, l.to = 0, 0
		if l.skip != nil && l.err == nil && l.skip.size > l.told+l.max {
			l.told = l.skip.size
			return text{data: l.skip.data, long: true, open: true, size: l.told}, nil
		}
		if l.err != nil {
			if l.acc == nil && l.skip == nil {
				return text{}, l.err
			}
			t := l.line()
			t.cut = true
			return t, nil
		}
		l.to, l.err = l.r.Read(l.buf)
	}
}

// gather adds a piece to the line in work.
func (l *lineReader) gather(part []byte) {
	switch {
	case l.skip != nil:
		l.skip.tail = lastOf(l.skip.tail, part)
		l.skip.size += len(part)
	case len(l.acc)+len(part) <= l.max:
		if l.acc == nil && len(part) >= len(l.buf)/2 {
			l.acc = make([]byte, 0, len(part)+min(l.size, maxGuess))
		}
		l.add(part)
	default:
		head := append(bytes.Clone(l.acc[:min(len(l.acc), longHead)]), part[:min(len(part), longHead)]...)
		t := &text{long: true, data: head[:min(len(head), longHead)], size: len(l.acc) + len(part)}
		t.tail = lastOf(lastOf(nil, l.acc), part)
		l.skip, l.told = t, 0
		l.drop()
	}
}

func (l *lineReader) add(part []byte) {
	n := len(l.acc) + len(part)
	switch {
	case n <= cap(l.acc) || n <= len(l.buf):
	case n < l.size && l.size <= maxGuess && !l.lent:
		l.acc = append(make([]byte, 0, l.size+lineChunk), l.acc...)
	default:
		l.acc = widen(l.acc, len(l.acc), max(n, min(4*len(l.acc), l.max)))[:len(l.acc)]
		l.lent = true
	}
	l.acc = append(l.acc, part...)
}

// drop forgets the line in work.
func (l *lineReader) drop() {
	if l.lent {
		leaveRoom(l.acc)
	}
	l.acc, l.lent = nil, false
}

// line hands out the line in work.
func (l *lineReader) line() text {
	if l.skip != nil {
		t := *l.skip
		l.skip = nil
		return t
	}
	t := text{data: l.acc}
	if len(l.acc) > len(l.buf) {
		l.size = len(l.acc)
		l.r.useful() // small ones in such numbers are a flood
	}
	if l.lent {
		t.data = bytes.Clone(l.acc)
	}
	l.drop()
	return t
}

// lastOf returns the end of tail followed by part.
func lastOf(tail, part []byte) []byte {
	if len(part) >= longTail {
		return append(tail[:0], part[len(part)-longTail:]...)
	}
	tail = append(tail, part...)
	return append(tail[:0], tail[max(0, len(tail)-longTail):]...)
}

// endID matches the id where it is the last member, as the TypeScript SDK writes it.
var endID = regexp.MustCompile(`"id"\s*:\s*("?[0-9]{1,18}"?)\s*(,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// owner finds whose answer a long line was. ok is false when it does not show, and
// answer is false when the line is a request or notification of the server's own.
func (t *text) owner() (id int64, ok, answer bool) {
	h := readHead(t.data)
	if h.method {
		return 0, false, false
	}
	if h.id == nil {
		h.id = tailID(t.tail)
	}
	id, ok = ourID(h.id)
	return id, ok, true
}

func tailID(tail []byte) []byte {
	if m := endID.FindSubmatch(tail); m != nil {
		return m[1]
	}
	return nil
}

// A head is what the beginning of an object shows of its own members.
type head struct {
	id      []byte // the first, should there be several; nil when there is none
	method  bool
	outcome bool // a result or an error
	jsonrpc bool
}

// readHead looks through the beginning of an object, or the whole of a broken one.
func readHead(b []byte) (h head) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := stringEnd(b, i)
			if end < 0 {
				return h
			}
			key := b[i+1 : end]
			i = end
			if depth != 1 {
				continue
			}
			if rest := bytes.TrimLeft(b[end+1:], " \t\r"); len(rest) > 0 && rest[0] == ':' {
				h.member(key, bytes.TrimLeft(rest[1:], " \t\r"))
			}
		}
	}
	return h
}

// member notes one member; val begins with its value.
func (h *head) member(key, val []byte) {
	switch string(key) {
	case "jsonrpc":
		h.jsonrpc = true
	case "method":
		h.method = true
	case "result", "error":
		h.outcome = true
	case "id":
		if h.id == nil {
			h.id = scalar(val)
		}
	}
}

// stringEnd returns where the string that begins at i ends, or -1.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// scalar returns the number or string that b begins with; nil if b may cut it off.
func scalar(b []byte) []byte {
	end := bytes.IndexAny(b, ",} \t\r")
	if end < 0 {
		return nil
	}
	return b[:end]
}

// ourID reads an id that we gave out. Some servers send it back as a string, others
// as the same number in another spelling, such as 7.0.
func ourID(raw []byte) (id int64, ok bool) {
	if n := len(raw); n > 2 && raw[0] == '"' && raw[n-1] == '"' {
		raw = raw[1 : n-1]
	}
	if len(raw) == 0 || len(raw) > 18 || raw[0] < '1' || raw[0] > '9' {
		return 0, false
	}
	if id, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return id, true
	}
	return respelled(string(raw))
}

// respelled reads an integer that is written as a decimal fraction or with an exponent.
func respelled(s string) (id int64, ok bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 1 || f > 1<<53 || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

var bom = []byte("\xef\xbb\xbf")

// trimLine takes what surrounds a message on its line: a byte order mark, a
// carriage return, blanks.
func trimLine(b []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(bytes.TrimLeft(b, " \t"), bom), " \t\r")
}
