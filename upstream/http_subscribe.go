package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Listen keeps a subscriptions/listen open: a POST whose answer is a stream that
// may go on for days. Each of its messages is bounded, the stream is not.
func (c *httpConn) Listen(ctx context.Context, params []byte, heard func(method string, params []byte)) error {
	rctx, cancel := c.scope(ctx, 0)
	defer cancel()
	x := exchange{c: c, s: c.session.Load(), call: &Call{Method: listenMethod, Params: params}}
	resp, err := c.send(rctx, http.MethodPost, x.request(nil), x.header())
	if err != nil {
		return x.fail(Unreachable, c.netText(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || mediaType(resp.Header) != "text/event-stream" {
		return ofListen(x.reply(rctx, resp))
	}
	body, _, err := decoded(resp)
	if err != nil {
		return x.fail(Protocol, c.netText(err))
	}
	return x.listen(body, heard)
}

// listen reads the stream to its end.
func (x *exchange) listen(body io.Reader, heard func(method string, params []byte)) error {
	r := newEventReader(body, nil, x.c.limit, math.MaxInt)
	for {
		ev, err := r.next()
		switch {
		case err == io.EOF:
			return x.fail(Uncertain, errors.New("the stream was cut"))
		case err != nil:
			return x.readError(err)
		case ev.name != "" || len(ev.data) == 0:
			continue
		}
		m, err := wire.ParseServer(ev.data, wire.Limits{})
		switch {
		case err == nil && m.Kind() == wire.Response && bytes.Equal(m.ID, x.rawID()):
			return ofListen(Response{Result: m.Result, Error: bytes.Clone(m.Err)}, nil)
		case err == nil && m.Kind() == wire.Notification && !oversized(&m):
			heard(m.Method, m.Params)
		default:
			x.c.env.noised(1)
		}
		r.shrink()
	}
}

// ofListen says how a listen ended.
func ofListen(r Response, err error) error {
	switch {
	case err != nil:
		return err
	case r.Error == nil:
		return nil
	case rpcCode(r.Error) == wire.CodeMethodNotFound:
		return errNeverListens
	}
	return &refusal{r.Error}
}
