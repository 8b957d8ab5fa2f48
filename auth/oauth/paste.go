package oauth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/sys/unix"
)

// ErrSkipped is that the person does not want to log in now.
var ErrSkipped = errors.New("skipped")

var skipWords = []string{"skip", "cancel", "s", "n", "no", "q", "quit"}

const (
	maxWrongPastes = 20
	pasteTick      = 200 // milliseconds
)

type pasted struct {
	query string
	err   error
}

// A paster reads the redirect URL from a terminal.
type paster struct {
	in    io.Reader
	out   io.Writer
	state string
	// answers gets at most one answer and is never closed: a terminal that ends
	// does not end the login.
	answers chan pasted
	waits   sync.WaitGroup
}

func newPaster(in io.Reader, out io.Writer, state string) *paster {
	return &paster{in: in, out: out, state: state, answers: make(chan pasted, 1)}
}

// start reads until there is an answer or ctx ends.
func (p *paster) start(ctx context.Context) {
	f, isFile := p.in.(*os.File)
	switch {
	case p.in == nil:
		return
	case isFile:
		p.waits.Add(1)
		go p.runFile(ctx, f)
	default:
		go p.run(ctx, p.in)
	}
}

// end waits for the reading of a file to end. Other readers cannot be woken:
// theirs ends with the next line.
func (p *paster) end() { p.waits.Wait() }

func (p *paster) runFile(ctx context.Context, f *os.File) {
	defer p.waits.Done()
	p.run(ctx, &wakingReader{done: ctx.Done(), f: f})
}

func (p *paster) run(ctx context.Context, in io.Reader) {
	br := bufio.NewReaderSize(in, maxAnswer)
	for range maxWrongPastes {
		line, err := readLine(br)
		if ctx.Err() != nil || err != nil && line == "" {
			return
		}
		if a, ok := p.take(line); ok {
			p.answers <- a
			return
		}
	}
	fmt.Fprintln(p.out, "That is enough; the browser's answer is still awaited.")
}

// take judges one line.
func (p *paster) take(line string) (pasted, bool) {
	line = unwrap(line)
	if line == "" {
		return pasted{}, false
	}
	if slices.Contains(skipWords, strings.ToLower(line)) {
		return pasted{err: ErrSkipped}, true
	}
	q, err := answerQuery(line)
	if err == nil {
		err = checkAnswer(q, p.state)
	}
	if err != nil {
		fmt.Fprintf(p.out, "Not the redirect URL of this login: %v. Paste the whole address that the browser ended at: ", err)
		return pasted{}, false
	}
	return pasted{query: q.Encode()}, true
}

// readLine reads one line; one that is too long is read to its end and is empty
// of meaning.
func readLine(br *bufio.Reader) (string, error) {
	raw, err := br.ReadSlice('\n')
	line := string(raw)
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = br.ReadSlice('\n')
	}
	return "too long", err
}

// unwrap strips what comes along with a copied URL.
func unwrap(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\"'`<>", r)
	})
}

// answerQuery is the query of a redirect URL, or a bare query.
func answerQuery(s string) (url.Values, error) {
	s, _, _ = strings.Cut(unwrap(s), "#")
	if _, query, ok := strings.Cut(s, "?"); ok {
		s = query
	} else if strings.Contains(s, "://") {
		return nil, errors.New("the URL has no query")
	}
	return parseAnswer(s)
}

// A wakingReader reads a file only when there is something to read, so that it
// takes nothing after done was closed, and ends then.
type wakingReader struct {
	done <-chan struct{}
	f    *os.File
}

func (r *wakingReader) Read(b []byte) (int, error) {
	for {
		select {
		case <-r.done:
			return 0, io.EOF
		default:
		}
		if ready, err := inputReady(r.f); err != nil {
			return 0, err
		} else if ready {
			return r.f.Read(b)
		}
	}
}

// inputReady waits a moment for something to read.
func inputReady(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var n int
	var failed error
	err = c.Control(func(fd uintptr) {
		n, failed = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, pasteTick)
	})
	if errors.Is(failed, unix.EINTR) {
		failed = nil
	}
	return n > 0, errors.Join(err, failed)
}
