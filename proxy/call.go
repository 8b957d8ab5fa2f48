package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// callTool routes a tools/call by the table of the view.
func (x *exchange) callTool(ctx context.Context) (answer, error) {
	name, ok := wire.Unquote(x.params.name)
	if !ok {
		return answer{}, badParams("tools/call lacks name")
	}
	if err := x.checkCall(); err != nil {
		return answer{}, err
	}
	route, err := x.routed(ctx, aggregate.Tools, name, func(s Snapshot) (aggregate.Route, bool) { return s.Tool(name) })
	if err != nil {
		return x.astray(ctx, err, unknown("tool", name))
	}
	if route.Utility != 0 {
		return x.utility(ctx, route)
	}
	if x.params.task != nil {
		x.dropTask(route.Server)
	}
	c := &upstream.Call{Method: "tools/call", Name: route.Inner, Safe: route.Safe}
	if route.Params != nil {
		if err := x.mirror(c, *route.Params); err != nil {
			return answer{}, err
		}
	}
	scratch := borrow(len(x.params.raw) + maxInner)
	defer giveBack(scratch)
	c.Params = x.params.forward((*scratch)[:0], "name", route.Inner)
	return x.finish(ctx, route.Server, c)
}

// checkCall refuses what no server should see.
func (x *exchange) checkCall() *wire.Error {
	p := &x.params
	switch wire.Kindof(p.args) {
	case '{':
		return nil
	case 'n':
		from, to, _ := wire.FindMember(p.raw, "arguments")
		*p = readParams(wire.Splice(nil, p.raw, wire.Edit{From: from, To: to}))
		return nil
	}
	if p.args == nil {
		return nil
	}
	return badParams("arguments is not an object")
}

// finish carries a call and makes the agent's answer of what comes of it.
func (x *exchange) finish(ctx context.Context, server string, c *upstream.Call) (answer, error) {
	o, err := x.carry(ctx, server, c)
	switch {
	case err != nil:
		return x.troubled(ctx, server, err)
	case o.paused:
		return answer{result: o.Result}, nil
	}
	return x.deliver(server, o.Response)
}

// maxInner is room for a server's own name in place of the agent's.
const maxInner = 1024

// forward returns the parameters as the server gets them: with its own name for
// what is asked, and without the agent's _meta and answers. All else stays as it
// is. dst is where they go if they change and fit.
func (p *params) forward(dst []byte, member, inner string) []byte {
	if p.state != nil || p.responses != nil { // are between the agent and us
		fresh := readParams(without(p.raw, "requestState", "inputResponses"))
		return fresh.forward(dst, member, inner)
	}
	var room [2]wire.Edit
	edits := room[:0]
	if from, to, ok := wire.Find(p.raw, member); ok {
		if q := wire.AppendQuote(nil, inner); !bytes.Equal(q, p.raw[from:to]) {
			edits = append(edits, wire.Edit{From: from, To: to, With: q})
		}
	}
	return p.withoutMeta(dst, edits)
}

// withoutMeta applies at most one edit, and cuts _meta out.
func (p *params) withoutMeta(dst []byte, edits []wire.Edit) []byte {
	if p.meta.raw != nil {
		from, to, _ := wire.FindMember(p.raw, "_meta")
		edits = append(edits, wire.Edit{From: from, To: to})
	}
	switch {
	case len(edits) == 0:
		return p.raw
	case len(edits) == 2 && edits[1].From < edits[0].From:
		edits[0], edits[1] = edits[1], edits[0]
	}
	return wire.Splice(dst, p.raw, edits...)
}

// troubled is the answer when a server gave none: a result for a model to read
// where the agent called a tool, an error elsewhere.
func (x *exchange) troubled(ctx context.Context, server string, err error) (answer, error) {
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return answer{}, e // the caller's own mistake
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return answer{}, &wire.Error{Code: wire.CodeInternal, Message: "the request was cancelled"}
	}
	t := troubleOf(err)
	x.f.opt.Log.Info("call failed", "server", server, "op", x.word(x.msg.Method), "caller", x.caller.ID, "code", t.code, "err", err)
	return x.trouble(server, t, err)
}

func (x *exchange) trouble(server string, t trouble, err error) (answer, error) {
	text := x.cleanText(describe(server, t, err, x.safe))
	if x.msg.Method == "tools/call" {
		return x.textResult(text, true), nil
	}
	data := wire.AppendQuote([]byte(`{"server":`), server)
	data = wire.AppendQuote(append(data, `,"code":`...), t.code)
	return answer{}, &wire.Error{Code: wire.CodeInternal, Message: text, Data: append(data, '}')}
}

// cleanText cleans a sentence of ours that quotes a server.
func (x *exchange) cleanText(s string) string {
	s, _ = x.f.opt.Cleaner.Text(s)
	return s
}

// textResult is the result of a tools/call that holds one text.
func (x *exchange) textResult(text string, isError bool) answer {
	out := []byte(`{"content":[{"type":"text","text":`)
	out = append(wire.AppendQuote(out, text), `}]`...)
	if isError {
		out = append(out, `,"isError":true`...)
	}
	return answer{front: x.completes(), result: append(out, '}')}
}

// complete marks a whole result in the era that has marks.
func (x *exchange) completes() string {
	if x.modern {
		return `"resultType":"complete",`
	}
	return ""
}

// deliver makes the answer out of a server's own.
func (x *exchange) deliver(server string, resp upstream.Response) (answer, error) {
	if n := len(resp.Result) + len(resp.Error); n > x.f.opt.Limits.answer() {
		err := fmt.Errorf("%d bytes, limits.answer_bytes is %d", n, x.f.opt.Limits.answer())
		return x.trouble(server, troubles[upstream.TooLarge], &upstream.Error{Server: server, Kind: upstream.TooLarge, Err: err})
	}
	if resp.Error != nil {
		return x.failure(server, resp)
	}
	if wire.Kindof(resp.Result) != '{' {
		return x.trouble(server, troubles[upstream.Protocol], nil)
	}
	kind, content := topOf(resp.Result)
	if x.startsTask(kind, &resp) {
		return x.newTask(server, resp)
	}
	if kind != nil && string(kind) != `"complete"` && (x.modern || resp.Era == upstream.Modern) {
		return x.trouble(server, unsupportedTrouble, nil)
	}
	if x.msg.Method == "tools/call" && content != nil && wire.Kindof(content) != '[' {
		return x.trouble(server, troubles[upstream.Protocol], errContent)
	}
	x.remember(server, content)
	a := answer{result: x.f.cleanKeeping(resp.Result, resp.Flags, x.keptMeta())}
	switch {
	case x.modern && kind == nil:
		a.front = x.completes()
	case !x.modern && resp.Era == upstream.Modern:
		a.result = without(a.result, "resultType", "ttlMs", "cacheScope")
	}
	if x.modern && x.msg.Method == "resources/read" {
		a = uncached(a)
	}
	return a, nil
}

var errContent = errors.New("content is not an array")

// topOf returns two members of a result as raw JSON; nil when absent.
func topOf(result []byte) (resultType, content []byte) {
	wire.Each(result, func(key, val []byte) bool {
		switch string(key) {
		case "resultType":
			resultType = val
		case "content":
			content = val
		}
		return true
	})
	return resultType, content
}

// without cuts members out of an object.
func without(obj []byte, names ...string) []byte {
	for _, n := range names {
		if from, to, ok := wire.FindMember(obj, n); ok {
			obj = wire.Splice(nil, obj, wire.Edit{From: from, To: to})
		}
	}
	return obj
}

// uncached gives a read the caching hints that the modern era demands: what a
// view shows depends on who asks, so nothing is public.
func uncached(a answer) answer {
	ttl := "0"
	if v, ok := wire.Get(a.result, "ttlMs"); ok && wire.Kindof(v) == '0' {
		ttl = string(v)
	}
	a.result = without(a.result, "ttlMs", "cacheScope")
	a.front += `"ttlMs":` + ttl + `,"cacheScope":"private",`
	return a
}

// failure passes a server's error on. That a capability is missing concerns the
// modern agent that did not declare it; one that did hears what we cannot do.
func (x *exchange) failure(server string, resp upstream.Response) (answer, error) {
	if x.modern && (wantsURLs(&resp) || isURLError(resp.Error) && x.caps().answers&policy.AnswerURL == 0) {
		return x.urlsNeeded(server, &resp)
	}
	a := answer{failure: x.f.clean(relayError(resp.Error, x.modern), resp.Flags)}
	if code, _ := wire.Get(resp.Error, "code"); string(code) != "-32021" || !x.modern {
		return a, nil
	}
	if !lacks(x.params.meta.caps, resp.Error) {
		return x.trouble(server, unsupportedTrouble, nil)
	}
	a.failure, a.status = x.f.clean(withMessage(resp.Error), resp.Flags), http.StatusBadRequest
	return a, nil
}

// lacks reports whether a server's error asks for a capability that declared
// does not have. An error that names none is believed.
func lacks(declared, object []byte) bool {
	data, _ := wire.Get(object, "data")
	required, ok := wire.Get(data, "requiredCapabilities")
	missing := !ok || isEmpty(required)
	wire.Each(required, func(key, val []byte) bool {
		have, has := wire.Get(declared, string(key))
		if has && (string(key) == "extensions" || string(key) == "experimental") {
			has = holdsAll(have, val)
		}
		missing = missing || !has
		return !missing
	})
	return missing
}
