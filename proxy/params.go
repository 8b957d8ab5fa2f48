package proxy

import (
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// params are the members of a request's parameters that the front reads, as
// raw JSON; nil when absent.
type params struct {
	raw                                          []byte
	name, uri, args, cursor, ref, level, request []byte
	task, taskID, protocol, caps                 []byte
	// state and responses are requestState and inputResponses: a retry has them.
	state, responses []byte
	meta             agentMeta
}

// agentMeta is what the front reads of _meta.
type agentMeta struct {
	raw               []byte
	version, caps     []byte
	token, level      []byte
	trace, traceState []byte
}

// readParams collects what there is in one pass. raw is valid JSON without
// repeated members.
func readParams(raw []byte) (p params) {
	p.raw = raw
	wire.Each(raw, func(key, val []byte) bool {
		switch string(key) {
		case "name":
			p.name = val
		case "uri":
			p.uri = val
		case "arguments":
			p.args = val
		case "cursor":
			p.cursor = val
		case "ref":
			p.ref = val
		case "level":
			p.level = val
		case "requestId":
			p.request = val
		case "task":
			p.task = val
		case "taskId":
			p.taskID = val
		case "requestState":
			p.state = val
		case "inputResponses":
			p.responses = val
		case "capabilities":
			p.caps = val
		case "protocolVersion":
			p.protocol = val
		case "_meta":
			p.meta.read(val)
		}
		return true
	})
	return p
}

func (m *agentMeta) read(raw []byte) {
	m.raw = raw
	wire.Each(raw, func(key, val []byte) bool {
		switch string(key) {
		case metaVersion:
			m.version = val
		case metaCaps:
			m.caps = val
		case metaLogLevel:
			m.level = val
		case "progressToken":
			m.token = val
		case "traceparent":
			m.trace = val
		case "tracestate":
			m.traceState = val
		}
		return true
	})
}

// check refuses a _meta that breaks the protocol.
func (m *agentMeta) check() *wire.Error {
	switch {
	case m.raw == nil:
		return nil
	case m.raw[0] != '{':
		return badParams("_meta is not an object")
	case m.token != nil && !isToken(m.token):
		return badParams("progressToken is neither a string nor an integer")
	case m.level != nil && levelOf(m.level) < 0:
		return badParams(metaLogLevel + " is no log level")
	}
	return nil
}

// maxToken bounds a progress token in bytes: it comes back with every message.
const maxToken = 1024

// isToken accepts a string, or an integer of any size.
func isToken(raw []byte) bool {
	if len(raw) > maxToken {
		return false
	}
	switch wire.Kindof(raw) {
	case '"':
		return true
	case '0':
		for i, c := range raw {
			if c < '0' || c > '9' {
				if i > 0 || c != '-' {
					return false
				}
			}
		}
		return true
	}
	return false
}

// levels are the log levels of MCP, the least severe first.
var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// defaultLevel is info: what an agent hears that never said.
const defaultLevel = 1

// levelOf returns the index of a raw level, or -1.
func levelOf(raw []byte) int {
	for i, l := range levels {
		if len(raw) == len(l)+2 && string(raw[1:len(raw)-1]) == l {
			return i
		}
	}
	return -1
}
