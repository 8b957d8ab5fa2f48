package proxy

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/seal"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// sealedState is the kind of sealed value that a requestState is.
const sealedState = 'r'

// maxState bounds a requestState of ours in bytes; it may hold a server's own.
const maxState = 1 << 20

// maxStateBody is how much of it may be the server's: the rest is ours, and it
// all becomes base64.
const maxStateBody = maxState/4*3 - 1<<10

// A stateKind says what goes on when a requestState comes back.
type stateKind byte

const (
	stateParked stateKind = iota + 1 // a call that waits
	stateServer                      // a call anew, with what the server gave along
	stateURL                         // the same call anew, once pages were visited
)

// A nonce names one requestState, which is good for one retry.
type nonce = [16]byte

// A state is what a requestState holds.
type state struct {
	kind    stateKind
	nonce   nonce
	expires int64 // unix nanoseconds
	request binding
	server  string
	body    []byte // of the kind
}

// A binding is what a requestState belongs to: nothing of it can be read out of
// what is sealed.
type binding struct{ caller, view, what, args digest }

// binding is that of the request of x: of the agent's own, whatever became of it
// on its way to a server.
func (x *exchange) binding() binding {
	named := x.params.name
	if x.msg.Method == "resources/read" {
		named = x.params.uri
	}
	name, _ := wire.Unquote(named)
	return binding{
		caller: sha256.Sum256([]byte(x.caller.ID)),
		view:   sha256.Sum256([]byte(x.view.Key)),
		what:   sha256.Sum256([]byte(x.msg.Method + "\x00" + name)),
		args:   sameArguments(x.params.args),
	}
}

// newState returns a state for the request of x that expires when calls that
// wait do.
func (x *exchange) newState(k stateKind, server string, body []byte) *state {
	s := &state{kind: k, request: x.binding(), server: server, body: body}
	s.expires = time.Now().Add(x.f.opt.Limits.parkedTime()).UnixNano()
	rand.Read(s.nonce[:])
	return s
}

// began is when s was given out.
func (x *exchange) began(s *state) time.Time {
	return time.Unix(0, s.expires).Add(-x.f.opt.Limits.parkedTime())
}

// seal returns what an agent gets of s.
func (f *Front) seal(s *state) string {
	b := make([]byte, 0, 256+len(s.server)+len(s.body))
	b = append(append(b, byte(s.kind)), s.nonce[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.expires))
	for _, d := range s.request.parts() {
		b = append(b, d[:]...)
	}
	b = appendField(b, []byte(s.server))
	return f.opt.Sealer.Seal(sealedState, nil, append(b, s.body...))
}

func (b *binding) parts() [4]*digest { return [4]*digest{&b.caller, &b.view, &b.what, &b.args} }

// open reads the requestState that the request of x came with, and refuses one
// that is not for it. What it was for instead, nobody learns.
func (x *exchange) open() (*state, *wire.Error) {
	token, ok := wire.Unquote(x.params.state)
	if !ok {
		return nil, errStateForm
	}
	raw, err := x.f.opt.Sealer.OpenUpTo(maxState, sealedState, nil, token)
	if errors.Is(err, seal.ErrOtherInstance) {
		return nil, errStateInstance
	}
	s := readState(raw)
	if err != nil || s == nil {
		return nil, errStateForm
	}
	return s, x.check(s)
}

// The ways in which a requestState is refused.
var (
	errStateForm     = badParams("requestState is malformed, or was altered")
	errStateInstance = badParams("requestState is of another instance of mcp-sidecar; make the call anew without it")
	errStateExpired  = badParams("requestState has expired; make the call anew without it")
	errStateCaller   = badParams("requestState was given to another caller")
	errStateView     = badParams("requestState was given at another endpoint")
	errStateWhat     = badParams("requestState was given for a request of something else")
	errStateArgs     = badParams("requestState was given for other arguments")
	errStateUsed     = badParams("requestState was used before; each is good for one retry")
	errStateUnknown  = badParams("no call waits for this requestState: it has ended or was given up; make the call anew without it")
	errStateMissing  = badParams("inputResponses came without a requestState")
	errStateEra      = badParams("requestState belongs to 2026-07-28")
)

// check holds s against the request of x.
func (x *exchange) check(s *state) *wire.Error {
	b := x.binding()
	switch {
	case s.request.caller != b.caller:
		return errStateCaller
	case s.request.view != b.view:
		return errStateView
	case s.request.what != b.what:
		return errStateWhat
	case s.request.args != b.args:
		return errStateArgs
	case x.f.spent.was(s.nonce):
		return errStateUsed
	case time.Now().UnixNano() >= s.expires:
		return errStateExpired
	}
	return nil
}

// readState reads what seal has written; nil if it did not.
func readState(b []byte) *state {
	s := new(state)
	head := 1 + len(s.nonce) + 8
	if len(b) < head+len(s.request.parts())*sha256.Size {
		return nil
	}
	s.kind = stateKind(b[0])
	copy(s.nonce[:], b[1:])
	s.expires = int64(binary.BigEndian.Uint64(b[head-8:]))
	b = b[head:]
	for _, d := range s.request.parts() {
		b = b[copy(d[:], b):]
	}
	server, rest, ok := cutField(b)
	if !ok {
		return nil
	}
	s.server, s.body = string(server), rest
	return s
}

// appendField appends bytes that cutField takes off again.
func appendField(dst, field []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

func cutField(b []byte) (field, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	b = b[k:]
	return b[:n:n], b[n:], true
}
