package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/config"
)

func (p *program) checkCmd() *cobra.Command {
	var f configFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print what is in force",
		Long: `check does all that serve does up to the first effect: it reads the files, the
environment and the flags, resolves references, works out through which proxy
connections leave, reads the files of TLS settings, and prints every value in force
with where it comes from; what a server may ask is under its sampling, elicitation
and roots. Secrets are not printed. Nothing is started or dialled.

  mcp-sidecar check
  mcp-sidecar check --config ~/.hermes/config.yaml --json

Exit code 2 says that there are faults.`,
		Args: argsBetween(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(cmd, &f, nil)
			if err != nil {
				return err
			}
			return p.check(cfg, asJSON)
		},
	}
	f.add(cmd)
	f.addServe(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of {path, value, origin}")
	return cmd
}

func (p *program) check(cfg *config.Config, asJSON bool) error {
	a, err := p.assemble(cfg)
	if err != nil {
		return usage(err)
	}
	p.warn(cfg)
	if asJSON {
		enc := json.NewEncoder(p.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(cfg.Effective()); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
		for _, s := range cfg.Effective() {
			fmt.Fprintf(w, "%s\t%s\t%s\n", s.Path, s.Value, s.Origin)
		}
		w.Flush()
	}
	return a.checkServers(p)
}

// checkServers reports the faults that cost one server each: those that the
// configuration found, references that do not resolve, and files and proxies that
// cannot be used.
func (a *app) checkServers(p *program) error {
	bad := false
	for i := range a.cfg.Servers {
		s := &a.cfg.Servers[i]
		if off(s.Settings.Enabled) {
			continue
		}
		if err := a.checkServer(p, s); err != nil {
			bad = true
			for _, f := range s.Faults(err) {
				fmt.Fprintln(p.stderr, f)
			}
		}
	}
	if bad {
		return &codeError{exitUsage, nil}
	}
	fmt.Fprintf(p.stderr, "ok: %d server(s)\n", len(a.cfg.Servers))
	return nil
}

func (a *app) checkServer(p *program, s *config.Server) error {
	if s.Err != nil {
		return s.Err
	}
	r, err := s.Settings.Resolve(s.Name, defaultProfile, a.cfg.Vars(s.Name, defaultProfile), p.env)
	if err != nil {
		return err
	}
	return r.Leaves(a.egress, func(err error) { fmt.Fprintf(p.stderr, "warning: mcp_servers.%s: %v\n", s.Name, err) })
}
