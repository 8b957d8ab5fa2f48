package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	listenMethod = "subscriptions/listen"
	ackMethod    = "notifications/subscriptions/acknowledged"
	updateMethod = "notifications/resources/updated"
	// metaSubscription is the key in _meta of the id of a listen.
	metaSubscription = "io.modelcontextprotocol/subscriptionId"

	// ackWait bounds how long a stream that takes another's place is waited for.
	ackWait = 3 * time.Second
	// listenEvery is the least time between two streams because of what is wanted.
	listenEvery = 250 * time.Millisecond
)

// A listenConn is a connection to a modern server, which tells of changes on
// streams that are asked for.
type listenConn interface {
	// Listen asks for one and hands what comes on it to heard, which must not
	// block or keep params, until it ends: nil means that the server ended it.
	// Where ctx ends it with errReplaced as its cause, the server is given a
	// moment to end it too.
	Listen(ctx context.Context, params []byte, heard func(method string, params []byte)) error
}

var (
	errReplaced = errors.New("another stream takes its place")
	// errNeverListens is the answer of a server that has no such streams.
	errNeverListens = errors.New("the server has no subscriptions/listen")
)

// A refusal is an error that a server answers a listen with.
type refusal struct{ object []byte }

func (r *refusal) Error() string { return "refused" }

// listEvents are the notifications about lists, and the members that ask for them.
var listEvents = [3]struct{ capability, member, method string }{
	{"tools", "toolsListChanged", "notifications/tools/list_changed"},
	{"prompts", "promptsListChanged", "notifications/prompts/list_changed"},
	{"resources", "resourcesListChanged", "notifications/resources/list_changed"},
}

// A topic is what one stream is about.
type topic struct {
	lists [3]bool
	uris  []string // sorted
}

func (t *topic) empty() bool { return t.lists == [3]bool{} && len(t.uris) == 0 }

func (t *topic) equal(u *topic) bool { return t.lists == u.lists && slices.Equal(t.uris, u.uris) }

// has reports whether a notification is about the topic.
func (t *topic) has(method string, params []byte) bool {
	if method == updateMethod {
		raw, _ := wire.Get(params, "uri")
		uri, ok := wire.Unquote(raw)
		_, found := slices.BinarySearch(t.uris, uri)
		return ok && found
	}
	for i, e := range listEvents {
		if method == e.method {
			return t.lists[i]
		}
	}
	return false
}

// params asks for a stream about the topic.
func (t *topic) params() []byte {
	b := []byte(`{"notifications":{`)
	for i, e := range listEvents {
		if t.lists[i] {
			b = append(append(append(b, '"'), e.member...), `":true,`...)
		}
	}
	if len(t.uris) > 0 {
		b = append(b, `"resourceSubscriptions":[`...)
		for _, uri := range t.uris {
			b = append(wire.AppendQuote(b, uri), ',')
		}
		b = append(b[:len(b)-1], `],`...)
	}
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, `}}`...)
}

// A stream is one subscriptions/listen.
type stream struct {
	topic
	opened time.Time
	stop   context.CancelCauseFunc
	acked  chan struct{} // closed with the acknowledgement
	ended  chan struct{} // closed when it is over, for the reason in err
	err    error

	once    sync.Once
	granted []string // of uris, by the acknowledgement
	nothing bool     // that grants nothing at all
}

func (s *stream) acknowledged(params []byte) {
	s.once.Do(func() {
		n, _ := wire.Get(params, "notifications")
		s.nothing = true
		for _, e := range listEvents {
			if v, _ := wire.Get(n, e.member); string(v) == "true" {
				s.nothing = false
			}
		}
		list, _ := wire.Get(n, "resourceSubscriptions")
		wire.Elements(list, func(val []byte) bool {
			if uri, ok := wire.Unquote(val); ok {
				s.nothing = false
				if _, asked := slices.BinarySearch(s.uris, uri); asked && len(s.granted) < len(s.uris) {
					s.granted = append(s.granted, uri)
				}
			}
			return true
		})
		slices.Sort(s.granted)
		s.granted = slices.Compact(s.granted)
		close(s.acked)
	})
}

// grants reports whether the acknowledgement came and grants a resource.
func (s *stream) grants(uri string) bool {
	if !s.isAcked() {
		return false
	}
	_, ok := slices.BinarySearch(s.granted, uri)
	return ok
}

// isAcked reports whether the acknowledgement came; then what it grants may be read.
func (s *stream) isAcked() bool { return over(s.acked) }
