package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Numbers of the standing stream.
const (
	listenPause = time.Second      // before the stream is opened again
	listenMost  = 60 * time.Second // between attempts, at most
	listenGood  = 30 * time.Second // a stream of this age resets the pause
	listenGap   = 5 * time.Second  // without a stream so long, lists are read again
)

// errNotOffered is an answer that ends listening for good: servers need not
// have a standing stream, and one that says no is not asked again.
var errNotOffered = errors.New("the server offers no standing stream")

// listen keeps the stream on which a legacy server says what belongs to no call,
// above all that a list changed. What becomes of it never touches calls.
func (c *httpConn) listen(ctx context.Context, s *session) {
	defer c.work.Done()
	l := listener{c: c, s: s}
	pause, since := listenPause, time.Now()
	for c.session.Load() == s {
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
		if !sleep(ctx, nil, jitter(max(pause, l.retry))) {
			return
		}
		pause = min(2*pause, listenMost)
	}
}

// startListening listens for a session, unless the connection is closed.
func (c *httpConn) startListening(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && s.era == Legacy {
		var ctx context.Context
		ctx, s.quiet = context.WithCancel(c.root())
		c.work.Add(1)
		go c.listen(ctx, s)
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
	opened bool   // at least once
	lastID []byte // of the last event that had one
	retry  time.Duration
}

// once opens the stream and reads it to its end.
func (l *listener) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := l.c.send(ctx, http.MethodGet, nil, l.header())
	if err != nil {
		return l.c.netText(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		l.retry = min(retryAfter(resp.Header.Get("Retry-After"), time.Now()), listenMost)
		return fmt.Errorf("answered %d", resp.StatusCode)
	case resp.StatusCode != http.StatusOK || mediaType(resp.Header) != "text/event-stream":
		return errNotOffered
	}
	body, _, err := decoded(resp)
	if err != nil {
		return errNotOffered
	}
	l.opened = true
	return l.read(newEventReader(body, nil, l.c.limit, streamFactor*l.c.limit))
}

func (l *listener) header() http.Header {
	h := maps.Clone(l.s.base)
	delete(h, "Content-Type")
	h["Accept"] = []string{"text/event-stream"}
	if len(l.lastID) > 0 {
		h["Last-Event-Id"] = []string{string(l.lastID)}
	}
	return h
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

// message handles what belongs to no call: notifications, and questions, which
// nobody behind a plain connection answers. Anything else is noise.
func (l *listener) message(b []byte) {
	m, err := wire.ParseServer(b, wire.Limits{})
	switch {
	case err == nil && m.Kind() == wire.Notification && m.Method != progressMethod && !oversized(&m):
		l.c.env.notified(m.Method, m.Params)
	case err == nil && m.Kind() == wire.Request && len(m.ID) <= maxQuestionID:
		l.c.decline(l.s, &m)
	default:
		l.c.env.noised(1)
	}
}
