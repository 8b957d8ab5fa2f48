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
environment and the flags, resolves references, and prints every value in force
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
	if _, err := p.assemble(cfg); err != nil {
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
	return p.checkServers(cfg)
}

// checkServers reports the faults that cost one server each: those that the
// configuration found, and references that do not resolve.
func (p *program) checkServers(cfg *config.Config) error {
	bad := false
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		if off(s.Settings.Enabled) {
			continue
		}
		err := s.Err
		if err == nil {
			_, err = s.Settings.Resolve(s.Name, defaultProfile, cfg.Vars(s.Name, defaultProfile), p.env)
		}
		if err != nil {
			bad = true
			for _, f := range s.Faults(err) {
				fmt.Fprintln(p.stderr, f)
			}
		}
	}
	if bad {
		return &codeError{exitUsage, nil}
	}
	fmt.Fprintf(p.stderr, "ok: %d server(s)\n", len(cfg.Servers))
	return nil
}
