package policy

import (
	"slices"
	"strconv"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// maxTools bounds the tools of one sampling request.
const maxTools = 256

// sample applies the limits on a request for a model's answer.
func (q *question) sample(now time.Time) (Verdict, *wire.Error) {
	if err := q.admit(now); err != nil {
		return Verdict{}, err
	}
	for _, step := range []func() *wire.Error{q.context, q.model, q.tokens} {
		if err := step(); err != nil {
			return Verdict{}, err
		}
	}
	kind, err := q.tools()
	if err != nil {
		return Verdict{}, err
	}
	if err := q.system(); err != nil {
		return Verdict{}, err
	}
	return Verdict{Params: q.params, Kind: kind}, nil
}

// admit holds the question against max_rpm.
func (q *question) admit(now time.Time) *wire.Error {
	if q.to.Again {
		return nil
	}
	switch most, shared, ok := q.asker.admit(q.to.Caller, now); {
	case ok:
		return nil
	case shared:
		return refuse("sampling: more than %d requests in a minute for one of several callers", most)
	default:
		return refuse("sampling: more than %d requests in a minute", most)
	}
}

// context refuses to hand one server what another one said.
func (q *question) context() *wire.Error {
	val := q.member("includeContext")
	if val == nil {
		return nil
	}
	if s, ok := wire.Unquote(val); !ok || s != "none" {
		return invalid(`sampling: includeContext must be "none": other servers' context is not shared`)
	}
	return nil
}

// model puts the configured model in place of the server's wishes, and holds them
// against the allowed ones.
func (q *question) model() *wire.Error {
	prefs := q.member("modelPreferences")
	if prefs != nil && wire.Kindof(prefs) != '{' {
		return invalid("sampling: modelPreferences is not an object")
	}
	s := &q.asker.sampling
	hints, err := hintNames(prefs)
	switch {
	case s.Model != "":
		hints = []string{s.Model}
	case err != nil:
		return err
	case len(s.AllowedModels) == 0:
		return nil
	case len(hints) == 0:
		hints = s.preferred()
	}
	if len(s.AllowedModels) > 0 {
		if !slices.Contains(s.AllowedModels, hints[0]) {
			return refuse("sampling: model %.80q is not allowed", hints[0])
		}
		// An agent may take any of the hints.
		hints = slices.DeleteFunc(hints, func(h string) bool { return !slices.Contains(s.AllowedModels, h) })
	}
	if prefs == nil {
		prefs = []byte("{}")
	}
	q.set("modelPreferences", with(prefs, "hints", appendHints(nil, hints)))
	return nil
}

// preferred are the allowed models, the endpoint's own first.
func (s *Sampling) preferred() []string {
	out := slices.Clone(s.AllowedModels)
	if i := slices.Index(out, s.Endpoint.Model); i > 0 {
		out[0], out[i] = out[i], out[0]
	}
	return out
}

// maxHints bounds the models that one request may wish for.
const maxHints = 64

func hintNames(prefs []byte) (names []string, err *wire.Error) {
	hints := member(prefs, "hints")
	if hints == nil {
		return nil, nil
	}
	if wire.Kindof(hints) != '[' {
		return nil, invalid("sampling: modelPreferences.hints is not a list")
	}
	wire.Elements(hints, func(h []byte) bool {
		name := member(h, "name")
		s, ok := wire.Unquote(name)
		switch {
		case wire.Kindof(h) != '{' || name != nil && !ok:
			err = invalid("sampling: modelPreferences.hints must hold objects with names")
		case len(names) == maxHints:
			err = invalid("sampling: more than %d hints", maxHints)
		case s != "":
			names = append(names, s)
		}
		return err == nil
	})
	return names, err
}

func appendHints(dst []byte, names []string) []byte {
	dst = append(dst, '[')
	for i, n := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendQuote(append(dst, `{"name":`...), n), '}')
	}
	return append(dst, ']')
}

// tokens lowers maxTokens to the cap.
func (q *question) tokens() *wire.Error {
	raw := q.member("maxTokens")
	if raw == nil {
		return invalid("sampling: maxTokens is missing")
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if wire.Kindof(raw) != '0' || err != nil || n < 1 || n != float64(int64(n)) && n < 1<<53 {
		return invalid("sampling: maxTokens must be a whole number from 1 on")
	}
	if limit := q.asker.sampling.maxTokensCap(); n > float64(limit) {
		q.set("maxTokens", strconv.AppendInt(nil, int64(limit), 10))
	}
	return nil
}

// tools checks the conversation and what it says of tools.
func (q *question) tools() (Answers, *wire.Error) {
	c := conversation{}
	if err := c.read(q.member("messages")); err != nil {
		return 0, err
	}
	list, choice := q.member("tools"), q.member("toolChoice")
	if list == nil && choice == nil && !c.tools {
		return AnswerSampling, nil
	}
	s := &q.asker.sampling
	switch {
	case !s.ExposeClientTools:
		return 0, invalid("sampling: tools are not offered to this server")
	case s.maxToolRounds() <= 0:
		return 0, invalid("sampling: tools are disabled for this server (max_tool_rounds is 0)")
	}
	mode, err := toolMode(choice)
	if err == nil {
		err = checkTools(list)
	}
	if err != nil {
		return 0, err
	}
	// Without tools to call, the answer is a text, which ends the loop.
	if list != nil && mode != "none" && !q.to.Again && !q.asker.mayLoop(q.to.Caller, c.id) {
		return 0, refuse("sampling: more than %d rounds with tools in a row", s.maxToolRounds())
	}
	return AnswerSampling | AnswerSamplingTools, nil
}

func toolMode(choice []byte) (string, *wire.Error) {
	if choice == nil {
		return "auto", nil
	}
	mode := member(choice, "mode")
	s, ok := wire.Unquote(mode)
	if wire.Kindof(choice) != '{' || mode != nil && (!ok || !oneOf(s, "auto", "required", "none")) {
		return "", invalid(`sampling: toolChoice.mode must be "auto", "required" or "none"`)
	}
	return s, nil
}

func checkTools(list []byte) (err *wire.Error) {
	if list == nil {
		return nil
	}
	if wire.Kindof(list) != '[' {
		return invalid("sampling: tools is not a list")
	}
	n := 0
	wire.Elements(list, func(t []byte) bool {
		name, ok := textOf(t, "name")
		switch n++; {
		case n > maxTools:
			err = invalid("sampling: more than %d tools", maxTools)
		case !ok || name == "":
			err = invalid("sampling: tool %d has no name", n)
		case wire.Kindof(member(t, "inputSchema")) != '{':
			err = invalid("sampling: tool %.80q has no inputSchema", name)
		}
		return err == nil
	})
	return err
}

// system tells whoever reads the conversation which server began it. Of all the
// parts of a request this is the one that agents show to people, that models take
// for circumstances and not for something that was said, and that the server
// cannot put anything in front of.
func (q *question) system() *wire.Error {
	val := q.member("systemPrompt")
	text, ok := wire.Unquote(val)
	if val != nil && !ok {
		return invalid("sampling: systemPrompt is not a string")
	}
	if !q.to.Named {
		return nil
	}
	lead := "This request comes from the MCP server " + strconv.Quote(q.asker.name()) + "."
	if text != "" {
		lead += "\n\n" + text
	}
	q.set("systemPrompt", wire.AppendQuote(nil, lead))
	return nil
}
