package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// probeWait is how long server/discover may stay unanswered before initialize is
// sent after it: many servers say nothing to what comes before initialize.
const probeWait = 3 * time.Second

// errAfresh marks a handshake that failed in a way which a fresh process and
// initialize as its first message may cure.
var errAfresh = errors.New("the probe found no era")

// handshake finds the era and fills c.info. Nobody else uses c meanwhile.
func (c *lineConn) handshake(ctx context.Context, want Eras, hint *Era) error {
	switch {
	case want == ModernOnly:
		return c.modernOnly(ctx)
	case want == LegacyOnly:
		return c.initialize(ctx)
	case hint != nil && *hint == Legacy:
		return c.legacyFirst(ctx)
	}
	return c.probe(ctx)
}

func (c *lineConn) modernOnly(ctx context.Context) error {
	d, err := c.discover(ctx)
	if err != nil {
		return err
	}
	defer c.forget(d.id)
	a, err := c.hear(ctx, "server/discover", d.answer, nil)
	if err != nil {
		return err
	}
	if ok, err := c.adoptModern(a); ok || err != nil {
		return err
	}
	return c.refused("server/discover", a)
}

func (c *lineConn) initialize(ctx context.Context) error {
	p, err := c.begin(ctx, &Call{Method: "initialize", Params: initializeParams(c.client(), c.e.offers)}, nil)
	if err != nil {
		return err
	}
	defer c.over(p)
	a, err := c.hear(ctx, "initialize", p.answer, nil)
	if err != nil {
		return err
	}
	return c.adoptLegacy(ctx, a)
}

// legacyFirst is for a server that was legacy before. Should it have changed its
// era since, its error to initialize shows that.
func (c *lineConn) legacyFirst(ctx context.Context) error {
	err := c.initialize(ctx)
	if err == nil || c.Err() != nil || ctx.Err() != nil {
		return err
	}
	if c.modernOnly(ctx) == nil {
		return nil
	}
	return err
}

// probe asks for the modern era first, and takes whichever answer counts.
func (c *lineConn) probe(ctx context.Context) error {
	d, err := c.discover(ctx)
	if err != nil {
		return afresh(err)
	}
	defer c.forget(d.id)
	patience := time.NewTimer(probeWait)
	defer patience.Stop()
	a, err := c.hear(ctx, "server/discover", d.answer, patience.C)
	switch {
	case errors.Is(err, errExpired):
		return c.both(ctx, d)
	case err != nil:
		return afresh(err)
	}
	if ok, err := c.adoptModern(a); ok || err != nil {
		return err
	}
	return afresh(c.initialize(ctx))
}

// both waits for the answer to a probe that is late, and to initialize.
func (c *lineConn) both(ctx context.Context, d *pending) error {
	i, err := c.begin(ctx, &Call{Method: "initialize", Params: initializeParams(c.client(), c.e.offers)}, nil)
	if err != nil {
		return afresh(err)
	}
	defer c.forget(i.id)
	probe := d.answer
	for {
		select {
		case a := <-probe:
			if ok, err := c.adoptModern(a); ok || err != nil {
				return err
			}
			probe = nil // a refusal: initialize is on its way already
		case a := <-i.answer:
			return afresh(c.adoptLegacy(ctx, a))
		case <-ctx.Done():
			return c.silent(ctx, "initialize")
		case <-c.dead:
			return afresh(c.err)
		}
	}
}

func afresh(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(errAfresh, err)
}

func (c *lineConn) client() []byte { return clientInfo(c.e.name(), c.e.version()) }

func (c *lineConn) discover(ctx context.Context) (*pending, error) {
	return c.begin(ctx, &Call{Method: "server/discover"}, eraMeta(Modern, VersionModern, c.client()))
}

// begin sends a request of the handshake without waiting for its answer.
func (c *lineConn) begin(ctx context.Context, call *Call, meta []byte) (*pending, error) {
	p, err := c.register(call, &wait{ctx: ctx})
	if err != nil {
		return nil, err
	}
	buf := takeBuffer()
	*buf = appendRequest(*buf, p.id, call, meta)
	if _, err := c.request(&wait{ctx: ctx}, p, call.Method, buf); err != nil {
		c.forget(p.id)
		return nil, err
	}
	return p, nil
}

// hear waits for one answer of the handshake. Nothing is cancelled: the protocol
// forbids that for initialize.
func (c *lineConn) hear(ctx context.Context, method string, from <-chan answer, patience <-chan time.Time) (answer, error) {
	select {
	case a := <-from:
		return a, a.err
	case <-patience:
		return answer{}, errExpired
	case <-ctx.Done():
		return answer{}, c.silent(ctx, method)
	case <-c.dead:
		select {
		case a := <-from:
			return a, a.err
		default:
		}
		return answer{}, c.err
	}
}

func (c *lineConn) silent(ctx context.Context, method string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return &Error{Server: c.server, Op: method, Kind: Timeout, Err: fmt.Errorf("no answer: %v", context.Cause(ctx))}
}

// adoptModern reports whether an answer to server/discover settles it. An error
// means that the server is modern, but not in a version that we speak.
func (c *lineConn) adoptModern(a answer) (bool, error) {
	if a.err != nil {
		return false, nil
	}
	if info, ok := discoverInfo(a.msg.Result); ok {
		c.adopt(info)
		return true, nil
	}
	code, _, data := errorParts(a.msg.Err)
	if code != wire.CodeUnsupportedVersion {
		return false, nil
	}
	supported, _ := wire.Get(data, "supported")
	if holds(supported, VersionModern) {
		c.adopt(Info{Era: Modern, Version: VersionModern})
		return true, nil
	}
	if slices.ContainsFunc(legacyVersions, func(v string) bool { return holds(supported, v) }) || len(supported) == 0 {
		return false, nil
	}
	return false, &Error{Server: c.server, Op: "server/discover", Kind: Protocol,
		Err: fmt.Errorf("the server speaks only versions that this program does not: %s", clip(c.scrub(plain(string(supported)))))}
}

// adoptLegacy takes the answer to initialize and tells the server that we did.
func (c *lineConn) adoptLegacy(ctx context.Context, a answer) error {
	if a.err != nil {
		return withOp(a.err, "initialize")
	}
	if a.msg.Result == nil || wire.Kindof(a.msg.Result) != '{' {
		return c.refused("initialize", a)
	}
	info := initializeInfo(a.msg.Result)
	if info.Version == "" {
		raw, _ := wire.Get(a.msg.Result, "protocolVersion")
		return &Error{Server: c.server, Op: "initialize", Kind: Protocol,
			Err: fmt.Errorf("the server chose protocol version %s, which this program does not speak", clip(c.scrub(plain(string(raw)))))}
	}
	c.adopt(info)
	c.early.begin()
	buf := takeBuffer()
	*buf = wire.AppendNotification(*buf, "notifications/initialized", nil)
	_, err := c.write(&wait{ctx: ctx}, buf)
	return err
}

func (c *lineConn) adopt(info Info) {
	info.PID = c.info.PID
	c.info = info
	c.meta = eraMeta(info.Era, info.Version, c.client())
	c.modern.Store(info.Era == Modern)
}

// refused words an error that a server gave to a handshake.
func (c *lineConn) refused(method string, a answer) error {
	err := errors.New("the answer is not one to this request")
	if a.msg.Err != nil && string(a.msg.Err) != "null" {
		code, message, _ := errorParts(a.msg.Err)
		err = fmt.Errorf("refused with code %d: %s", code, clip(c.scrub(plain(message))))
	}
	return &Error{Server: c.server, Op: method, Kind: Protocol, Err: err}
}

// errorParts reads a JSON-RPC error object, as far as it is one.
func errorParts(raw []byte) (code int, message string, data []byte) {
	num, _ := wire.Get(raw, "code")
	code, _ = strconv.Atoi(string(num))
	text, _ := wire.Get(raw, "message")
	message, _ = wire.Unquote(text)
	data, _ = wire.Get(raw, "data")
	return code, message, data
}
