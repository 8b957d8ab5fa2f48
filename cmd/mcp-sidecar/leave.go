package main

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// leave works out how connections leave this machine, and where lists are kept.
func (a *app) leave(p *program, opt *upstream.Options) error {
	set, err := upstream.ResolveEgress(a.cfg.Egress, a.cfg.ProxyVars())
	if err != nil {
		return placed(a.cfg, err)
	}
	e, err := egress.CompileWith(set, p.env, egress.Options{
		System: systemProxies,
		Told:   func(err error) { a.log.Warn("egress.ca_file", "err", err) },
	})
	if err != nil {
		return placed(a.cfg, err)
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

// placed gives what is wrong with the egress block its places. What an environment
// variable says has none, and names itself.
func placed(cfg *config.Config, err error) error {
	all := &config.Faults{}
	for _, one := range causes(err) {
		text := one.Error()
		if at := (*upstream.SettingError)(nil); errors.As(one, &at) {
			all.List = append(all.List, cfg.Place(at.Err.Error(), at.Path...))
			continue
		}
		key, msg, ok := strings.Cut(text, ": ")
		if key, ours := strings.CutPrefix(key, "egress."); ok && ours {
			all.List = append(all.List, cfg.Place(msg, "egress", key))
			continue
		}
		all.List = append(all.List, config.Fault{Msg: text})
	}
	slices.SortStableFunc(all.List, func(x, y config.Fault) int {
		return cmp.Or(strings.Compare(x.File, y.File), x.Line-y.Line, x.Column-y.Column)
	})
	return all
}

// causes takes joined errors apart.
func causes(err error) (out []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		out = append(out, causes(one)...)
	}
	return out
}
