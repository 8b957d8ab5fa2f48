package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// dialStdio starts a server's process and shakes hands with it. When the probe for
// the era confuses or ends the server, a fresh process gets initialize as its first
// message: some servers exit on anything else.
func dialStdio(ctx context.Context, r *Resolved, e env) (conn, error) {
	c, err := startStdio(ctx, r, e, r.EraHint)
	if errors.Is(err, errAfresh) && ctx.Err() == nil && !r.Once {
		died := endedBy(err)
		legacy := Legacy
		if c, err = startStdio(ctx, r, e, &legacy); died && endedBy(err) {
			err = asDying(err)
		}
	}
	if err != nil {
		return nil, handshakeError(r.Server, err)
	}
	return c, nil
}

// startStdio makes one process and one handshake.
func startStdio(ctx context.Context, r *Resolved, e env, hint *Era) (*lineConn, error) {
	leave, err := e.gate.enter(ctx)
	if err != nil {
		return nil, &Error{Server: r.Server, Op: "start", Kind: Timeout, Err: fmt.Errorf("waiting for other servers to start: %w", err)}
	}
	defer leave()
	warnOfSpawn(r, &e)
	p, err := startProcess(r, &e)
	if err != nil {
		return nil, startError(r.Server, err)
	}
	e.logger().Debug("process started", "server", r.Server, "pid", p.pid, "command", r.Command)
	c := &lineConn{
		server: r.Server, settings: r.Settings, e: e, scrub: r.scrub,
		io: pipeIO{p.stdout, p.stdin}, stop: p.stop, early: newEarly(&e),
		why: func(error) error { return p.reason() },
	}
	c.info.PID = p.pid
	c.start()
	if err := c.handshake(ctx, r.Protocol, hint); err != nil {
		c.Close()
		return nil, lastSaid(err, p)
	}
	return c, nil
}

// warnOfSpawn logs what the configuration allows and few would.
func warnOfSpawn(r *Resolved, e *env) {
	if names := loaderVars(r.Settings); names != nil {
		e.logger().Warn("variables that load foreign code are set for a server", "server", r.Server, "names", names)
	}
	if r.lifted != nil {
		e.logger().Warn("a server starts that screening would refuse, because its entry says screening: false", "server", r.Server, "err", r.lifted)
	}
}

// startError tells a setting that cannot be had from a machine that has no room.
func startError(server string, err error) error {
	kind := Unreachable
	if s := (*SettingError)(nil); errors.As(err, &s) {
		kind = Config
	}
	return &Error{Server: server, Op: "start", Kind: kind, Err: err}
}

// lastSaid adds the end of standard error to a handshake that ran out of time: it
// may say what the server is busy with.
func lastSaid(err error, p *process) error {
	var e *Error
	tail := p.stderr.tail()
	if tail == "" || !errors.As(err, &e) || e.Kind != Timeout {
		return err
	}
	return &Error{Server: e.Server, Op: e.Op, Kind: e.Kind, Err: fmt.Errorf("%w; stderr: %s", e.Err, tail)}
}

// handshakeError makes sure that what leaves here is an Error or the caller's cancel.
func handshakeError(server string, err error) error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Server: server, Op: "connect", Kind: Timeout, Err: err}
	}
	return &Error{Server: server, Op: "connect", Kind: Unreachable, Err: err}
}

// pipeIO is a child's two pipes.
type pipeIO struct{ out, in *os.File }

func (p pipeIO) Read(b []byte) (int, error)         { return p.out.Read(b) }
func (p pipeIO) Write(b []byte) (int, error)        { return p.in.Write(b) }
func (p pipeIO) SetWriteDeadline(t time.Time) error { return p.in.SetWriteDeadline(t) }

// dialBuiltin starts a server that lives in this process and speaks as if it did not.
func dialBuiltin(ctx context.Context, r *Resolved, b Builtin, e env) (conn, error) {
	c := newBuiltinConn(ctx, r, b, e)
	c.start()
	if err := c.handshake(ctx, r.Protocol, r.EraHint); err != nil {
		c.Close()
		return nil, handshakeError(r.Server, err)
	}
	return c, nil
}

// newBuiltinConn runs b at the other end of a pipe. Its life is the connection's,
// not the dial's.
func newBuiltinConn(ctx context.Context, r *Resolved, b Builtin, e env) *lineConn {
	ours, theirs := net.Pipe()
	s := &builtinRun{serve: b, gone: make(chan struct{})}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go s.run(life, theirs)
	return &lineConn{
		server: r.Server, settings: r.Settings, e: e, io: ours,
		scrub: r.scrub,
		why:   s.reason,
		stop:  sync.OnceFunc(func() { ours.Close(); cancel(); within(s.gone, stopGrace(r.Settings)) }),
	}
}

// A builtinRun is one life of a server in this process.
type builtinRun struct {
	serve Builtin
	err   error
	gone  chan struct{} // closed by run
}

// run keeps a panic of the server to itself.
func (s *builtinRun) run(ctx context.Context, rw io.ReadWriteCloser) {
	defer close(s.gone)
	defer rw.Close()
	defer func() {
		if p := recover(); p != nil {
			s.err = fmt.Errorf("panic: %v", p)
		}
	}()
	s.err = s.serve(ctx, rw)
}

func (s *builtinRun) reason(err error) error {
	if within(s.gone, lastWords) && s.err != nil {
		return s.err
	}
	return errClosedOutput
}
