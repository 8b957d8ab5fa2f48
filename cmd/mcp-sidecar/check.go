package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func (p *program) checkCmd() *cobra.Command {
	var f configFlags
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print what is in force",
		Long: `check does all that serve does up to the first effect: it reads the files, the
environment and the flags, resolves references, works out through which proxy
connections leave, reads the files of TLS settings, and looks for the directories
and limits that servers want. Secrets are not printed. Nothing is started or
dialled.

It prints a line of what holds for all, then one for each server: its name and
kind, what is started or dialled, how its connections leave (directly, or via a
proxy; those of a program are its own affair, unless egress.allow fences it), and
what its entry sets. Faults and warnings follow on standard error, each with its
place. With --all, or -v, it prints every value in force with where it comes from
instead; what a server may ask is under its sampling, elicitation and roots.

  mcp-sidecar check
  mcp-sidecar check --config ~/.hermes/config.yaml --all
  mcp-sidecar check --json | jq '.[] | select(.origin != "default")'

Exit codes: 0 there is no fault (there may be warnings), 2 there is one.`,
		Args: argsBetween(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(cmd, &f, nil)
			if err != nil {
				return p.unread(err)
			}
			show := p.brief
			switch {
			case asJSON:
				show = p.effectiveJSON
			case all || f.verbose:
				show = p.effective
			}
			return p.check(cfg, show)
		},
	}
	f.add(cmd)
	f.addServe(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "print every value in force with its origin")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print every value in force as a JSON array of {path, value, origin}")
	return cmd
}

// A checked is one server and what was found about it.
type checked struct {
	s      *config.Server
	r      *upstream.Resolved // nil when it does not resolve
	faults []config.Fault
	known  []config.Fault // said elsewhere
}

func (p *program) check(cfg *config.Config, show func(*app, []checked) error) error {
	a, err := p.assemble(cfg)
	whole := (*config.Faults)(nil)
	switch {
	case errors.As(err, &whole):
		a = &app{cfg: cfg, environ: p.env, log: newLogger(p.stderr, cfg.Log)} // what the servers lack is said all the same
	case err != nil:
		return usage(err)
	}
	var told []string
	servers := make([]checked, len(cfg.Servers))
	for i := range cfg.Servers {
		servers[i] = a.checkServer(p, &cfg.Servers[i], func(err error) {
			told = append(told, fmt.Sprintf("mcp_servers.%s: %v", cfg.Servers[i].Name, err))
		})
	}
	if err := show(a, servers); err != nil {
		return err
	}
	bad := p.faults(whole, servers)
	p.warn(cfg)
	for _, w := range told {
		fmt.Fprintf(p.stderr, "warning: %s\n", w)
	}
	if bad {
		return &codeError{exitUsage, nil}
	}
	fmt.Fprintf(p.stderr, "ok: %d server(s)\n", len(cfg.Servers))
	return nil
}

// faults prints those of the whole, then those that cost one server each.
func (p *program) faults(whole *config.Faults, servers []checked) (bad bool) {
	if whole != nil {
		bad = true
		fmt.Fprintln(p.stderr, whole)
	}
	for _, c := range servers {
		for _, f := range c.faults {
			bad = true
			fmt.Fprintln(p.stderr, f)
		}
	}
	return bad
}

// checkServer looks for what keeps one server off: what the configuration found,
// references that do not resolve, files, proxies, directories and limits that cannot
// be used. What is known already is not said again.
func (a *app) checkServer(p *program, s *config.Server, told func(error), known ...config.Fault) checked {
	c := checked{s: s, known: known}
	if off(s.Settings.Enabled) {
		return c
	}
	c.faults = s.Faults(s.Err)
	r, err := s.Settings.Resolve(s.Name, defaultProfile, a.cfg.Vars(s.Name, defaultProfile), p.env)
	if err != nil {
		c.add(err)
		return c
	}
	c.add(r.Starts())
	c.add(r.Leaves(a.egress, told))
	if r.URL != nil && s.Settings.Auth == "oauth" {
		_, err := a.vault(defaultProfile)
		c.add(err)
	}
	if s.Err == nil {
		c.r = r
	}
	return c
}

// add adds what was found about settings of which nothing was said yet.
func (c *checked) add(err error) {
	whole := c.s.Place("").Path
	for _, f := range c.s.Faults(err) {
		same := func(g config.Fault) bool {
			return g.Path == f.Path || f.Path != whole && g.Path != whole && (strings.HasPrefix(g.Path, f.Path+".") || strings.HasPrefix(f.Path, g.Path+"."))
		}
		if !slices.ContainsFunc(c.faults, same) && !slices.ContainsFunc(c.known, same) {
			c.faults = append(c.faults, f)
		}
	}
}

// effective prints every value in force with its origin.
func (p *program) effective(a *app, _ []checked) error {
	w := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	for _, s := range a.cfg.Effective() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Path, s.Value, s.Origin)
	}
	return w.Flush()
}

// effectiveJSON is effective for programs.
func (p *program) effectiveJSON(a *app, _ []checked) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(a.cfg.Effective())
}
