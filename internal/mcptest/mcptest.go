// Package mcptest holds friendly and hostile MCP peers for the tests of the
// other packages: upstreams whose answers are exact bytes, agents that show the
// bytes they got, faults, and the real program as a child process.
//
// It imports no other package of this module, so that every test may use it.
package mcptest

import (
	"encoding/json"
	"slices"
)

// Protocol versions by era.
const (
	Modern = "2026-07-28"
	Legacy = "2025-11-25"
)

// LegacyVersions are the versions that open with initialize, newest first.
var LegacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// A Message is one JSON-RPC message whose members are the bytes as they came.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Parse splits b into its members; a value that is no message gives the zero
// Message.
func Parse(b []byte) (m Message) {
	if json.Unmarshal(b, &m) != nil {
		return Message{}
	}
	return m
}

// Member returns the bytes of one member of a JSON object, or nil.
func Member(obj []byte, name string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(obj, &all) != nil {
		return nil
	}
	return all[name]
}

// Elements returns the bytes of each element of a JSON array.
func Elements(arr []byte) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(arr, &all) != nil {
		return nil
	}
	return all
}

// Text returns a member of an object that is a string.
func Text(obj []byte, name string) string {
	var s string
	if json.Unmarshal(Member(obj, name), &s) != nil {
		return ""
	}
	return s
}

// modernMeta reports whether params carry the protocol version of the modern era.
func modernMeta(params []byte) bool {
	v := Text(Member(params, "_meta"), "io.modelcontextprotocol/protocolVersion")
	return v != "" && !slices.Contains(LegacyVersions, v)
}
