package main

import (
	"context"
	"log/slog"
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
	endpoint bool // answers its questions, so that every agent can
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
	asking map[string]*aggregate.Snapshot // the same for agents that can answer, where it differs
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

// publish makes the snapshot of a view over the named servers, and another one
// for agents that can answer questions if some server shows them something else.
func (v *views) publish(server string, view aggregate.View, names ...string) {
	view.Name = proxy.ViewKey(defaultProfile, server)
	view.Cleaner, view.PageBytes = v.cleaner, v.pageBytes
	var other bool
	view.Sources, _ = v.sources(false, names)
	snap := aggregate.Build(view, &v.fragments)
	var asking proxy.Snapshot // an interface that is nil when it is the same
	var more *aggregate.Snapshot
	if view.Sources, other = v.sources(true, names); other {
		more = aggregate.Build(view, &v.fragments)
		asking = more
	}
	v.keeper.Update(defaultProfile, server, snap, asking)
	v.mu.Lock()
	v.snaps[server], v.asking[server] = snap, more
	v.mu.Unlock()
	if server == "" {
		v.report(snap.Faults())
	}
}

// of returns the newest snapshot of one server's view, or of the view over all
// when server is empty.
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
	if snap == nil || asking == nil {
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

// report logs each fault once.
func (v *views) report(faults []aggregate.Fault) {
	now := make(map[string]bool, len(faults))
	for _, f := range faults {
		text := f.String()
		now[text] = true
		if !v.faults[text] {
			v.log.Warn("not shown as the server lists it", "server", f.Server, "err", text)
		}
	}
	v.faults = now
}

// sources collects the servers of a view in configuration order: what they show
// to agents that can answer questions, or to the others. differs says that these
// are not the same.
func (v *views) sources(answers bool, names []string) (out []aggregate.Source, differs bool) {
	out = make([]aggregate.Source, 0, len(names))
	for _, name := range names {
		p := v.policies[name]
		st, _ := v.set.Status(name)
		if st.State == upstream.Disabled {
			continue
		}
		src := aggregate.Source{Server: name, Filter: p.filter, Namer: p.namer, ReadOnlyOnly: p.readOnly}
		if !p.hide || st.State == upstream.Ready || st.State == upstream.Degraded {
			src.Listing = v.set.Listing(name)
			if l := v.set.AskingListing(name); l != nil && (answers || p.endpoint) {
				src.Listing, differs = l, differs || !p.endpoint
			}
		}
		out = append(out, src)
	}
	return out, differs
}
