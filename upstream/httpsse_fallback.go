package upstream

import (
	"context"
	"errors"
	"fmt"
)

// A httpWay is how a server at a URL was reached before.
type httpWay uint32

// The ways. No server has an HTTP+SSE stream and a Streamable HTTP endpoint at one
// URL, so what worked once is what is tried first.
const (
	unknownWay httpWay = iota
	streamableWay
	sseWay
)

// wayOf is how a connection reached its server; unknown unless that is at a URL.
func wayOf(c conn) httpWay {
	switch c := c.(type) {
	case *httpConn:
		return streamableWay
	case *lineConn:
		if c.link != nil {
			return sseWay
		}
	}
	return unknownWay
}

// dialHTTP reaches the server at r.URL over the transport that is set. If none is,
// that is Streamable HTTP; a server that rejects it, and was never reached so, is
// asked for an HTTP+SSE stream, as the specification has it for older servers.
func dialHTTP(ctx context.Context, r *Resolved, e env) (conn, error) {
	if r.Settings.Transport == "sse" {
		return dialSSE(ctx, r, e)
	}
	if r.Settings.Transport != "" || r.Protocol == ModernOnly || r.Way == streamableWay {
		return dialStreamable(ctx, r, e)
	}
	first, second := dialStreamable, dialSSE
	if r.Way == sseWay {
		first, second = second, first
	}
	c, err := first(ctx, r, e)
	if err == nil || !rejected(err) || ctx.Err() != nil {
		return c, err
	}
	e.logger().Debug("the server rejects this transport, the other is tried", "server", r.Server, "err", err)
	c, other := second(ctx, r, e)
	if other != nil {
		return nil, bothFailed(r, err, other)
	}
	if r.Way == unknownWay {
		e.logger().Warn("the server speaks HTTP+SSE only, which is deprecated; transport: sse saves the attempt with another", "server", r.Server)
	}
	return c, nil
}

// rejected reports whether a handshake failed in the way that a server of the other
// transport lets it fail: by a status that is about the request. A server that is
// down, asks for a login or for patience, or says nothing, is none of that.
func rejected(err error) bool {
	var s *statusError
	return errors.As(err, &s) && KindOf(err) == Protocol && (s.sse || s.status >= 400 && s.status < 500)
}

// bothFailed tells of both attempts. The second decides the kind only if it found
// the stream, behind a login.
func bothFailed(r *Resolved, first, second error) error {
	e := &Error{Server: r.Server, Op: "connect", Kind: KindOf(first)}
	var s *Error
	if errors.As(second, &s) && (s.Kind == Unauthorized || s.Kind == RateLimited) {
		e.Kind, e.RetryAfter = s.Kind, s.RetryAfter
	}
	names := [2]string{"Streamable HTTP", "HTTP+SSE"}
	if r.Way == sseWay {
		names[0], names[1] = names[1], names[0]
	}
	e.Err = fmt.Errorf("%s: %w; %s: %v", names[0], bareReason(first), names[1], bareReason(second))
	return e
}
