package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// leastBarren is how much of comments and the like an answer may have before it.
const leastBarren = 1 << 20

func (x *exchange) barren() int { return max(x.c.limit, leastBarren) }

// stream reads events until the answer, over as many streams as the server makes
// of the reply.
func (x *exchange) stream(ctx context.Context, body io.Reader) (Response, error) {
	box := scratch.Get().(*[]byte)
	r := newEventReader(body, *box, x.c.limit, streamFactor*x.c.limit)
	r.barren = x.barren()
	defer func() { keepScratch(box, r.buf) }()
	for {
		out, err := x.events(r)
		if err == nil || x.isVerdict(err) {
			x.open = err == nil
			return out, err
		}
		if !x.resume(ctx, r) {
			if ctx.Err() != nil {
				return Response{}, ctx.Err()
			}
			return Response{}, x.streamEnd(err)
		}
	}
}

// events reads one stream until the answer or its end.
func (x *exchange) events(r *eventReader) (Response, error) {
	for {
		ev, err := r.next()
		if err != nil {
			return Response{}, x.readError(err)
		}
		if ev.name == "endpoint" && (x.call.Method == "server/discover" || x.call.Method == "initialize") {
			return Response{}, x.fail(Protocol, &statusError{status: x.status, sse: true, text: "answered with a stream of HTTP+SSE"})
		}
		if ev.name != "" {
			x.c.env.noised(1)
			continue
		}
		if len(ev.data) == 0 {
			continue // a priming event
		}
		out, done, err := x.message(ev.data)
		if err != nil {
			return Response{}, err
		}
		if done {
			return out.own(), nil
		}
	}
}

// own copies what aliases the reader's buffer.
func (r Response) own() Response {
	r.Result, r.Error = bytes.Clone(r.Result), bytes.Clone(r.Error)
	return r
}

func (x *exchange) streamEnd(err error) error {
	if err != io.EOF {
		return err
	}
	text := "the stream ended without an answer"
	if x.junk > 0 {
		text += fmt.Sprintf(" (%d events were no JSON-RPC messages)", x.junk)
	}
	return x.fail(Uncertain, errors.New(text))
}

// notice handles a notification on the call's stream. Progress and log messages
// belong to the call; what else a server says there concerns everybody.
func (x *exchange) notice(m *wire.Message) {
	if oversized(m) {
		x.c.env.noised(1)
		return
	}
	switch m.Method {
	case progressMethod:
		if x.call.Notify == nil {
			return
		}
		if params, ok := x.progress.pass(m.Params, x.id, x.call.ProgressToken); ok {
			x.call.Notify(m.Method, params)
		}
	case logMethod:
		if x.call.Notify != nil {
			x.call.Notify(m.Method, m.Params)
		}
	case cancelledNote:
		x.c.askers.withdraw(x.s, cancelledID(m.Params))
	default:
		x.c.env.notified(m.Method, m.Params)
	}
}

// maxNotice bounds a notification: many of them may wait for a slow agent.
const maxNotice = 1 << 20

func oversized(m *wire.Message) bool { return len(m.Method)+len(m.Params) > maxNotice }

// maxQuestionID bounds what of a question is repeated in the answer.
const maxQuestionID = 1 << 10
