package proxy

import (
	"context"
	"net"
	"sync"
)

// maxStrays bounds the calls of one caller that go on after a hang-up.
const maxStrays = 64

// A job is a request of a legacy agent, which may hang up before the end. What
// no server has seen by then is dropped; what one works on goes on as a stray,
// without its connection, because the agent did not cancel it. All of it goes on if
// the agent can come back for the rest of the stream.
type job struct {
	strays *strays
	caller string
	out    *stream
	batch  bool     // of several messages
	conn   net.Conn // nil where there is none
	cancel context.CancelFunc
	stop   func() bool

	mu                       sync.Mutex
	sent, gone, stray, ended bool
	kept                     bool // the agent is gone, but can come back
}

// begin returns the context of the job, which shares nothing with that of its
// request.
func (j *job) begin(request context.Context) context.Context {
	if c, ok := request.Value(connKey{}).(*connection); ok {
		j.conn = c.conn
	}
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	j.stop = context.AfterFunc(request, j.hangUp)
	return ctx
}

// hangUp notes that the agent is gone. The connection is closed here, since the
// goroutine that serves it may be held by the call: its place is for others.
func (j *job) hangUp() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return
	}
	j.gone = true
	j.kept = j.out.abandon()
	if j.conn != nil {
		j.conn.Close()
	}
	if j.sent || j.kept {
		j.stray = j.strays.add(j)
	}
	if !j.stray {
		j.kept = false
		j.cancel()
	}
}

// send is asked before a server gets a part of the job; false means that nobody
// waits for it any more.
func (j *job) send() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent = !j.gone || j.kept
	return j.sent
}

// answered ends what send began. The rest of a job whose agent is gone is dropped.
func (j *job) answered() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent = false
	if j.gone && !j.kept {
		j.cancel()
	}
}

// end frees what the job holds.
func (j *job) end() {
	j.stop()
	j.cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	if j.stray {
		j.strays.remove(j)
	}
}

// strays count the calls that go on without their agents. The zero value is
// empty. Their goroutines are those of the server for agents, whose Shutdown
// waits for them.
type strays struct {
	mu     sync.Mutex
	m      map[string]map[*job]struct{} // by caller
	closed bool
}

// add takes one more; false means that the caller has enough of them, or that
// nobody can come back for it.
func (s *strays) add(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.m[j.caller]) >= maxStrays || s.closed && j.out.alone() {
		return false
	}
	if s.m == nil {
		s.m = map[string]map[*job]struct{}{}
	}
	if s.m[j.caller] == nil {
		s.m[j.caller] = map[*job]struct{}{}
	}
	s.m[j.caller][j] = struct{}{}
	return true
}

func (s *strays) remove(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.m[j.caller], j); len(s.m[j.caller]) == 0 {
		delete(s.m, j.caller)
	}
}

// close cancels those that nobody reads, and lets no such come any more.
func (s *strays) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, jobs := range s.m {
		for j := range jobs {
			if j.out.alone() {
				j.cancel()
			}
		}
	}
}

func (s *strays) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, jobs := range s.m {
		n += len(jobs)
	}
	return n
}
