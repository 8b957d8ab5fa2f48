package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// probeTime bounds the question whether a server is a modern one. A legacy
// server may not answer it at all.
const probeTime = 3 * time.Second

// handshake finds the era and opens the first session. It returns the
// Keep-Alive header of the answer that counted.
func (c *httpConn) handshake(ctx context.Context, r *Resolved) (keepAlive string, err error) {
	switch {
	case r.Protocol == ModernOnly:
		return c.discover(ctx, c.settings.connectTimeout())
	case r.Protocol == LegacyOnly:
		return c.initialize(ctx)
	case r.EraHint != nil && *r.EraHint == Legacy:
		keepAlive, err = c.initialize(ctx)
		if err == nil || !answered(err) {
			return keepAlive, err
		}
	}
	return c.probe(ctx)
}

// probe asks in the modern way first. What a server answers that knows no modern
// request differs widely, so anything but a DiscoverResult leads to initialize.
func (c *httpConn) probe(ctx context.Context) (string, error) {
	keepAlive, err := c.discover(ctx, probeTime)
	for unsent(err) && ctx.Err() == nil { // the server was not asked: the way to it is slow
		keepAlive, err = c.discover(ctx, probeTime)
	}
	if err == nil || hopeless(ctx, err) {
		return keepAlive, err
	}
	keepAlive, lerr := c.initialize(ctx)
	if lerr == nil {
		return keepAlive, nil
	}
	if code := codeOf(err); answered(lerr) && modernOnly(code) {
		if code == wire.CodeUnsupportedVersion {
			return "", err
		}
		return "", c.assumeModern()
	}
	return "", lerr
}

// hopeless is true when initialize would meet the same end.
func hopeless(ctx context.Context, err error) bool {
	switch KindOf(err) {
	case Unauthorized, RateLimited, Closed, Proxy:
		return true
	case Unreachable:
		return !answered(err)
	}
	var to *redirectError
	return ctx.Err() != nil || errors.As(err, &to)
}

// codeOf is the JSON-RPC error code in a refusal, or zero.
func codeOf(err error) int {
	var s *statusError
	if errors.As(err, &s) && (s.code != wire.CodeMethodNotFound || s.status == http.StatusNotFound) {
		return s.code
	}
	return 0
}

// modernOnly is true for errors that only a modern server gives.
func modernOnly(code int) bool {
	switch code {
	case wire.CodeHeaderMismatch, wire.CodeMissingCapability, wire.CodeUnsupportedVersion, wire.CodeMethodNotFound:
		return true
	}
	return false
}

// assumeModern is for servers that know the era but not server/discover. They
// said nothing of their capabilities; tools are the likely ones.
func (c *httpConn) assumeModern() error {
	c.adopt(Info{Era: Modern, Version: VersionModern, Capabilities: []byte(`{"tools":{}}`)},
		c.newSession(Modern, VersionModern, ""))
	return nil
}

func (c *httpConn) adopt(in Info, s *session) {
	c.info = in
	c.info.HTTP = true
	c.session.Store(s)
}

// discover performs the modern handshake, which opens nothing.
func (c *httpConn) discover(ctx context.Context, limit time.Duration) (keepAlive string, err error) {
	if keepAlive, err = c.discoverOnce(ctx, limit); refusedVersion(err) {
		// The server wants to be asked in a version that it names: this one.
		keepAlive, err = c.discoverOnce(ctx, limit)
	}
	return keepAlive, err
}

func refusedVersion(err error) bool {
	var s *statusError
	return errors.As(err, &s) && s.again
}

func (c *httpConn) discoverOnce(ctx context.Context, limit time.Duration) (string, error) {
	c.meta = eraMeta(Modern, VersionModern, c.client)
	s := c.newSession(Modern, VersionModern, "")
	x := exchange{c: c, s: s, call: &Call{Method: "server/discover"}}
	resp, err := x.run(ctx, limit)
	if err != nil {
		return "", err
	}
	if resp.Error != nil {
		// The status is not kept on this way; only a 404 carries this answer.
		return "", x.fail(Protocol, x.refusal(x.status, rpcCode(resp.Error), resp.Error))
	}
	in, ok := discoverInfo(resp.Result)
	if !ok {
		return "", x.fail(Protocol, &statusError{text: "does not support protocol version " + VersionModern})
	}
	c.adopt(in, s)
	return x.head.Get("Keep-Alive"), nil
}

// initialize performs the legacy handshake for the connection.
func (c *httpConn) initialize(ctx context.Context) (string, error) {
	x := exchange{c: c, s: c.newSession(Legacy, "", ""), call: &Call{Method: "initialize", Params: initializeParams(c.client, c.env.offers)}}
	in, s, err := c.openSession(ctx, &x)
	if err != nil {
		return "", err
	}
	c.adopt(in, s)
	return x.head.Get("Keep-Alive"), nil
}

// openSession sends initialize and then, before anything else,
// notifications/initialized.
func (c *httpConn) openSession(ctx context.Context, x *exchange) (Info, *session, error) {
	resp, err := x.run(ctx, c.settings.connectTimeout())
	if err != nil {
		return Info{}, nil, x.notMCP(err)
	}
	if resp.Error != nil {
		return Info{}, nil, x.fail(Protocol, x.refusal(http.StatusOK, rpcCode(resp.Error), resp.Error))
	}
	in := initializeInfo(resp.Result)
	if in.Version == "" {
		return in, nil, x.fail(Protocol, fmt.Errorf("speaks none of our protocol versions (%s, %v)", VersionModern, legacyVersions))
	}
	id := x.head.Get(hdrSession)
	if !validSession(id) {
		return in, nil, x.fail(Protocol, fmt.Errorf("gave a session id that is not visible ASCII of up to %d bytes", maxSessionID))
	}
	s := c.newSession(Legacy, in.Version, id)
	return in, s, c.greet(ctx, s)
}

// greet ends the handshake. Where the server may ask at once, its stream for that
// is there before: questions that find none are lost.
func (c *httpConn) greet(ctx context.Context, s *session) error {
	s.early = newEarly(&c.env)
	s.early.begin()
	if s.early != nil {
		c.startListening(s)
		c.awaitListening(ctx, s)
	}
	err := c.initialized(ctx, s)
	if err != nil {
		c.stopListening(s)
	}
	return err
}

func (c *httpConn) initialized(ctx context.Context, s *session) error {
	const method = "notifications/initialized"
	rctx, cancel := c.scope(ctx, c.settings.connectTimeout())
	defer cancel()
	status, err := c.post(rctx, s, wire.AppendNotification(nil, method, nil))
	switch {
	case ctx.Err() != nil:
		return c.fail(method, kindOfEnd(ctx.Err()), ctx.Err())
	case err != nil:
		return c.fail(method, Unreachable, c.netText(err))
	}
	if status >= http.StatusBadRequest {
		// Some servers refuse the notification and work all the same.
		c.env.logger().Debug("notification refused", "server", c.server, "op", method, "status", status)
	}
	return nil
}

// notMCP says of a reply without any JSON-RPC in it what it most likely means.
func (x *exchange) notMCP(err error) error {
	var e *Error
	var s *statusError
	if errors.As(err, &e) && errors.As(err, &s) && e.Kind == Protocol && s.code == 0 {
		return x.fail(Protocol, fmt.Errorf("not an MCP endpoint? It %w", s))
	}
	return err
}
