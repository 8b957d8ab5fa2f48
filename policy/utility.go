package policy

import (
	"fmt"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A Utility is one of the tools that give a server's resources and prompts to
// agents that know nothing but tools.
type Utility uint8

// The utilities, in the order in which they are listed. Zero is none of them.
const (
	ListResources Utility = iota + 1
	ReadResource
	ListPrompts
	GetPrompt
)

// Utilities are all of them in order.
var Utilities = [...]Utility{ListResources, ReadResource, ListPrompts, GetPrompt}

// The texts and schemas are those of Hermes' own wrappers, down to the order of
// the keys: agents cache prompts by the bytes. The single %s is the server.
var utilities = [...]struct{ tool, description, schema string }{
	ListResources: {
		"list_resources",
		"List available resources from MCP server '%s'",
		`{"type":"object","properties":{}}`,
	},
	ReadResource: {
		"read_resource",
		"Read a resource by URI from MCP server '%s'",
		`{"type":"object","properties":{"uri":{"type":"string","description":"URI of the resource to read"}},` +
			`"required":["uri"]}`,
	},
	ListPrompts: {
		"list_prompts",
		"List available prompts from MCP server '%s'",
		`{"type":"object","properties":{}}`,
	},
	GetPrompt: {
		"get_prompt",
		"Get a prompt by name from MCP server '%s'",
		`{"type":"object","properties":{"name":{"type":"string","description":"Name of the prompt to retrieve"},` +
			`"arguments":{"type":"object","description":"Optional arguments to pass to the prompt",` +
			`"properties":{},"additionalProperties":true}},"required":["name"]}`,
	},
}

// Tool returns the tool's name before any naming.
func (u Utility) Tool() string { return utilities[u].tool }

// NeedsResources reports whether the server must have resources; else it must
// have prompts.
func (u Utility) NeedsResources() bool { return u == ListResources || u == ReadResource }

// Definition appends the entry of a tool list. It claims no annotations, as the
// wrappers that it stands for never did.
func (u Utility) Definition(dst []byte, exposedName, server string) []byte {
	d := &utilities[u]
	dst = wire.AppendQuote(append(dst, `{"name":`...), exposedName)
	dst = append(dst, `,"description":`...)
	dst = wire.AppendQuote(dst, fmt.Sprintf(d.description, server))
	dst = append(dst, `,"inputSchema":`...)
	return append(append(dst, d.schema...), '}')
}
