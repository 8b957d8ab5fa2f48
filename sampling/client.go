package sampling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Options say where a Client asks.
type Options struct {
	// Endpoint returns a server's endpoint, with its references replaced. It is
	// called for every request.
	Endpoint func(server string) (policy.Endpoint, error)
	// Transport carries the requests. If nil, one of its own.
	Transport http.RoundTripper
	// Log gets warnings about key files. If nil, they are not given.
	Log *slog.Logger
}

// A Client asks chat completions endpoints. It may be used concurrently.
type Client struct {
	opt  Options
	http *http.Client

	mu     sync.Mutex
	warned map[string]bool // key files that others may read
}

// maxBody bounds an endpoint's answer.
const maxBody = 4 << 20

// longest bounds a request whose context has no end.
const longest = 10 * time.Minute

// New returns a client. It opens nothing.
func New(opt Options) *Client {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	rt := opt.Transport
	if rt == nil {
		rt = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		}
	}
	return &Client{opt: opt, warned: map[string]bool{}, http: &http.Client{
		Transport: rt, Timeout: longest,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key stays here
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// unfit is what the server that asks may be told: its request is one that the
// endpoint has no form for, or the model's answer one that MCP has none for.
func unfit(code int, format string, args ...any) error {
	return &wire.Error{Code: code, Message: "sampling: " + fmt.Sprintf(format, args...)}
}

// Sample answers the sampling/createMessage request params, which the limits have
// passed already, for as long as ctx lasts. The result is a raw CreateMessageResult
// with the tokens that it took under policy.UsageKey. An error that is a
// *wire.Error is for the server; any other is for the log alone. Neither holds the
// key.
func (c *Client) Sample(ctx context.Context, server string, params []byte) (result []byte, err error) {
	if c.opt.Endpoint == nil {
		return nil, errors.New("there is no chat endpoint")
	}
	e, err := c.opt.Endpoint(server)
	if err != nil {
		return nil, fmt.Errorf("chat endpoint: %w", err)
	}
	target, err := completions(e.URL)
	if err != nil {
		return nil, fmt.Errorf("chat endpoint: url: %w", err)
	}
	key, err := c.key(e.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("chat endpoint: %w", err)
	}
	req, err := request(params, e.Model)
	if err != nil {
		return nil, err
	}
	body, err := c.ask(ctx, target, key, req)
	if err != nil {
		return nil, fmt.Errorf("chat endpoint: %w", err)
	}
	result, err = answer(body, req)
	if no := (*noAnswer)(nil); errors.As(err, &no) {
		return nil, fmt.Errorf("chat endpoint: %w", no.detail(key))
	}
	return result, err
}

// completions is the URL to ask, from the base that settings name.
func completions(base string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	switch {
	case err != nil:
		return "", errors.New("invalid URL") // it may hold a secret
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("the scheme must be https or http")
	case u.Host == "":
		return "", errors.New("no host")
	}
	const path = "/chat/completions"
	if !strings.HasSuffix(u.Path, path) {
		u = u.JoinPath(path)
	}
	u.Fragment = ""
	return u.String(), nil
}

// ask sends req, and again where a model does not take one of its parameters: each
// is given up once.
func (c *Client) ask(ctx context.Context, target, key string, req *chat) ([]byte, error) {
	status, body, err := c.post(ctx, target, key, req)
	for err == nil && status == http.StatusBadRequest && req.yield(body) {
		status, body, err = c.post(ctx, target, key, req)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, scrub(err.Error(), key)
	case len(body) > maxBody:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxBody)
	case status >= 300 && status < 400:
		return nil, fmt.Errorf("status %d: redirects are not followed, so that the key stays here: name the address that it leads to", status)
	case status != http.StatusOK:
		return nil, fmt.Errorf("status %d: %w", status, scrub(string(body), key))
	}
	return body, nil
}

func (c *Client) post(ctx context.Context, target, key string, req *chat) (status int, body []byte, err error) {
	data, err := encode(req)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(data))
	if err != nil {
		return 0, nil, errors.New("invalid URL")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, whose query may be secret
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	return resp.StatusCode, body, err
}
