package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// quickWrite is how long a call writes by itself before it hands the rest over.
	quickWrite = 100 * time.Millisecond
	// writeStall is how long a server may take no byte before it counts as dead.
	writeStall = 10 * time.Second
	// writeStalls bounds how often a server may just about escape writeStall.
	writeStalls = 6
	// pooledBuffer is the largest buffer that is kept for the next call.
	pooledBuffer = 256 << 10
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func takeBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

func giveBuffer(b *[]byte) {
	if cap(*b) <= pooledBuffer {
		buffers.Put(b)
	}
}

// oneLine makes a message one line. A newline cannot stand inside a JSON string,
// so all that are there stand between tokens, where a space means the same.
func oneLine(b []byte) []byte {
	for _, c := range []byte("\n\r") {
		for at := 0; ; {
			i := bytes.IndexByte(b[at:], c)
			if i < 0 {
				break
			}
			at += i + 1
			b[at-1] = ' '
		}
	}
	return append(b, '\n')
}

// write sends the message in buf as one line and takes buf over. sent is false
// while no byte of it can have reached the server.
func (c *lineConn) write(w *wait, buf *[]byte) (sent bool, err error) {
	if c.link != nil {
		return c.link.tell(w, *buf)
	}
	*buf = oneLine(*buf)
	select {
	case c.writing <- struct{}{}:
	case <-c.dead:
		return false, c.err
	case <-w.ctx.Done():
		return false, w.ctx.Err()
	case <-w.expired:
		return false, errExpired
	}
	c.io.SetWriteDeadline(time.Now().Add(quickWrite))
	n, err := c.io.Write(*buf)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return c.writeSlowly(w, buf, n)
	}
	<-c.writing
	giveBuffer(buf)
	if err != nil {
		return n > 0, c.broken(err)
	}
	return true, nil
}

// writeSlowly leaves the rest to another goroutine: a message that is half out
// must be finished, but its caller may go.
func (c *lineConn) writeSlowly(w *wait, buf *[]byte, n int) (sent bool, err error) {
	done := make(chan sendEnd, 1)
	go c.writeRest(buf, n, done)
	select {
	case e := <-done:
		return e.sent, e.err
	case <-w.ctx.Done():
		return true, w.ctx.Err()
	case <-w.expired:
		return true, errExpired
	}
}

// A sendEnd is how a write that took its time ended.
type sendEnd struct {
	sent bool
	err  error
}

// writeRest writes from n on, for as long as the server takes some of it. It ends
// by its own limits, or when stop closes the pipe.
func (c *lineConn) writeRest(buf *[]byte, n int, done chan<- sendEnd) {
	n, err := c.pushOn(*buf, n)
	<-c.writing
	giveBuffer(buf)
	done <- sendEnd{sent: n > 0, err: err}
}

func (c *lineConn) pushOn(b []byte, n int) (int, error) {
	for range writeStalls {
		c.io.SetWriteDeadline(time.Now().Add(writeStall))
		m, err := c.io.Write(b[n:])
		n += m
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, c.broken(err)
		}
		if m == 0 {
			break
		}
	}
	c.fail(&Error{Server: c.server, Kind: Unreachable, Err: fmt.Errorf("the server stopped reading its input for %v", writeStall)})
	return n, c.err
}

// broken waits a moment for the reader to learn why the pipe broke: the exit
// status says more than EPIPE does.
func (c *lineConn) broken(err error) error {
	if !within(c.dead, time.Second) {
		c.fail(&Error{Server: c.server, Kind: Unreachable, Err: fmt.Errorf("the server's input is closed: %w", bareCause(err))})
	}
	return c.err
}

// post queues a line that nobody waits for. When the queue is full the server does
// not read, and the line is dropped.
func (c *lineConn) post(b []byte) {
	select {
	case c.outbox <- posted{line: b}:
	default:
		c.e.noised(1)
	}
}

// A posted is a line that waits to be written.
type posted struct {
	line []byte
	done chan struct{} // closed after it was; nil when nobody waits for that
}

// postNow queues a line and waits until it is written, or never will be.
func (c *lineConn) postNow(b []byte) {
	done := make(chan struct{})
	select {
	case c.outbox <- posted{b, done}:
	default:
		c.e.noised(1)
		return
	}
	select {
	case <-done:
	case <-c.dead:
	}
}

// send writes what post queued, until the connection is dead.
func (c *lineConn) send() {
	for {
		select {
		case p := <-c.outbox:
			w := wait{ctx: context.Background()}
			if c.link != nil {
				w.expired = time.After(postPatience)
			}
			c.write(&w, &p.line)
			if p.done != nil {
				close(p.done)
			}
		case <-c.dead:
			return
		}
	}
}
