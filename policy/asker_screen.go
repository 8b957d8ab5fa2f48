package policy

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A Verdict is a question as the agent may get it.
type Verdict struct {
	// Params are nil for a question that has none.
	Params []byte
	// Kind is all that the agent must be able to answer.
	Kind Answers
}

// An Audience is who a question is for.
type Audience struct {
	// Caller is whose agent it is: limits are shared out between callers.
	Caller string
	// Named is true when the text shall say which server asks.
	Named bool
	// Again is true for a question that has passed: it is not counted once more.
	Again bool
}

// codeRefused tells a server that whoever is asked does not want to answer: the
// code that MCP has for a user's refusal.
const codeRefused = -1

// Bounds of one question.
const (
	maxQuestion = 2 << 20
	maxText     = 64 << 10 // the message of an elicitation
)

func refuse(format string, args ...any) *wire.Error {
	return &wire.Error{Code: codeRefused, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// Screen decides on a question before anybody sees it, and counts it. The error is
// for the server.
//
// The verdict's parameters are the server's own bytes, but for hidden characters,
// what the limits change, and what is between the server and this hop only.
func (a *Asker) Screen(now time.Time, method string, params []byte, flags wire.Flags, to Audience) (Verdict, *wire.Error) {
	var v Verdict
	err := a.known(method)
	if err != nil {
		return Verdict{}, err
	}
	if !to.Again {
		a.asked(method)
	}
	q := question{asker: a, to: to}
	if err = q.read(params, flags); err == nil {
		switch method {
		case askSampling:
			v, err = q.sample(now)
		case askElicitation:
			v, err = q.elicit()
		default:
			v = Verdict{Params: q.params, Kind: AnswerRoots}
		}
	}
	if err != nil {
		if !to.Again {
			a.Failed(method)
		}
		return Verdict{}, err
	}
	return v, nil
}

// known finds whether a question of this kind may be asked at all.
func (a *Asker) known(method string) *wire.Error {
	var enabled *bool
	var what string
	switch method {
	case askSampling:
		enabled, what = a.sampling.Enabled, "sampling"
	case askElicitation:
		enabled, what = a.elicitation.Enabled, "elicitation"
	case askRoots:
		enabled, what = a.roots.Enabled, "roots"
	default:
		return &wire.Error{Code: wire.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %.64q", method)}
	}
	if !on(enabled) {
		return &wire.Error{Code: wire.CodeMethodNotFound, Message: what + " is disabled for this server"}
	}
	return nil
}

// A question is one that is being screened.
type question struct {
	asker  *Asker
	params []byte // clean, once it is read
	raw    []byte // as they came
	to     Audience
}

// read checks and cleans what the server sent.
func (q *question) read(params []byte, flags wire.Flags) *wire.Error {
	if len(params) > maxQuestion {
		return invalid("the question has more than %d bytes", maxQuestion)
	}
	if params == nil {
		return nil
	}
	found, err := wire.Valid(params, wire.Limits{})
	if err != nil {
		return invalid("params: %v", err)
	}
	if wire.Kindof(params) != '{' {
		return invalid("params is not an object")
	}
	q.raw = params
	q.params, _ = q.asker.Cleaner.JSON(nil, params, flags|found, nil)
	if err := unambiguous(q.params); err != nil {
		return err
	}
	q.hopOnly()
	return nil
}

// unambiguous refuses members that come twice or differ only in case from what is
// read here: another reader might take the other one.
func unambiguous(params []byte) *wire.Error {
	request := wire.AppendRequest(nil, []byte("1"), "question", params)
	if _, err := wire.ParseAgent(request, wire.Limits{}); err != nil {
		return invalid("params: %v", err)
	}
	var bad *wire.Error
	wire.Each(params, func(key, _ []byte) bool {
		for _, name := range askNames {
			if len(key) == len(name) && string(key) != name && bytes.EqualFold(key, []byte(name)) {
				bad = invalid("params: member %.64q differs from %q only in case", key, name)
			}
		}
		return bad == nil
	})
	return bad
}

var askNames = []string{"mode", "message", "requestedSchema", "url", "elicitationId", "messages", "modelPreferences",
	"systemPrompt", "includeContext", "maxTokens", "temperature", "stopSequences", "tools", "toolChoice", "metadata"}

// hopOnly cuts what the server says to this hop and not to the agent: its progress
// token, and the wish for a task, which it was not offered.
func (q *question) hopOnly() {
	q.params = without(q.params, "task")
	if from, to, ok := wire.Find(q.params, "_meta"); ok {
		meta := without(q.params[from:to], "progressToken")
		q.params = wire.Splice(nil, q.params, wire.Edit{From: from, To: to, With: meta})
	}
}

// member returns a value of params; null counts as absent.
func (q *question) member(name string) []byte {
	return member(q.params, name)
}

func member(obj []byte, name string) []byte {
	val, ok := wire.Get(obj, name)
	if !ok || wire.Kindof(val) == 'n' {
		return nil
	}
	return val
}

// textOf returns a member that must be a string; ok is false when it is absent.
func textOf(obj []byte, name string) (s string, ok bool) {
	return wire.Unquote(member(obj, name))
}

// set replaces a member of params, or puts it in front.
func (q *question) set(name string, val []byte) { q.params = with(q.params, name, val) }

// with returns obj with the member name, replaced where it is and in front where
// it is not. obj is not touched.
func with(obj []byte, name string, val []byte) []byte {
	if from, to, ok := wire.Find(obj, name); ok {
		return wire.Splice(nil, obj, wire.Edit{From: from, To: to, With: val})
	}
	front := append(append(wire.AppendQuote(nil, name), ':'), val...)
	wire.Each(obj, func(_, _ []byte) bool {
		front = append(front, ',')
		return false
	})
	at := bytes.IndexByte(obj, '{') + 1
	return wire.Splice(nil, obj, wire.Edit{From: at, To: at, With: front})
}

// without returns obj without the member name. obj is not touched.
func without(obj []byte, name string) []byte {
	from, to, ok := wire.FindMember(obj, name)
	if !ok {
		return obj
	}
	return wire.Splice(nil, obj, wire.Edit{From: from, To: to})
}

// name is the server's as texts may show it.
func (a *Asker) name() string {
	s, _ := (*Cleaner)(nil).Text(a.server)
	return s
}

func oneOf(s string, words ...string) bool { return slices.Contains(words, s) }
