package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/proxy"
)

// Bounds of start and stop.
const (
	startupWait = 10 * time.Second // /startupz waits no longer for servers
	drainWait   = 25 * time.Second // calls in flight may take so long to end
	backWait    = 15 * time.Second // children and connections, after that
)

const serveLong = `serve answers the agent on one MCP endpoint and fans its calls out to the
configured servers.

  mcp-sidecar serve                          ./mcp-sidecar.yaml, else the user's own
  mcp-sidecar serve --config a.yaml --config ~/.hermes/config.yaml
  mcp-sidecar serve --demo                   two demo servers, no file needed
  mcp-sidecar serve --stdio                  speak MCP on standard input and output
  mcp-sidecar serve -- npx -y @modelcontextprotocol/server-everything
                                             one stdio server, no file needed

Over TCP callers need the bearer token that the first start makes and prints the
path of. Each server is also reachable alone at /mcp/<server>, under its own
names. Signals: the first INT or TERM drains, the second one stops at once.`

// serveFlags are those of serve that the configuration does not know.
type serveFlags struct {
	demo, stdio bool
	login       bool // --interactive-login
	listen      bool // --listen or its variable was given
}

func (p *program) serveCmd() *cobra.Command {
	var f configFlags
	var s serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags] [-- COMMAND ARGS...]",
		Short: "Serve the configured servers as one MCP endpoint",
		Long:  serveLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 && len(args) > 0 {
				return usage(fmt.Errorf("serve takes no arguments but a command behind --: got %q", args[0]))
			}
			if (s.demo || len(args) > 0) && len(f.files) > 0 || s.demo && len(args) > 0 {
				return usage(errors.New("--config, --demo and -- COMMAND exclude each other"))
			}
			cfg, err := p.load(cmd, &f, given(s.demo, args))
			if err != nil {
				return err
			}
			s.listen = len(f.process.Listen) > 0 || lookup(p.env, config.EnvPrefix+"LISTEN") != ""
			return p.serve(cmd.Context(), cfg, s)
		},
	}
	f.add(cmd)
	f.addServe(cmd)
	cmd.Flags().BoolVar(&s.demo, "demo", false, "serve two demo servers instead of a configuration")
	cmd.Flags().BoolVar(&s.login, "interactive-login", false, "open a browser when a server wants a login; without it the log says which command to run")
	cmd.Flags().BoolVar(&s.stdio, "stdio", false, "speak MCP on standard input and output; listens only if --listen is given")
	return cmd
}

// A running is a sidecar with everything that it started.
type running struct {
	*app
	p       *program
	servers []*http.Server // for agents
	ops     *http.Server   // nil without ops_listen
	admin   *http.Server   // nil without a state directory
	addrs   []string
	opsAddr string        // of ops, if it is a TCP one
	back    chan error    // the servers, views and sessions ended
	failed  chan error    // a listener, or the agent on standard input, ended by itself
	agent   chan struct{} // closed when the agent on standard input is served; nil without one
	loops   sync.WaitGroup
}

func (p *program) serve(ctx context.Context, cfg *config.Config, s serveFlags) error {
	if s.stdio {
		cfg.WorkIn(p.dir())
	}
	a, err := p.assemble(cfg)
	if err != nil {
		return err
	}
	if s.login {
		a.logins.ask = p.askLogin
	}
	if cfg.Log.Format == "json" {
		p.records = a.log
	}
	p.warn(cfg)
	r := &running{app: a, p: p, back: make(chan error, 1), failed: make(chan error, 8)}
	if s.stdio && !s.listen {
		cfg.Listen = nil
	}
	if s.stdio && cfg.OpsListen == config.DefaultOpsListen {
		cfg.OpsListen = "" // many clients may each start one of these
	}
	r.others = ways(cfg.Listen, s.stdio)
	tokenPath, err := r.guardListeners()
	if err != nil {
		return err
	}
	if err := r.bind(); err != nil {
		return err
	}
	// The servers outlive the front by the drain, so they have a context of
	// their own.
	backCtx, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	frontCtx, stopFront := context.WithCancel(ctx)
	defer stopFront()
	go func() { r.back <- a.run(backCtx) }()
	r.loops.Go(func() { r.announce(frontCtx, tokenPath) })
	agentCtx, stopAgent := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAgent()
	if s.stdio {
		r.agent = make(chan struct{})
		go r.serveAgent(agentCtx)
	}
	err = r.wait(ctx)
	if ctx.Err() != nil {
		p.say("stopping", "calls in flight may end; a second signal stops at once")
	}
	stopFront()
	return errors.Join(err, r.stop(stopBack))
}

// ways is in how many ways callers come that need no token. All over Unix sockets
// are one caller, and so is the agent on standard input.
func ways(listen []string, stdio bool) (n int) {
	if slices.ContainsFunc(listen, func(addr string) bool { return strings.HasPrefix(addr, "unix:") }) {
		n++
	}
	if stdio {
		n++
	}
	return n
}

// guardListeners loads the token that TCP listeners demand.
func (r *running) guardListeners() (path string, err error) {
	tcp := false
	for _, addr := range r.cfg.Listen {
		tcp = tcp || !strings.HasPrefix(addr, "unix:")
	}
	if !tcp {
		return "", nil
	}
	if r.cfg.InsecureNoAuth {
		r.log.Warn("anyone who reaches the listener may call every tool: --insecure-no-auth")
		r.callers.Open = true
		return "", nil
	}
	path = r.cfg.Auth.TokenFile
	if path == "" {
		if path, err = r.ownToken(); err != nil {
			return "", &hinted{err, tokenHint}
		}
	}
	tokens, warning, err := auth.ReadTokens(path)
	if err != nil {
		return "", &hinted{err, tokenHint}
	}
	if warning != "" {
		r.log.Warn(warning)
	}
	r.callers.Accept(tokens)
	return path, nil
}

const tokenHint = "give a token file with --token-file, a writable --state-dir, or --insecure-no-auth"

// ownToken returns the token file of the state directory, made if need be.
func (r *running) ownToken() (path string, err error) {
	if r.cfg.StateDir == "" {
		return "", errors.New(r.cfg.NoStateDir())
	}
	path, _, _, err = auth.LoadOrCreateToken(r.cfg.StateDir)
	return path, err
}

// bind opens every listener before anything is started, so that a taken port
// starts nothing.
func (r *running) bind() error {
	var front []net.Listener
	for _, addr := range r.cfg.Listen {
		l, err := listen("listen", addr)
		if err != nil {
			return errors.Join(err, closeAll(front))
		}
		front = append(front, l)
		r.addrs = append(r.addrs, l.Addr().String())
	}
	if err := r.bindOps(); err != nil {
		return errors.Join(err, closeAll(front))
	}
	h := r.handler(r.cfg.Listen)
	for _, l := range front {
		s := proxy.Server(h)
		r.servers = append(r.servers, s)
		r.start(s, proxy.LimitListener(l, r.cfg.Limits))
	}
	r.bindAdmin()
	return nil
}

// bindOps opens the operations listener. Nobody asked for the default one, so
// that a second sidecar has to do without it is no reason not to start.
func (r *running) bindOps() error {
	if r.cfg.OpsListen == "" {
		return nil
	}
	l, err := listen("ops-listen", r.cfg.OpsListen)
	if errors.Is(err, syscall.EADDRINUSE) && r.cfg.OpsListen == config.DefaultOpsListen {
		r.log.Warn("no health endpoints: the default address is in use; see ops_listen", "addr", r.cfg.OpsListen)
		return nil
	}
	if err != nil {
		return err
	}
	r.ops = r.health.Server()
	if !strings.HasPrefix(r.cfg.OpsListen, "unix:") {
		r.opsAddr = l.Addr().String()
	}
	r.start(r.ops, l)
	return nil
}

func closeAll(ls []net.Listener) (err error) {
	for _, l := range ls {
		err = errors.Join(err, l.Close())
	}
	return err
}

func (r *running) start(s *http.Server, l net.Listener) {
	r.loops.Go(func() { r.accept(s, l) })
}

// serveAgent serves the agent on standard input.
func (r *running) serveAgent(ctx context.Context) {
	defer close(r.agent)
	r.failed <- r.front.ServeStdio(ctx, r.p.stdin, r.p.stdout)
}

// agentLeft waits until the agent on standard input has all its answers, or ctx
// ends.
func (r *running) agentLeft(ctx context.Context) error {
	if r.agent == nil {
		return nil
	}
	select {
	case <-r.agent:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *running) accept(s *http.Server, l net.Listener) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		r.failed <- fmt.Errorf("listener %s: %w", l.Addr(), err)
	}
}

// wait returns when it is time to stop: by a signal, the end of standard
// input, or a listener that failed.
func (r *running) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.failed:
		return err
	case err := <-r.back:
		r.back <- nil
		return err
	}
}

// errAtOnce is how a stop ends that a second signal cut short.
var errAtOnce = &codeError{exitFailed, errors.New("stopped at once, calls may have been cut off")}

// stop drains the front, then ends the servers. A second signal cuts it short:
// then the guard process, or the kernel, ends the children.
func (r *running) stop(stopBack context.CancelFunc) error {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	ended := make(chan error, 1)
	go func() { ended <- r.wind(stopBack) }()
	select {
	case err := <-ended:
		return err
	case <-again:
		return errAtOnce
	}
}

// wind lets calls in flight end, then ends the servers, then the rest.
func (r *running) wind(stopBack context.CancelFunc) error {
	r.health.Draining()
	r.front.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	for _, s := range r.servers {
		if s.Shutdown(ctx) != nil {
			r.log.Warn("calls were still in flight at the end of the drain")
		}
	}
	if r.agentLeft(ctx) != nil {
		r.log.Warn("calls on standard input were still in flight at the end of the drain")
	}
	stopBack() // calls that are still there fail now, with an answer
	var err error
	select {
	case err = <-r.back:
	case <-time.After(backWait):
		err = errors.New("some servers did not end in time")
	}
	r.close()
	r.tellCounts()
	n := r.front.Stats()
	r.log.Info("stopped", "cleaned", n.Cleaned, "dropped", n.Dropped, "slow", n.Slow, "parked", n.ParkedTotal, "expired", n.ParkedExpired, "panics", n.Panics)
	return err
}

// close ends the listeners for good. That for operations is the last, so that
// readiness tells of the drain.
func (r *running) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.agentLeft(ctx) // the last answers are written
	for _, s := range r.servers {
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
	}
	if r.admin != nil {
		_ = r.admin.Shutdown(ctx)
		r.admin.Close()
	}
	if r.ops != nil {
		r.ops.Close()
	}
	r.loops.Wait()
}
