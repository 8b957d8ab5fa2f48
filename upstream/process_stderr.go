package upstream

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

const (
	stderrKept    = 64 << 10 // what is remembered of a child's standard error
	stderrInError = 1 << 10  // what of it goes into an error
	stderrLine    = 1 << 10  // what of one line goes into the log
	scrubbed      = 64 << 10 // what of one line is read for that, since secrets go before the cut
	stderrQueue   = 64       // lines that may wait for the log
)

// A stderrTail keeps the end of what a child says on standard error. Reading never
// waits for anybody: a child that blocks on a full pipe looks dead.
type stderrTail struct {
	scrub func(string) string

	mu   sync.Mutex
	ring []byte // of stderrKept bytes once it is full
	next int    // where the next byte goes when the ring is full

	lines   chan string // to the log; nil when nobody listens. Closed by drain.
	dropped atomic.Int64
}

// newStderrTail starts nothing; drain does the work.
func newStderrTail(log *slog.Logger, scrub func(string) string) *stderrTail {
	t := &stderrTail{scrub: scrub}
	if log.Enabled(context.Background(), slog.LevelDebug) {
		t.lines = make(chan string, stderrQueue)
		go t.report(log)
	}
	return t
}

// drain reads until r ends.
func (t *stderrTail) drain(r io.Reader) {
	buf := make([]byte, 8<<10)
	var line []byte
	for {
		n, err := r.Read(buf)
		t.keep(buf[:n])
		line = t.logLines(line, buf[:n])
		if err != nil {
			break
		}
	}
	if t.lines != nil {
		t.offer(line)
		close(t.lines)
	}
}

func (t *stderrTail) keep(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := stderrKept - len(t.ring); room > 0 {
		n := min(room, len(b))
		t.ring = append(t.ring, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(t.ring[t.next:], b)
		t.next = (t.next + n) % stderrKept
		b = b[n:]
	}
}

// logLines cuts b into lines for the log and returns the unfinished last one.
func (t *stderrTail) logLines(line, b []byte) []byte {
	if t.lines == nil {
		return nil
	}
	for _, c := range b {
		switch {
		case c == '\n':
			t.offer(line)
			line = line[:0]
		case len(line) < scrubbed:
			line = append(line, c)
		}
	}
	return line
}

// offer drops the line when the log does not keep up.
func (t *stderrTail) offer(line []byte) {
	if len(line) == 0 {
		return
	}
	if len(t.lines) == cap(t.lines) { // nobody else adds any
		t.dropped.Add(1)
		return
	}
	t.lines <- cleanLine(line, t.scrub)
}

// cleanLine is the beginning of a line as it may be logged.
func cleanLine(line []byte, scrub func(string) string) string {
	line = line[:min(len(line), scrubbed)]
	s := scrub(plain(string(line)))
	if len(s) > stderrLine {
		return strings.ToValidUTF8(s[:stderrLine], "")
	}
	if len(line) == scrubbed {
		return "(a long line)" // secrets took most of it, and half of one may be its end
	}
	return s
}

// report is a goroutine of its own, because a log may block.
func (t *stderrTail) report(log *slog.Logger) {
	for line := range t.lines {
		log.Debug("stderr", "line", line)
		if n := t.dropped.Swap(0); n > 0 {
			log.Debug("stderr lines not logged", "count", n)
		}
	}
}

// tail is the end of what was said, on one line, fit for an error text.
func (t *stderrTail) tail() string {
	t.mu.Lock()
	b := make([]byte, 0, len(t.ring))
	b = append(append(b, t.ring[t.next:]...), t.ring[:t.next]...)
	t.mu.Unlock()
	// Secrets go before the cut, so that no half of one survives it.
	return lastLines(t.scrub(plain(string(b))), stderrInError)
}

// lastLines joins the last lines of s that fit into n bytes.
func lastLines(s string, n int) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
	out := ""
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "":
			continue
		case out == "":
			out = lastBytes(line, n)
		case len(line)+3+len(out) > n:
			return out
		default:
			out = line + " | " + out
		}
	}
	return out
}

func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// plain takes terminal sequences and everything else that does not print out of
// text from a server; newlines stay.
func plain(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		if n := ansi(s[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch {
		case r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError:
			out.WriteRune(r)
		case r == '\t':
			out.WriteByte(' ')
		case r == utf8.RuneError:
			out.WriteByte('?')
		}
	}
	return out.String()
}

// ansi returns the length of the terminal sequence that s begins with, or zero.
func ansi(s string) int {
	if len(s) < 2 || s[0] != 0x1b {
		return 0
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']':
		for i := 2; i < len(s) && s[i] != '\n'; i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
	}
	return 2
}
