package egress

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/elazarl/goproxy"
	"golang.org/x/sync/errgroup"
)

const (
	// childIdle is how long a connection may carry nothing.
	childIdle = 10 * time.Minute
	// childDial bounds the dialling of one address.
	childDial = 10 * time.Second
)

var errEnded = errors.New("egress: the children's proxy has ended")

// Children is a forward proxy on loopback for the processes of stdio servers.
// Each child has its own credentials and its own allow list, and reaches nothing
// else. It holds only children that use it: the variables are a request, and a
// child that ignores them is stopped by the network's own rules alone.
type Children struct {
	e     *Egress
	log   *slog.Logger
	dial  DialFunc
	idle  time.Duration
	proxy *goproxy.ProxyHttpServer
	open  registry

	screen screener

	mu       sync.Mutex
	listener net.Listener
	opened   chan struct{} // closed by listen
	ended    bool
	byUser   map[string]*child
	counts   map[string]*counter
}

// NewChildren returns the proxy; it starts with the first Open and while Run
// runs. If log is nil, nothing is logged.
func (e *Egress) NewChildren(log *slog.Logger) *Children {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Children{
		e:      e,
		log:    log,
		dial:   (&net.Dialer{Timeout: childDial}).DialContext,
		idle:   childIdle,
		open:   registry{patience: strangerTime},
		opened: make(chan struct{}),
		byUser: map[string]*child{},
		counts: map[string]*counter{},
		screen: screener{lookup: e.lookup},
	}
	c.proxy = c.newProxy()
	return c
}

// Run serves until ctx ends, and returns when no connection and no handler is
// left. It must be called once.
func (c *Children) Run(ctx context.Context) error {
	defer c.end()
	select {
	case <-ctx.Done():
		return nil
	case <-c.opened:
	}
	g, ctx := errgroup.WithContext(ctx)
	srv := c.newServer(ctx)
	g.Go(func() error { return c.serve(ctx, srv) })
	g.Go(func() error { return c.reap(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
	return g.Wait()
}

func (c *Children) serve(ctx context.Context, srv *http.Server) error {
	err := srv.Serve(&listener{c.listener, &c.open})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("egress: the children's proxy: %w", err)
}

// reap closes what has been silent for too long.
func (c *Children) reap(ctx context.Context) error {
	tick := time.NewTicker(c.idle / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			c.open.closeIdle(now.Add(-c.idle))
		}
	}
}

func (c *Children) end() {
	c.mu.Lock()
	c.ended = true
	all := c.byUser
	c.byUser = map[string]*child{}
	if c.listener != nil {
		c.listener.Close()
	}
	c.mu.Unlock()
	for _, ch := range all {
		ch.close()
	}
	c.open.end()
}

// Open returns the variables that send one child of a server through the proxy,
// with credentials that hold until close is called. close ends what the child
// has open.
func (c *Children) Open(server string, rules Server) (environ []string, close func(), err error) {
	f, err := compileFence(rules.Allow)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.e.override(rules.Proxy); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	addr, err := c.listen()
	if err != nil {
		return nil, nil, err
	}
	user, pass := rand.Text(), rand.Text()
	ch := c.newChild(server, pass, f, &rules)
	c.byUser[user] = ch
	u := url.URL{Scheme: "http", User: url.UserPassword(user, pass), Host: addr}
	return variables(u.String()), func() { c.shut(user) }, nil
}

// listen opens the port when the first child needs it.
func (c *Children) listen() (string, error) {
	if c.ended {
		return "", errEnded
	}
	if c.listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			l, err = net.Listen("tcp", "[::1]:0")
		}
		if err != nil {
			return "", fmt.Errorf("egress: the children's proxy: %w", err)
		}
		c.listener = l
		close(c.opened)
	}
	return c.listener.Addr().String(), nil
}

// variables are what programs read, in both casings. The child's own loopback
// stays direct, as ours does. Node asks for a variable of its own.
func variables(proxy string) []string {
	const own = "localhost,127.0.0.1,::1"
	return []string{
		"HTTP_PROXY=" + proxy, "http_proxy=" + proxy,
		"HTTPS_PROXY=" + proxy, "https_proxy=" + proxy,
		"ALL_PROXY=" + proxy, "all_proxy=" + proxy,
		"NO_PROXY=" + own, "no_proxy=" + own,
		"NODE_USE_ENV_PROXY=1",
	}
}

func (c *Children) shut(user string) {
	c.mu.Lock()
	ch := c.byUser[user]
	delete(c.byUser, user)
	c.mu.Unlock()
	if ch != nil {
		ch.close()
	}
}

// who is the child that a request comes from, or nil.
func (c *Children) who(r *http.Request) *child {
	user, pass, ok := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	if !ok {
		return nil
	}
	c.mu.Lock()
	ch := c.byUser[user]
	c.mu.Unlock()
	if ch == nil || subtle.ConstantTimeCompare([]byte(pass), []byte(ch.pass)) != 1 {
		return nil
	}
	return ch
}
