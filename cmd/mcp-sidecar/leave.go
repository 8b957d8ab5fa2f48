package main

import (
	"path/filepath"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// leave works out how connections leave this machine, and where lists are kept.
func (a *app) leave(p *program, opt *upstream.Options) error {
	set, err := upstream.ResolveEgress(a.cfg.Egress, a.cfg.ProxyVars())
	if err != nil {
		return err
	}
	e, err := egress.CompileWith(set, p.env, egress.Options{
		System: systemProxies,
		Told:   func(err error) { a.log.Warn("egress.ca_file", "err", err) },
	})
	if err != nil {
		return err
	}
	for _, w := range e.Warnings() {
		a.log.Warn("egress", "err", w)
	}
	a.egress, a.children = e, e.NewChildren(a.log)
	opt.Egress, opt.Children = e, a.children
	if a.cfg.StateDir != "" {
		opt.Cache = &upstream.Cache{Dir: filepath.Join(a.cfg.StateDir, "lists"), Log: a.log}
	}
	return nil
}
