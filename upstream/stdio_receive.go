package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	shownNoise  = 3    // noise lines that are logged
	shownBytes  = 1024 // what of each is looked at
	onOneLine   = 16   // messages that one line may hold
	longestID   = 1024 // bytes of an id of the server's own
	nothingHere = "this client offers no such method"
)

// receive reads until the server is gone, then clears up.
func (c *lineConn) receive() {
	lines := newLineReader(c.io, c.settings.maxMessage())
	for {
		t, err := lines.next()
		if err != nil {
			c.fail(&Error{Server: c.server, Kind: Unreachable, Err: c.why(err)})
			c.stop()
			return
		}
		if t.long {
			c.tooLong(&t)
			continue
		}
		c.line(t.data)
	}
}

// line handles one line: a message, or several, or something that does not belong here.
func (c *lineConn) line(b []byte) {
	b = trimLine(b)
	if len(b) == 0 {
		return
	}
	if parts, _ := wire.Batch(b); len(parts) > 0 {
		for _, part := range parts {
			if !c.message(part) {
				c.junk(part)
			}
		}
		return
	}
	if b[0] == '{' && (c.message(b) || c.several(b) || c.unreadable(b)) {
		return
	}
	c.junk(b)
}

// message handles b if it is a message.
func (c *lineConn) message(b []byte) bool {
	m, err := wire.ParseServer(b, wire.Limits{})
	if err != nil {
		return false
	}
	switch kind := m.Kind(); {
	case kind == wire.Response:
		return c.answered(m)
	case !m.JSONRPC:
		return false // a log line in JSON may well have a "method"
	case kind == wire.Request:
		c.asked(&m)
		return true
	case kind == wire.Notification:
		c.notified(m.Method, m.Params)
		return true
	}
	return false
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
		if !c.message(part) {
			c.junk(part)
		}
	}
	return true
}

// unreadable fails the call whose answer is broken, if the line shows which it is:
// otherwise its caller would wait for the time-out.
func (c *lineConn) unreadable(b []byte) bool {
	_, err := wire.ParseServer(b, wire.Limits{})
	t := text{data: b[:min(len(b), longHead)], tail: b[max(0, len(b)-longTail):]}
	id, ok, isAnswer := t.owner()
	if err == nil || !ok || !isAnswer || !bytes.Contains(b, []byte(`"result"`)) && !bytes.Contains(b, []byte(`"error"`)) {
		return false
	}
	p := c.take(id)
	if p == nil {
		return false
	}
	c.e.noised(1)
	p.answer <- answer{err: &Error{Server: c.server, Kind: Protocol, Err: fmt.Errorf("the answer cannot be read: %w", err)}}
	return true
}

// answered hands an answer to its call. One that nobody waits for is dropped: it is
// late, or a repetition, or never was ours.
func (c *lineConn) answered(m wire.Message) bool {
	if !m.JSONRPC && m.Result == nil && wire.Kindof(m.Err) != '{' {
		return false // a log line in JSON may well have an "id" and an "error"
	}
	p := c.addressee(&m)
	if p == nil {
		if m.JSONRPC {
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

// tooLong fails the call that a long line answers. If the line does not show which,
// that is the oldest: it has waited longest, and some call must learn of it.
func (c *lineConn) tooLong(t *text) {
	c.e.noised(1)
	id, ok, isAnswer := t.owner()
	if !isAnswer || len(trimLine(t.data)) == 0 || trimLine(t.data)[0] != '{' {
		return
	}
	var p *pending
	if ok {
		p = c.take(id)
	} else {
		p = c.takeOldest()
	}
	if p == nil {
		return
	}
	p.answer <- answer{err: &Error{Server: c.server, Kind: TooLarge,
		Err: fmt.Errorf("the answer is larger than max_message_bytes (%d)", c.settings.maxMessage())}}
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

// asked answers a request of the server at once. We declared no capability, so
// only ping is in order: sampling, elicitation and roots were never offered.
func (c *lineConn) asked(m *wire.Message) {
	switch {
	case len(m.ID) > longestID:
		c.e.noised(1)
	case m.Method == "ping":
		c.post(wire.AppendResult(nil, m.ID, []byte("{}")))
	default:
		c.post(wire.AppendError(nil, m.ID, wire.CodeMethodNotFound, nothingHere, nil))
	}
}

// notified brings a notification to the call that it belongs to, else to the Set.
func (c *lineConn) notified(method string, params []byte) {
	switch method {
	case progressMethod:
		c.progressed(params)
	case logMethod:
		if p := c.onlyListener(); p != nil {
			c.tell(p, note{method, params})
			return
		}
		c.e.notified(method, params)
	default:
		c.e.notified(method, params)
	}
}

// onlyListener is the call that a log message belongs to, as far as one can
// tell: over stdio messages do not say, so it must be the only call in flight.
func (c *lineConn) onlyListener() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) != 1 {
		return nil
	}
	for _, p := range c.pending {
		if p.notes != nil {
			return p
		}
	}
	return nil
}

func (c *lineConn) progressed(params []byte) {
	raw, _ := wire.Get(params, "progressToken")
	id, _ := ourID(raw)
	c.mu.Lock()
	p := c.pending[id]
	c.mu.Unlock()
	if p == nil || p.notes == nil {
		c.e.noised(1)
		return
	}
	out, ok := p.gate.pass(params, id, p.token)
	if !ok {
		c.e.noised(1)
		return
	}
	c.tell(p, note{progressMethod, out})
}

// tell never waits: a caller that does not keep up loses notifications, not the
// other callers their answers.
func (c *lineConn) tell(p *pending, n note) {
	select {
	case p.notes <- n:
	default:
		c.e.noised(1)
	}
}

// junk counts a line that is no message. Some servers print a banner, others log to
// standard output; neither may end the connection.
func (c *lineConn) junk(b []byte) {
	c.e.noised(1)
	if c.shown.Add(1) > shownNoise {
		return
	}
	line := clip(c.scrub(plain(string(b[:min(len(b), shownBytes)]))))
	c.e.logger().Warn("line on standard output is not a message", "server", c.server, "line", line)
}

var errClosedOutput = errors.New("the server closed its output")
