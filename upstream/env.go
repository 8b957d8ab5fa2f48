package upstream

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// An env is what a connection needs of the Set that owns it. Its zero value is
// usable: nothing is logged or reported, and processes start without a gate or guard.
type env struct {
	// log gets what a person may want to know. If nil, it is discarded.
	log *slog.Logger
	// clientName and clientVersion are what servers learn of us.
	clientName, clientVersion string
	// notify gets notifications that belong to no call in flight: changed lists,
	// log messages, resource updates. It runs on the reading goroutine, so it must
	// not block, and it must not keep params. If nil, they are dropped.
	notify func(method string, params []byte)
	// offers are the raw capabilities that a legacy handshake declares: what the
	// agents behind this connection may be asked. If nil, {}.
	offers []byte
	// own is true for a connection that one agent has alone.
	own bool
	// noise counts lines, events and answers that nobody asked for. It may be nil.
	noise func(n int)
	// renewed is called when the server has forgotten the session, and with it what
	// was subscribed to. It must not block. It may be nil.
	renewed func()
	// settled is called when a call that was given up can ask no more, or its
	// server knows. It may be nil.
	settled func()
	// answers is room for answers of the server. If nil, there is no bound.
	answers *byteBudget
	// guard kills process groups when this program dies. It may be nil.
	guard *Guard
	// limiter starts the process that sets rlimits; see launch. If empty, a server
	// with rlimits does not start.
	limiter []string
	// gate bounds how many processes start at once. If nil, there is no bound.
	gate *spawnGate
}

func (e *env) logger() *slog.Logger {
	if e.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.log
}

// declares reports whether the handshake declares a client capability.
func (e *env) declares(capability string) bool {
	_, ok := wire.Get(e.offers, capability)
	return ok
}

func (e *env) notified(method string, params []byte) {
	if e.notify != nil {
		e.notify(method, params)
	}
}

func (e *env) freed() {
	if e.settled != nil {
		e.settled()
	}
}

func (e *env) noised(n int) {
	if e.noise != nil {
		e.noise(n)
	}
}

// version is never empty: servers validate clientInfo.
func (e *env) version() string {
	if e.clientVersion == "" {
		return "0"
	}
	return e.clientVersion
}

func (e *env) name() string {
	if e.clientName == "" {
		return "mcp-sidecar"
	}
	return e.clientName
}

// callTimeout bounds one call: the call's own wish, else the server's setting,
// else 300 s. Zero means no bound.
func (s *Settings) callTimeout(c *Call) time.Duration {
	switch {
	case c != nil && c.Timeout > 0:
		return c.Timeout
	case s.Timeout < 0:
		return 0
	case s.Timeout == 0:
		return 300 * time.Second
	}
	return s.Timeout
}

// withinLimit is how long a call may take, with the key that says so.
func withinLimit(d time.Duration, c *Call) string {
	if c != nil && c.Timeout > 0 {
		return fmt.Sprintf("within %v", d)
	}
	return fmt.Sprintf("within %v (timeout)", d)
}

// maxMessage bounds one message from the server.
func (s *Settings) maxMessage() int {
	if s.MaxMessageBytes <= 0 {
		return 16 << 20
	}
	return s.MaxMessageBytes
}
