package proxy

import (
	"bytes"
	"crypto/rand"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// versionModes is the first version in which elicitation has modes and messages
// of a conversation have several parts.
const versionModes = "2025-11-25"

// phrase returns a question's parameters, which were screened, as the version of
// the session has them.
func (s *session) phrase(method string, params []byte) ([]byte, *wire.Error) {
	switch {
	case method == methodElicit && s.version >= versionModes:
		return withElicitationID(params), nil
	case method == methodElicit:
		return plainForm(params), nil
	case method == methodSampling && s.version < versionModes:
		return singleParts(params)
	}
	return params, nil
}

// withElicitationID gives the question for a visit to a URL the id that
// 2025-11-25 demands and 2026-07-28 gave up.
func withElicitationID(params []byte) []byte {
	mode, _ := wire.Get(params, "mode")
	if _, ok := wire.Get(params, "elicitationId"); ok || string(mode) != `"url"` {
		return params
	}
	return withFront(params, `"elicitationId":"`+rand.Text()+`",`)
}

// plainForm writes a form as 2025-06-18 has it: without a mode, and with the
// titles of choices in a list of their own.
func plainForm(params []byte) []byte {
	params = without(params, "mode")
	from, to, ok := wire.Find(params, "requestedSchema")
	if !ok {
		return params
	}
	schema := params[from:to]
	a, b, ok := wire.Find(schema, "properties")
	if !ok {
		return params
	}
	fields := schema[a:b]
	var edits []wire.Edit
	wire.Each(fields, func(key, val []byte) bool {
		if choices, ok := titledChoices(val); ok {
			i, j, _ := wire.Find(fields, string(key))
			edits = append(edits, wire.Edit{From: from + a + i, To: from + a + j, With: choices})
		}
		return true
	})
	return wire.Splice(nil, params, edits...)
}

// titledChoices turns a choice whose options have titles, oneOf in SEP-1330, into
// enum and enumNames; false when field is no such choice.
func titledChoices(field []byte) ([]byte, bool) {
	oneOf, _ := wire.Get(field, "oneOf")
	if wire.Kindof(oneOf) != '[' {
		return nil, false
	}
	values, names, good := []byte("["), []byte("["), true
	wire.Elements(oneOf, func(option []byte) bool {
		value, ok := wire.Get(option, "const")
		name, named := wire.Get(option, "title")
		if !named {
			name = value
		}
		good = ok && wire.Kindof(value) == '"' && wire.Kindof(name) == '"'
		if len(values) > 1 {
			values, names = append(values, ','), append(names, ',')
		}
		values, names = append(values, value...), append(names, name...)
		return good
	})
	if !good || len(values) == 1 {
		return nil, false
	}
	return withFront(without(field, "oneOf"), `"enum":`+string(values)+`],"enumNames":`+string(names)+`],`), true
}

// singleParts takes the parts of messages out of their arrays, which came with
// 2025-11-25. A message of several cannot be put to an older agent.
func singleParts(params []byte) ([]byte, *wire.Error) {
	from, to, ok := wire.Find(params, "messages")
	if !ok || wire.Kindof(params[from:to]) != '[' {
		return params, nil
	}
	out, several := []byte("["), false
	wire.Elements(params[from:to], func(message []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		message, ok := singlePart(message)
		several = several || !ok
		out = append(out, message...)
		return ok
	})
	if several {
		return nil, badParams("the agent's version of MCP has no messages of several parts")
	}
	return wire.Splice(nil, params, wire.Edit{From: from, To: to, With: append(out, ']')}), nil
}

// singlePart is singleParts for one message; false when it has not one part.
func singlePart(message []byte) ([]byte, bool) {
	from, to, ok := wire.Find(message, "content")
	if !ok || wire.Kindof(message[from:to]) != '[' {
		return message, true
	}
	var only []byte
	n := 0
	wire.Elements(message[from:to], func(part []byte) bool {
		only = part
		n++
		return n < 2
	})
	if n != 1 {
		return nil, false
	}
	return wire.Splice(nil, message, wire.Edit{From: from, To: to, With: bytes.TrimSpace(only)}), true
}
