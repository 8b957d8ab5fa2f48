package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/demo"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func (p *program) demoServerCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "demo-server",
		Short: "Run the demo MCP server on standard input and output",
		Long: `demo-server is a small MCP server over stdio with the tools echo, add, slow and
ask, a resource and a prompt. It is what "serve --demo" starts as its child.

  mcp-sidecar serve -- mcp-sidecar demo-server`,
		Args: argsBetween(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Stdio(cmd.Context(), p.stdin, p.stdout)
		},
	}
}

// guardCmd is the process that outlives a killed sidecar just long enough to
// kill its children; see upstream.Guard.
func (p *program) guardCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "guard",
		Hidden: true,
		Args:   argsBetween(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if code := upstream.RunGuard(p.stdin, p.stdout); code != 0 {
				return &codeError{code, nil}
			}
			return nil
		},
	}
}

func (p *program) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  argsBetween(0, 0),
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(p.stdout, "mcp-sidecar %s (%s, %s %s/%s)\n", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// revision is the commit that the binary was built from, where Go knows it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown revision"
	}
	rev, dirty := "unknown revision", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return rev + dirty
}
