package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-sidecar/mcp-sidecar/auth/oauth"
	"github.com/mcp-sidecar/mcp-sidecar/auth/vault"
	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// loginFlags say how a person logs in.
type loginFlags struct {
	flow                   string
	noBrowser, fresh, json bool
	start                  bool
	finish, from           string
	remote                 string
}

func (p *program) loginCmd() *cobra.Command {
	var f configFlags
	var l loginFlags
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Log in to a server with auth: oauth",
		Long: `login gets credentials for a server that wants OAuth, and keeps them in the state
directory. What is stored already stays until the new login has succeeded. A sidecar
that runs takes the new credentials up within seconds.

A browser opens where there is one; the URL is printed too. Where the browser is on
another machine, paste the URL that it ends at, or use the printed ssh line, or
--flow device where the provider has that. Without a terminal:

  mcp-sidecar login SERVER --start --json    print the URL to visit
  mcp-sidecar login --finish URL             with the URL that the browser ended at

For a sidecar on another machine, with the browser and the listener on this one:

  ssh -N -L /tmp/there.sock:STATE_DIR/run/admin.sock HOST &
  mcp-sidecar login SERVER --remote unix:/tmp/there.sock

The logins of a Hermes Agent on this machine can be taken over:

  mcp-sidecar login --import ~/.hermes/mcp-tokens`,
		Args: argsBetween(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ways := count(len(args) > 0, l.finish != "", l.from != ""); ways != 1 || l.start && len(args) == 0 {
				return usage(errors.New("login takes the name of a server, or --finish URL, or --import DIR"))
			}
			if l.remote != "" && len(args) > 0 {
				return p.remoteLogin(cmd.Context(), l.remote, args[0], l)
			}
			cfg, err := p.load(cmd, &f, nil)
			if err != nil {
				return err
			}
			switch {
			case l.finish != "":
				return p.finishLogin(cmd.Context(), cfg, l.finish)
			case l.from != "":
				return p.importLogins(cfg, l.from)
			}
			return p.login(cmd.Context(), cfg, args[0], l)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&l.flow, "flow", "", "`browser` or device; oauth.flow decides if it is not given")
	fl.BoolVar(&l.noBrowser, "no-browser", false, "print the URL only")
	fl.BoolVar(&l.fresh, "fresh", false, "register anew with the provider")
	fl.BoolVar(&l.start, "start", false, "print the URL to visit, and leave the rest to --finish")
	fl.StringVar(&l.finish, "finish", "", "complete what --start began with the `URL` that the browser ended at")
	fl.StringVar(&l.from, "import", "", "copy the tokens that are in `DIR`, the mcp-tokens directory of a Hermes Agent")
	fl.StringVar(&l.remote, "remote", "", "log in for the sidecar behind `unix:PATH`, its admin socket forwarded to here")
	fl.BoolVar(&l.json, "json", false, "with --start: print JSON")
	return cmd
}

// count counts what is true.
func count(is ...bool) (n int) {
	for _, b := range is {
		if b {
			n++
		}
	}
	return n
}

func (p *program) reauthCmd() *cobra.Command {
	var f configFlags
	var l loginFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "reauth SERVER | --all",
		Short: "Log in again, to one server or to all",
		Long: `reauth is login for servers that were logged in to before. With --all it goes through
every server with auth: oauth that a person logs in to, one after the other; one that
fails, or is skipped, keeps what it has, and the next one follows.

  mcp-sidecar reauth tracker
  mcp-sidecar reauth --all --no-browser

Exit codes: 0 all succeeded, 1 one did not, 2 nothing was tried.`,
		Args: argsBetween(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage(errors.New("reauth takes the name of a server, or --all"))
			}
			cfg, err := p.load(cmd, &f, nil)
			if err != nil {
				return err
			}
			if all {
				return p.reauthAll(cmd.Context(), cfg, l)
			}
			return p.login(cmd.Context(), cfg, args[0], l)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&all, "all", false, "every server that a person logs in to")
	fl.StringVar(&l.flow, "flow", "", "`browser` or device; oauth.flow decides if it is not given")
	fl.BoolVar(&l.noBrowser, "no-browser", false, "print the URL only")
	fl.BoolVar(&l.fresh, "fresh", false, "register anew with the provider")
	return cmd
}

// reauthAll logs in to one server after the other.
func (p *program) reauthAll(ctx context.Context, cfg *config.Config, f loginFlags) error {
	var names []string
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		if personal(s) && !off(s.Settings.Enabled) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return usage(errors.New("no server of the configuration is one that a person logs in to"))
	}
	failed := 0
	for _, name := range names {
		one := *cfg
		if err := p.login(ctx, &one, name, f); err != nil && ctx.Err() != nil {
			return err
		} else if err != nil {
			failed++
			p.tell(err)
		}
	}
	fmt.Fprintf(p.stderr, "%d of %d logged in\n", len(names)-failed, len(names))
	if failed > 0 {
		return &codeError{exitFailed, nil}
	}
	return nil
}

// personal reports whether a person logs in to a server.
func personal(s *config.Server) bool {
	g := s.Settings.OAuth.Grant
	return s.Settings.Auth == "oauth" && (g == "" || g == "authorization_code")
}

func (p *program) logoutCmd() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use:   "logout SERVER",
		Short: "Forget the credentials for a server",
		Long: `logout removes what login stored for a server, its registration too. The provider
is not told: tokens that it gave end there in their own time.`,
		Args: argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := p.load(cmd, &f, nil)
			if err != nil {
				return err
			}
			return p.logout(cmd.Context(), cfg, args[0])
		},
	}
	f.add(cmd)
	return cmd
}

// entrant is a server to log in to, with the app that is put together for it alone.
func (p *program) entrant(cfg *config.Config, name string) (*app, *upstream.Resolved, error) {
	if err := only(cfg, name); err != nil {
		return nil, nil, err
	}
	s := &cfg.Servers[0].Settings
	if err := cfg.Servers[0].Err; err != nil {
		return nil, nil, usage(err)
	}
	if s.Auth != "oauth" {
		return nil, nil, usage(fmt.Errorf("server %q has no auth: oauth, so there is no login", name))
	}
	if cfg.Log.Level == "" || cfg.Log.Level == "info" {
		cfg.Log.Level = "warn"
	}
	a, err := p.assemble(cfg)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.Resolve(name, defaultProfile, cfg.Vars(name, defaultProfile), p.env)
	if err == nil {
		err = r.Leaves(a.egress, nil)
	}
	return a, r, err
}

func (p *program) login(ctx context.Context, cfg *config.Config, name string, f loginFlags) error {
	switch f.flow {
	case "", oauth.FlowBrowser, oauth.FlowDevice:
	default:
		return usage(fmt.Errorf("--flow %s: use browser or device", f.flow))
	}
	a, r, err := p.entrant(cfg, name)
	if err != nil {
		return err
	}
	if !personal(&cfg.Servers[0]) {
		return usage(fmt.Errorf("server %q gets its tokens by oauth.grant: %s, so nobody logs in", name, cfg.Servers[0].Settings.OAuth.Grant))
	}
	l, open, err := p.newLogin(ctx, a, r)
	if err != nil {
		return err
	}
	l.Flow, l.Fresh = f.flow, f.fresh
	if f.start {
		return p.startLogin(ctx, a, l, f.json)
	}
	l.In = p.stdin
	if !f.noBrowser {
		l.Open = oauth.OpenBrowser(p.env)
	}
	if err := l.Run(ctx); err != nil {
		return unasked(err, r, open)
	}
	p.loggedIn(l)
	p.tellTaken(ctx, cfg, name)
	return p.tryLogin(ctx, cfg, name)
}

// newLogin asks the server what it wants. open is true if it answers without a token.
func (p *program) newLogin(ctx context.Context, a *app, r *upstream.Resolved) (l *oauth.Login, open bool, err error) {
	v, err := a.vault(defaultProfile)
	if err != nil {
		return nil, false, err
	}
	l = &oauth.Login{Server: a.authorized(r), Vault: v, Out: p.stderr, Environ: p.env}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	status, h, err := r.Unauthorized(ctx, a.egress)
	if err != nil {
		return nil, false, err
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		l.Challenge = oauth.ParseChallenge(status, h)
	}
	return l, status < 300, nil
}

// unasked explains a login that failed at a server which did not want one.
func unasked(err error, r *upstream.Resolved, open bool) error {
	if !open || errors.Is(err, context.Canceled) || errors.Is(err, oauth.ErrSkipped) {
		return err
	}
	return &hinted{
		fmt.Errorf("%w\nThe server answers without a token, and no OAuth token was obtained. It may need none; or its provider has no automatic registration", err),
		fmt.Sprintf("register a client there by hand, and write in the entry of %s:\n  auth: oauth\n  oauth: {client_id: ..., client_secret: \"${...}\", redirect_port: 8765}", r.Server),
	}
}

// loggedIn says what a login brought.
func (p *program) loggedIn(l *oauth.Login) { p.tellLogin(l.Server.Name, &l.Result) }

func (p *program) tellLogin(name string, r *oauth.Result) {
	fmt.Fprintf(p.stderr, "logged in to %s at %s\n", name, oneLine(r.Issuer))
	if r.Scope != "" {
		fmt.Fprintf(p.stderr, "scope       %s\n", oneLine(r.Scope))
	}
	switch {
	case r.Refresh:
		fmt.Fprintln(p.stderr, "lasts       renewed by itself")
	case r.Expiry.IsZero():
		fmt.Fprintln(p.stderr, "lasts       the provider did not say how long, and gave no refresh token")
	default:
		fmt.Fprintf(p.stderr, "lasts       until %s: the provider gave no refresh token\n", r.Expiry.Local().Format(time.DateTime))
	}
}

// tryLogin connects with the new credentials.
func (p *program) tryLogin(ctx context.Context, cfg *config.Config, name string) error {
	return p.probe(ctx, cfg, "error", func(ctx context.Context, a *app) error {
		a.settle(ctx, probeWait)
		st, _ := a.set.Status(name)
		if !serves(st.State) {
			fmt.Fprintf(p.stderr, "server %s %s\n", name, trouble(st))
			return &codeError{exitFailed, nil}
		}
		fmt.Fprintf(p.stderr, "server      %s: %d tool(s)\n", name, st.Tools)
		return nil
	})
}

func (a *app) pendingDir() string { return filepath.Join(a.cfg.StateDir, "oauth", "pending") }

func (a *app) keepPending(p *oauth.Pending) error {
	if err := os.MkdirAll(a.pendingDir(), 0o700); err != nil {
		return err
	}
	return p.Save(a.pendingDir())
}

// startLogin prints where to go, and keeps what --finish needs.
func (p *program) startLogin(ctx context.Context, a *app, l *oauth.Login, asJSON bool) error {
	pending, err := l.Start(ctx)
	if err != nil {
		return err
	}
	if err := a.keepPending(pending); err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprintln(p.stdout, pending.URL())
		return nil
	}
	return json.NewEncoder(p.stdout).Encode(map[string]any{"server": l.Server.Name, "url": pending.URL(), "redirect_uri": pending.RedirectURI, "expires_in": 600})
}

func (p *program) finishLogin(ctx context.Context, cfg *config.Config, answer string) error {
	if cfg.StateDir == "" {
		return errors.New(cfg.NoStateDir())
	}
	pending, err := oauth.ReadPending(filepath.Join(cfg.StateDir, "oauth", "pending"), strings.TrimSpace(answer))
	if err != nil {
		return err
	}
	a, r, err := p.entrant(cfg, pending.Server)
	if err != nil {
		return err
	}
	v, err := a.vault(defaultProfile)
	if err != nil {
		return err
	}
	l := &oauth.Login{Server: a.authorized(r), Vault: v, Out: p.stderr}
	if err := l.Finish(ctx, pending, answer); err != nil {
		return err
	}
	p.loggedIn(l)
	p.tellTaken(ctx, cfg, pending.Server)
	return p.tryLogin(ctx, cfg, pending.Server)
}

func (p *program) logout(ctx context.Context, cfg *config.Config, name string) error {
	a, _, err := p.entrant(cfg, name)
	if a == nil {
		return err
	}
	v, err := a.vault(defaultProfile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	unlock, err := v.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if e, err := v.Load(name); err == nil && e == nil {
		fmt.Fprintf(p.stderr, "nothing is stored for %s\n", name)
		return nil
	}
	if err := v.Delete(name); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "logged out of %s\n", name)
	return nil
}

// importLogins copies what a Hermes Agent has for servers of the configuration.
func (p *program) importLogins(cfg *config.Config, dir string) error {
	var names []string
	for i := range cfg.Servers {
		if cfg.Servers[i].Settings.Auth == "oauth" {
			names = append(names, cfg.Servers[i].Name)
		}
	}
	if len(names) == 0 {
		return usage(errors.New("no server of the configuration has auth: oauth"))
	}
	a, err := p.assemble(cfg)
	if err != nil {
		return err
	}
	v, err := a.vault(defaultProfile)
	if err != nil {
		return err
	}
	all, err := vault.ImportHermes(dir, v, names)
	if err != nil {
		return err
	}
	copied := 0
	for _, one := range all {
		if len(one.Parts) > 0 {
			copied++
			fmt.Fprintf(p.stderr, "%s: copied %s\n", one.Server, strings.Join(one.Parts, ", "))
		}
		for _, why := range one.Skipped {
			fmt.Fprintf(p.stderr, "%s: not copied: %s\n", one.Server, legibleText(strings.Join(strings.Fields(why), " ")))
		}
	}
	if copied == 0 {
		return &codeError{exitFailed, nil}
	}
	fmt.Fprintln(p.stderr, "Hermes and this program now have the same logins. Where a provider gives a new refresh token with each renewal, the first to renew keeps its login, and the other has to log in again.")
	return nil
}

// askLogin is for serve with somebody before the screen.
func (p *program) askLogin(ctx context.Context, l *oauth.Login) error {
	l.Out, l.Environ, l.Open = p.stderr, p.env, oauth.OpenBrowser(p.env)
	if err := l.Run(ctx); err != nil {
		return err
	}
	p.loggedIn(l)
	return nil
}
