package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-sidecar/mcp-sidecar/admin"
	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/config"
	"github.com/mcp-sidecar/mcp-sidecar/demo"
	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/proxy"
	"github.com/mcp-sidecar/mcp-sidecar/sampling"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// An app is the sidecar put together from a configuration: serve, tools and
// call all work through one.
type app struct {
	cfg      *config.Config
	environ  []string // that the program was started with
	log      *slog.Logger
	set      *upstream.Set
	views    *views
	callers  *auth.Callers
	others   int // ways beside TCP by which callers come; set before run
	front    *proxy.Front
	health   *admin.Health
	egress   *egress.Egress
	children *egress.Children         // the proxy of servers that may reach certain hosts only
	askers   map[string]*policy.Asker // by server
	sampler  *sampling.Client         // nil when no server has an endpoint
	logins   *credentials             // at servers with OAuth
	keyMu    sync.Mutex
	key      []byte      // of what logins brought, once it was read
	levels   chan string // the newest wish for a log level, for run to pass on
}

// assemble builds an app; nothing starts yet.
func (p *program) assemble(cfg *config.Config) (*app, error) {
	a := &app{cfg: cfg, environ: p.env, log: newLogger(p.stderr, cfg.Log), callers: new(auth.Callers), health: new(admin.Health), levels: make(chan string, 1)}
	v, err := newViews(cfg, a.log)
	if err != nil {
		return nil, err
	}
	v.beat = a.health.Beat
	opt := upstream.Options{
		Log: a.log, ClientName: "mcp-sidecar", ClientVersion: version,
		Vars: cfg.Vars, Environ: p.env,
		Builtins: map[string]upstream.Builtin{"demo": demo.Builtin},
		OnChange: v.changed,
		Shows:    v.shows,
		OnNotify: func(from upstream.Origin, method string, params []byte) {
			a.front.Notify(defaultProfile, from, method, params)
		},
		SeveralCallers: func() bool { return a.callers.Several(a.others) },
	}
	if err := a.leave(p, &opt); err != nil {
		return nil, err
	}
	a.logins = newCredentials(a)
	opt.Tokens = a.logins.of
	if exe, err := os.Executable(); err == nil {
		opt.GuardCommand = []string{exe, "guard"}
		opt.LimitCommand = []string{exe, limitWord}
	}
	if a.set, err = upstream.NewSet(cfg.Upstreams(), opt); err != nil {
		return nil, err
	}
	v.set, a.views = a.set, v
	a.front = a.newFront()
	return a, nil
}

func (a *app) newFront() *proxy.Front {
	serial := map[string]bool{}
	for i := range a.cfg.Servers {
		s := &a.cfg.Servers[i]
		serial[s.Name] = !s.Settings.SupportsParallelToolCalls
		a.views.keeper.Add(defaultProfile, s.Name)
	}
	a.views.keeper.Add(defaultProfile, "")
	opt := proxy.Options{
		Views: a.views.keeper, Upstreams: a.set, Callers: a.callers, Limits: a.cfg.Limits,
		Version: version, ListWait: a.listWait, Wake: a.wake, Log: a.log,
		Serial:   func(server string) bool { return serial[server] },
		LogLevel: a.wantLevel,
	}
	opt.Cleaner = a.views.cleaner
	a.asking(&opt)
	return proxy.New(opt)
}

// listWait holds a list for the servers that are in their very first connect,
// and for what they show to such agents beyond what all see.
func (a *app) listWait(ctx context.Context, view string, who upstream.Viewer) {
	names := a.set.Names()
	if server, ok := strings.CutPrefix(view, proxy.ViewKey(defaultProfile, "")+"/"); ok {
		names = []string{server}
	}
	began := time.Now()
	a.set.AwaitFirst(ctx, a.cfg.ListWait, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return a.set.Listing(n) != nil })...)
	a.set.Expect(defaultProfile, who)
	a.set.AwaitAsking(ctx, a.cfg.ListWait-time.Since(began), who, names...)
	a.views.rebuild()
}

// wake has a server list what it has, and that shown.
func (a *app) wake(ctx context.Context, server string) error {
	err := a.set.Wake(ctx, server)
	a.views.rebuild()
	return err
}

// run keeps the servers, views and sessions until ctx ends and all are closed.
func (a *app) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { upstream.ReapOrphans(ctx); return nil })
	g.Go(func() error { return a.set.Run(ctx) })
	g.Go(func() error { return a.children.Run(ctx) })
	g.Go(func() error { return a.views.run(ctx) })
	g.Go(func() error { return a.front.Run(ctx) })
	g.Go(func() error { return a.passLevels(ctx) })
	err := g.Wait()
	a.logins.close()
	if a.sampler != nil {
		a.sampler.Close()
	}
	return err
}

// wantLevel leaves the newest wish for a log level.
func (a *app) wantLevel(level string) {
	select {
	case <-a.levels:
	default:
	}
	select {
	case a.levels <- level:
	default: // a newer one came in between
	}
}

// passLevels tells servers which log level is wanted, until ctx ends.
func (a *app) passLevels(ctx context.Context) error {
	for {
		select {
		case level := <-a.levels:
			a.set.SetLogLevel(ctx, level)
		case <-ctx.Done():
			return nil
		}
	}
}

// handler is what agents reach: Host and Origin first, then the front.
func (a *app) handler(listens []string) http.Handler {
	g := &auth.Guard{Hosts: a.cfg.Auth.AllowedHosts, Origins: a.cfg.Auth.AllowedOrigins, Listen: listens, Refused: a.front.Refused}
	return g.Wrap(a.front)
}

// newViews compiles what of the configuration shapes lists.
func newViews(cfg *config.Config, log *slog.Logger) (*views, error) {
	v := &views{
		keeper: new(proxy.Keeper), policies: map[string]serverPolicy{},
		cleaner: &policy.Cleaner{Off: !cfg.Cleaning}, log: log,
		snaps: map[string]*aggregate.Snapshot{}, asking: map[string]*aggregate.Snapshot{}, dirty: map[string]bool{}, kick: make(chan struct{}, 1), faults: map[string]bool{},
		pageBytes: cfg.Limits.PageBytes, utilities: true,
	}
	p := cfg.Profile()
	v.prefer = p.Prefer
	if p.UtilityTools != nil {
		v.utilities = *p.UtilityTools
	}
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		sp, err := compilePolicy(cfg, p, &s.Settings)
		if err != nil {
			return nil, fmt.Errorf("mcp_servers.%s: %w", s.Name, err)
		}
		for _, entry := range sp.filter.Both() {
			log.Warn("tools: in include and in exclude, where include wins", "server", s.Name, "entry", entry)
		}
		v.policies[s.Name] = sp
		v.dirty[s.Name] = true
	}
	v.kick <- struct{}{}
	return v, nil
}

func compilePolicy(cfg *config.Config, p proxy.Profile, s *upstream.Settings) (sp serverPolicy, err error) {
	sp.readOnly = s.Trust != "" && s.Trust != "full"
	sp.hide = s.OnDown == "hide"
	if sp.filter, err = s.Tools.Compile(); err != nil {
		return sp, fmt.Errorf("tools: %w", err)
	}
	template, limit := cfg.Naming, cfg.MaxNameLength
	if p.Naming != "" {
		template = p.Naming
	}
	if s.Naming != "" {
		template = s.Naming
	}
	if p.MaxNameLength != 0 {
		limit = p.MaxNameLength
	}
	if sp.namer, err = policy.CompileNaming(template, limit, p.Reserve); err != nil {
		return sp, fmt.Errorf("naming: %w", err)
	}
	return sp, nil
}

func newLogger(w io.Writer, l config.Log) *slog.Logger {
	opt := &slog.HandlerOptions{Level: l.SlogLevel(), ReplaceAttr: legible}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

// settle waits until every server's first attempt ended, at most d.
func (a *app) settle(ctx context.Context, d time.Duration) {
	a.set.AwaitFirst(ctx, d, a.set.Names()...)
	a.views.rebuild()
}

// settleAsking waits until it is known what servers show to agents that can answer
// questions, of whichever era, at most d. That may take a process more of each
// server.
func (a *app) settleAsking(ctx context.Context, d time.Duration) {
	a.set.Expect(defaultProfile, mostShown)
	a.set.AwaitAsking(ctx, d, mostShown, a.set.Names()...)
	a.views.rebuild()
}
