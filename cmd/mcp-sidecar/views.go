package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/proxy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

const defaultProfile = "default"

// A serverPolicy is what of a server's settings shapes its listing.
type serverPolicy struct {
	filter   *policy.Filter
	namer    *policy.Namer
	readOnly bool
	hide     bool // on_down: hide
}

// views turns what servers list into what each view shows: the default
// profile's over all servers, and one of each server alone.
type views struct {
	set       *upstream.Set
	keeper    *proxy.Keeper
	fragments aggregate.Fragments
	policies  map[string]serverPolicy
	cleaner   *policy.Cleaner
	utilities bool
	prefer    []string
	pageBytes int
	log       *slog.Logger
	beat      func(time.Time)

	building sync.Mutex // one rebuild at a time

	mu     sync.Mutex
	snaps  map[string]*aggregate.Snapshot // by server; "" is the view over all
	asking map[string]*aggregate.Snapshot // the same for older agents that can answer
	dirty  map[string]bool
	kick   chan struct{}
	faults map[string]bool // already logged
}

// changed notes that a server's state or listing changed. It never blocks.
func (v *views) changed(server string) {
	v.mu.Lock()
	v.dirty[server] = true
	v.mu.Unlock()
	select {
	case v.kick <- struct{}{}:
	default:
	}
}

// run rebuilds views as servers change, until ctx ends.
func (v *views) run(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		v.beat(time.Now())
		select {
		case <-v.kick:
			v.rebuild()
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (v *views) take() map[string]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.dirty
	v.dirty = map[string]bool{}
	return d
}

// rebuild makes the views of the changed servers, and the one over all. When it
// returns, every change noted before the call is in them.
func (v *views) rebuild() {
	v.building.Lock()
	defer v.building.Unlock()
	dirty := v.take()
	if _, built := v.of(""); built && len(dirty) == 0 {
		return
	}
	names := v.set.Names()
	for _, name := range names {
		if dirty[name] {
			v.publish(name, aggregate.View{OwnNames: true}, name)
		}
	}
	v.publish("", aggregate.View{Utilities: v.utilities, Prefer: v.prefer}, names...)
}

// publish makes the snapshots of a view over the named servers: one, unless some
// server does not show the same to all agents.
func (v *views) publish(server string, view aggregate.View, names ...string) {
	view.Name = proxy.ViewKey(defaultProfile, server)
	view.Cleaner, view.PageBytes = v.cleaner, v.pageBytes
	b := sights{v: v, view: view, sources: v.sources(names)}
	newer := upstream.Viewer{Answers: true}
	all, snap, asking := b.of(upstream.Viewer{}), b.of(called), b.of(mostShown)
	v.keeper.Update(defaultProfile, server, all, map[upstream.Viewer]proxy.Snapshot{newer: b.of(newer), called: snap, mostShown: asking})
	v.mu.Lock()
	v.snaps[server], v.asking[server] = snap, asking
	v.mu.Unlock()
	if server == "" && v.settled() {
		v.report(snap.Faults())
	}
}

// sights are the snapshots of one view, each made once.
type sights struct {
	v       *views
	view    aggregate.View
	sources []aggregate.Source // with what servers show to all
	made    []sight
}

type sight struct {
	sources []aggregate.Source
	snap    *aggregate.Snapshot
}

// of is what such agents see.
func (b *sights) of(who upstream.Viewer) *aggregate.Snapshot {
	b.view.Sources = b.v.seenBy(who, b.sources)
	for _, m := range b.made {
		if slices.EqualFunc(m.sources, b.view.Sources, sameListing) {
			return m.snap
		}
	}
	m := sight{b.view.Sources, aggregate.Build(b.view, &b.v.fragments)}
	b.made = append(b.made, m)
	return m.snap
}

func sameListing(a, b aggregate.Source) bool { return a.Listing == b.Listing }

var (
	// called is the kind of agents that commands of this program are.
	called = upstream.Viewer{Legacy: true}
	// mostShown are those who see what any server shows beside what all see.
	mostShown = upstream.Viewer{Answers: true, Legacy: true}
)

// of returns the newest snapshot of one server's view, or of the view over all
// when server is empty, as commands of this program see it.
func (v *views) of(server string) (*aggregate.Snapshot, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.snaps[server]
	return s, ok
}

// has reports whether the view over all has a tool.
func (v *views) has(tool string) bool {
	snap, ok := v.of("")
	if ok {
		_, ok = snap.Tool(tool)
	}
	return ok
}

// more lists the tools that only agents see that can answer questions, as far as
// that is known.
func (v *views) more(server string) (out []tool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	snap, asking := v.snaps[server], v.asking[server]
	if snap == asking {
		return nil
	}
	for route, text := range asking.Tools() {
		if _, both := snap.Tool(route.Exposed); !both {
			out = append(out, tool{route.Exposed, route.Server, text})
		}
	}
	return out
}

// A tool is one line of a list for people.
type tool struct{ name, server, text string }

// sources collects the servers of a view in configuration order, with what they
// show to all.
func (v *views) sources(names []string) []aggregate.Source {
	out := make([]aggregate.Source, 0, len(names))
	for _, name := range names {
		p := v.policies[name]
		st, _ := v.set.Status(name)
		if st.State == upstream.Disabled {
			continue
		}
		src := aggregate.Source{Server: name, Filter: p.filter, Namer: p.namer, ReadOnlyOnly: p.readOnly}
		if !p.hide || serves(st.State) {
			src.Listing = v.set.Listing(name)
		}
		out = append(out, src)
	}
	return out
}

// shows reports whether a view shows anything of what a server listed.
func (v *views) shows(server string, l *upstream.Listing) bool {
	p := v.policies[server]
	view := aggregate.View{OwnNames: true, Cleaner: v.cleaner, PageBytes: v.pageBytes,
		Sources: []aggregate.Source{{Server: server, Listing: l, Filter: p.filter, Namer: p.namer, ReadOnlyOnly: p.readOnly}}}
	snap := aggregate.Build(view, &v.fragments)
	return snap.Count(aggregate.Tools)+snap.Count(aggregate.Prompts)+snap.Count(aggregate.Resources)+snap.Count(aggregate.Templates) > 0
}

// seenBy returns sources with what the servers show to such agents, or sources
// itself where that is the same.
func (v *views) seenBy(who upstream.Viewer, sources []aggregate.Source) []aggregate.Source {
	out := sources
	for i := range sources {
		l := v.set.AskingListing(sources[i].Server, who)
		if l == nil || sources[i].Listing == nil {
			continue
		}
		if &out[0] == &sources[0] {
			out = slices.Clone(sources)
		}
		out[i].Listing = l
	}
	return out
}

// serves reports whether a server in a state answers calls, perhaps once it was
// started for the first of them.
func serves(s upstream.State) bool {
	switch s {
	case upstream.Ready, upstream.Degraded, upstream.Lazy, upstream.Recycled:
		return true
	}
	return false
}
