package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// maxParallel bounds the requests of one stdio agent in flight.
const maxParallel = 256

// A pipe is one agent on standard input and output.
type pipe struct {
	f    *Front
	view *View
	out  io.Writer
	scope

	queue chan []byte         // whole lines; closed by ServeStdio
	room  *semaphore.Weighted // for the bytes of those lines
	calls sync.WaitGroup      // requests in flight and the teller of news
	slots chan struct{}       // holds a token per request in flight

	taking  sync.Mutex // held while a line is begun
	stopped bool       // no more are
	sess    *session   // of the legacy handshake
}

// ServeStdio serves the default profile to the agent behind in and out, in both
// eras, until in ends, the front drains or ctx ends. Requests in flight are still
// answered in the first two cases. In the last two, in is closed if it can be; a
// Read that this does not end is left behind.
func (f *Front) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	view, ok := f.opt.Views.View("default", "")
	if !ok {
		return errors.New("no view for the default profile")
	}
	p := &pipe{f: f, view: view, out: out,
		queue: make(chan []byte, f.opt.Limits.queue()), room: semaphore.NewWeighted(waitingBytes),
		slots: make(chan struct{}, maxParallel)}
	written := make(chan error, 1)
	go p.write(written)
	reading, quiet := context.WithCancel(ctx)
	defer quiet()
	err := p.readUntil(ctx, reading, in)
	if !f.draining() {
		quiet() // else each listen ends with a last word
	}
	p.calls.Wait()
	close(p.queue)
	if p.sess != nil {
		f.ended(p.sess)
	}
	select {
	case werr := <-written:
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(err, werr)
	case <-ctx.Done():
		return awaitWriter(written)
	}
}

// readUntil reads until there is a reason to stop. Then nothing is begun any more.
func (p *pipe) readUntil(ctx, reading context.Context, in io.Reader) (err error) {
	over := make(chan error, 1)
	go p.read(ctx, reading, in, over)
	select {
	case err = <-over:
	case <-p.f.closing:
		closeReader(in)
	case <-ctx.Done():
		closeReader(in)
	}
	p.taking.Lock()
	defer p.taking.Unlock()
	p.stopped = true
	if p.sess != nil {
		p.sess.asked.end() // no answer can come any more
	}
	return err
}

func closeReader(in io.Reader) {
	if c, ok := in.(io.Closer); ok {
		c.Close()
	}
}

// awaitWriter gives a writer that may be stuck a moment to end.
func awaitWriter(written <-chan error) error {
	select {
	case <-written:
	case <-time.After(time.Second):
	}
	return nil
}

// write writes lines until the queue is closed. After a failure it drops them.
func (p *pipe) write(done chan<- error) {
	var err error
	for line := range p.queue {
		if err == nil {
			_, err = p.out.Write(line)
		}
		p.room.Release(weight(len(line)))
	}
	done <- err
}

// weight is what a line of n bytes takes of the queue's room; a large answer
// takes it all.
func weight(n int) int64 { return int64(min(n, waitingBytes)) }

// send queues one message, waiting for room: answers are not lost while ctx
// lasts. They are put together only then.
func (p *pipe) send(ctx context.Context, r reply) {
	n := r.size() + 1
	if r.silent() || p.room.Acquire(ctx, weight(n)) != nil {
		return
	}
	line := oneLine(r.append(make([]byte, 0, n)))
	select {
	case p.queue <- append(line, '\n'):
	case <-ctx.Done():
		p.room.Release(weight(n))
	}
}

// notify queues a notification if there is room at once.
func (p *pipe) notify(method string, params []byte) {
	if len(params) > waitingBytes || !p.offer(append(oneLine(wire.AppendNotification(nil, method, params)), '\n')) {
		p.f.counts.dropped.Add(1)
	}
}

// deliver queues a message that must arrive, such as a question.
func (p *pipe) deliver(msg []byte) bool {
	return p.offer(append(oneLine(msg), '\n'))
}

func (p *pipe) offer(line []byte) bool {
	n := weight(len(line))
	if !p.room.TryAcquire(n) {
		return false
	}
	select {
	case p.queue <- line:
		return true
	default:
		p.room.Release(n)
		return false
	}
}

// read takes messages line by line until in ends, or none is begun any more.
func (p *pipe) read(ctx, reading context.Context, in io.Reader, over chan<- error) {
	r := bufio.NewReaderSize(in, smallBody)
	for {
		line, err := readLine(r, p.f.opt.Limits.request())
		if fatal := err != nil && err != io.EOF && !errors.Is(err, errTooLong); fatal {
			over <- fmt.Errorf("stdin: %w", err)
			return
		}
		if !p.take(ctx, reading, line, err) || err == io.EOF {
			over <- nil
			return
		}
	}
}

// take begins what a line says; false means that none is any more.
func (p *pipe) take(ctx, reading context.Context, line []byte, err error) bool {
	p.taking.Lock()
	defer p.taking.Unlock()
	switch {
	case p.stopped:
		return false
	case errors.Is(err, errTooLong):
		p.send(ctx, failed(nil, invalid(err.Error()), false))
	default:
		p.line(ctx, reading, line)
	}
	return true
}

// readLine returns the next line, which the caller may keep. One over the limit
// is skipped.
func readLine(r *bufio.Reader, limit int) (line []byte, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > limit; !long {
			line = append(line, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if long && err == nil {
			err = errTooLong
		}
		return bytes.TrimSpace(line), err
	}
}

// line serves one message. Requests live as long as ctx; what is told besides
// ends with reading.
func (p *pipe) line(ctx, reading context.Context, line []byte) {
	if len(line) == 0 {
		return
	}
	if isArray(line) {
		p.batch(ctx, line)
		return
	}
	m, err := wire.ParseAgent(line, p.f.wireLimits())
	if err != nil {
		e := (*wire.Error)(nil)
		errors.As(err, &e)
		p.sess.rejectAnswer(&m, e)
		p.send(ctx, failed(e.ID, e, false))
		return
	}
	x := p.exchange()
	x.msg, x.params = m, readParams(m.Params)
	x.modern = isModern(&m, &x.params, "")
	switch {
	case m.Kind() != wire.Request:
		x.accept()
	case x.modern:
		if e := checkModern(&m, &x.params, nil); e != nil {
			p.send(ctx, failed(m.ID, e, true))
			return
		}
		if m.Method == listenMethod {
			p.listen(ctx, reading, x)
			return
		}
		p.start(ctx, x)
	case m.Method == "initialize" && p.sess == nil:
		p.open(ctx, reading, x)
	default:
		p.start(ctx, x)
	}
}

func (p *pipe) exchange() *exchange {
	return &exchange{f: p.f, view: p.view, caller: auth.Stdio, sess: p.sess, scope: &p.scope, lane: p, out: p}
}

// open does the legacy handshake.
func (p *pipe) open(ctx, reading context.Context, x *exchange) {
	version, err := x.askedVersion()
	if err != nil {
		p.send(ctx, failed(x.msg.ID, err, false))
		return
	}
	p.sess = newSession("stdio", auth.Stdio, p.view, version, x.declared(version))
	p.f.met(p.view, p.sess.viewer())
	a := answer{result: x.handshake(version)}
	p.send(ctx, a.reply(x.msg.ID))
	p.calls.Add(1)
	go p.tell(reading, p.sess)
}

// tell tells a legacy agent of changed lists and what servers log until ctx ends or
// the sidecar drains.
func (p *pipe) tell(ctx context.Context, s *session) {
	defer p.calls.Done()
	for {
		select {
		case <-s.wake:
			s.tell(func(b []byte) error {
				p.send(ctx, reply{head: b})
				return nil
			})
		case msg := <-s.mail.out:
			p.send(ctx, reply{head: msg})
			s.mail.done(msg)
		case <-p.f.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// start runs a request beside the others.
func (p *pipe) start(ctx context.Context, x *exchange) {
	held, err := p.enter(ctx, len(x.msg.Raw))
	if err != nil {
		p.send(ctx, failed(x.msg.ID, &wire.Error{Code: wire.CodeInternal, Message: err.Error()}, x.modern))
		return
	}
	go p.call(ctx, x, held)
}

// enter takes a slot and room for a message of n bytes.
func (p *pipe) enter(ctx context.Context, n int) (*room, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		return nil, fmt.Errorf("more than %d requests in flight", maxParallel)
	}
	held := &room{budget: p.f.budget, caller: auth.Stdio.ID}
	if err := held.widen(ctx, int64(n)); err != nil {
		<-p.slots
		return nil, err
	}
	p.calls.Add(1)
	return held, nil
}

func (p *pipe) exit(held *room) {
	held.release()
	<-p.slots
	p.calls.Done()
}

func (p *pipe) call(ctx context.Context, x *exchange, held *room) {
	defer p.exit(held)
	p.send(ctx, x.run(ctx))
}

// batch serves an array of messages after a handshake of 2025-03-26.
func (p *pipe) batch(ctx context.Context, line []byte) {
	if p.sess == nil || p.sess.version != versionBatches {
		p.send(ctx, failed(nil, invalid("batches are not served"), false))
		return
	}
	parts, err := splitBatch(line, p.f.wireLimits())
	if err != nil {
		p.send(ctx, failed(nil, err, false))
		return
	}
	held, oerr := p.enter(ctx, len(line))
	if oerr != nil {
		p.send(ctx, failed(nil, &wire.Error{Code: wire.CodeInternal, Message: oerr.Error()}, false))
		return
	}
	go p.runBatch(ctx, p.exchange(), parts, held)
}

func (p *pipe) runBatch(ctx context.Context, x *exchange, parts [][]byte, held *room) {
	defer p.exit(held)
	if all := x.each(ctx, parts, p.f.wireLimits()); all != nil {
		p.send(ctx, reply{head: all})
	}
}
