package proxy

import (
	"bytes"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// withoutHop returns an agent's answer without the keys of _meta that the protocol
// keeps: what they say is between the agent and us. They are looked for on top, and
// in the blocks and roots that the answer holds; what a user filled in is theirs.
func withoutHop(method string, result []byte) []byte {
	name := ""
	switch method {
	case methodSampling:
		name = "content"
	case methodRoots:
		name = "roots"
	}
	if from, to, ok := wire.Find(result, name); ok && name != "" {
		if part := bareParts(result[from:to]); !bytes.Equal(part, result[from:to]) {
			result = wire.Splice(nil, result, wire.Edit{From: from, To: to, With: part})
		}
	}
	return bareMeta(result)
}

// bareParts is bareMeta for an object, or for those in an array.
func bareParts(val []byte) []byte {
	if wire.Kindof(val) != '[' {
		return bareMeta(val)
	}
	out, changed := []byte{'['}, false
	wire.Elements(val, func(e []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		bare := bareMeta(e)
		changed = changed || len(bare) != len(e)
		out = append(out, bare...)
		return true
	})
	if !changed {
		return val
	}
	return append(out, ']')
}

// bareMeta takes the reserved keys out of the _meta of an object.
func bareMeta(obj []byte) []byte {
	if wire.Kindof(obj) != '{' {
		return obj
	}
	from, to, ok := wire.Find(obj, "_meta")
	if !ok {
		return obj
	}
	meta := obj[from:to]
	if wire.Kindof(meta) != '{' {
		return without(obj, "_meta")
	}
	var gone []string
	wire.Each(meta, func(key, _ []byte) bool {
		if policy.MetaReserved(string(key)) {
			gone = append(gone, string(key))
		}
		return true
	})
	switch rest := without(meta, gone...); {
	case gone == nil:
		return obj
	case isEmpty(rest):
		return without(obj, "_meta")
	default:
		return wire.Splice(nil, obj, wire.Edit{From: from, To: to, With: rest})
	}
}
