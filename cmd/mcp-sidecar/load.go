package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/sampling"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// configFlags are the flags that make a configuration.
type configFlags struct {
	files    []string
	process  config.Process
	insecure bool
	verbose  bool
}

// add defines the flags of every command that reads a configuration.
func (f *configFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.files, "config", nil, "configuration `FILE`; repeatable; hermes:FILE reads one of Hermes")
	fl.StringVar(&f.process.StateDir, "state-dir", "", "`DIR` for the token and other state")
	fl.StringVar(&f.process.Workspace, "workspace", "", "what ${workspaceFolder} means: a `DIR`")
	fl.StringVar(&f.process.Naming, "naming", "", "`TEMPLATE` of exposed names, such as {server}__{tool}")
	fl.StringVar(&f.process.LogFormat, "log-format", "", "text or json")
	fl.StringVar(&f.process.LogLevel, "log-level", "", "debug, info, warn or error")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log at debug level")
}

// addServe defines those that only make sense for a program that listens.
func (f *configFlags) addServe(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.process.Listen, "listen", nil, "`ADDR`, host:port or unix:PATH; repeatable")
	fl.StringVar(&f.process.OpsListen, "ops-listen", "", "`ADDR` of /livez, /readyz and /startupz")
	fl.StringVar(&f.process.TokenFile, "token-file", "", "`FILE` with the accepted bearer tokens, one a line")
	fl.BoolVar(&f.insecure, "insecure-no-auth", false, "let anyone who reaches a TCP listener call every tool")
}

// load makes the configuration from files, environment and flags. Servers that
// are given, it serves instead of those of any file.
func (p *program) load(cmd *cobra.Command, f *configFlags, given []config.Server) (*config.Config, error) {
	in := config.Input{Files: f.files, NoSearch: given != nil, Env: p.env, Flags: f.process, Home: p.home()}
	if cmd.Flags().Changed("insecure-no-auth") {
		in.Flags.InsecureNoAuth = &f.insecure
	}
	if f.verbose {
		in.Flags.LogLevel = "debug"
	}
	if given != nil {
		in.Env = without(p.env, config.EnvPrefix+"CONFIG")
	}
	cfg, err := config.Load(in)
	if err != nil {
		return nil, &codeError{exitUsage, err}
	}
	if given == nil && len(cfg.Files) == 0 {
		return nil, &codeError{exitUsage, &hinted{errors.New("no configuration found"),
			"write ./mcp-sidecar.yaml, give --config FILE, or try: mcp-sidecar serve --demo"}}
	}
	cfg.Servers = append(cfg.Servers, given...)
	return cfg, nil
}

// warn prints what the configuration deserves a word about.
func (p *program) warn(cfg *config.Config) {
	for _, w := range append(slices.Clone(cfg.Warnings), keyFiles(cfg)...) {
		if p.records != nil {
			p.records.Warn("the configuration deserves a word", "err", w)
			continue
		}
		fmt.Fprintf(p.stderr, "warning: %v\n", w)
	}
}

// say prints a line for people, or its record.
func (p *program) say(what, text string) {
	if p.records != nil {
		p.records.Info(what, "summary", text)
		return
	}
	fmt.Fprintf(p.stderr, "%-11s %s\n", what, text)
}

// unread prints why there is no configuration, and the warnings that come with that.
func (p *program) unread(err error) error {
	var faults *config.Faults
	if !errors.As(err, &faults) {
		return err
	}
	fmt.Fprintln(p.stderr, faults)
	if cfg := faults.Config; cfg != nil {
		a := &app{cfg: cfg, environ: p.env, log: newLogger(p.stderr, cfg.Log)}
		for i := range cfg.Servers {
			c := a.checkServer(p, &cfg.Servers[i], func(error) {}, faults.List...)
			p.faults(nil, []checked{c})
		}
	}
	for _, w := range faults.Warnings {
		fmt.Fprintf(p.stderr, "warning: %v\n", w)
	}
	return &codeError{exitUsage, nil}
}

// keyFiles looks at the key files of chat endpoints, so that what is wrong with one
// is known before a server asks for the first time.
func keyFiles(cfg *config.Config) (out []config.Fault) {
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		if e := &s.Settings.Sampling.Endpoint; off(s.Settings.Enabled) || off(s.Settings.Sampling.Enabled) || e.URL == "" || e.KeyFile == "" {
			continue
		}
		e, err := upstream.ResolveEndpoint(s.Settings.Sampling.Endpoint, cfg.Vars(s.Name, defaultProfile))
		if err != nil {
			continue // the server does not start, and says why
		}
		if msg := sampling.KeyFault(e.KeyFile); msg != "" {
			out = append(out, s.Place(fmt.Sprintf("%q: %s", e.KeyFile, msg), "sampling", "endpoint", "key_file"))
		}
	}
	return out
}

func off(b *bool) bool { return b != nil && !*b }

func (p *program) home() string {
	if h := lookup(p.env, "HOME"); h != "" {
		return h
	}
	h, _ := os.UserHomeDir()
	return h
}

// dir is the working directory; empty if it is gone.
func (p *program) dir() string {
	d, _ := os.Getwd()
	return d
}

func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			value = v
		}
	}
	return value
}

func without(env []string, name string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		if !strings.HasPrefix(kv, name+"=") {
			out = append(out, kv)
		}
	}
	return out
}

// given returns the servers that need no file: those of the demo, or the
// command behind --. It is nil when a configuration is to be read.
func given(demo bool, command []string) []config.Server {
	switch {
	case demo:
		exe, err := os.Executable()
		if err != nil {
			exe = os.Args[0]
		}
		return []config.Server{
			{Name: "demo", Settings: upstream.Settings{Command: exe, Args: []string{"demo-server"}}},
			{Name: "desk", Settings: upstream.Settings{Builtin: "demo"}},
		}
	case len(command) > 0:
		return []config.Server{{Name: commandName(command[0]), Settings: upstream.Settings{Command: command[0], Args: command[1:]}}}
	}
	return nil
}

// commandName names the server that a command is, for its endpoint and errors.
func commandName(path string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, filepath.Base(path))
	if strings.Trim(name, "._") == "" {
		return "server"
	}
	return name
}
