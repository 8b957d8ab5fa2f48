package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A scope is where request ids are unique: a session, or a stdio connection.
type scope struct {
	mu      sync.Mutex
	running map[string]running
}

type running struct {
	cancel    context.CancelFunc
	cancelled bool // by the agent: nothing is answered any more
}

// begin enters a request; false means that its id is in flight already.
func (s *scope) begin(id string, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.running[id]; ok {
		return false
	}
	if s.running == nil {
		s.running = map[string]running{}
	}
	s.running[id] = running{cancel: cancel}
	return true
}

// end removes a request and reports whether the agent had cancelled it.
func (s *scope) end(id string) (cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[id]
	delete(s.running, id)
	return r.cancelled
}

// cancel cancels a request of this scope; unknown ids are ignored.
func (s *scope) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.running[id]; ok {
		s.running[id] = running{r.cancel, true}
		r.cancel()
	}
}

func (s *scope) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running) > 0
}

// idKey makes equal ids equal strings, whichever way they are escaped.
func idKey(raw []byte) string {
	if wire.Kindof(raw) != '"' {
		return string(raw)
	}
	s, _ := wire.Unquote(raw)
	return `"` + s
}

// A session is one handshake of a legacy agent. It belongs to the caller and
// the view that opened it.
type session struct {
	scope
	watcher
	id      string
	caller  auth.Caller
	version string
	caps    capabilities
	asked   asked    // questions that wait for this agent's answers
	replay  recorded // what can be fetched again; guarded by the front's replays
	elicits elicits  // forms elsewhere that servers will tell the end of

	level   atomic.Int32  // index into levels; -1 while the agent never said
	used    atomic.Int64  // unix nanoseconds
	streams atomic.Int32  // open GET streams
	mail    *mailbox      // log messages of servers, whole; shared by sessions
	gone    chan struct{} // closed by the store when the session ends
}

func newSession(id string, c auth.Caller, v *View, version string, caps capabilities) *session {
	s := &session{id: id, caller: c, version: version, caps: caps,
		mail: newMailbox(waitingLogs, waitingLogBytes), gone: make(chan struct{})}
	s.watcher = watcher{view: v, answers: caps.answers, kinds: [3]bool{true, true, true}, known: [2]string{id, c.ID}, sess: s}
	s.replay.caller = c.ID
	s.level.Store(-1)
	s.touch()
	s.watch()
	return s
}

func (s *session) touch() { s.used.Store(time.Now().UnixNano()) }

// idle reports whether the session neither asks nor listens.
func (s *session) idle() bool { return s.streams.Load() == 0 && !s.busy() }

var errSessions = errors.New("too many sessions")

// sessions are the live sessions of all legacy agents over HTTP.
type sessions struct {
	max   int
	idle  time.Duration
	ended func(*session) // told of each that ends; it must not block

	mu  sync.RWMutex
	m   map[string]*session
	has map[auth.Caller]int // how many are whose
}

func (st *sessions) count() int {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return len(st.m)
}

// open makes a session. At the limit an idle one goes, of the caller that has
// most: there are agents that connect anew for every call and never say goodbye.
func (st *sessions) open(c auth.Caller, v *View, version string, caps capabilities) (*session, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.m) >= st.max {
		old := st.victim()
		if old == nil {
			return nil, errSessions
		}
		st.drop(old)
	}
	if st.m == nil {
		st.m, st.has = map[string]*session{}, map[auth.Caller]int{}
	}
	s := newSession(rand.Text(), c, v, version, caps)
	st.m[s.id] = s
	st.has[c]++
	return s, nil
}

// victim is the longest idle session of the caller that has most sessions among
// those with an idle one; nil if all sessions ask or listen.
func (st *sessions) victim() (old *session) {
	for _, s := range st.m {
		if (old == nil || st.before(s, old)) && s.idle() {
			old = s
		}
	}
	return old
}

// before tells whether a goes before b when one must.
func (st *sessions) before(a, b *session) bool {
	if m, n := st.has[a.caller], st.has[b.caller]; m != n {
		return m > n
	}
	return a.used.Load() < b.used.Load()
}

// find returns the session id of a caller and view; another's is not there.
func (st *sessions) find(id string, c auth.Caller, v *View) *session {
	st.mu.RLock()
	s := st.m[id]
	st.mu.RUnlock()
	if s == nil || s.caller != c || s.view != v {
		return nil
	}
	s.touch()
	return s
}

func (st *sessions) end(s *session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.m[s.id] == s {
		st.drop(s)
	}
}

func (st *sessions) drop(s *session) {
	delete(st.m, s.id)
	if st.has[s.caller]--; st.has[s.caller] == 0 {
		delete(st.has, s.caller)
	}
	s.asked.end()
	st.ended(s)
	close(s.gone)
}

// expire ends the sessions that were idle too long at now.
func (st *sessions) expire(now time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	limit := now.Add(-st.idle).UnixNano()
	for _, s := range st.m {
		if s.used.Load() < limit && s.idle() {
			st.drop(s)
		}
	}
}
