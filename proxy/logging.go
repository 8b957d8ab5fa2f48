package proxy

import (
	"iter"
	"sync/atomic"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// wanted is the least severe level that any agent asked for. It only falls:
// what one agent does not want is filtered on its way, and a server that is
// told less often is the cheaper mistake.
type wanted struct{ below atomic.Int32 } // len(levels) - level; zero: nobody asked

// lower notes a wish and reports whether servers must hear of it.
func (w *wanted) lower(level int) bool {
	n := int32(len(levels) - level)
	for {
		old := w.below.Load()
		if n <= old {
			return false
		}
		if w.below.CompareAndSwap(old, n) {
			return true
		}
	}
}

// wish lets servers of the era that has a level per connection know that an
// agent wants this one.
func (f *Front) wish(level int) {
	if f.wanted.lower(level) && f.opt.LogLevel != nil {
		f.opt.LogLevel(levels[level])
	}
}

// setLevel is the session's own level; a smaller one is passed on.
func (x *exchange) setLevel() (answer, error) {
	l := levelOf(x.params.level)
	if l < 0 {
		return answer{}, badParams("level is none of the log levels")
	}
	if x.sess != nil {
		x.sess.level.Store(int32(l))
	}
	x.f.wish(l)
	return answer{result: emptyObject}, nil
}

// Notify passes on what a server says outside of any call, to those whose view
// shows the server and who want it: log messages, updates of resources, the end
// of an elicitation. It neither blocks nor keeps params. That lists changed is
// told by the views instead.
func (f *Front) Notify(profile string, from upstream.Origin, method string, params []byte) {
	if wire.Kindof(params) != '{' {
		return
	}
	switch method {
	case "notifications/message":
		f.logged(profile, from, params)
	case updatedMethod:
		f.updated(profile, from, params)
	case completeMethod:
		f.completed(profile, from, params)
	}
}

// showing are the watchers of the views that show a server, and that may hear of
// the connection in question.
func (f *Front) showing(profile string, from upstream.Origin) iter.Seq[*watcher] {
	return func(yield func(*watcher) bool) {
		for _, name := range [...]string{"", from.Server} {
			v, ok := f.opt.Views.View(profile, name)
			if !ok {
				continue
			}
			for _, w := range v.watchers() {
				if w.knows(from.Isolation) && !yield(w) {
					return
				}
			}
		}
	}
}

// logged passes on a log message to the sessions whose level it reaches.
func (f *Front) logged(profile string, from upstream.Origin, params []byte) {
	raw, _ := wire.Get(params, "level")
	level := levelOf(raw)
	var msg []byte
	for w := range f.showing(profile, from) {
		if w.sess == nil || !w.sess.wants(level) {
			continue
		}
		if msg == nil && len(params) <= maxLog {
			if msg = f.aside("notifications/message", params); msg == nil {
				return
			}
		}
		if msg == nil || !w.sess.mail.put(msg) {
			f.counts.dropped.Add(1)
		}
	}
}

// aside makes a notification of a server's words; nil if params are broken.
func (f *Front) aside(method string, params []byte) []byte {
	flags, err := wire.Valid(params, f.wireLimits())
	if err != nil {
		return nil
	}
	return wire.AppendNotification(nil, method, f.clean(params, flags))
}

// wants tells whether a log message of a level reaches the session.
func (s *session) wants(level int) bool {
	want := s.level.Load()
	if want < 0 {
		want = defaultLevel
	}
	return int32(level) >= want
}
