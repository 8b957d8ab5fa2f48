// Command evilserver is an MCP server, or a proxy, that fails in one way.
//
//	evilserver --list
//	evilserver --fault S3a
//	evilserver --fault U4a --listen 127.0.0.1:0
//
// Over HTTP it prints its URL and serves until SIGTERM.
package main

import (
	"os"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

func main() { os.Exit(evil.Command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
