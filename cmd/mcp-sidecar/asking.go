package main

import (
	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/proxy"
	"github.com/mcp-sidecar/mcp-sidecar/sampling"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// asking wires what servers may ask, and who answers them.
func (a *app) asking(opt *proxy.Options) {
	askers := make(map[string]*policy.Asker, len(a.cfg.Servers))
	a.askers = askers
	var endpoints bool
	for i := range a.cfg.Servers {
		s := &a.cfg.Servers[i]
		k := policy.NewAsker(s.Name, s.Settings.Sampling, s.Settings.Elicitation, s.Settings.Roots)
		k.Cleaner = a.views.cleaner
		k.Several = func() bool { return a.callers.Several(a.others) }
		askers[s.Name] = k
		endpoints = endpoints || k.HasEndpoint()
	}
	opt.Askers = func(server string) *policy.Asker { return askers[server] }
	opt.AgentCanAnswer = a.set.Expect
	opt.SessionEnded = a.set.EndSession
	opt.Subscriber = a.set
	if endpoints {
		a.sampler = sampling.New(sampling.Options{Endpoint: endpointsOf(a.cfg), Log: a.log})
		opt.Sampler = a.sampler
	}
}

// endpointsOf finds servers' sampling endpoints, resolved anew for every request.
func endpointsOf(cfg *config.Config) func(server string) (policy.Endpoint, error) {
	byName := make(map[string]*config.Server, len(cfg.Servers))
	for i := range cfg.Servers {
		byName[cfg.Servers[i].Name] = &cfg.Servers[i]
	}
	return func(server string) (policy.Endpoint, error) {
		s := byName[server]
		if s == nil {
			return policy.Endpoint{}, nil
		}
		return upstream.ResolveEndpoint(s.Settings.Sampling.Endpoint, cfg.Vars(server, defaultProfile))
	}
}

// tellCounts logs what each server asked, and how that went, as far as anything did.
func (a *app) tellCounts() {
	for _, name := range a.set.Names() {
		if facts := countsOf(a.askers[name].Counts()); len(facts) > 0 {
			a.log.Info("questions", append([]any{"server", name}, facts...)...)
		}
	}
}

// countsOf are the counters that are not zero.
func countsOf(n policy.AskCounts) (facts []any) {
	for _, c := range []struct {
		key string
		n   uint64
	}{
		{"sampling", n.Sampling.Requests}, {"sampling_errors", n.Sampling.Errors}, {"tokens", n.Sampling.Tokens}, {"tool_rounds", n.Sampling.ToolRounds},
		{"elicitation", n.Elicitation.Requests}, {"accepted", n.Elicitation.Accepted},
		{"accepted_without_required_fields", n.Elicitation.Incomplete}, {"declined", n.Elicitation.Declined},
		{"cancelled", n.Elicitation.Cancelled}, {"elicitation_errors", n.Elicitation.Errors},
		{"roots", n.Roots.Requests}, {"roots_errors", n.Roots.Errors},
	} {
		if c.n != 0 {
			facts = append(facts, c.key, c.n)
		}
	}
	return facts
}
