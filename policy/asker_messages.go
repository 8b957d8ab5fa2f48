package policy

import (
	"hash/maphash"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Bounds of one conversation.
const (
	maxMessages     = 1000
	maxMessageBytes = 1 << 20
	maxBlocks       = 1000 // of one message
)

var seed = maphash.MakeSeed()

// A conversation is the messages of a sampling request. Its id is that of its
// first message, which stays the same while a loop of tool calls goes on.
type conversation struct {
	id    uint64
	tools bool // there are tool calls or their results

	count   int
	pending map[string]bool // calls of the last message, which wait for results
}

// read checks the messages by the rules of MCP 2025-11-25: results of tools stand
// alone, and answer exactly the calls of the message before.
func (c *conversation) read(messages []byte) (err *wire.Error) {
	switch {
	case messages == nil:
		return invalid("sampling: messages is missing")
	case wire.Kindof(messages) != '[':
		return invalid("sampling: messages is not a list")
	case len(messages) > maxMessageBytes:
		return invalid("sampling: messages have more than %d bytes", maxMessageBytes)
	}
	wire.Elements(messages, func(m []byte) bool {
		if c.count++; c.count == 1 {
			c.id = maphash.Bytes(seed, m)
		}
		err = c.message(m)
		return err == nil
	})
	switch {
	case err != nil:
		return err
	case c.count == 0:
		return invalid("sampling: there are no messages")
	case len(c.pending) > 0:
		return invalid("sampling: a tool call has no result")
	}
	return nil
}

// conversationID is the id alone, of messages that were checked.
func conversationID(messages []byte) (id uint64) {
	wire.Elements(messages, func(m []byte) bool {
		id = maphash.Bytes(seed, m)
		return false
	})
	return id
}

// blocks are what one message holds.
type blocks struct {
	calls, results map[string]bool
	count, others  int // others are neither calls nor results
}

func (c *conversation) message(m []byte) *wire.Error {
	if c.count > maxMessages {
		return invalid("sampling: more than %d messages", maxMessages)
	}
	role, _ := textOf(m, "role")
	if role != "user" && role != "assistant" {
		return invalid(`sampling: message %d: the role is neither "user" nor "assistant"`, c.count)
	}
	b := blocks{calls: map[string]bool{}, results: map[string]bool{}}
	if fault := b.read(member(m, "content")); fault != "" {
		return invalid("sampling: message %d: %s", c.count, fault)
	}
	if fault := c.pair(role, &b); fault != "" {
		return invalid("sampling: message %d: %s", c.count, fault)
	}
	return nil
}

// pair holds a message against the calls of the one before.
func (c *conversation) pair(role string, b *blocks) (fault string) {
	switch {
	case len(b.calls) > 0 && role != "assistant":
		return "only the assistant calls tools"
	case len(b.results) > 0 && role != "user":
		return "results of tools come from the user"
	case len(b.results) > 0 && b.others > 0:
		return "results of tools are mixed with other content"
	case len(c.pending) != len(b.results):
		return "tool calls and results do not match"
	}
	for id := range b.results {
		if !c.pending[id] {
			return "tool calls and results do not match"
		}
	}
	c.tools = c.tools || len(b.calls)+len(b.results) > 0
	c.pending = b.calls
	return ""
}

// read takes content, which is one block or a list of them.
func (b *blocks) read(content []byte) (fault string) {
	switch wire.Kindof(content) {
	case '{':
		return b.block(content)
	case '[':
		wire.Elements(content, func(val []byte) bool {
			fault = b.block(val)
			return fault == ""
		})
		return fault
	}
	return "there is no content"
}

func (b *blocks) block(val []byte) (fault string) {
	if b.count++; b.count > maxBlocks {
		return "too many blocks"
	}
	kind, ok := textOf(val, "type")
	if !ok {
		return "a block has no type"
	}
	switch kind {
	case "tool_use":
		return b.call(val)
	case "tool_result":
		return put(b.results, member(val, "toolUseId"), "a result has no toolUseId, or that of another")
	case "text":
		if _, ok := textOf(val, "text"); !ok {
			return "a text block has no text"
		}
	case "image", "audio":
		if _, ok := textOf(val, "data"); !ok {
			return "a block has no data"
		}
	}
	b.others++
	return ""
}

func (b *blocks) call(val []byte) (fault string) {
	name, _ := textOf(val, "name")
	if name == "" || wire.Kindof(member(val, "input")) != '{' {
		return "a tool call has no name or no input"
	}
	return put(b.calls, member(val, "id"), "a tool call has no id, or that of another")
}

// put adds the id in raw; one that is no string or there already is a fault.
func put(ids map[string]bool, raw []byte, otherwise string) (fault string) {
	id, ok := wire.Unquote(raw)
	if !ok || ids[id] {
		return otherwise
	}
	ids[id] = true
	return ""
}
