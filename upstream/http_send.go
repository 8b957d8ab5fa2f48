package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

const (
	// maxRedirects is how many redirects of one request are followed.
	maxRedirects = 3
	// maxLocation bounds path and query of where they lead. A server could make
	// them longer with each permanent redirect.
	maxLocation = 4 << 10
)

// A redirectError is a redirect that was not followed.
type redirectError struct{ text string }

func (e *redirectError) Error() string { return e.text }

// transmit sends one request and follows redirects within the origin. It uses the
// transport without an http.Client: no cookies are kept, no URL gets into errors,
// and headers need no copy. The transport may read body until the reply has ended.
func (c *httpConn) transmit(ctx context.Context, method string, body []byte, h http.Header) (*http.Response, error) {
	at := c.endpoint.Load()
	for hop := 0; ; hop++ {
		resp, err := c.transport.RoundTrip(c.request(ctx, method, at, body, h))
		if err == nil {
			if err = c.route.Refused(resp); err != nil {
				discard(resp.Body)
				return nil, err
			}
		}
		if err != nil || !isRedirect(resp.StatusCode) {
			return resp, err
		}
		discard(resp.Body)
		to, err := c.redirect(at, resp, method)
		if err != nil {
			return nil, err
		}
		if hop == maxRedirects {
			return nil, &redirectError{fmt.Sprintf("redirects more than %d times", maxRedirects)}
		}
		if resp.StatusCode == http.StatusPermanentRedirect || onlySecures(at, to) {
			c.endpoint.CompareAndSwap(at, to)
		}
		at = to
	}
}

// request builds a request. GetBody lets net/http send a POST again on another
// connection; over HTTP/1.1 it does so only if it wrote no byte of the first.
// The body is of a type that net/http knows: head and body then leave in one write.
func (c *httpConn) request(ctx context.Context, method string, at *url.URL, body []byte, h http.Header) *http.Request {
	req := http.Request{
		Method: method, URL: at, Host: c.host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if body != nil {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(body))
	}
	return req.WithContext(ctx)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirect decides whether a redirect may be followed: the same method to the same
// origin, or from http to https on the same host. The others would carry our headers
// to a stranger, or turn a POST into a GET.
func (c *httpConn) redirect(at *url.URL, resp *http.Response, method string) (*url.URL, error) {
	to, err := at.Parse(resp.Header.Get("Location"))
	if err != nil || to.Host == "" || len(to.Path)+len(to.RawQuery) > maxLocation {
		return nil, &redirectError{fmt.Sprintf("answered %d without a usable Location", resp.StatusCode)}
	}
	keeps := resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect
	if !keeps && method != http.MethodGet || origin(to) != origin(at) && !secures(at, to) {
		text := fmt.Sprintf("redirects (%d) to %s, which is not followed: if that is right, set url to it",
			resp.StatusCode, c.text(bareURL(to), snippet))
		return nil, &redirectError{text}
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return to, nil
}

// secures reports whether to is where from is, with https in place of http: on the
// two default ports, or on one that both name.
func secures(from, to *url.URL) bool {
	if !strings.EqualFold(from.Scheme, "http") || !strings.EqualFold(to.Scheme, "https") ||
		!strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	was, is := from.Port(), to.Port()
	return (was == "" || was == "80") && (is == "" || is == "443") || was != "" && was == is
}

// onlySecures reports whether nothing else differs. That is remembered whatever the
// status, so that headers leave in the clear once and not with each request.
func onlySecures(from, to *url.URL) bool {
	return secures(from, to) && from.EscapedPath() == to.EscapedPath() && from.RawQuery == to.RawQuery
}

// origin is scheme, host and port in a form that can be compared.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	switch {
	case port != "":
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// bareURL is a URL without what may be secret in it: user, query and fragment.
func bareURL(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return bare.String()
}

var userinfo = regexp.MustCompile(`//[^/@\s"]*@`)

// netText is the text of an error of net/http, without URLs that could hold
// secrets, and bounded: it can quote what the server sent.
func (c *httpConn) netText(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	s := err.Error()
	s = s[:min(len(s), maxText)]
	clean := c.text(userinfo.ReplaceAllString(s, "//"), 300)
	if clean != err.Error() {
		return errors.New(strings.TrimSuffix(clean+": "+c.wayOut(err), ": "))
	}
	if way := c.wayOut(err); way != "" {
		return fmt.Errorf("%w: %s", err, way)
	}
	return err
}

// wayOut says what mends a connection that failed for TLS, the server's or that of
// the proxy on the way; else nothing.
func (c *httpConn) wayOut(err error) string {
	if isProxys(err) {
		return tls.WayOut(err, "egress.ca_file", tls.Client{})
	}
	set := tls.Client{CAFile: c.settings.SSLVerify.CAFile}
	if len(c.settings.ClientCert) > 0 {
		set.CertFile = c.settings.ClientCert[0]
	}
	return tls.WayOut(err, "ssl_verify", set)
}

// maxText is what text looks at.
const maxText = 4 << 10

// text makes what a server sent fit for an error: one line, valid, scrubbed, short.
// Secrets go first: what changes or cuts the text could hide them from us.
func (c *httpConn) text(s string, most int) string {
	s = strings.ToValidUTF8(c.scrub(s[:min(len(s), maxText)]), "?")
	s = strings.Join(strings.FieldsFunc(s, unprintable), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }
