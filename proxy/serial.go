package proxy

import (
	"fmt"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// maxLane bounds the calls in one lane: the one that has the turn and those that
// wait.
const maxLane = 1 + 64

// lanes make the tool calls of one agent to one server wait for each other.
// The zero value is empty.
type lanes struct {
	mu sync.Mutex
	m  map[laneKey]*lane
}

// A laneKey is a server and who calls it: a session or a connection.
type laneKey struct {
	server string
	who    any
}

type lane struct {
	turn chan struct{} // holds a token while someone has the turn
	refs int
}

// tooMany is why a call does not even wait.
func tooMany(server string) error {
	err := fmt.Errorf("%d calls of this agent wait for each other; it takes one at a time", maxLane-1)
	return &upstream.Error{Server: server, Kind: upstream.Busy, Err: err}
}

// join takes a place in a lane; nil means that it is full.
func (l *lanes) join(k laneKey) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.m[k]
	if e == nil {
		if l.m == nil {
			l.m = map[laneKey]*lane{}
		}
		e = &lane{turn: make(chan struct{}, 1)}
		l.m[k] = e
	}
	if e.refs == maxLane {
		return nil
	}
	e.refs++
	return e
}

func (l *lanes) part(k laneKey, e *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.refs--; e.refs == 0 {
		delete(l.m, k)
	}
}
