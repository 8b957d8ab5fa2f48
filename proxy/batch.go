package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// maxBatch bounds the messages of one batch.
const maxBatch = 100

// splitBatch splits a batch after a check of the whole.
func splitBatch(b []byte, l wire.Limits) ([][]byte, *wire.Error) {
	if _, err := wire.Valid(b, l); err != nil {
		return nil, &wire.Error{Code: wire.CodeParse, Message: err.Error()}
	}
	parts, _ := wire.Batch(b)
	switch n := len(parts); {
	case n == 0:
		return nil, invalid("an empty batch")
	case n > maxBatch:
		return nil, invalid(fmt.Sprintf("a batch of more than %d messages", maxBatch))
	}
	return parts, nil
}

// each runs the messages of a batch in order and returns the array of their
// answers; nil when none has one. x is what they have in common.
func (x *exchange) each(ctx context.Context, parts [][]byte, l wire.Limits) []byte {
	var out []byte
	for _, part := range parts {
		r := x.element(ctx, part, l)
		if r.silent() {
			continue
		}
		if out == nil {
			out = append(out, '[')
		} else {
			out = append(out, ',')
		}
		out = r.append(out)
	}
	if out == nil {
		return nil
	}
	return append(out, ']')
}

func (x *exchange) element(ctx context.Context, part []byte, l wire.Limits) reply {
	m, err := wire.ParseAgent(part, l)
	if err != nil {
		e := (*wire.Error)(nil)
		errors.As(err, &e)
		x.sess.rejectAnswer(&m, e)
		return failed(e.ID, e, false)
	}
	one := *x
	one.msg, one.params = m, readParams(m.Params)
	if m.Kind() != wire.Request {
		one.accept()
		return reply{}
	}
	if m.Method == "initialize" {
		return failed(m.ID, invalid("initialize cannot be part of a batch"), false)
	}
	return one.run(ctx)
}
