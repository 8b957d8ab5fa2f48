package proxy

import (
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

// Notify passes on what a server says outside of any call: log messages, to the
// sessions whose view shows the server and whose level they reach. It neither
// blocks nor keeps params. That lists changed is told by the views instead.
func (f *Front) Notify(profile string, from upstream.Origin, method string, params []byte) {
	server := from.Server
	if method != "notifications/message" || wire.Kindof(params) != '{' {
		return
	}
	raw, _ := wire.Get(params, "level")
	level := levelOf(raw)
	var msg []byte
	for _, name := range [...]string{"", server} {
		v, ok := f.opt.Views.View(profile, name)
		if !ok {
			continue
		}
		for _, s := range v.listeners() {
			if !s.wants(level) {
				continue
			}
			if msg == nil && len(params) <= maxLog {
				if msg = f.logMessage(method, params); msg == nil {
					return
				}
			}
			if msg == nil || !s.mail.put(msg) {
				f.counts.dropped.Add(1)
			}
		}
	}
}

// logMessage makes the notification that agents get; nil if params are broken.
func (f *Front) logMessage(method string, params []byte) []byte {
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
