// Command mcp-sidecar stands beside an agent, ends its single MCP connection
// and fans its calls out to many MCP servers.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// version is set at link time; see the Makefile.
var version = "0.1.0-dev"

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the tool or a server answered with an error, or the work could not be done
	exitUsage  = 2 // wrong flags, or a configuration with faults
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := &program{args: os.Args[1:], env: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	code := p.run(ctx)
	stop()
	os.Exit(code)
}

// A program is one run of the command with all that it touches.
type program struct {
	args           []string
	env            []string
	stdin          io.Reader
	records        *slog.Logger // of serve with a log in JSON: nothing else is printed
	stdout, stderr io.Writer
}

// A codeError ends the program with a code of its own.
type codeError struct {
	code int
	err  error // nil: everything was said already
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// A hinted error is followed by the command that mends it.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// limitWord is the first argument of the process that sets a server's rlimits. It
// is no command: what follows belongs to the server, and no flag is read from it.
const limitWord = "run-limited"

func (p *program) run(ctx context.Context) int {
	if len(p.args) > 0 && p.args[0] == limitWord {
		return upstream.RunLimited(p.args[1:])
	}
	root := p.root()
	root.SetArgs(p.args)
	if err := root.ExecuteContext(ctx); err != nil {
		return p.tell(err)
	}
	return exitOK
}

// tell prints an error as far as that was not done, and returns its exit code.
func (p *program) tell(err error) int {
	code, said := exitFailed, false
	if ce := (*codeError)(nil); errors.As(err, &ce) {
		code, said = ce.code, ce.err == nil
	}
	faults, h := (*config.Faults)(nil), (*hinted)(nil)
	if p.records != nil {
		attrs := []any{"err", err}
		if errors.As(err, &h) {
			attrs = append(attrs, "hint", h.hint)
		}
		if !said {
			p.records.Error("ended", attrs...)
		}
		return code
	}
	switch {
	case errors.As(err, &faults): // a line each, which begins with its place
		code = exitUsage
		fmt.Fprintf(p.stderr, "%v\n", faults)
	case !said:
		fmt.Fprintf(p.stderr, "mcp-sidecar: %v\n", err)
	}
	if errors.As(err, &h) {
		fmt.Fprintf(p.stderr, "hint: %s\n", h.hint)
	}
	return code
}
