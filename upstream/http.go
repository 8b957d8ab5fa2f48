package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
)

const (
	// courtesy bounds what we send only to be polite: the end of a session, that a
	// question is declined.
	courtesy = 2 * time.Second
	// maxLimit keeps sums and products of limits far from overflow.
	maxLimit = 1 << 30
	// streamFactor times the message limit is the limit of one call's stream.
	streamFactor = 64
)

var errClosed = errors.New("the connection was closed")

// An httpConn is one Streamable HTTP server of either era. There is no
// connection to lose: it stays alive until Close, and whether the server can be
// reached is for each call to find out.
type httpConn struct {
	server   string
	env      env
	settings *Settings
	scrub    func(string) string
	limit    int // bytes of one message

	transport *http.Transport
	route     egress.Route
	endpoint  atomic.Pointer[url.URL]
	host      string      // the Host header; empty for the URL's
	header    http.Header // what every request carries
	tokens    Tokens      // nil without OAuth
	sent      *recently   // of tokens
	sends     bool        // there are headers of the configuration's

	client  []byte // our clientInfo
	meta    []byte // see eraMeta
	info    Info
	session atomic.Pointer[session]
	ids     atomic.Int64
	// renewing holds one token while a lost session is opened again. It guards renewals.
	renewing chan struct{}
	renewals renewals

	// root is the parent of all requests, as in http.Server.BaseContext: values
	// of an agent's context never reach a request to a server.
	root func() context.Context
	stop context.CancelFunc
	// dials is the parent of all dialling. It ends last, since the end of a
	// session may need a connection too.
	dials     func() context.Context
	stopDials context.CancelFunc

	// askers are the calls that answer questions; see http_ask.go.
	askers askers
	// told is set when somebody was told that the server asks outside of calls.
	told atomic.Bool
	// asides bounds the background work, see http_aside.go, and replies that part
	// of it which servers wait for.
	asides  chan struct{}
	replies chan struct{}
	mu      sync.Mutex // guards closed, relisted and the adding to work
	closed  bool
	// relisted is when tools were listed anew because of their headers.
	relisted time.Time
	work     sync.WaitGroup
	done     chan struct{} // closed by Close
}

// dialStreamable finds the era of the server at r.URL and performs its handshake.
// ctx bounds the handshake only.
func dialStreamable(ctx context.Context, r *Resolved, e env) (conn, error) {
	c := newHTTPConn(r, e)
	ctx, cancel := context.WithTimeout(ctx, r.Settings.connectTimeout())
	defer cancel()
	keepAlive, err := c.handshake(ctx, r)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.keepIdle(r, keepAlive)
	s := c.session.Load()
	c.startListening(s)
	c.awaitListening(ctx, s)
	return c, nil
}

func newHTTPConn(r *Resolved, e env) *httpConn {
	root, stop := context.WithCancel(context.Background())
	dials, stopDials := context.WithCancel(context.Background())
	c := &httpConn{
		server:    r.Server,
		env:       e,
		settings:  r.Settings,
		scrub:     r.scrub,
		route:     r.route,
		limit:     min(r.Settings.maxMessage(), maxLimit),
		header:    baseHeader(r, &e),
		tokens:    r.tokens,
		sent:      r.sent,
		sends:     len(r.Header) > 0 || r.URL.User != nil,
		host:      r.Header.Get("Host"),
		client:    clientInfo(e.name(), e.version()),
		renewing:  make(chan struct{}, 1),
		root:      func() context.Context { return root },
		stop:      stop,
		dials:     func() context.Context { return dials },
		stopDials: stopDials,
		asides:    make(chan struct{}, 2*r.Settings.maxConcurrency()),
		replies:   make(chan struct{}, mostWaiting),
		done:      make(chan struct{}),
	}
	c.transport = newTransport(r, defaultIdle, c.dials)
	u := *r.URL
	u.User = nil // in the header by now
	c.endpoint.Store(&u)
	return c
}

// Info returns what the server said in the handshake.
func (c *httpConn) Info() *Info { return &c.info }

// Done is closed by Close and nothing else.
func (c *httpConn) Done() <-chan struct{} { return c.done }

// Err returns nil until Close was called.
func (c *httpConn) Err() error {
	select {
	case <-c.done:
		return c.fail("", Closed, errClosed)
	default:
		return nil
	}
}

// Ping asks for a sign of life. Any answer in the protocol is one, an error too.
func (c *httpConn) Ping(ctx context.Context) error {
	call := &Call{Method: "ping", Safe: true}
	if c.info.Era == Modern {
		call.Method = "server/discover"
	}
	_, err := c.Do(ctx, call)
	return err
}

// Close ends all calls, then the session, within the bound of a courtesy.
func (c *httpConn) Close() {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		<-c.done
		return
	}
	c.stop()
	c.work.Wait()
	c.endSession()
	c.stopDials()
	c.transport.CloseIdleConnections()
	close(c.done)
}

// endSession tells a legacy server that its session is over. Many servers do
// not support that; nobody waits for a good answer.
func (c *httpConn) endSession() {
	s := c.session.Load()
	if s == nil || s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), courtesy)
	defer cancel()
	resp, err := c.send(ctx, http.MethodDelete, nil, s.header("", ""))
	if err == nil {
		discard(resp.Body)
	}
}

func (c *httpConn) fail(op string, k Kind, err error) *Error {
	return &Error{Server: c.server, Op: op, Kind: k, Err: err}
}
