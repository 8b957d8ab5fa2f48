package proxy

import (
	"slices"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	// updateEvery is the least time between two messages about one resource: what
	// comes in between is one message.
	updateEvery = 100 * time.Millisecond
	// maxSubscriptions bounds the resources that one watcher is told of.
	maxSubscriptions = 256
	// maxWhole bounds the messages that wait as they are.
	maxWhole = 64
)

// listed are the kinds whose changes agents are told, in the order of news.
var listed = [3]aggregate.Kind{aggregate.Tools, aggregate.Prompts, aggregate.Resources}

var changes = [3]string{
	"notifications/tools/list_changed",
	"notifications/prompts/list_changed",
	"notifications/resources/list_changed",
}

// A watcher is somebody who is told what changes in a view: a session of a
// legacy agent, or one subscriptions/listen of a modern one.
type watcher struct {
	view    *View
	answers policy.Answers // the kinds of questions that its agent can answer
	kinds   [3]bool        // the lists that it is told of, in the order of listed
	stamp   []byte         // raw subscription id in its messages; nil for sessions
	known   [2]string      // what isolates a connection that is its own
	sess    *session       // nil for a listen
	wake    chan struct{}  // holds a token while news waits

	news struct {
		sync.Mutex
		seen    [3][32]byte // what the agent last listed or was told of
		waiting [3]bool
		whole   [][]byte
		updates []update // at most one of a resource
		told    time.Time
		late    bool // a timer is going to poke
	}

	// Both are guarded by the subscribers.
	follows map[resource]struct{}
	left    bool
}

// An update says that a resource changed.
type update struct {
	resource
	params []byte
}

// viewer is the kind of agents that is told.
func (w *watcher) viewer() upstream.Viewer {
	return upstream.Viewer{Answers: w.answers != 0, Legacy: w.sess != nil}
}

func (w *watcher) snapshot() Snapshot { return w.view.of(w.viewer()) }

// watch begins to look at the view.
func (w *watcher) watch() {
	w.wake = make(chan struct{}, 1)
	w.view.subscribe(w) // before the look: a change in between is told later
	w.news.Lock()
	defer w.news.Unlock()
	for i, k := range listed {
		w.news.seen[i], w.news.waiting[i] = digestOf(w.snapshot(), k), false
	}
}

// digestOf tells what a list shows. Templates count as resources: they share a
// notification.
func digestOf(snap Snapshot, k aggregate.Kind) [32]byte {
	d := snap.Digest(k)
	if k == aggregate.Resources {
		for i, b := range snap.Digest(aggregate.Templates) {
			d[i] = d[i]<<1 | d[i]>>7
			d[i] ^= b
		}
	}
	return d
}

// sawList notes what the agent is being shown. When that is no longer the
// newest, the agent is told again.
func (w *watcher) sawList(snap Snapshot, k aggregate.Kind) {
	if k == aggregate.Templates {
		k = aggregate.Resources
	}
	w.news.Lock()
	defer w.news.Unlock()
	for i := range listed {
		if listed[i] == k {
			d := digestOf(snap, k)
			w.news.seen[i] = d
			w.news.waiting[i] = d != digestOf(w.snapshot(), k)
		}
	}
	if w.news.waiting != [3]bool{} {
		w.poke()
	}
}

// changed marks the lists of which the agent knows another version.
func (w *watcher) changed(snap Snapshot) {
	w.news.Lock()
	defer w.news.Unlock()
	for i, k := range listed {
		if d := digestOf(snap, k); w.kinds[i] && d != w.news.seen[i] {
			w.news.seen[i], w.news.waiting[i] = d, true
		}
	}
	if w.news.waiting != [3]bool{} {
		w.poke()
	}
}

// updated notes that a resource changed. Until that is told, the newest counts.
func (w *watcher) updated(u update) {
	w.news.Lock()
	defer w.news.Unlock()
	if i := w.waits(u.resource); i >= 0 {
		w.news.updates[i] = u
		return
	}
	w.news.updates = append(w.news.updates, u)
	switch rest := updateEvery - time.Since(w.news.told); {
	case rest <= 0:
		w.poke()
	case !w.news.late:
		w.news.late = true
		time.AfterFunc(rest, w.pokeLate)
	}
}

// waits returns where an update of r waits, or -1; w.news is held.
func (w *watcher) waits(r resource) int {
	return slices.IndexFunc(w.news.updates, func(u update) bool { return u.resource == r })
}

// forget drops an update of r.
func (w *watcher) forget(r resource) {
	w.news.Lock()
	defer w.news.Unlock()
	if i := w.waits(r); i >= 0 {
		w.news.updates = slices.Delete(w.news.updates, i, i+1)
	}
}

func (w *watcher) pokeLate() {
	w.news.Lock()
	defer w.news.Unlock()
	w.news.late = false
	w.poke()
}

// hand leaves a message that is told as it is; false means that there is no room.
func (w *watcher) hand(msg []byte) bool {
	w.news.Lock()
	defer w.news.Unlock()
	if len(w.news.whole) >= maxWhole {
		return false
	}
	w.news.whole = append(w.news.whole, msg)
	w.poke()
	return true
}

func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// tidings are what waits to be told at one moment.
type tidings struct {
	lists   [3]bool
	whole   [][]byte
	updates []update
}

func (w *watcher) take() (t tidings) {
	w.news.Lock()
	defer w.news.Unlock()
	t = tidings{w.news.waiting, w.news.whole, w.news.updates}
	w.news.waiting, w.news.whole, w.news.updates = [3]bool{}, nil, nil
	if len(t.updates) > 0 {
		w.news.told = time.Now()
	}
	return t
}

// tell hands the notifications that wait to write. What could not be written
// goes on waiting.
func (w *watcher) tell(write func(b []byte) error) error {
	t := w.take()
	for {
		msg := w.next(&t)
		if msg == nil {
			return nil
		}
		if err := write(msg); err != nil {
			w.untold(t)
			return err
		}
		t.pop()
	}
}

// next is the first message of t; nil when there is none.
func (w *watcher) next(t *tidings) []byte {
	if i := slices.Index(t.lists[:], true); i >= 0 {
		return wire.AppendNotification(nil, changes[i], stamped(nil, w.stamp))
	}
	switch {
	case len(t.whole) > 0:
		return t.whole[0]
	case len(t.updates) > 0:
		return wire.AppendNotification(nil, updatedMethod, stamped(t.updates[0].params, w.stamp))
	}
	return nil
}

// pop drops the message that next returned.
func (t *tidings) pop() {
	if i := slices.Index(t.lists[:], true); i >= 0 {
		t.lists[i] = false
		return
	}
	if len(t.whole) > 0 {
		t.whole = t.whole[1:]
		return
	}
	t.updates = t.updates[1:]
}

// untold puts t back in front of what came meanwhile.
func (w *watcher) untold(t tidings) {
	w.news.Lock()
	defer w.news.Unlock()
	for i, waits := range t.lists {
		w.news.waiting[i] = w.news.waiting[i] || waits
	}
	w.news.whole = append(t.whole, w.news.whole...)
	w.news.whole = w.news.whole[:min(len(w.news.whole), maxWhole)]
	older := slices.DeleteFunc(slices.Clone(t.updates), func(u update) bool { return w.waits(u.resource) >= 0 })
	w.news.updates = append(older, w.news.updates...)
	// No more are followed; more than that are of resources that no longer are.
	w.news.updates = w.news.updates[max(0, len(w.news.updates)-maxSubscriptions):]
	w.poke()
}

const metaSubscription = "io.modelcontextprotocol/subscriptionId"

// stamped puts a subscription's id into the _meta of params, which has no other.
func stamped(params, id []byte) []byte {
	if id == nil {
		return params
	}
	if params == nil {
		params = emptyObject
	}
	member := `"` + metaSubscription + `":` + string(id)
	from, to, ok := wire.Find(params, "_meta")
	if !ok {
		return withFront(params, `"_meta":{`+member+`},`)
	}
	return wire.Splice(nil, params, wire.Edit{From: from, To: to, With: withFront(params[from:to], member+",")})
}
