package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A trouble is what an agent is told about one kind of failure of a server.
// Each code has a page in docs/errors.
type trouble struct {
	code, says string
	// ran is what that means for a call that was sent and may have had its effect;
	// empty where none had.
	ran string
	// then is what can be done.
	then string
	// when says when to come again, where the failure itself does not.
	when string
}

const mayHave = "The call may have taken effect."

var troubles = map[upstream.Kind]trouble{
	upstream.Unreachable:  {"MCPS-UNREACHABLE", "cannot be reached", "", "Other servers are not affected; try again later.", ""},
	upstream.Timeout:      {"MCPS-TIMEOUT", "did not answer in time", "The call was cancelled and may have taken effect.", "", ""},
	upstream.Unauthorized: {"MCPS-UNAUTHORIZED", "does not accept our credentials", "", "Repeating the call will not help; the operator must fix the login.", ""},
	upstream.Protocol:     {"MCPS-PROTOCOL", "gave an answer that is not valid MCP", mayHave, "", ""},
	upstream.TooLarge:     {"MCPS-TOO-LARGE", "gave an answer beyond a limit", mayHave, "Ask for less at once.", ""},
	upstream.Uncertain:    {"MCPS-UNCERTAIN", "failed while the call ran", "The call may have taken effect: check before repeating it.", "", ""},
	upstream.Busy:         {"MCPS-BUSY", "has too many calls in progress", "", "Nothing was done.", "Try again in a moment."},
	upstream.Config:       {"MCPS-CONFIG", "is not configured correctly", "", "Repeating the call will not help; the operator must fix the configuration.", ""},
	upstream.Closed:       {"MCPS-CLOSED", "is shutting down", "", "Nothing more is served by this process; reconnect and check before repeating the call.", ""},
	upstream.Open:         {"MCPS-OPEN", "is not called for a while", "", "Nothing was done; other servers are not affected.", ""},
	upstream.Proxy:        {"MCPS-PROXY", "cannot be reached through the proxy", "", "The server has seen nothing; the operator must look at the proxy and its settings.", ""},
	upstream.RateLimited:  {"MCPS-RATE-LIMITED", "limits how often it can be called", "", "Nothing was done.", "Wait before the next call."},
}

var (
	internalTrouble    = trouble{"MCPS-INTERNAL", "could not be called because of a fault in mcp-sidecar", mayHave, "", ""}
	unsupportedTrouble = trouble{"MCPS-UNSUPPORTED", "asked for something that this agent cannot give", "", "Nothing more can be done with this call.", ""}
)

func troubleOf(err error) trouble {
	if u := (*unanswered)(nil); errors.As(err, &u) {
		return unsupportedTrouble
	}
	if t, ok := troubles[upstream.KindOf(err)]; ok {
		return t
	}
	return internalTrouble
}

// maxReason bounds how much of a server's failure is shown, in bytes.
const maxReason = 400

// describe says in a sentence or two what went wrong with a call, and what can be
// done. A safe one does no harm when it is repeated.
func describe(server string, t trouble, err error, safe bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server %q %s", server, t.says)
	if r := reason(err); r != "" {
		b.WriteString(": " + r)
	}
	b.WriteByte('.')
	e := &upstream.Error{}
	errors.As(err, &e)
	for _, s := range []string{t.effect(e.Unsent, safe), t.then, t.again(e.RetryAfter)} {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	return b.String() + " (code " + t.code + ")"
}

// effect says what became of the call, where that may be unclear.
func (t trouble) effect(unsent, safe bool) string {
	switch {
	case t.ran == "":
		return ""
	case unsent:
		return "The call was not sent."
	case safe:
		return "It does no harm to repeat the call."
	}
	return t.ran
}

func (t trouble) again(after time.Duration) string {
	if after > 0 {
		return fmt.Sprintf("Retry after %s.", after.Round(time.Second))
	}
	return t.when
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	if e := (*upstream.Error)(nil); errors.As(err, &e) && e.Err != nil {
		return clip(e.Err.Error(), maxReason)
	}
	return ""
}

// clip cuts s to at most n bytes, between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func badParams(text string) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalidParams, Message: text}
}

// unknown is the answer for what is not there and for what is hidden.
func unknown(what, name string) *wire.Error {
	return badParams("Unknown " + what + ": " + clip(name, 128))
}

func noMethod(method string) *wire.Error {
	return &wire.Error{Code: wire.CodeMethodNotFound, Message: "Method not found: " + clip(method, 128)}
}

func invalid(text string) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalidRequest, Message: text}
}

// relayedCode returns the code under which a server's error reaches the agent:
// codes about the hop behind us say nothing about this one, and the modern era
// has given some up.
func relayedCode(code int64, modern bool) int64 {
	switch {
	case code == wire.CodeResourceNotFound && modern:
		return wire.CodeInvalidParams
	case code <= wire.CodeHeaderMismatch && code >= wire.CodeUnsupportedVersion:
		return wire.CodeInternal
	case modern && code <= wire.CodeHeaderMismatch && code >= -32099:
		return wire.CodeInternal
	}
	return code
}

// relayError returns a server's error object as the agent gets it: its own
// bytes but for the code, where that must change.
func relayError(obj []byte, modern bool) []byte {
	if wire.Kindof(obj) != '{' {
		return []byte(`{"code":-32603,"message":"the server answered with an error that is not an object"}`)
	}
	obj = withMessage(obj)
	from, to, ok := wire.Find(obj, "code")
	if !ok {
		return withFront(obj, `"code":-32603,`)
	}
	code, err := strconv.ParseInt(string(obj[from:to]), 10, 64)
	if err != nil {
		code = wire.CodeInternal
	} else if r := relayedCode(code, modern); r == code {
		return obj
	} else {
		code = r
	}
	return wire.Splice(nil, obj, wire.Edit{From: from, To: to, With: strconv.AppendInt(nil, code, 10)})
}

// withMessage gives an error object the text that it lacks: there are agents
// that take none without one.
func withMessage(obj []byte) []byte {
	const text = `"the server gave no message"`
	from, to, ok := wire.Find(obj, "message")
	switch {
	case !ok && wire.Kindof(obj) == '{':
		return withFront(obj, `"message":`+text+`,`)
	case ok && wire.Kindof(obj[from:to]) != '"':
		return wire.Splice(nil, obj, wire.Edit{From: from, To: to, With: []byte(text)})
	}
	return obj
}

// withFront puts members, each with its comma, in front of an object's own.
func withFront(obj []byte, members string) []byte {
	out := make([]byte, 0, len(obj)+len(members))
	out = append(append(out, '{'), members...)
	if isEmpty(obj) {
		out = out[:len(out)-1]
	}
	return append(out, obj[1:]...)
}

// isEmpty reports whether an object has no members.
func isEmpty(obj []byte) bool {
	for _, c := range obj[1:] {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '}'
		}
	}
	return true
}
