package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	shownNoise = 3    // noise lines that are logged
	onOneLine  = 16   // messages that one line may hold
	longestID  = 1024 // bytes of an id of the server's own
)

// receive reads until the server is gone, then clears up.
func (c *lineConn) receive() {
	lines := newLineReader(c.io, c.settings.maxMessage())
	long := longLine{c: c}
	defer long.end()
	for more := true; more; {
		t, err := lines.next()
		switch {
		case err != nil:
			c.fail(&Error{Server: c.server, Kind: Unreachable, Err: c.why(err)})
			more = false
		case t.open:
			more = long.goesOn(&t)
		case t.long:
			long.over(&t)
		default:
			c.line(&t)
		}
	}
	c.stop()
}

// line handles one line: a message, or several, or something that does not belong here.
func (c *lineConn) line(t *text) {
	b := trimLine(t.data)
	if len(b) == 0 {
		return
	}
	if parts, _ := wire.Batch(b); len(parts) > 0 && likeMessages(b, parts) {
		for _, part := range parts {
			if !c.message(part) && !c.unreadable(part) {
				c.odd(part)
			}
		}
		return
	}
	// What the end cut off says less about a call than how the server ended.
	if b[0] == '{' && (c.message(b) || c.several(b) || !t.cut && c.unreadable(b)) {
		return
	}
	if likeMessage(b) {
		c.odd(b)
		return
	}
	c.junk(b)
}

// message handles b if it is a message.
func (c *lineConn) message(b []byte) bool {
	m, err := wire.ParseServer(b, wire.Limits{})
	if wire.TooDeep(err) {
		return c.deepList(b)
	}
	if err != nil {
		return false
	}
	switch kind := m.Kind(); {
	case kind == wire.Response:
		return c.answered(m)
	case !m.JSONRPC:
		return false // a log line in JSON may well have a "method"
	case kind == wire.Invalid && m.ID != nil:
		return c.answered(m) // neither result nor error: its caller should not wait on
	case kind == wire.Request && (m.Result != nil || m.Err != nil):
		return c.spoiled(m.ID, errors.New("the answer has a method"))
	case kind == wire.Request:
		c.asked(&m)
		return true
	case kind == wire.Notification:
		c.notified(&m)
		return true
	}
	return false
}

// deepList handles b if it is the answer to a list.
func (c *lineConn) deepList(b []byte) bool {
	m, err := wire.ParseServer(b, wire.Limits{Deeper: true})
	id, ours := ourID(m.ID)
	if err != nil || !ours || m.Kind() != wire.Response {
		return false
	}
	c.mu.Lock()
	p := c.pending[id]
	c.mu.Unlock()
	return p != nil && p.list && c.answered(m)
}

// several handles messages that stand on one line without a newline between them.
func (c *lineConn) several(b []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(b))
	var parts []json.RawMessage
	for dec.More() && len(parts) < onOneLine {
		var part json.RawMessage
		if dec.Decode(&part) != nil {
			return false
		}
		parts = append(parts, part)
	}
	if len(parts) < 2 {
		return false
	}
	for _, part := range parts {
		if !c.message(part) && !c.unreadable(part) {
			c.odd(part)
		}
	}
	return true
}

// unreadable fails the call whose answer is broken, if the line shows which it is:
// otherwise its caller would wait for the time-out.
func (c *lineConn) unreadable(b []byte) bool {
	_, err := wire.ParseServer(b, wire.Limits{})
	if err == nil || wire.Kindof(b) != '{' {
		return false
	}
	h := readHead(b)
	if h.id == nil {
		h.id = tailID(b[max(0, len(b)-longTail):])
	}
	outcome := bytes.Contains(b, []byte(`"result"`)) || bytes.Contains(b, []byte(`"error"`))
	if h.method && !h.outcome || !h.jsonrpc && !outcome {
		return false
	}
	return c.spoiled(h.id, fmt.Errorf("the answer cannot be read: %w", err))
}

// spoiled fails the call that raw names, if there is one, and counts a line of noise then.
func (c *lineConn) spoiled(raw []byte, err error) bool {
	id, _ := ourID(raw)
	p := c.take(id)
	if p == nil {
		return false
	}
	c.e.noised(1)
	p.answer <- answer{err: &Error{Server: c.server, Kind: Protocol, Err: err}}
	return true
}

// answered hands an answer to its call. One that nobody waits for is dropped: it is
// late, or a repetition, or never was ours.
func (c *lineConn) answered(m wire.Message) bool {
	if !m.JSONRPC && m.Result == nil && wire.Kindof(m.Err) != '{' {
		return false // a log line in JSON may well have an "id" and an "error"
	}
	if c.listenEnded(&m) {
		return true
	}
	p := c.addressee(&m)
	if p == nil {
		if m.JSONRPC && !c.paid(&m) {
			c.e.noised(1)
		}
		return m.JSONRPC
	}
	p.answer <- answer{msg: m}
	return true
}

func (c *lineConn) addressee(m *wire.Message) *pending {
	if id, ok := ourID(m.ID); ok {
		return c.take(id)
	}
	if m.Err != nil && (m.ID == nil || string(m.ID) == "null") {
		// A server that could not read a request answers without its id. With one
		// request out there is no doubt which.
		return c.takeOnly()
	}
	return nil
}

// takeOnly removes the only call in flight; nil when there are none or several.
func (c *lineConn) takeOnly() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) != 1 {
		return nil
	}
	for id, p := range c.pending {
		delete(c.pending, id)
		return p
	}
	return nil
}

// junk counts a line that is no message. Some servers print a banner, others log to
// standard output; neither may end the connection.
func (c *lineConn) junk(b []byte) {
	c.e.noised(1)
	if c.shown.Add(1) > shownNoise {
		return
	}
	line := clip(cleanLine(b, c.scrub))
	if c.link != nil {
		c.e.logger().Warn("event is not a message", "server", c.server, "data", line)
		return
	}
	c.e.logger().Warn("line on standard output is not a message", "server", c.server, "line", line)
}

// odd counts what looks like a message and is of no use as one. What it holds may
// be an agent's or a user's, and is not logged.
func (c *lineConn) odd(b []byte) {
	c.e.noised(1)
	if c.shown.Add(1) > shownNoise {
		return
	}
	_, err := wire.ParseServer(b, wire.Limits{})
	if err == nil {
		err = errNoMessage
	}
	msg := "message on standard output is of no use"
	if c.link != nil {
		msg = "message is of no use"
	}
	c.e.logger().Warn(msg, "server", c.server, "bytes", len(b), "err", clip(cleanLine([]byte(err.Error()), c.scrub)))
}

// errNoMessage is about JSON that may well be a log line.
var errNoMessage = errors.New("JSON, but no JSON-RPC message")

// likeMessage reports whether a line begins as JSON does that a server could mean
// for us. Log lines may begin with a bracket too: [info], [2026-01-02].
func likeMessage(b []byte) bool {
	if b[0] != '[' {
		return b[0] == '{'
	}
	if b = bytes.TrimLeft(b[1:], " \t\r"); len(b) == 0 {
		return true
	}
	return bytes.IndexByte([]byte(`{["]`), b[0]) >= 0
}

// likeMessages reports whether a line in brackets is what it looks like.
func likeMessages(b []byte, parts [][]byte) bool {
	return likeMessage(b) || slices.ContainsFunc(parts, func(p []byte) bool { return len(p) > 0 && p[0] == '{' })
}

var errClosedOutput = errors.New("the server closed its output")
