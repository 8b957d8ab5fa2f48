package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"github.com/mcp-sidecar/mcp-sidecar/tls"
)

const (
	// proxyWait bounds everything from the first byte to the open tunnel.
	proxyWait = 30 * time.Second
	// maxReply bounds a proxy's answer to CONNECT.
	maxReply = 16 << 10
)

var (
	errReplySize = fmt.Errorf("the answer exceeds %d bytes", maxReply)
	errReplyForm = errors.New("the answer is not HTTP")
	errReplyEnd  = errors.New("the proxy closed the connection without an answer")
	errAddr      = errors.New("the address holds a blank or a control character")
	errEarly     = errors.New("bytes follow the answer that the server cannot have sent")
)

// reach connects to the proxy itself.
func (h *hop) reach(ctx context.Context, dial DialFunc) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, proxyWait)
	defer cancel()
	conn, err := h.connect(limited, dial)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return conn, nil
}

func (h *hop) connect(ctx context.Context, dial DialFunc) (net.Conn, error) {
	conn, err := dial(ctx, "tcp", h.addr)
	if err != nil || h.scheme != "https" {
		return conn, err
	}
	secure, err := tls.Handshake(ctx, conn, h.roots.ConfigFor(h.host), h.host)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

// tunnel opens a way through the proxy to addr. If early, the server may speak
// before we do; else bytes that follow the proxy's answer are a fault.
func (h *hop) tunnel(ctx context.Context, dial DialFunc, addr string, early bool) (net.Conn, error) {
	if strings.ContainsFunc(addr, notInAddr) {
		return nil, errAddr
	}
	limited, cancel := context.WithTimeout(ctx, proxyWait)
	defer cancel()
	conn, err := h.connect(limited, dial)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	through, err := h.within(limited, conn, addr, early)
	if err != nil {
		conn.Close()
		if refused := (*ProxyError)(nil); errors.As(err, &refused) {
			return nil, refused
		}
		return nil, h.fail(ctx, fmt.Errorf("tunnel to %s: %w", addr, err))
	}
	return through, nil
}

// notInAddr is what could end the line of a CONNECT.
func notInAddr(r rune) bool { return r <= ' ' || r == 0x7f }

// within asks for the tunnel; the end of ctx breaks what hangs.
func (h *hop) within(ctx context.Context, conn net.Conn, addr string, early bool) (net.Conn, error) {
	if h.scheme == "socks5" {
		return conn, h.socks(ctx, conn, addr)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	through, err := h.ask(conn, addr, early)
	if !stop() {
		return nil, ctx.Err()
	}
	return through, err
}

// ask sends CONNECT. It holds nothing but the target and the proxy's own
// credentials.
func (h *hop) ask(conn net.Conn, addr string, early bool) (net.Conn, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", addr, addr)
	if h.user != nil {
		pass, _ := h.user.Password()
		cred := base64.StdEncoding.EncodeToString([]byte(h.user.Username() + ":" + pass))
		fmt.Fprintf(&b, "Proxy-Authorization: Basic %s\r\n", cred)
	}
	b.WriteString("\r\n")
	if _, err := conn.Write(b.Bytes()); err != nil {
		return nil, err
	}
	rest, err := h.answer(conn, addr)
	switch {
	case err != nil:
		return nil, err
	case len(rest) == 0:
		return conn, nil
	case !early:
		return nil, errEarly
	}
	return &prefixed{Conn: conn, rest: rest}, nil
}

// answer reads the proxy's reply, and returns what was read beyond it.
func (h *hop) answer(conn net.Conn, addr string) ([]byte, error) {
	limit := &io.LimitedReader{R: conn, N: maxReply}
	r := bufio.NewReader(limit)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	switch {
	case err != nil && limit.N <= 0:
		return nil, errReplySize
	case err != nil:
		return nil, replyFault(err)
	case resp.StatusCode/100 != 2:
		return nil, h.refusal("tunnel to "+addr, resp.StatusCode)
	}
	return r.Peek(r.Buffered())
}

// replyFault keeps what the proxy wrote out of the error.
func replyFault(err error) error {
	var network net.Error
	switch {
	case errors.As(err, &network):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errReplyEnd
	}
	return errReplyForm
}

// A prefixed connection first yields what was read too early.
type prefixed struct {
	net.Conn
	rest []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// NetConn is the innermost connection, as tls.Conn has it.
func (p *prefixed) NetConn() net.Conn {
	if inner, ok := p.Conn.(interface{ NetConn() net.Conn }); ok {
		return inner.NetConn()
	}
	return p.Conn
}

// CloseWrite ends one direction, if the connection can.
func (p *prefixed) CloseWrite() error { return closeWrite(p.Conn) }

func closeWrite(c net.Conn) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// socks asks a SOCKS5 proxy, which resolves names itself.
func (h *hop) socks(ctx context.Context, conn net.Conn, addr string) error {
	var auth *proxy.Auth
	if h.user != nil {
		pass, _ := h.user.Password()
		auth = &proxy.Auth{User: h.user.Username(), Password: pass}
	}
	d, err := proxy.SOCKS5("tcp", h.addr, auth, nil)
	if err != nil {
		return err
	}
	_, err = d.(interface {
		DialWithConn(context.Context, net.Conn, string, string) (net.Addr, error)
	}).DialWithConn(ctx, conn, "tcp", addr)
	var op *net.OpError
	if !errors.As(err, &op) {
		return err
	}
	if answered, ok := strings.CutPrefix(op.Err.Error(), "unknown error "); ok {
		return errors.New("the proxy answers: " + answered) // one of a fixed set of words
	}
	return op.Err // without the addresses, which we name ourselves
}
