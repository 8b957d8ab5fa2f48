package proxy

import (
	"context"
	"errors"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/internal/seal"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// sealedCursor is the kind of sealed value that a cursor is.
const sealedCursor = 'c'

// a listMethod is what a list request lists, and under which member.
type listMethod struct {
	kind   aggregate.Kind
	member string
}

func listOf(method string) listMethod {
	switch method {
	case "tools/list":
		return listMethod{aggregate.Tools, "tools"}
	case "prompts/list":
		return listMethod{aggregate.Prompts, "prompts"}
	case "resources/list":
		return listMethod{aggregate.Resources, "resources"}
	}
	return listMethod{aggregate.Templates, "resourceTemplates"}
}

// list answers a page of one of the four lists.
func (x *exchange) list(ctx context.Context) (answer, error) {
	l := listOf(x.msg.Method)
	after, err := x.openCursor(l.kind)
	if err != nil {
		return answer{}, err
	}
	if after == "" && x.f.opt.ListWait != nil {
		x.f.opt.ListWait(ctx, x.view.Key, x.viewer())
	}
	snap := x.snapshot()
	items, next, ok := snap.Page(l.kind, after)
	if !ok {
		return answer{}, badParams("the cursor is no longer valid, begin the list again")
	}
	if x.sess != nil && after == "" {
		x.sess.sawList(snap, l.kind)
	}
	return x.page(l, items, next), nil
}

// page makes the result around the items of a page, which are not copied.
func (x *exchange) page(l listMethod, items []byte, next string) answer {
	end := []byte("]")
	if next != "" {
		cursor := x.f.opt.Sealer.Seal(sealedCursor, x.bound(l.kind), []byte(next))
		end = wire.AppendQuote(append(end, `,"nextCursor":`...), cursor)
	}
	if x.modern {
		end = append(end, x.f.hints()...)
	}
	return answer{open: `{"` + l.member + `":[`, result: items, end: string(append(end, '}'))}
}

// openCursor returns the position that the request's cursor holds; empty when
// it has none.
func (x *exchange) openCursor(k aggregate.Kind) (string, error) {
	raw := x.params.cursor
	if raw == nil || string(raw) == "null" {
		return "", nil
	}
	token, ok := wire.Unquote(raw)
	if !ok {
		return "", badParams("cursor is not a string")
	}
	after, err := x.f.opt.Sealer.Open(sealedCursor, x.bound(k), token)
	if errors.Is(err, seal.ErrOtherInstance) {
		return "", badParams("the cursor is of another instance of mcp-sidecar, begin the list again")
	}
	if err != nil {
		return "", badParams("the cursor is not valid")
	}
	return string(after), nil
}

// bound is what a cursor works for: one list of one view, for one caller.
func (x *exchange) bound(k aggregate.Kind) []byte {
	return []byte(x.caller.ID + "\x00" + x.view.Key + "\x00" + k.String())
}
