package upstream

import (
	"context"
	"errors"
)

// A need is what one call needs of the connections beside discovery's.
type need struct {
	route route
	// who came: the session, else the caller. Calls of one return to one process.
	who string
	// caller is whose agent that is; what can ask belongs to one caller.
	caller string
	// pooled says that any process of the pool at route will do.
	pooled bool
	// exclusive calls are alone: a process does not say about which call it asks.
	exclusive bool
	// fixed, if set, is the one owner that will do.
	fixed *owner
	// hurried says that any process is better now than the agent's last one later;
	// loyal that the call waits for the latter.
	hurried, loyal bool
}

// parts reports whether a call may need another connection than discovery's.
func (s *server) parts(t Target, c *Call) bool {
	return t.Answers&s.offers != 0 || c.Via != "" || s.isolation(t) != "" ||
		t.Profile != "" && t.Profile != plainRoute.profile
}

// isolation is what keeps an agent's connections from others; empty when
// nothing does.
func (s *server) isolation(t Target) string {
	switch {
	case s.settings.Isolation == "per_session" && t.Session != "":
		return t.Session
	case s.settings.Isolation == "per_session", s.settings.Isolation == "per_caller":
		return t.Caller
	}
	return ""
}

// doApart sends a call whose connection depends on who makes it.
func (s *server) doApart(ctx context.Context, t Target, c *Call) (Response, error) {
	if c.Via != "" {
		return s.follow(ctx, t, c)
	}
	w, err := s.needs(ctx, t, c)
	if err != nil {
		return Response{}, err
	}
	if w.route == plainRoute {
		return s.doPlain(ctx, unasked(c))
	}
	r, err := s.doIn(ctx, w, c)
	if !errors.Is(err, errOneEra) {
		return r, err
	}
	// Nothing was sent. In the other era nothing is declared to the connection.
	w = need{route: route{profile: w.route.profile, isolation: w.route.isolation}, who: w.who, caller: w.caller}
	if w.route == plainRoute {
		return s.doPlain(ctx, unasked(c))
	}
	return s.doIn(ctx, w, c)
}

// errOneEra is why a server of both eras, by its own word, gets no connection of
// the older one.
var errOneEra = errors.New("the server says that it speaks older versions of MCP too, but opens no session")

// bothEras reports whether an agent with a handshake is better served by a
// connection with one: then a server may ask in the middle of a call, and what
// it was written for needs no translation.
func (s *server) bothEras() bool {
	return s.both.Load() && !s.oneEra.Load() && s.settings.protocol() != ModernOnly
}

// doIn sends a call over a connection that w finds.
func (s *server) doIn(ctx context.Context, w need, c *Call) (Response, error) {
	o, err := s.take(ctx, &w)
	if err != nil {
		return Response{}, err
	}
	defer s.giveBack(o, w.exclusive)
	s.rouse()
	h := hold{srv: s, o: o, exclusive: w.exclusive, who: w.who}
	return h.do(ctx, c)
}

// rouse starts the connection that reads the lists of a server which was known from
// an earlier life only: they may be others by now.
func (s *server) rouse() {
	if s.status.Load().State != Lazy {
		return
	}
	select {
	case s.plain.wake <- struct{}{}:
	default:
	}
}

// needs says what connection a call goes to. What is declared there depends on
// the settings alone, never on what the agent of this call can do beyond that.
func (s *server) needs(ctx context.Context, t Target, c *Call) (need, error) {
	w := need{route: route{profile: profileOf(t), isolation: s.isolation(t)}, who: agentOf(t), caller: t.Caller}
	if t.Answers&s.offers == 0 || w.route.isolation == "" && !mayAsk(c.Method) {
		return w, nil
	}
	era, err := s.eraNow(ctx)
	if err != nil {
		return w, err
	}
	if t.Legacy && era == Modern && s.bothEras() {
		era = Legacy
	}
	s.ask(&w, era, c.Method)
	return w, nil
}

// ask turns w to a connection that declares what can be asked, where there is
// such a thing: a modern server learns it with each request instead.
func (s *server) ask(w *need, era Era, method string) {
	shared := w.route.isolation == ""
	if era == Modern || shared && s.pool() == 0 {
		return
	}
	w.route.mode = Asking
	switch {
	case s.settings.local():
		w.pooled = shared
		w.exclusive = mayAsk(method)
	case shared:
		w.route.caller = w.caller
	}
}

// agentOf tells agents apart: by session, and those without by caller.
func agentOf(t Target) string {
	if t.Session != "" {
		return t.Session
	}
	return t.Caller
}

func profileOf(t Target) string {
	if t.Profile == "" {
		return plainRoute.profile
	}
	return t.Profile
}

// mayAsk is true for the methods during which a server may ask something.
func mayAsk(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/result":
		return true
	}
	return false
}

// local is true for servers behind a pipe, where a question does not say which
// call it is about.
func (s *Settings) local() bool {
	return s.Builtin != "" || s.URL == "" || s.Transport == "stdio" && s.Command != ""
}

// eraNow returns the server's era. If nobody knows it yet, discovery's
// connection finds out.
func (s *server) eraNow(ctx context.Context) (Era, error) {
	if e := s.era.Load(); e != nil {
		return *e, nil
	}
	c, err := s.plain.acquire(ctx)
	if err != nil {
		return Legacy, err
	}
	return c.Info().Era, nil
}

// unasked is c without anybody to ask: over a shared connection nobody could
// tell whom a question is for.
func unasked(c *Call) *Call {
	if c.Ask == nil {
		return c
	}
	d := *c
	d.Ask = nil
	return &d
}

// Bounds of the connections of one server.
const (
	poolMost     = 4    // processes, with the shared one
	isolatedMost = 64   // processes of agents that are kept apart
	sessionsMost = 1000 // the same for servers that are no processes of ours
)

// pool is how many processes a pool may have beside the shared one. Of a server
// that is no process, one session is enough for all agents of a caller.
func (s *server) pool() int {
	switch n := s.settings.MaxProcesses; {
	case !s.settings.local():
		return 1
	case n <= 0:
		return poolMost - 1
	default:
		return n - 1
	}
}

// isolated is how many agents, or callers, may have a connection of their own.
func (s *server) isolated() int {
	switch n := s.settings.MaxProcesses; {
	case !s.settings.local():
		return sessionsMost
	case n <= 0:
		return isolatedMost
	default:
		return n
	}
}

// lists reports whether o reads the lists that agents see who can answer.
func (o *owner) lists() bool {
	return o.route.mode == Asking && o.route.isolation == "" && o.route.caller == "" && o.route.profile == plainRoute.profile
}
