// Package demo holds the embedded demo servers, so that a first call needs
// nothing but the program itself.
package demo

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// version is what the demo servers say of themselves; they do not change with
// the program.
const version = "1.0.0"

// maxLine bounds one message from the agent.
const maxLine = 1 << 20

// Stdio serves the stdio demo (tools echo, add, slow and ask, one resource, one
// prompt) on in and out, one message per line, until in ends or ctx does.
func Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return run(ctx, stdioServer(), io.NopCloser(in), nopCloser{out})
}

// Builtin serves the in-process demo (tools time and word_count) on rw until
// ctx ends or rw is closed. It closes rw.
func Builtin(ctx context.Context, rw io.ReadWriteCloser) error {
	defer rw.Close()
	stop := context.AfterFunc(ctx, func() { rw.Close() })
	defer stop()
	return run(ctx, builtinServer(), rw, rw)
}

// run serves until the peer hangs up, which is not an error, or ctx ends.
func run(ctx context.Context, s *mcp.Server, r io.ReadCloser, w io.WriteCloser) error {
	err := s.Run(ctx, &mcp.IOTransport{Reader: r, Writer: w, MaxLineLength: maxLine})
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
