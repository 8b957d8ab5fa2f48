package upstream

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// drainTime is how long the end of a stream may take behind the answer.
const drainTime = 250 * time.Millisecond

// background runs f in a goroutine that Close waits for. If all places are taken,
// or the connection is closed, it calls instead.
func (c *httpConn) background(places chan struct{}, f, instead func()) {
	c.mu.Lock()
	select {
	case places <- struct{}{}:
		if !c.closed {
			c.work.Add(1)
			c.mu.Unlock()
			go c.runAside(places, f)
			return
		}
		<-places
	default:
	}
	c.mu.Unlock()
	instead()
}

func (c *httpConn) runAside(places chan struct{}, f func()) {
	defer c.work.Done()
	defer func() { <-places }()
	f()
}

// aside posts a message that no call waits for. When too many are under way it
// is dropped, and counted as noise.
func (c *httpConn) aside(s *session, msg []byte) {
	c.background(c.asides, func() {
		ctx, cancel := context.WithTimeout(c.root(), courtesy)
		defer cancel()
		if _, err := c.post(ctx, s, msg); err != nil {
			c.env.logger().Debug("message not delivered", "server", c.server, "err", c.netText(err))
		}
	}, func() { c.env.noised(1) })
}

// sendCancel tells the server that nobody waits for the answer to id.
func (c *httpConn) sendCancel(s *session, id int64, reason string) {
	params := strconv.AppendInt([]byte(`{"requestId":`), id, 10)
	params = wire.AppendQuote(append(params, `,"reason":`...), reason)
	c.deliver(s, wire.AppendNotification(nil, cancelledNote, append(params, '}')))
}

// post sends a message to which there is no answer and returns the status.
func (c *httpConn) post(ctx context.Context, s *session, msg []byte) (status int, err error) {
	resp, err := c.send(ctx, http.MethodPost, msg, s.header("", ""))
	if err != nil {
		return 0, err
	}
	discard(resp.Body)
	return resp.StatusCode, nil
}

// drain reads what follows the answer on a stream, which is little or nothing,
// so that the connection can be used again.
func (c *httpConn) drain(body io.ReadCloser, cancel context.CancelFunc) {
	defer cancel()
	t := time.AfterFunc(drainTime, cancel)
	defer t.Stop()
	discard(body)
}
