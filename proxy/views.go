package proxy

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// debounce collects changes before watchers hear of them.
const debounce = 100 * time.Millisecond

// A Snapshot is what a view offers at one moment. It is immutable.
// *aggregate.Snapshot is one.
type Snapshot interface {
	Tool(name string) (aggregate.Route, bool)
	Prompt(name string) (aggregate.Route, bool)
	Resource(uri string) (aggregate.Route, bool)
	Template(uri string) (aggregate.Route, bool)
	Inner(kind aggregate.Kind, server, inner string) (aggregate.Route, bool)
	Native(kind aggregate.Kind, server string) iter.Seq2[aggregate.Route, []byte]
	Unlisted(kind aggregate.Kind, name string) (server string, ok bool)
	Has(capability string) bool
	Info(server string) *upstream.Info
	Servers() iter.Seq2[string, *upstream.Info]
	Page(kind aggregate.Kind, after string) (items []byte, next string, ok bool)
	Digest(kind aggregate.Kind) [32]byte
	Instructions() string
}

// Views finds the view that an endpoint shows. Unknown and hidden are the same.
type Views interface {
	View(profile, server string) (*View, bool)
}

// A View is what one endpoint shows: a profile, or one server of it.
type View struct {
	// Key names the view: the profile, or profile/server.
	Key, Profile, Server string

	current atomic.Pointer[holder]

	mu      sync.Mutex
	subs    map[*watcher]struct{}
	pending bool // a flush is due
}

// A holder has a snapshot for every kind of agents, most often the same one.
type holder [4]Snapshot

// seat is where a holder has what such agents see.
func seat(who upstream.Viewer) (i int) {
	if who.Answers {
		i++
	}
	if who.Legacy {
		i += 2
	}
	return i
}

// nothing is what a view offers before its first update.
var nothing = aggregate.Build(aggregate.View{}, nil)

// of returns what v offers to such agents now: there are servers with tools that
// not all see.
func (v *View) of(who upstream.Viewer) Snapshot {
	if h := v.current.Load(); h != nil {
		return h[seat(who)]
	}
	return nothing
}

// subscribe has a watcher told of changes.
func (v *View) subscribe(w *watcher) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.subs == nil {
		v.subs = map[*watcher]struct{}{}
	}
	v.subs[w] = struct{}{}
}

func (v *View) unsubscribe(w *watcher) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.subs, w)
}

// update swaps the snapshots and tells the subscribers a little later.
func (v *View) update(s Snapshot, others map[upstream.Viewer]Snapshot) {
	h := &holder{s, s, s, s}
	for who, other := range others {
		h[seat(who)] = other
	}
	v.current.Store(h)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pending || len(v.subs) == 0 {
		return
	}
	v.pending = true
	time.AfterFunc(debounce, v.flush)
}

func (v *View) flush() {
	v.mu.Lock()
	v.pending = false
	v.mu.Unlock()
	for _, w := range v.watchers() {
		w.changed(w.snapshot())
	}
}

// watchers are those who are told of the view's changes.
func (v *View) watchers() []*watcher {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.subs))
}

// A Keeper holds the current snapshot of every view. The zero value is empty.
type Keeper struct {
	mu    sync.RWMutex
	views map[viewID]*View
}

type viewID struct{ profile, server string }

// Add makes the view of a profile, or of one server of it when server is not
// empty, and returns it; a view that is there stays as it is.
func (k *Keeper) Add(profile, server string) *View {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := viewID{profile, server}
	if v := k.views[id]; v != nil {
		return v
	}
	if k.views == nil {
		k.views = map[viewID]*View{}
	}
	v := &View{Key: ViewKey(profile, server), Profile: profile, Server: server}
	k.views[id] = v
	return v
}

// View returns the view of a profile, or of one server of it.
func (k *Keeper) View(profile, server string) (*View, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	v, ok := k.views[viewID{profile, server}]
	return v, ok
}

// Update gives a view, made by Add, its next snapshot, and those of the agents that
// see another one. Sessions whose last known list differs are told after a short
// while.
func (k *Keeper) Update(profile, server string, s Snapshot, others map[upstream.Viewer]Snapshot) {
	if v, ok := k.View(profile, server); ok {
		v.update(s, others)
	}
}

// ViewKey names a view in logs, hooks and sealed cursors.
func ViewKey(profile, server string) string {
	if server == "" {
		return profile
	}
	return profile + "/" + server
}
