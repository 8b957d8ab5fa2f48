package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A pipe is an agent's connection to `serve --stdio`.
type pipe struct {
	in io.WriteCloser
	mu sync.Mutex // guards writes, waits and said

	waits map[string]*pipeWait // by raw id
	said  chan []byte          // what belongs to no request; the oldest is dropped
	gone  chan struct{}        // closed by read
}

type pipeWait struct {
	notes [][]byte
	done  chan []byte
}

// Spawn makes a an agent on standard input and output: it starts the program
// with args and stops it when the test ends. Notifications reach the request in
// flight if there is only one, else Said.
func (a *Agent) Spawn(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &pipe{in: in, waits: map[string]*pipeWait{}, said: make(chan []byte, 1000), gone: make(chan struct{})}
	a.pipe = p
	go p.read(out, a)
	t.Cleanup(func() {
		in.Close()
		kill := time.AfterFunc(stopLimit, func() { cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve --stdio: %v\n%s", err, log.String())
		}
		<-p.gone
	})
}

// Said is what the program said outside of requests, over stdio.
func (a *Agent) Said() <-chan []byte { return a.pipe.said }

func (p *pipe) write(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.in.Write(append(bytes.Clone(line), '\n'))
	return err
}

func (p *pipe) read(out io.Reader, a *Agent) {
	defer close(p.gone)
	r := bufio.NewReaderSize(out, 1<<20)
	var answers sync.WaitGroup
	defer answers.Wait()
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		m := Parse(line)
		switch {
		case m.Method != "" && m.ID != nil && a.Answer != nil:
			answers.Go(func() {
				if member := a.Answer(m.Method, m.Params); member != "" {
					p.write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + member + `}`))
				}
			})
		case m.Method == "" && p.answer(string(m.ID), line):
		default:
			p.note(bytes.TrimSpace(line))
		}
	}
}

func (p *pipe) answer(id string, line []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waits[id]
	delete(p.waits, id)
	if w != nil {
		w.done <- bytes.TrimSpace(line)
	}
	return w != nil
}

// note gives a notification to the only request in flight, else to Said.
func (p *pipe) note(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := Parse(line)
	if len(p.waits) == 1 && !strings.Contains(m.Method, "changed") && !strings.Contains(m.Method, "resources/") && !strings.Contains(m.Method, "subscriptions/") {
		for _, w := range p.waits {
			w.notes = append(w.notes, line)
		}
		return
	}
	select {
	case p.said <- line:
	default:
	}
}

// post is Post over stdio.
func (p *pipe) post(ctx context.Context, body []byte, id string) (*Reply, error) {
	w := &pipeWait{done: make(chan []byte, 1)}
	if id != "" {
		p.mu.Lock()
		p.waits[id] = w
		p.mu.Unlock()
	}
	if err := p.write(body); err != nil || id == "" {
		return &Reply{Status: 202}, err
	}
	select {
	case line := <-w.done:
		m := Parse(line)
		return &Reply{Status: 200, Body: line, Raw: line, Result: m.Result, Error: m.Error, Notes: w.notes}, nil
	case <-p.gone:
		return nil, errors.New("the program ended")
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.waits, id)
		p.mu.Unlock()
		return nil, fmt.Errorf("no answer: %w", ctx.Err())
	}
}
