//go:build !darwin

package main

import "github.com/mcp-sidecar/mcp-sidecar/egress"

// systemProxies is nil where the environment is all there is.
var systemProxies func() (egress.System, error)
