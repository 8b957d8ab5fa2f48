package proxy

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A reply is one message to an agent in three parts, so that a large middle is
// never copied. The zero value is silence.
type reply struct {
	head, mid, tail []byte
	status          int // of the HTTP answer; zero is 200
}

func (r *reply) silent() bool { return r.head == nil }

func (r *reply) size() int { return len(r.head) + len(r.mid) + len(r.tail) }

func (r *reply) parts() [3][]byte { return [3][]byte{r.head, r.mid, r.tail} }

// append appends the whole message.
func (r *reply) append(dst []byte) []byte {
	return append(append(append(dst, r.head...), r.mid...), r.tail...)
}

// An answer is what a method returns: a result, or a failure.
type answer struct {
	// front are members to put before those of result, each with its comma.
	front string
	// result is the raw object; or what stands between open and end, if those
	// are set.
	result    []byte
	open, end string
	// failure is a raw error object and excludes the others.
	failure []byte
	// status is that of the HTTP answer to a failure; zero is 200.
	status int
}

var brace = []byte("}")

// reply makes the message that answers the request id.
func (a *answer) reply(id []byte) reply {
	head := append(make([]byte, 0, 64+len(id)+len(a.front)+len(a.open)), `{"jsonrpc":"2.0","id":`...)
	head = append(head, id...)
	if a.failure != nil {
		return reply{head: append(head, `,"error":`...), mid: a.failure, tail: brace, status: a.status}
	}
	head = append(head, `,"result":`...)
	mid := a.result
	if a.front != "" {
		head = append(append(head, '{'), a.front...)
		if isEmpty(mid) {
			head = head[:len(head)-1]
		}
		mid = mid[1:]
	}
	if a.end == "" {
		return reply{head: head, mid: mid, tail: brace}
	}
	return reply{head: append(head, a.open...), mid: mid, tail: append([]byte(a.end), '}')}
}

// failed makes the reply to a faulty request.
func failed(id []byte, err error, modern bool) reply {
	e := (*wire.Error)(nil)
	if !errors.As(err, &e) {
		e = &wire.Error{Code: wire.CodeInternal, Message: "internal error"}
	}
	r := reply{head: wire.AppendError(nil, id, e.Code, e.Message, e.Data)}
	switch e.Code {
	case wire.CodeMethodNotFound:
		if modern {
			r.status = http.StatusNotFound
		}
	case wire.CodeParse, wire.CodeInvalidRequest, wire.CodeHeaderMismatch,
		wire.CodeMissingCapability, wire.CodeUnsupportedVersion:
		r.status = http.StatusBadRequest
	}
	return r
}

// isOneLine reports whether b has no line break. In valid JSON one can only
// stand between tokens.
func isOneLine(b []byte) bool {
	return bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0
}

// oneLine returns b without line breaks; JSON means the same without them.
func oneLine(b []byte) []byte {
	if isOneLine(b) {
		return b
	}
	out := bytes.Clone(b)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	return out
}
