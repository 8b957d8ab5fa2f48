package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Numbers of the standing stream.
const (
	listenPause = time.Second      // before the stream is opened again
	listenMost  = 60 * time.Second // between attempts, at most
	listenGood  = 30 * time.Second // a stream of this age resets the pause
	listenGap   = 5 * time.Second  // without a stream so long, lists are read again
	listenFirst = time.Second      // for which calls that can be asked about wait at most
)

// listen keeps the stream on which a legacy server says what belongs to no call,
// above all that a list changed. What becomes of it never touches calls.
func (c *httpConn) listen(ctx context.Context, s *session, first chan<- struct{}) {
	defer c.work.Done()
	l := listener{c: c, s: s, first: first}
	pause, since := listenPause, time.Now()
	for ctx.Err() == nil {
		start := time.Now()
		if l.opened && start.Sub(since) > listenGap {
			c.listsMayDiffer()
		}
		err := l.once(ctx)
		if errors.Is(err, errNotOffered) || ctx.Err() != nil {
			return
		}
		c.env.logger().Debug("standing stream ended", "server", c.server, "err", c.netText(err))
		if since = time.Now(); since.Sub(start) > listenGood {
			pause = listenPause
		}
		if !sleep(ctx, nil, l.wait(pause)) {
			return
		}
		pause = min(2*pause, listenMost)
	}
}

// startListening listens for a session, unless the connection is closed or it does
// so already. A server may have refused that before the handshake was over.
func (c *httpConn) startListening(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && s.era == Legacy && (s.quiet == nil || s.deaf.Swap(false)) {
		if s.quiet != nil {
			s.quiet()
		}
		var ctx context.Context
		ctx, s.quiet = context.WithCancel(c.root())
		s.listening = make(chan struct{})
		c.work.Add(1)
		go c.listen(ctx, s, s.listening)
	}
}

// awaitListening waits until the standing stream is there, or is known not to be,
// if questions can come on it: servers drop one for which they find no stream.
func (c *httpConn) awaitListening(ctx context.Context, s *session) {
	if s.listening == nil || len(members(c.env.offers)) == 0 {
		return
	}
	t := time.NewTimer(listenFirst)
	defer t.Stop()
	select {
	case <-s.listening:
	case <-t.C:
	case <-ctx.Done():
	case <-c.root().Done():
	}
}

// stopListening ends the stream of a session that another has replaced: servers
// may hold it open for ever, and it occupies one of our connections.
func (c *httpConn) stopListening(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.quiet != nil {
		s.quiet()
	}
}

// listsMayDiffer has the lists read again.
func (c *httpConn) listsMayDiffer() {
	for _, list := range []string{"tools", "prompts", "resources"} {
		c.env.notified("notifications/"+list+"/list_changed", nil)
	}
}

// A listener is the standing stream of one session over its reconnects.
type listener struct {
	c      *httpConn
	s      *session
	first  chan<- struct{} // closed after the first attempt
	tried  bool            // at least once
	opened bool            // at least once
	lastID []byte          // of the last event that had one
	retry  time.Duration   // what its events said last,
	after  time.Duration   // and what a refusal did
}

// once opens the stream and reads it to its end.
func (l *listener) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.after = 0
	s, err := l.c.openStream(ctx, l.s, l.lastID)
	if errors.Is(err, errNotOffered) {
		l.s.deaf.Store(true)
	}
	if !l.tried {
		l.tried = true
		close(l.first)
	}
	if err != nil {
		l.after = min(s.after, listenMost)
		return err
	}
	defer s.raw.Close()
	l.opened = true
	l.s.standing.Store(true)
	defer l.s.standing.Store(false)
	return l.read(newEventReader(s.body, nil, l.c.limit, streamFactor*l.c.limit))
}

// wait is how long the stream stays closed: never shorter than the server asked.
func (l *listener) wait(pause time.Duration) time.Duration {
	return max(jitter(pause), l.retry, l.after)
}

func (l *listener) read(r *eventReader) error {
	r.lastID, r.retry = l.lastID, l.retry
	for {
		ev, err := r.next()
		l.lastID, l.retry = r.lastID, r.retry
		if err != nil {
			return err
		}
		if ev.name == "" && len(ev.data) > 0 {
			l.message(ev.data)
			r.shrink()
		}
	}
}

// message handles what came outside of any call's stream: notifications, and
// questions. Anything else is noise.
func (l *listener) message(b []byte) {
	m, err := wire.ParseServer(b, wire.Limits{})
	switch {
	case err == nil && m.Kind() == wire.Notification && m.Method == cancelledNote:
		l.c.askers.withdraw(l.s, cancelledID(m.Params))
	case err == nil && m.Kind() == wire.Notification && m.Method != progressMethod && !oversized(&m):
		l.c.env.notified(m.Method, m.Params)
	case err == nil && m.Kind() == wire.Request && len(m.ID) <= maxQuestionID:
		l.c.asked(l.s, &m)
	default:
		l.c.env.noised(1)
	}
}
