package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// label names a connection for later calls that must follow it. It tells
// nobody whose it is. A process that was started again is another one; what an
// HTTP server keeps does not depend on our connection.
func (o *owner) label(opened int64) string {
	mode := "p"
	if o.route.mode == Asking {
		mode = "a"
	}
	sum := sha256.Sum256([]byte(o.route.profile + "\x00" + o.route.isolation + "\x00" + o.route.caller))
	via := fmt.Sprintf("%s%d:%x", mode, o.route.n, sum[:6])
	if o.srv.settings.local() {
		via += fmt.Sprintf(".%d", opened)
	}
	return via
}

func (s *server) gone() error {
	return &Error{Server: s.name, Kind: Gone, Err: errors.New("the process that this belongs to has ended")}
}

// follow sends a call over the connection that an earlier one took.
func (s *server) follow(ctx context.Context, t Target, c *Call) (Response, error) {
	if !s.settings.local() {
		return s.followSession(ctx, t, c)
	}
	o := s.whose(c.Via)
	switch {
	case o == nil, o.route.mode == Asking && !o.of(t.Caller):
		return Response{}, s.gone()
	case o == s.plain:
		v, err := s.admit(ctx, o, c)
		if err != nil {
			return Response{}, err
		}
		r, err := o.doThere(ctx, unasked(c))
		v.end(o, true, err)
		return r, err
	}
	w := need{route: o.route, who: agentOf(t), caller: t.Caller, fixed: o, exclusive: o.route.mode == Asking && c.Method == "tasks/result"}
	return s.doIn(ctx, w, c)
}

// whose finds the owner of a live connection.
func (s *server) whose(via string) *owner {
	for _, o := range s.live() {
		if h := o.conn.Load(); h != nil && h.via == via {
			return o
		}
	}
	return nil
}

// followSession finds the way to an HTTP server that the label tells among
// those that this agent has.
func (s *server) followSession(ctx context.Context, t Target, c *Call) (Response, error) {
	own := route{profile: profileOf(t), isolation: s.isolation(t)}
	asking := own
	asking.mode = Asking
	if own.isolation == "" {
		asking.caller = t.Caller
	}
	d := *c
	d.Via = ""
	for _, r := range []route{own, asking} {
		if newOwner(s, r).label(0) != c.Via {
			continue
		}
		if r == plainRoute {
			return s.doPlain(ctx, unasked(&d))
		}
		return s.doIn(ctx, need{route: r, who: agentOf(t), caller: t.Caller}, &d)
	}
	return Response{}, s.gone()
}

// doThere sends a call over the connection that it names and over no other.
func (o *owner) doThere(ctx context.Context, c *Call) (Response, error) {
	h := o.current()
	if h == nil || h.via != c.Via || !h.begin() {
		return Response{}, o.srv.gone()
	}
	r, err := o.through(ctx, h, c)
	if KindOf(err) == Unreachable && o.current() != h {
		return Response{}, o.srv.gone()
	}
	return r, err
}
