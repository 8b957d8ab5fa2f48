package proxy

import (
	"context"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// utility answers one of the tools that wrap a server's resources and prompts.
// Its texts have the shapes that Hermes' own wrappers give.
func (x *exchange) utility(ctx context.Context, r aggregate.Route) (answer, error) {
	switch r.Utility {
	case policy.ListResources:
		return x.textResult(x.resourceIndex(r.Server), false), nil
	case policy.ListPrompts:
		return x.textResult(x.promptIndex(r.Server), false), nil
	case policy.ReadResource:
		return x.utilityRead(ctx, r.Server)
	case policy.GetPrompt:
		return x.utilityPrompt(ctx, r.Server)
	}
	return answer{}, unknown("tool", r.Exposed)
}

// A shape writes chosen members of an object in a fixed order.
type shape struct {
	out   []byte
	comma bool
}

func (s *shape) member(name string, raw []byte) {
	if raw == nil || string(raw) == "null" {
		return
	}
	if s.comma {
		s.out = append(s.out, ',')
	}
	s.comma = true
	s.out = append(append(append(append(s.out, '"'), name...), `":`...), raw...)
}

func (s *shape) copy(obj []byte, names ...string) {
	for _, n := range names {
		v, _ := wire.Get(obj, n)
		s.member(n, v)
	}
}

func (s *shape) begin(with string) { s.out, s.comma = append(s.out, with...), false }

func (s *shape) end(with string) { s.out, s.comma = append(s.out, with...), true }

// next separates the elements of an array.
func (s *shape) next() {
	if s.comma {
		s.out = append(s.out, ',')
	}
}

func (x *exchange) resourceIndex(server string) string {
	var s shape
	s.begin(`{"resources":[`)
	for _, entry := range x.snapshot().Native(aggregate.Resources, server) {
		s.next()
		s.begin(`{`)
		s.copy(entry, "uri", "name", "description", "mimeType")
		s.end(`}`)
	}
	s.end(`]}`)
	return string(s.out)
}

func (x *exchange) promptIndex(server string) string {
	var s shape
	s.begin(`{"prompts":[`)
	for _, entry := range x.snapshot().Native(aggregate.Prompts, server) {
		s.next()
		s.begin(`{`)
		s.copy(entry, "name", "description")
		if args, ok := wire.Get(entry, "arguments"); ok && wire.Kindof(args) == '[' {
			s.member("arguments", argumentIndex(args))
		}
		s.end(`}`)
	}
	s.end(`]}`)
	return string(s.out)
}

func argumentIndex(args []byte) []byte {
	var s shape
	s.begin(`[`)
	wire.Elements(args, func(arg []byte) bool {
		s.next()
		s.begin(`{`)
		s.copy(arg, "name", "description")
		required := "false"
		if v, _ := wire.Get(arg, "required"); string(v) == "true" {
			required = "true"
		}
		s.member("required", []byte(required))
		s.end(`}`)
		return true
	})
	s.end(`]`)
	return s.out
}

// argument returns a text argument of the wrapper; an empty one is missing.
func (x *exchange) argument(name string) (text string, missing answer, ok bool) {
	raw, _ := wire.Get(x.params.args, name)
	text, ok = wire.Unquote(raw)
	if !ok || text == "" {
		return "", x.textResult("Missing required parameter '"+name+"'", true), false
	}
	return text, answer{}, true
}

func (x *exchange) utilityRead(ctx context.Context, server string) (answer, error) {
	uri, missing, ok := x.argument("uri")
	if !ok {
		return missing, nil
	}
	if err := longURI(uri); err != nil {
		return x.textResult(err.Message, true), nil
	}
	params := append(wire.AppendQuote([]byte(`{"uri":`), uri), '}')
	c := &upstream.Call{Method: "resources/read", Name: uri, Params: params, Safe: true}
	return x.wrapped(ctx, server, c, readText)
}

func (x *exchange) utilityPrompt(ctx context.Context, server string) (answer, error) {
	name, missing, ok := x.argument("name")
	if !ok {
		return missing, nil
	}
	if _, ok := x.snapshot().Inner(aggregate.Prompts, server, name); !ok {
		return x.textResult("Unknown prompt: "+clip(name, 128), true), nil
	}
	params := wire.AppendQuote([]byte(`{"name":`), name)
	if args, _ := wire.Get(x.params.args, "arguments"); wire.Kindof(args) == '{' {
		params = append(append(params, `,"arguments":`...), promptArguments(args)...)
	}
	c := &upstream.Call{Method: "prompts/get", Name: name, Params: append(params, '}'), Safe: true}
	return x.wrapped(ctx, server, c, promptText)
}

// promptArguments makes every argument the text that prompts take: what is no
// string becomes its JSON text, null is left out.
func promptArguments(args []byte) []byte {
	var s shape
	s.begin(`{`)
	wire.Each(args, func(key, val []byte) bool {
		if wire.Kindof(val) != '"' && string(val) != "null" {
			val = wire.AppendQuote(nil, string(val))
		}
		q := wire.AppendQuote(nil, string(key))
		s.member(string(q[1:len(q)-1]), val)
		return true
	})
	s.end(`}`)
	return s.out
}

// wrapped carries a call and shows its result as text.
func (x *exchange) wrapped(ctx context.Context, server string, c *upstream.Call, show func([]byte) string) (answer, error) {
	resp, err := x.carry(ctx, server, c)
	switch {
	case err != nil:
		return x.troubled(ctx, server, err)
	case resp.paused:
		return answer{result: resp.Result}, nil
	}
	if len(resp.Result) > x.f.opt.Limits.answer() {
		return x.trouble(server, troubles[upstream.TooLarge], nil)
	}
	if resp.Error != nil {
		raw, _ := wire.Get(x.f.clean(relayError(resp.Error, x.modern), resp.Flags), "message")
		text, _ := wire.Unquote(raw)
		return x.textResult("MCP server '"+server+"' answered: "+clip(text, maxReason), true), nil
	}
	if wire.Kindof(resp.Result) != '{' {
		return x.trouble(server, troubles[upstream.Protocol], nil)
	}
	return x.textResult(show(x.f.clean(resp.Result, resp.Flags)), false), nil
}

// readText joins the texts of a resource. Bytes have no place in text; a mark
// stands for them.
func readText(result []byte) string {
	var texts []string
	contents, _ := wire.Get(result, "contents")
	wire.Elements(contents, func(c []byte) bool {
		texts = append(texts, contentText(c))
		return true
	})
	return `{"result":` + string(wire.AppendQuote(nil, strings.Join(texts, "\n"))) + `}`
}

func contentText(c []byte) string {
	if raw, ok := wire.Get(c, "text"); ok {
		text, _ := wire.Unquote(raw)
		return text
	}
	rawURI, _ := wire.Get(c, "uri")
	rawMIME, _ := wire.Get(c, "mimeType")
	uri, _ := wire.Unquote(rawURI)
	mime, _ := wire.Unquote(rawMIME)
	return "[binary resource " + uri + " (" + mime + ") is not shown as text]"
}

func promptText(result []byte) string {
	var s shape
	s.begin(`{"messages":[`)
	messages, _ := wire.Get(result, "messages")
	wire.Elements(messages, func(m []byte) bool {
		s.next()
		s.begin(`{`)
		s.copy(m, "role")
		content, _ := wire.Get(m, "content")
		if text, ok := wire.Get(content, "text"); ok {
			content = text
		}
		s.member("content", content)
		s.end(`}`)
		return true
	})
	s.end(`]`)
	s.copy(result, "description")
	return string(append(s.out, '}'))
}
