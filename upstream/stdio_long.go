package upstream

import (
	"fmt"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// longWait is how long a line may go on after it passed the limit: it swallows
	// whatever else the server says.
	longWait = 10 * time.Second
	// longTimes is how many times the limit a line may reach while nobody knows whose it is.
	longTimes = 4
)

// A longLine follows a line over the limit, from the moment it passes that to its end.
// Its zero value, with a connection, is ready for the first.
type longLine struct {
	c     *lineConn
	timer *time.Timer // nil while there is no such line
	owned bool        // its call is known, and was failed
}

// goesOn hears that the line is larger yet. Its call fails at once if the beginning
// shows which it is; without a newline in reasonable time the whole connection does.
// It returns false when there is no use in reading on.
func (l *longLine) goesOn(t *text) bool {
	if l.timer == nil {
		l.timer = time.AfterFunc(longWait, l.expire)
		l.owned = l.settle(t)
	}
	if l.owned || t.size <= longTimes*l.c.settings.maxMessage() {
		return true
	}
	l.c.fail(l.c.tooLarge("a line", ", and there is no end to it"))
	return false
}

func (l *longLine) expire() {
	l.c.fail(l.c.tooLarge("a line", fmt.Sprintf(", and did not end within %v", longWait)))
}

// settle fails the call that the line's beginning names.
func (l *longLine) settle(t *text) bool {
	h := readHead(t.data)
	id, ok := ourID(h.id)
	if !ok || h.method || wire.Kindof(trimLine(t.data)) != '{' {
		return false
	}
	l.c.tooLong(l.c.take(id))
	return true
}

// over hears that the line ended. If its call is not known yet, and it does not show
// that now, that is the oldest: it has waited longest, and some call must learn of it.
func (l *longLine) over(t *text) {
	l.c.e.noised(1)
	owned := l.owned
	l.end()
	rescued := l.c.rescue(t.tail)
	if !owned {
		l.disown(t, rescued)
	}
}

// disown fails the call of a line that ended. If another answer shares its end, the
// id that stands there is not the line's own.
func (l *longLine) disown(t *text, rescued bool) {
	if rescued {
		t.tail = nil
	}
	id, ok, isAnswer := t.owner()
	switch {
	case !isAnswer || wire.Kindof(trimLine(t.data)) != '{':
	case ok:
		l.c.tooLong(l.c.take(id))
	default:
		l.c.tooLong(l.c.takeOldest())
	}
}

// end makes ready for the next long line.
func (l *longLine) end() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.owned = nil, false
}

// rescue delivers an answer that shares the end of a long line because the newline
// between them is missing. No part of one JSON object looks like that: the object's
// own closing brace would be too many.
func (c *lineConn) rescue(tail []byte) bool {
	for i, b := range tail {
		if b != '{' || i == 0 {
			continue
		}
		m, err := wire.ParseServer(trimLine(tail[i:]), wire.Limits{})
		if err == nil && m.JSONRPC && m.Kind() == wire.Response {
			return c.answered(m)
		}
	}
	return false
}

// tooLong tells a caller, if there is one, that the answer is too large.
func (c *lineConn) tooLong(p *pending) {
	if p != nil {
		p.answer <- answer{err: c.tooLarge("the answer", "")}
	}
}

func (c *lineConn) tooLarge(what, more string) *Error {
	return &Error{Server: c.server, Kind: TooLarge,
		Err: fmt.Errorf("%s is larger than max_message_bytes (%d)%s", what, c.settings.maxMessage(), more)}
}

func (c *lineConn) takeOldest() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var oldest *pending
	for _, p := range c.pending {
		if oldest == nil || p.id < oldest.id {
			oldest = p
		}
	}
	if oldest != nil {
		delete(c.pending, oldest.id)
	}
	return oldest
}
