package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// UsageKey is the key of a sampling result's _meta by which the sidecar's own
// sampler tells the tokens that an answer took, as a number. Review takes it out.
const UsageKey = "mcp-sidecar/tokens"

// Review decides on the answer of a caller's agent to a question before the server
// gets it, and counts it. params are the verdict's. log is for the operator, on one line; it is empty
// if there is nothing to say. The error is for the server.
func (a *Asker) Review(caller, method string, params, result []byte) (out []byte, log string, err *wire.Error) {
	if _, bad := wire.Valid(result, wire.Limits{}); bad != nil || wire.Kindof(result) != '{' {
		a.Failed(method)
		return nil, "the answer is not an object", unusable("the answer is not an object")
	}
	switch method {
	case askSampling:
		out, log, err = a.sampled(caller, params, result)
	case askElicitation:
		out, log = a.elicited(params, result)
	case askRoots:
		out, log, err = rootsOf(result)
	default:
		out = result
	}
	if err != nil {
		a.Failed(method)
		log = err.Message
	}
	return out, log, err
}

func unusable(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf(format, args...)}
}

// sampled checks a model's answer and counts its tokens and tool calls.
func (a *Asker) sampled(caller string, params, result []byte) (out []byte, log string, err *wire.Error) {
	role, _ := textOf(result, "role")
	_, model := textOf(result, "model")
	content := member(result, "content")
	switch kind := wire.Kindof(content); {
	case role != "assistant" && role != "user":
		err = unusable("the answer to sampling has no role")
	case kind != '{' && kind != '[':
		err = unusable("the answer to sampling has no content")
	case !model:
		err = unusable("the answer to sampling names no model")
	}
	if err != nil {
		return nil, "", err
	}
	a.countTokens(result)
	id := a.conversation(params)
	if !callsTools(result, content) {
		a.loopEnds(caller, id)
	} else if a.round(caller, id); member(params, "tools") == nil {
		log = "the answer to sampling calls tools that nobody offered"
	}
	return dropUsage(result), log, nil
}

// conversation is the id of the conversation that params go on with.
func (a *Asker) conversation(params []byte) uint64 {
	clean, _ := a.Cleaner.JSON(nil, params, wire.NonASCII|wire.Escapes, nil)
	return conversationID(member(clean, "messages"))
}

// callsTools reports whether an answer is one round of a loop.
func callsTools(result, content []byte) (calls bool) {
	if s, _ := textOf(result, "stopReason"); s == "toolUse" {
		return true
	}
	isCall := func(block []byte) bool {
		kind, _ := textOf(block, "type")
		calls = calls || kind == "tool_use"
		return !calls
	}
	isCall(content)
	wire.Elements(content, isCall)
	return calls
}

// maxTokensSaid bounds what one answer can add to the count.
const maxTokensSaid = 1 << 30

// countTokens adds what the answer says of its cost; nothing is estimated.
func (a *Asker) countTokens(result []byte) {
	n := number(member(member(result, "_meta"), UsageKey))
	for _, usage := range [][]byte{member(result, "usage"), member(member(result, "_meta"), "usage")} {
		if n == 0 {
			n = total(usage)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.Sampling.Tokens += n
}

// total reads what the well-known programs call usage.
func total(usage []byte) uint64 {
	for _, names := range [][]string{{"total_tokens"}, {"totalTokens"}, {"input_tokens", "output_tokens"},
		{"inputTokens", "outputTokens"}, {"prompt_tokens", "completion_tokens"}} {
		var n uint64
		for _, name := range names {
			n += number(member(usage, name))
		}
		if n > 0 {
			return n
		}
	}
	return 0
}

func number(raw []byte) uint64 {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return min(n, maxTokensSaid)
}

// dropUsage takes out what the sampler told this hop.
func dropUsage(result []byte) []byte {
	from, to, ok := wire.Find(result, "_meta")
	if !ok || member(result[from:to], UsageKey) == nil {
		return result
	}
	meta := without(result[from:to], UsageKey)
	if empty(meta) {
		return without(result, "_meta")
	}
	return wire.Splice(nil, result, wire.Edit{From: from, To: to, With: meta})
}

func empty(obj []byte) bool {
	n := 0
	wire.Each(obj, func(_, _ []byte) bool { n++; return false })
	return n == 0
}

// elicited checks a user's answer. An action that nobody knows must not pass for
// consent, so it counts as cancelled.
func (a *Asker) elicited(params, result []byte) (out []byte, log string) {
	action, _ := textOf(result, "action")
	c := &a.counts.Elicitation
	a.mu.Lock()
	defer a.mu.Unlock()
	switch action {
	case "accept":
		c.Accepted++
		var missing []string
		if out, missing = accepted(params, result); len(missing) > 0 {
			c.Incomplete++
			log = "the accepted form lacks required fields: " + strings.Join(missing, ", ")
		}
		return out, log
	case "decline":
		c.Declined++
	default:
		c.Cancelled++
		if action != "cancel" {
			return []byte(`{"action":"cancel"}`), fmt.Sprintf("unknown action %.40q of the answer, taken for cancel", action)
		}
	}
	return without(result, "content"), "" // what was typed and not sent
}

// accepted makes the content of an accepted form an object, which some agents do
// not send, and finds the required fields that are not in it.
func accepted(params, result []byte) (out []byte, missing []string) {
	if mode, _ := textOf(params, "mode"); mode == "url" {
		return result, nil
	}
	content := member(result, "content")
	if wire.Kindof(content) != '{' {
		content = []byte("{}")
		result = with(result, "content", content)
	}
	const most = 16
	wire.Elements(member(member(params, "requestedSchema"), "required"), func(e []byte) bool {
		name, _ := wire.Unquote(e)
		if _, ok := wire.Get(content, name); !ok {
			missing = append(missing, fmt.Sprintf("%.40q", name))
		}
		return len(missing) < most
	})
	return result, missing
}

// maxRoots bounds the folders of one answer.
const maxRoots = 1000

// rootsOf leaves the roots that MCP allows: file URIs.
func rootsOf(result []byte) (out []byte, log string, err *wire.Error) {
	from, to, ok := wire.Find(result, "roots")
	if !ok || wire.Kindof(result[from:to]) != '[' {
		return nil, "", unusable("the answer to roots/list has no roots")
	}
	list, kept, dropped := []byte{'['}, 0, 0
	wire.Elements(result[from:to], func(root []byte) bool {
		if uri, _ := textOf(root, "uri"); !isFileURI(uri) || kept == maxRoots {
			dropped++
			return true
		}
		if kept++; kept > 1 {
			list = append(list, ',')
		}
		list = append(list, root...)
		return true
	})
	if dropped == 0 {
		return result, "", nil
	}
	out = wire.Splice(nil, result, wire.Edit{From: from, To: to, With: append(list, ']')})
	return out, fmt.Sprintf("%d roots of the answer are no file URIs or too many, left out", dropped), nil
}

func isFileURI(uri string) bool {
	return strings.HasPrefix(uri, "file://") && !strings.ContainsFunc(uri, unicode.IsControl)
}
