package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Era is one of the protocol's two ways of life.
type Era uint8

// The eras: Legacy opens with initialize (2024-11-05 to 2025-11-25), Modern
// is stateless (2026-07-28).
const (
	Legacy Era = iota
	Modern
)

// Protocol versions that this program speaks towards servers.
const (
	VersionModern = "2026-07-28"
	VersionLegacy = "2025-11-25"
)

// A Target says on whose behalf a call is made. The Set turns it into a Key.
type Target struct {
	Server string
	// Profile resolves references and the identity header. If empty, "default".
	Profile string
	// Session is the agent's session; empty for stateless agents.
	Session string
	// Caller is the identity of who called us.
	Caller string
	// Answers are the kinds of questions that the agent can answer. If none of
	// them is among those that the server may ask, the connection is a plain one.
	Answers policy.Answers
	// Legacy is true for agents that speak a version with a handshake. A server
	// of both eras is then asked in theirs.
	Legacy bool
}

// Mode tells plain connections from those whose agent answers questions.
type Mode uint8

// The modes of a connection. Discovery always uses Plain.
const (
	Plain Mode = iota
	Asking
)

// A Key names one connection: equal keys share it, different keys never do.
// Filters are not in it: they apply per view.
type Key struct {
	Server string
	// Identity is a digest of everything resolved that the server can see:
	// credentials, headers, environment, directory, TLS, egress, protocol.
	Identity [32]byte
	// Isolation is empty when shared, else the caller or the session.
	Isolation string
	Mode      Mode
}

// A Call is one request to a server, under the server's own names.
type Call struct {
	Method string
	// Name is the tool's or prompt's own name, or the resource's URI; empty for
	// methods that have none. It becomes the Mcp-Name header where the era has one.
	Name string
	// Params is the raw JSON object of the parameters without _meta. If nil, {}.
	Params []byte
	// Meta holds more members for the outgoing _meta, as raw `"k":v,"k2":v2`.
	Meta []byte
	// ProgressToken is the caller's own token as raw JSON; nil when none. The
	// server sees a token of ours; Notify sees the caller's.
	ProgressToken []byte
	// LogLevel is the level that the caller wants for this call; may be empty.
	LogLevel string
	// Notify gets what the server says about this call while it runs: progress
	// and log messages. It may be nil, is never called concurrently for one
	// call, never after Do returned, and must not keep params.
	Notify func(method string, params []byte)
	// Ask answers what the server asks about this call while it runs. It runs in
	// a goroutine of its own, possibly several times at once. Its ctx ends when
	// the server withdraws the question or the call is over; then its return is
	// not heard. While one is open the call's own time-out rests, and the call
	// holds no slot of max_concurrency. If nil, questions are declined.
	Ask func(ctx context.Context, q Question) (result []byte, err *wire.Error)
	// Capabilities is the raw object that a modern server is told the agent can
	// do for this call. If nil, {}.
	Capabilities []byte
	// Header are more headers for a modern HTTP server: Mcp-Param-* and their
	// values, not yet encoded. Others ignore them.
	Header []Param
	// Traceparent and Tracestate become HTTP headers; they stand in Meta too.
	Traceparent, Tracestate string
	// Via, if set, is Response.Via of an earlier call, which this one must follow
	// over the same connection: a task lives where it was made. If that is gone,
	// the call fails with Gone.
	Via string
	// Safe says that running the call twice does no harm.
	Safe bool
	// Timeout overrides the server's own if it is positive.
	Timeout time.Duration

	who string // the agent, set by Set.Do
}

// A Param is a header that repeats an argument of a call.
type Param struct{ Name, Value string }

// A Question is a request that a server makes while a call runs. Its bytes are
// the callee's to keep.
type Question struct {
	Server string
	// Method is sampling/createMessage, elicitation/create, roots/list, or one
	// that nobody knows.
	Method string
	// Params is the raw object; nil when absent.
	Params []byte
	Flags  wire.Flags
}

// An Origin says whose connection a notification came from.
type Origin struct {
	Server string
	// Isolation is whose it is, a session or a caller: empty when it is shared.
	Isolation string
	// Hears reports whether the agent that t stands for hears of this update of a
	// resource: one hears it from the connection of its calls while that is
	// subscribed, and else from the shared one. If nil, all do whose it is. It is
	// good while OnNotify runs.
	Hears func(t Target) bool
}

// A Response is a server's answer: Result or Error, as the bytes it sent.
type Response struct {
	// Result is the raw result; nil when the server answered with an error.
	Result []byte
	// Error is the raw JSON-RPC error object; nil when there is a result.
	Error []byte
	// Flags say what a scan of the bytes found.
	Flags wire.Flags
	// Era is that of the connection that answered.
	Era Era
	// Via names the connection, for Call.Via.
	Via string
}

// Info is what a server said of itself in its handshake.
type Info struct {
	Era Era
	// Version is the protocol version in force.
	Version string
	// Capabilities and ServerInfo are raw JSON objects; nil when absent.
	Capabilities []byte
	ServerInfo   []byte
	Instructions string
	// HTTP is true for servers that are spoken to over Streamable HTTP.
	HTTP bool
	// BothEras is true for a modern server that says it speaks an older version too.
	BothEras bool
	// PID is that of a stdio server's process; zero otherwise.
	PID int
}

// Has reports whether the server declared a capability, which means a member
// that is not null.
func (i *Info) Has(capability string) bool {
	v, ok := wire.Get(i.Capabilities, capability)
	return ok && string(v) != "null"
}

// A Listing is everything that one server offers, unfiltered, entry by entry as
// the bytes it sent. It is immutable.
type Listing struct {
	Info      Info
	Tools     []json.RawMessage
	Prompts   []json.RawMessage
	Resources []json.RawMessage
	Templates []json.RawMessage
	// Faults say what was cut or could not be listed, for people to read.
	Faults []string
	// TTL is how long the server says that its tools stay as they are; zero when it
	// does not say.
	TTL time.Duration
}

// State is where a server stands.
type State string

// The states; docs/SERVERS.md has what leads from one to another.
const (
	Disabled   State = "disabled"    // by configuration
	Connecting State = "connecting"  // for the first time
	Ready      State = "ready"       // connected and listed
	Degraded   State = "degraded"    // connected, but calls find it unwell
	Parked     State = "parked"      // given up for now, probed now and then
	Lazy       State = "lazy"        // starts with its first call
	Recycled   State = "recycled"    // ended by its time-out, starts with the next call
	NeedsLogin State = "needs-login" // refuses our credentials
	Failed     State = "failed"      // down, tried again soon, or cannot be with these settings
)

// Status is a server's state at one moment.
type Status struct {
	Server  string
	State   State
	Since   time.Time
	Err     error     // the last failure; nil when there was none since the last success
	RetryAt time.Time // zero when no attempt is planned
	Info    Info
	Noise   int64 // lines or events that were not JSON-RPC
	Tools   int
	// Attempts is how often in a row it could not be connected.
	Attempts int
	// Breaker is closed, open or half-open.
	Breaker string
	// InFlight and Queued are calls: those at the server, and those that wait for
	// a place.
	InFlight, Queued int
	// Lazy is true for a server that starts with its first call.
	Lazy bool
	// CertificateUntil is when the client certificate in use ends; zero without one.
	CertificateUntil time.Time
}

// Kind tells what went wrong between us and a server.
type Kind uint8

// The kinds of failure.
const (
	Unreachable  Kind = iota + 1 // refused, no such host, dead child, cannot spawn
	Timeout                      // the call's or the handshake's own limit
	Unauthorized                 // 401 or 403
	Protocol                     // an answer that cannot be one
	TooLarge                     // a limit of ours, named in the text
	Uncertain                    // sent, then lost: it may have run
	Busy                         // no slot within the wait
	Config                       // settings or references that do not resolve
	Closed                       // the sidecar stops
	RateLimited                  // 429; RetryAfter says when
	Gone                         // the connection that a call must follow ended
	Open                         // the breaker is open: nothing was sent
	Proxy                        // the proxy on the way failed, not the server
)

// Error is a failure to get an answer from a server.
type Error struct {
	Server, Op string
	Kind       Kind
	Err        error
	RetryAfter time.Duration // zero when unknown
	// Unsent is true when there was no connection to send a call over: Err is why, and
	// whatever it says of effects is not about the call.
	Unsent bool
}

// Error names the server once, whatever it is about.
func (e *Error) Error() string { return fmt.Sprintf("upstream %s: %v", e.Server, e.under()) }

// under is e without the server's name: the reason of another Error about it.
func (e *Error) under() error {
	cause := e.Err
	if inner, ok := cause.(*Error); ok && inner.Server == e.Server {
		cause = inner.under()
	}
	if e.Op == "" {
		return cause
	}
	return fmt.Errorf("%s: %w", e.Op, cause)
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the first Error in err's chain, or zero.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// A Builtin serves MCP on rw, newline-delimited like stdio, until ctx ends or
// rw is closed.
type Builtin func(ctx context.Context, rw io.ReadWriteCloser) error

// A conn is one live connection after its handshake. Do may be called
// concurrently. It does not keep c.Params after it returned.
type conn interface {
	Do(ctx context.Context, c *Call) (Response, error)
	// Info is fixed for the connection's life.
	Info() *Info
	// Done is closed when the connection is dead; Err then says why.
	Done() <-chan struct{}
	Err() error
	// Close ends the connection and all it started, within its own bound.
	Close()
}
