package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/mcp-sidecar/mcp-sidecar/egress"
	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

// RouteTo is how a connection leaves to something that the server points to, such as
// its authorization server: through the proxy that the server's own settings name.
func (r *Resolved) RouteTo(e *egress.Egress, u *url.URL) (egress.Route, error) {
	if e == nil {
		return egress.Route{}, nil
	}
	return e.Route(u, r.Settings.Egress.Proxy)
}

// Trust is how TLS is spoken there: with the CA and the client certificate of the
// server's settings; nil when they name none. It is there once Tokens is asked for.
func (r *Resolved) Trust() *tls.Source { return r.tls }

// Unauthorized asks a server something without a token, to learn what it wants: the
// status, and the headers of its answer. e is how connections leave.
func (r *Resolved) Unauthorized(ctx context.Context, e *egress.Egress) (status int, h http.Header, err error) {
	if r.URL == nil {
		return 0, nil, &Error{Server: r.Server, Kind: Config, Err: errors.New("has no url, so there is nothing to log in to")}
	}
	if err := r.leave(e, nil); err != nil {
		return 0, nil, err
	}
	c := newHTTPConn(r, env{})
	defer c.Close()
	params := initializeParams(clientInfo("mcp-sidecar", ""), nil)
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":%s}`, params)
	resp, err := c.transmit(ctx, http.MethodPost, body, c.newSession(Legacy, "", "").header("initialize", ""))
	if err != nil {
		return 0, nil, &Error{Server: r.Server, Kind: Unreachable, Err: c.netText(err)}
	}
	discard(resp.Body)
	return resp.StatusCode, resp.Header, nil
}
