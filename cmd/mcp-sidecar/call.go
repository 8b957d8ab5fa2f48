package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func (p *program) callCmd() *cobra.Command {
	var f configFlags
	var asJSON bool
	var server string
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON]",
		Short: "Call one tool, as an agent would",
		Long: `call starts the server that the tool is of, calls the tool under the name that an
agent sees, prints its text, and stops the server again. Where the name fits the
tools of several servers, all of them are started. JSON is the object of arguments;
"-" reads it from standard input. With --server the tool's own name will do.

  mcp-sidecar call mcp_filesystem_read_text_file '{"path":"/tmp/a.txt"}'
  mcp-sidecar call --server filesystem read_text_file '{"path":"/tmp/a.txt"}'

call is an agent that answers no questions of servers, so that tools which a server
shows only to agents that do are not there. An endpoint for sampling answers it.

With --json the whole result is printed.

Exit codes: 0 the tool answered; 1 it answered with an error, it is unknown, or its
server did not answer; 2 wrong usage, or a configuration with faults that nothing
starts with.`,
		Args: argsBetween(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := p.arguments(args[1:])
			if err != nil {
				return usage(err)
			}
			cfg, err := p.load(cmd, &f, nil)
			if err != nil {
				return err
			}
			if err := only(cfg, server); err != nil {
				return err
			}
			if server == "" {
				wanted(cfg, args[0])
			}
			return p.probe(cmd.Context(), cfg, "warn", func(ctx context.Context, a *app) error {
				tool := args[0]
				if server != "" {
					tool = a.exposed(ctx, server, tool)
				}
				return p.call(ctx, a, tool, arguments, asJSON)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&server, "server", "", "start `SERVER` alone; TOOL may be its own name for the tool")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	return cmd
}

// wanted leaves the servers that may have a tool of that name, so that no other is
// started. If there is none, all stay: then the answer says what there is.
func wanted(cfg *config.Config, tool string) {
	var left []config.Server
	for i := range cfg.Servers {
		if s := &cfg.Servers[i]; !off(s.Settings.Enabled) && mayHave(cfg, s, tool) {
			left = append(left, *s)
		}
	}
	if len(left) > 0 {
		cfg.Servers = left
	}
}

func mayHave(cfg *config.Config, s *config.Server, tool string) bool {
	sp, err := compilePolicy(cfg, cfg.Profile(), &s.Settings)
	if err != nil || sp.namer.Fits(s.Name, tool) {
		return true
	}
	for _, u := range policy.Utilities {
		if sp.namer.Wrapper(s.Name, u.Tool()) == tool {
			return true
		}
	}
	return false
}

// exposed is the name that agents see of a tool of the one server that runs. A tool
// that it does not have keeps the name that was given.
func (a *app) exposed(ctx context.Context, server, tool string) string {
	a.settle(ctx, probeWait)
	snap, ok := a.views.of("")
	if !ok {
		return tool
	}
	for route := range snap.Tools() {
		if route.Server == server && route.Utility == 0 && route.Inner == tool {
			return route.Exposed
		}
	}
	if a.set.Listing(server) == nil {
		return a.views.policies[server].namer.Name(server, tool)
	}
	return tool
}

// maxArguments bounds what call reads from standard input.
const maxArguments = 16 << 20

func (p *program) arguments(args []string) ([]byte, error) {
	raw := []byte("{}")
	if len(args) == 1 {
		raw = []byte(args[0])
	}
	if string(raw) == "-" {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(p.stdin, maxArguments+1)); err != nil {
			return nil, err
		}
	}
	if len(raw) > maxArguments {
		return nil, fmt.Errorf("arguments: more than %d bytes", maxArguments)
	}
	if _, err := wire.Valid(raw, wire.Limits{}); err != nil {
		return nil, fmt.Errorf("arguments: want one JSON object: %w", readable(raw, err))
	}
	if wire.Kindof(bytes.TrimSpace(raw)) != '{' {
		return nil, errors.New("arguments: want one JSON object, such as {\"path\":\"/tmp\"}")
	}
	// One line: the request travels over a line protocol.
	var line bytes.Buffer
	err := json.Compact(&line, raw)
	return line.Bytes(), err
}

// readable is what people are told of JSON that cannot be read: with the character.
func readable(raw []byte, err error) error {
	var at *json.SyntaxError
	if !errors.As(json.Unmarshal(raw, new(json.RawMessage)), &at) {
		return err // it is beyond a limit, or a member comes twice
	}
	return fmt.Errorf("%w, at byte %d", at, at.Offset)
}

// call sends one request through the same front that agents reach.
func (p *program) call(ctx context.Context, a *app, tool string, arguments []byte, asJSON bool) error {
	a.await(ctx, tool)
	if !a.views.has(tool) {
		a.settleAsking(ctx, askingWait)
	}
	params := wire.AppendQuote([]byte(`{"name":`), tool)
	params = append(append(append(params, `,"arguments":`...), arguments...), '}')
	answer, err := ask(ctx, a, "tools/call", params)
	if err != nil {
		return err
	}
	if answer.Err != nil {
		p.absent(a, "")
		return &hinted{fmt.Errorf("call %s: %s", tool, wireErrorText(answer.Err)), a.hint(tool)}
	}
	isError, _ := wire.Get(answer.Result, "isError")
	if asJSON {
		fmt.Fprintf(p.stdout, "%s\n", answer.Result)
	} else {
		p.printContent(answer.Result)
	}
	if string(isError) == "true" {
		return &codeError{exitFailed, nil}
	}
	return nil
}

// hint says why a call failed, as far as that is known.
func (a *app) hint(tool string) string {
	for _, t := range a.views.more("") {
		if t.name == tool {
			return fmt.Sprintf("server %s shows this tool only to agents that can answer questions, which call is not", t.server)
		}
	}
	for i := range a.cfg.Servers {
		if s := &a.cfg.Servers[i]; off(s.Settings.Enabled) && mayHave(a.cfg, s, tool) {
			return fmt.Sprintf("server %s, which it may be of, is %s", s.Name, isOff(s))
		}
	}
	return "mcp-sidecar tools lists what there is"
}

// await waits until the tool is there, or every server had its first chance.
func (a *app) await(ctx context.Context, tool string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.settle(ctx, probeWait)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if a.views.has(tool) {
			cancel()
			<-done
			return
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// ask opens a session on the front's stdio side and returns the answer to one
// request.
func ask(ctx context.Context, a *app, method string, params []byte) (wire.Message, error) {
	var in, out bytes.Buffer
	in.WriteString(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcp-sidecar","version":"` + version + `"}}}` + "\n")
	in.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	in.Write(append(wire.AppendRequest(nil, []byte("1"), method, params), '\n'))
	if err := a.front.ServeStdio(ctx, &in, &out); err != nil {
		return wire.Message{}, err
	}
	for line := range bytes.Lines(out.Bytes()) {
		m, err := wire.ParseServer(line, wire.Limits{})
		if err == nil && m.Kind() == wire.Response && string(m.ID) == "1" {
			return m, nil
		}
	}
	if ctx.Err() != nil {
		return wire.Message{}, ctx.Err()
	}
	return wire.Message{}, errors.New("no answer")
}

// printContent prints text blocks as they are and names the others.
func (p *program) printContent(result []byte) {
	content, _ := wire.Get(result, "content")
	n := 0
	wire.Elements(content, func(block []byte) bool {
		n++
		kind, _ := wire.Get(block, "type")
		raw, _ := wire.Get(block, "text")
		if text, ok := wire.Unquote(raw); ok && string(kind) == `"text"` {
			fmt.Fprintln(p.stdout, strings.TrimSuffix(text, "\n"))
		} else {
			fmt.Fprintf(p.stdout, "[%s block, %d bytes; --json shows it]\n", kind, len(block))
		}
		return true
	})
	if n > 0 {
		return
	}
	if s, ok := wire.Get(result, "structuredContent"); ok {
		fmt.Fprintf(p.stdout, "%s\n", s)
	}
}

func wireErrorText(object []byte) string {
	raw, _ := wire.Get(object, "message")
	text, _ := wire.Unquote(raw)
	code, _ := wire.Get(object, "code")
	return fmt.Sprintf("%s (code %s)", text, code)
}
