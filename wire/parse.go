package wire

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
)

// maxID bounds the bytes of a request id, which every answer carries back.
const maxID = 1024

// scanners keeps the key stacks of strict scans.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

// ParseAgent reads a message from an agent. It is strict: syntax, UTF-8, no
// lone surrogates, no member twice at any depth, nothing behind the object, no
// member that differs from a known one only in case. An error is an *Error
// with the code to answer and, where it could be read, the id.
func ParseAgent(b []byte, l Limits) (Message, error) {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	*s = scanner{b: b, depth: l.depth(), members: l.members(), strict: true, keys: s.keys[:0]}
	m, err := s.envelope()
	clear(s.keys[:cap(s.keys)])
	s.b = nil
	if err != nil {
		return m, agentError(err, m.ID)
	}
	return m, m.checkAgent()
}

// ParseServer reads a message from a server. Syntax is checked; bad text only
// sets BadText, members below the envelope may come twice, and "jsonrpc" may
// be missing.
func ParseServer(b []byte, l Limits) (Message, error) {
	s := scanner{b: b, depth: l.depth(), members: l.members(), deeper: l.Deeper}
	return s.envelope()
}

func agentError(err error, id []byte) *Error {
	code, dup := CodeParse, (*duplicateError)(nil)
	if lim := (*limitError)(nil); errors.As(err, &dup) || errors.As(err, &lim) {
		code = CodeInvalidRequest
	}
	if validID(id) != nil {
		id = nil
	}
	return &Error{Code: code, Message: err.Error(), ID: id}
}

var errNotObject = errors.New("a message is one JSON object")

// envelope splits the object in s.b. On an error the message holds what was
// read before it.
func (s *scanner) envelope() (m Message, err error) {
	b := s.b
	from := space(b, 0)
	if from >= len(b) {
		return m, errEnd
	}
	if b[from] != '{' {
		if _, err := s.value(from, 0); err != nil {
			return m, err
		}
		return m, &duplicateAs{errNotObject}
	}
	i := space(b, from+1)
	for n := 0; ; n++ {
		if n == 0 && i < len(b) && b[i] == '}' {
			break
		}
		if n > 64 {
			return m, &limitError{"members in an envelope", 64}
		}
		key, at, err := s.key(i)
		if err != nil {
			return m, err
		}
		if i, err = s.value(at, 1); err != nil {
			return m, err
		}
		val := b[at:i]
		if i = space(b, i); i >= len(b) || b[i] != ',' && b[i] != '}' {
			return m, s.unexpected(i)
		}
		if err := m.set(key, val, s.strict); err != nil {
			return m, err
		}
		if b[i] == '}' {
			break
		}
		i = space(b, i+1)
	}
	i++
	if space(b, i) != len(b) {
		return m, errTrail
	}
	m.Raw, m.Flags = b[from:i], s.flags
	return m, nil
}

// duplicateAs marks valid JSON that is no valid message.
type duplicateAs struct{ err error }

func (e *duplicateAs) Error() string { return e.err.Error() }
func (e *duplicateAs) As(t any) bool {
	if p, ok := t.(**duplicateError); ok {
		*p = &duplicateError{}
		return true
	}
	return false
}

var envelopeNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// set stores one member of the envelope.
func (m *Message) set(key, val []byte, strict bool) error {
	switch string(key) {
	case "jsonrpc":
		if m.JSONRPC {
			return &duplicateError{"jsonrpc"}
		}
		m.JSONRPC = string(val) == `"2.0"`
	case "id":
		return put(&m.ID, val, "id")
	case "method":
		if m.Method != "" {
			return &duplicateError{"method"}
		}
		if Kindof(val) != '"' {
			return &duplicateAs{errors.New("method is not a string")}
		}
		m.Method, _ = Unquote(val)
	case "params":
		if string(val) == "null" {
			return nil
		}
		return put(&m.Params, val, "params")
	case "result":
		return put(&m.Result, val, "result")
	case "error":
		return put(&m.Err, val, "error")
	default:
		if strict {
			return folded(key, envelopeNames)
		}
	}
	return nil
}

func put(dst *[]byte, val []byte, name string) error {
	if *dst != nil {
		return &duplicateError{name}
	}
	*dst = val
	return nil
}

// folded refuses a key that some reader might take for one of names: they
// differ only in case, by Unicode's simple folding.
func folded(key []byte, names []string) error {
	odd := false
	for _, c := range key {
		if c >= 0x80 || c >= 'A' && c <= 'Z' {
			odd = true
			break
		}
	}
	if !odd {
		return nil
	}
	for _, n := range names {
		if string(key) != n && bytes.EqualFold(key, []byte(n)) {
			return &duplicateAs{errors.New("member " + strconv.Quote(string(key)) + " differs from " + strconv.Quote(n) + " only in case")}
		}
	}
	return nil
}

// paramNames are the members of params that routing or policy reads.
var paramNames = []string{"name", "arguments", "uri", "cursor", "ref", "argument", "context",
	"level", "requestId", "progressToken", "_meta", "task", "taskId", "requestState", "inputResponses",
	"protocolVersion", "capabilities", "clientInfo"}

// checkAgent applies what an agent's message must hold beyond good JSON.
func (m *Message) checkAgent() error {
	if err := m.faultOf(); err != "" {
		id := m.ID
		if validID(id) != nil {
			id = nil
		}
		return &Error{Code: CodeInvalidRequest, Message: err, ID: id}
	}
	return nil
}

func (m *Message) faultOf() string {
	if !m.JSONRPC {
		return `jsonrpc is not "2.0"`
	}
	if m.ID != nil {
		if err := validID(m.ID); err != nil {
			return err.Error()
		}
	}
	switch {
	case m.Method == "" && m.Result == nil && m.Err == nil:
		return "no method"
	case m.Method != "" && (m.Result != nil || m.Err != nil):
		return "a message is a request or a response, not both"
	case m.Result != nil && m.Err != nil:
		return "a response has a result or an error, not both"
	case m.Method == "" && m.ID == nil:
		return "a response without an id"
	case m.Params != nil && m.Params[0] != '{':
		return "params is not an object"
	}
	var bad error
	Each(m.Params, func(key, _ []byte) bool {
		bad = folded(key, paramNames)
		return bad == nil
	})
	if bad != nil {
		return bad.Error()
	}
	return ""
}

// validID checks that an id is a string or an integer that every peer reads alike.
func validID(id []byte) error {
	switch {
	case len(id) > maxID:
		return errors.New("id is longer than 1024 bytes")
	case Kindof(id) == '"':
		return nil
	case Kindof(id) == '0':
		if _, err := strconv.ParseInt(string(id), 10, 64); err == nil {
			return nil
		}
		return errors.New("id is not an integer of 64 bits")
	}
	return errors.New("id is neither a string nor an integer")
}

// Batch splits a top-level array into its elements. ok is false when b is not
// an array; a broken one yields the elements before the fault.
func Batch(b []byte) (parts [][]byte, ok bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '[' {
		return nil, false
	}
	Elements(b, func(v []byte) bool {
		parts = append(parts, v)
		return len(parts) < 1000
	})
	return parts, true
}
