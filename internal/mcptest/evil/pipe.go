package evil

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A Pipe is the conversation of a stdio server.
type Pipe struct {
	s     *Server
	calls int // so far; of the reading goroutine

	mu  sync.Mutex
	out io.Writer
}

// Write sends lines, as the fault would have them. It implements io.Writer for
// the good server.
func (p *Pipe) Write(b []byte) (int, error) {
	line := b
	if out := p.s.Fault.pipe.out; out != nil {
		line = out(b)
	}
	if err := p.raw(line); err != nil {
		return 0, err
	}
	return len(b), nil
}

// raw sends exactly these bytes.
func (p *Pipe) raw(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.out.Write(b)
	return err
}

// close has nothing sent any more.
func (p *Pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = io.Discard
}

// say sends one message.
func (p *Pipe) say(msg string) { p.Write([]byte(msg + "\n")) }

// ServeStdio answers the messages on in, one a line, until in ends.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) error {
	p := &Pipe{s: s, out: out}
	pid := strconv.Itoa(os.Getpid())
	s.Journal.Note(starts, pid)
	s.Journal.Note(processes, pid)
	if f := s.Fault.pipe.start; f != nil {
		f(p)
	}
	return p.serve(in)
}

// serve reads to the end of in; what is not about the fault goes to the good
// server, over a pipe of its own.
func (p *Pipe) serve(in io.Reader) error {
	here, there := io.Pipe()
	done := make(chan error, 1)
	go p.behave(here, done)
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 && !p.line(line) {
			there.Write(append(line, '\n'))
		}
		if err != nil {
			there.Close()
			return <-done
		}
	}
}

func (p *Pipe) behave(in *io.PipeReader, done chan<- error) {
	err := p.s.good.ServeStdio(in, p)
	in.CloseWithError(io.ErrClosedPipe)
	done <- err
}

// line takes one message; false leaves it to the good server.
func (p *Pipe) line(line []byte) bool {
	m := mcptest.Parse(line)
	if m.Method == "notifications/cancelled" {
		p.s.Journal.Note(cancelled, string(mcptest.Member(m.Params, "requestId")))
	}
	f := &p.s.Fault.pipe
	if f.line != nil && f.line(p, &m) {
		return true
	}
	if called(&m) == "" {
		return false
	}
	p.calls++
	if called(&m) == misbehave && f.call != nil {
		p.misbehave(&m)
		return true
	}
	go p.answer(&m)
	return true
}

// misbehave runs in the goroutine that reads: a fault that blocks there has the
// server read no more.
func (p *Pipe) misbehave(m *mcptest.Message) {
	p.s.Journal.Note(ran, mcptest.Text(mcptest.Member(m.Params, "arguments"), "key"))
	if member := p.s.Fault.pipe.call(p, m); member != "" {
		p.say(message(m, member))
	}
}

func (p *Pipe) answer(m *mcptest.Message) {
	member, ok := p.s.tool(m, time.Sleep)
	if !ok {
		member = failure(-32602, "no such tool")
	}
	p.say(message(m, member))
}
