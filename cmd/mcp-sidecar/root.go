package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const rootLong = `mcp-sidecar stands beside an agent. The agent connects to one MCP endpoint; the
sidecar fans its calls out to many MCP servers, local (stdio) and remote (HTTP),
prefixes their names, filters and cleans what they say.

  mcp-sidecar serve --demo             try it, with no configuration at all
  mcp-sidecar serve                    serve ./mcp-sidecar.yaml
  mcp-sidecar serve -- npx -y PACKAGE  one stdio server over HTTP
  mcp-sidecar check                    is the configuration right, and what is in force
  mcp-sidecar tools                    what an agent would see
  mcp-sidecar call TOOL '{"k":"v"}'    call one tool
  mcp-sidecar login SERVER             log in where a server wants OAuth

Exit codes, of every command: 0 done; 1 the tool or a server answered with an error
or not at all, or the work could not be done; 2 wrong usage or configuration.`

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "mcp-sidecar",
		Version:       version,
		Short:         "One MCP endpoint over many MCP servers",
		Long:          rootLong,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q\nhint: mcp-sidecar --help", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("mcp-sidecar {{.Version}}\n")
	root.SetHelpCommand(p.helpCmd())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w\nhint: %s --help", err, cmd.CommandPath()))
	})
	root.AddCommand(p.serveCmd(), p.checkCmd(), p.toolsCmd(), p.callCmd(), p.loginCmd(), p.reauthCmd(), p.logoutCmd(), p.versionCmd(), p.demoServerCmd(), p.guardCmd())
	return root
}

func usage(err error) error { return &codeError{exitUsage, err} }

// argsBetween is cobra.RangeArgs with an error that shows the usage line.
func argsBetween(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage(fmt.Errorf("wrong number of arguments: %d\nusage: %s", len(args), cmd.UseLine()))
		}
		return nil
	}
}

// helpCmd is cobra's, but it fails for what is no command.
func (p *program) helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage(fmt.Errorf("unknown command %q\nhint: mcp-sidecar --help", args[0]))
			}
			return found.Help()
		},
	}
}
