package egress

import (
	"context"
	"errors"
	"net/http"
	"strconv"
)

// ProxyError is a failure of the proxy on the way, not of the server behind it.
type ProxyError struct {
	// Proxy is the proxy's URL without credentials.
	Proxy string
	// Status is the HTTP status that the proxy refused with. If zero, there was none.
	Status int
	Err    error
}

func (e *ProxyError) Error() string { return "proxy " + e.Proxy + ": " + e.Err.Error() }

func (e *ProxyError) Unwrap() error { return e.Err }

// fail names the proxy, unless it was the caller who gave up.
func (h *hop) fail(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return &ProxyError{Proxy: h.name, Err: err}
}

// refusal is the proxy's answer in place of a connection. Its own words stay
// out: they come from outside, and the status says enough.
func (h *hop) refusal(op string, status int) *ProxyError {
	msg := op + ": " + strconv.Itoa(status)
	if text := http.StatusText(status); text != "" {
		msg += " " + text
	}
	if status == http.StatusProxyAuthRequired {
		if h.user == nil {
			msg += " (the proxy's URL has no credentials)"
		} else {
			msg += " (the proxy does not accept the credentials in its URL)"
		}
	}
	return &ProxyError{Proxy: h.name, Status: status, Err: errors.New(msg)}
}
