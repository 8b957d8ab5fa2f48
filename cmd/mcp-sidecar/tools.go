package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// Bounds of how long tools and call wait for servers.
const (
	probeWait  = 60 * time.Second
	askingWait = 20 * time.Second // for what agents see that can answer questions
)

func (p *program) toolsCmd() *cobra.Command {
	var f configFlags
	var asJSON bool
	var view string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List what an agent would see",
		Long: `tools starts the configured servers, lists the tools under the names that an agent
would see, and stops them again. What is withheld, and servers that fail, are
named on standard error. Tools that a server shows only to agents that can answer
questions are marked; --json leaves them out and names them on standard error.

  mcp-sidecar tools --config mcp-sidecar.yaml
  mcp-sidecar tools --server github --json

With --json every tool is the definition that an agent gets.

Exit codes: 0 every server answered; 1 some server did not, and the list is without
it; 2 wrong usage, or a configuration with faults that nothing starts with.`,
		Args: argsBetween(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(cmd, &f, nil)
			if err != nil {
				return err
			}
			if err := only(cfg, view); err != nil {
				return err
			}
			return p.probe(cmd.Context(), cfg, "error", func(ctx context.Context, a *app) error {
				a.settle(ctx, probeWait)
				a.settleAsking(ctx, askingWait)
				return p.tools(a, view, asJSON)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of tool definitions")
	cmd.Flags().StringVar(&view, "server", "", "show the endpoint /mcp/SERVER instead of the one over all servers")
	return cmd
}

// only leaves the one server that is asked for, so that no other is started.
func only(cfg *config.Config, server string) error {
	if server == "" {
		return nil
	}
	var names []string
	for i := range cfg.Servers {
		if s := &cfg.Servers[i]; s.Name == server {
			if off(s.Settings.Enabled) {
				return usage(fmt.Errorf("server %q is %s", server, isOff(s)))
			}
			cfg.Servers = cfg.Servers[i : i+1]
			return nil
		}
		names = append(names, cfg.Servers[i].Name)
	}
	return usage(fmt.Errorf("no server %q, there are: %s", server, strings.Join(names, ", ")))
}

// isOff says where a server is switched off.
func isOff(s *config.Server) string {
	f := s.Place("", "enabled")
	if f.File == "" {
		return "off"
	}
	return fmt.Sprintf("off: %s:%d has enabled: false", f.File, f.Line)
}

// probe runs the sidecar without a listener around f. It logs less than usual,
// because what matters is said with the result.
func (p *program) probe(ctx context.Context, cfg *config.Config, level string, f func(context.Context, *app) error) error {
	if cfg.Log.Level == "" || cfg.Log.Level == "info" {
		cfg.Log.Level = level
	}
	a, err := p.assemble(cfg)
	if err != nil {
		return err
	}
	p.warn(cfg)
	back, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- a.run(back) }()
	err = f(ctx, a)
	stop()
	return errors.Join(err, <-done)
}

func (p *program) tools(a *app, server string, asJSON bool) error {
	snap, ok := a.views.of(server)
	if !ok {
		return fmt.Errorf("server %q is disabled", server)
	}
	if asJSON {
		if err := p.printJSON(snap); err != nil {
			return err
		}
		for _, t := range a.views.more(server) {
			fmt.Fprintf(p.stderr, "left out: %s %s\n", t.name, forAsked)
		}
	} else {
		w := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
		for _, t := range beside(a.set.Names(), linesOf(snap), a.views.more(server)) {
			fmt.Fprintf(w, "%s\t%s\t%s\n", t.name, t.server, t.text)
		}
		w.Flush()
	}
	for _, f := range snap.Faults() {
		if f.Level > aggregate.Info {
			fmt.Fprintf(p.stderr, "%s: %s\n", f.Level, f)
		}
	}
	return p.absent(a, server)
}

// linesOf are the lines of a view.
func linesOf(snap *aggregate.Snapshot) (out []tool) {
	for route, text := range snap.Tools() {
		out = append(out, tool{route.Exposed, route.Server, firstLine(text)})
	}
	return out
}

// beside marks the tools of the second list, and puts them behind the others of
// their server.
func beside(servers []string, all, marked []tool) []tool {
	for _, t := range marked {
		t.text = strings.TrimSpace(forAsked + " " + firstLine(t.text))
		all = append(all, t)
	}
	rank := make(map[string]int, len(servers))
	for i, name := range servers {
		rank[name] = i
	}
	slices.SortStableFunc(all, func(x, y tool) int { return rank[x.server] - rank[y.server] })
	return all
}

// forAsked marks tools that other agents do not see.
const forAsked = "(for agents that can answer questions)"

// absent names the servers that are not there.
func (p *program) absent(a *app, only string) error {
	bad := false
	for _, name := range a.set.Names() {
		st, _ := a.set.Status(name)
		if only != "" && name != only || st.State == upstream.Disabled || a.set.Listing(name) != nil {
			continue
		}
		bad = true
		fmt.Fprintf(p.stderr, "server %s %s\n", name, trouble(st))
	}
	if bad {
		return &codeError{exitFailed, nil}
	}
	return nil
}

// trouble says why a server is not there.
func trouble(st upstream.Status) string {
	text := "did not answer in time"
	if st.Err != nil {
		text = fmt.Sprintf("%s: %v", st.State, st.Err)
	}
	if st.Noise > 0 {
		text += fmt.Sprintf(" (%d line(s) of its output were not MCP)", st.Noise)
	}
	return text
}

// printJSON prints every page as one array, each definition as it is served.
func (p *program) printJSON(snap *aggregate.Snapshot) error {
	out := []byte{'['}
	for after := ""; ; {
		items, next, ok := snap.Page(aggregate.Tools, after)
		if !ok {
			return errors.New("the list changed while it was printed")
		}
		if len(out) > 1 && len(items) > 0 {
			out = append(out, ',')
		}
		out = append(out, items...)
		if next == "" {
			break
		}
		after = next
	}
	out = append(out, ']')
	var tools []json.RawMessage
	if err := json.Unmarshal(out, &tools); err != nil {
		return err
	}
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(tools)
}

// firstLine returns the first line of a description, cut for a table.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return s
}
