package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
)

// systemProxies asks macOS which proxies its settings name.
func systemProxies() (egress.System, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/sbin/scutil", "--proxy").Output()
	if err != nil {
		return egress.System{}, err
	}
	return egress.ParseScutil(out), nil
}
