package upstream

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
)

const (
	lineChunk = 64 << 10 // what one read may bring: the size of a pipe
	longHead  = 1 << 10  // what is kept of the beginning of a line that is too long
	longTail  = 256      // and of its end
	maxGuess  = 2 << 20  // what is set aside for a line that is likely long
)

// A text is one line without its newline. Its bytes belong to whoever gets it.
type text struct {
	data []byte // of a long line only the beginning
	long bool   // the line was over the limit and was skipped
	tail []byte // of a long line the end
}

// A lineReader cuts a stream into lines of at most max bytes. A longer one is
// skipped without being held, so that it costs its own call and nothing else.
type lineReader struct {
	r   io.Reader
	max int

	buf      []byte
	from, to int
	err      error // of the last read

	acc  []byte // the beginning of a line that spans reads
	size int    // of the last line that spanned reads: the next is likely as long
	skip *text  // not nil while a long line is skipped
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: r, max: max, buf: make([]byte, lineChunk)}
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
		if l.err != nil {
			if l.acc == nil && l.skip == nil {
				return text{}, l.err
			}
			return l.line(), nil
		}
		l.to, l.err = l.r.Read(l.buf)
	}
}

// gather adds a piece to the line in work.
func (l *lineReader) gather(part []byte) {
	switch {
	case l.skip != nil:
		l.skip.tail = lastOf(l.skip.tail, part)
	case len(l.acc)+len(part) <= l.max:
		if l.acc == nil && len(part) >= len(l.buf)/2 {
			l.acc = make([]byte, 0, len(part)+min(l.size, maxGuess))
		}
		l.acc = append(l.acc, part...)
	default:
		head := append(bytes.Clone(l.acc[:min(len(l.acc), longHead)]), part[:min(len(part), longHead)]...)
		t := &text{long: true, data: head[:min(len(head), longHead)]}
		t.tail = lastOf(lastOf(nil, l.acc), part)
		l.skip, l.acc = t, nil
	}
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
	}
	l.acc = nil
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
	raw, method := headID(t.data)
	if method {
		return 0, false, false
	}
	if raw == nil {
		if m := endID.FindSubmatch(t.tail); m != nil {
			raw = m[1]
		}
	}
	id, ok = ourID(raw)
	return id, ok, true
}

// headID looks through the beginning of an object for its own members "id" and "method".
func headID(head []byte) (id []byte, method bool) {
	depth := 0
	for i := 0; i < len(head); i++ {
		switch head[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := stringEnd(head, i)
			if end < 0 {
				return id, method
			}
			key := head[i+1 : end]
			i = end
			rest := bytes.TrimLeft(head[end+1:], " \t\r")
			if depth != 1 || len(rest) == 0 || rest[0] != ':' {
				continue
			}
			switch string(key) {
			case "method":
				method = true
			case "id":
				id = scalar(bytes.TrimLeft(rest[1:], " \t\r"))
			}
		}
	}
	return id, method
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

// ourID reads an id that we gave out. Some servers send it back as a string.
func ourID(raw []byte) (id int64, ok bool) {
	if n := len(raw); n > 2 && raw[0] == '"' && raw[n-1] == '"' {
		raw = raw[1 : n-1]
	}
	if len(raw) == 0 || len(raw) > 18 || raw[0] < '1' || raw[0] > '9' {
		return 0, false
	}
	id, err := strconv.ParseInt(string(raw), 10, 64)
	return id, err == nil
}

var bom = []byte("\xef\xbb\xbf")

// trimLine takes what surrounds a message on its line: a byte order mark, a
// carriage return, blanks.
func trimLine(b []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(bytes.TrimLeft(b, " \t"), bom), " \t\r")
}
