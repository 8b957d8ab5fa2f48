package proxy

import (
	"slices"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	updatedMethod  = "notifications/resources/updated"
	completeMethod = "notifications/elicitation/complete"
	// maxUpdate bounds what of an update waits; of a larger one the URI remains.
	maxUpdate = 4 << 10
	// maxElicits bounds the elicitations of one session whose end is awaited, and
	// maxElicitID the id of one.
	maxElicits  = 64
	maxElicitID = 1 << 10
)

// knows reports whether the watcher may hear of a connection with an isolation.
func (w *watcher) knows(isolation string) bool {
	return isolation == "" || slices.Contains(w.known[:], isolation)
}

// hears reports whether the watcher is who an update of a resource is for.
func (f *Front) hears(w *watcher, from upstream.Origin) bool {
	if from.Hears == nil || !w.knows(from.Isolation) {
		return w.knows(from.Isolation)
	}
	return from.Hears(upstream.Target{
		Server: from.Server, Profile: w.view.Profile, Session: w.known[0], Caller: w.known[1],
		Answers: f.answers(from.Server, w.answers), Legacy: w.sess != nil,
	})
}

// updated passes on that a resource changed, to those who subscribed to it at
// this server.
func (f *Front) updated(profile string, from upstream.Origin, params []byte) {
	raw, _ := wire.Get(params, "uri")
	uri, ok := wire.Unquote(raw)
	if !ok || len(uri) > maxURI {
		return
	}
	u := update{resource: resource{from.Server, uri}}
	for _, w := range f.subs.of(u.resource) {
		if w.view.Profile != profile || !f.hears(w, from) {
			continue
		}
		if u.params == nil {
			u.params = f.updateParams(uri, params)
		}
		f.subs.tell(w, u)
	}
}

// updateParams are the parameters that agents get: the server's, without what
// belongs to its own hop, if they are of a usual size and sound.
func (f *Front) updateParams(uri string, params []byte) []byte {
	bare := append(wire.AppendQuote([]byte(`{"uri":`), uri), '}')
	flags, err := wire.Valid(params, f.wireLimits())
	if err != nil || len(params) > maxUpdate || repeats(params) {
		return bare
	}
	out := slices.Clone(f.clean(params, flags)) // it waits longer than params last
	if raw, _ := wire.Get(out, "uri"); !isText(raw, uri) {
		return bare
	}
	from, to, ok := wire.Find(out, "_meta")
	if !ok {
		return out
	}
	if wire.Kindof(out[from:to]) != '{' {
		return without(out, "_meta")
	}
	meta := without(out[from:to], metaSubscription)
	if _, again := wire.Get(meta, metaSubscription); again {
		return bare
	}
	if isEmpty(meta) {
		return without(out, "_meta")
	}
	return wire.Splice(nil, out, wire.Edit{From: from, To: to, With: meta})
}

// repeats reports whether a member that matters here comes more than once.
func repeats(params []byte) bool {
	uris, metas := 0, 0
	wire.Each(params, func(key, _ []byte) bool {
		switch string(key) {
		case "uri":
			uris++
		case "_meta":
			metas++
		}
		return true
	})
	return uris > 1 || metas > 1
}

func isText(raw []byte, want string) bool {
	s, ok := wire.Unquote(raw)
	return ok && s == want
}

// elicits are the elicitations whose end one agent is told of. The zero value is
// empty.
type elicits struct {
	mu   sync.Mutex
	open []elicit // the oldest first
}

type elicit struct{ server, id string }

// expectsElicitation notes that the session's agent was given an elicitation
// which goes on elsewhere: when the server says that it is complete, the agent is
// told. The oldest ones make room.
func (s *session) expectsElicitation(server, id string) {
	if id == "" || len(id) > maxElicitID {
		return
	}
	e := &s.elicits
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.open, elicit{server, id}) {
		return
	}
	if len(e.open) >= maxElicits {
		e.open = slices.Delete(e.open, 0, 1)
	}
	e.open = append(e.open, elicit{server, id})
}

// done takes an elicitation away; false means that it was not there.
func (e *elicits) done(server, id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.open, elicit{server, id})
	if i >= 0 {
		e.open = slices.Delete(e.open, i, i+1)
	}
	return i >= 0
}

// completed passes on that an elicitation is complete, to the session that got it.
func (f *Front) completed(profile string, from upstream.Origin, params []byte) {
	raw, _ := wire.Get(params, "elicitationId")
	id, ok := wire.Unquote(raw)
	if !ok || len(id) > maxElicitID || len(params) > maxLog {
		return
	}
	for w := range f.showing(profile, from) {
		if w.sess == nil || !w.sess.elicits.done(from.Server, id) {
			continue
		}
		if msg := f.aside(completeMethod, params); msg == nil || !w.hand(msg) {
			f.counts.dropped.Add(1)
		}
	}
}
