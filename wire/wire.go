// Package wire reads and writes JSON-RPC messages as bytes: it checks and
// splits them without decoding what nobody needs decoded.
//
// Numbers keep their digits, unknown members stay, and every slice that is
// handed out aliases the bytes that came in.
package wire

// Flags say what a scan of JSON text found in its strings.
type Flags uint8

// The flags. A value with none of them holds only plain ASCII text.
const (
	NonASCII Flags = 1 << iota // a byte of 0x80 or more
	Escapes                    // a \u, \b or \f escape, or a raw DEL
	BadText                    // invalid UTF-8 or a lone surrogate escape
)

// Suspect reports whether there is anything that a cleaner must look at.
func (f Flags) Suspect() bool { return f != 0 }

// Limits bound what one JSON value may cost to check.
type Limits struct {
	// Depth bounds the nesting of objects and arrays. If zero, 128.
	Depth int
	// Members bounds the members of one object. If zero, 100,000.
	Members int
	// Deeper lets pass what is nested deeper than Depth, for who checks the parts by
	// themselves. Its grammar is checked, its members are not counted. ParseAgent
	// does not know it.
	Deeper bool
}

func (l Limits) depth() int {
	if l.Depth == 0 {
		return 128
	}
	return l.Depth
}

func (l Limits) members() int {
	if l.Members == 0 {
		return 100_000
	}
	return l.Members
}

// Kind tells requests, notifications and responses apart.
type Kind uint8

// The kinds of message.
const (
	Invalid Kind = iota
	Request
	Notification
	Response
)

// Message is one JSON-RPC message as slices of the bytes it came in.
type Message struct {
	Raw     []byte // the object, without surrounding white space
	JSONRPC bool   // "jsonrpc":"2.0" was there
	ID      []byte // raw JSON; nil when absent
	Method  string // decoded; empty when absent
	Params  []byte // raw JSON; nil when absent or null
	Result  []byte // raw JSON; nil when absent
	Err     []byte // raw JSON; nil when absent
	Flags   Flags  // what the strings of the whole message hold
}

// Kind returns what m is, by the members that it has.
func (m *Message) Kind() Kind {
	switch {
	case m.Method != "" && m.ID != nil:
		return Request
	case m.Method != "":
		return Notification
	case m.Result != nil || m.Err != nil:
		return Response
	}
	return Invalid
}

// Codes of JSON-RPC and MCP errors.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002 // up to 2025-11-25
	CodeHeaderMismatch     = -32020 // from 2026-07-28 on, like the next two
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// Error is a JSON-RPC error that is to be answered.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON; nil when absent
	ID      []byte // raw id of the faulty message; nil when it could not be read
}

func (e *Error) Error() string { return e.Message }
