package tls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// What handshakes really fail with leads to the key that mends it.
func TestWayOut(t *testing.T) {
	ca, other := mcptest.NewCA(t, "one"), mcptest.NewCA(t, "two")
	host := []string{"a.example"}
	good := ca.Issue(t, mcptest.Leaf{Hosts: host})
	early := time.Now().Add(time.Hour)
	trusting := func() *tls.Config { c := ClientConfig(); c.RootCAs = ca.Pool(); return c }
	carrying := func(p *mcptest.Pair) *tls.Config {
		c := trusting()
		c.Certificates = []tls.Certificate{p.TLS()}
		return c
	}
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, tt := range []struct {
			name   string
			server *tls.Config
			client *tls.Config
			set    Client
			want   string
		}{
			{"unknown authority", good.Server(), ClientConfig(), Client{}, "ssl_verify: /path/to/ca.pem"},
			{"other bundle", other.Issue(t, mcptest.Leaf{Hosts: host}).Server(), trusting(), Client{CAFile: "ca.pem"}, "the bundle of ssl_verify does not hold"},
			{"other host", ca.Issue(t, mcptest.Leaf{Hosts: []string{"b.example"}}).Server(), trusting(), Client{}, "write the name"},
			{"expired", ca.Issue(t, mcptest.Leaf{Hosts: host, From: early.Add(-9 * time.Hour), Until: early.Add(-2 * time.Hour)}).Server(), trusting(), Client{}, "has to renew it"},
			{"not yet", ca.Issue(t, mcptest.Leaf{Hosts: host, From: early, Until: early.Add(time.Hour)}).Server(), trusting(), Client{}, "for later"},
			{"no certificate", good.MutualServer(other), trusting(), Client{}, " want"},
			{"wrong certificate", good.MutualServer(other), carrying(good), Client{CertFile: "c.pem"}, " not take the certificate of client_cert"},
		} {
			tt.server.MinVersion, tt.server.MaxVersion = v, v
			err := shake(tt.server, tt.client)
			if got := WayOut(fmt.Errorf("post: %w", err), "ssl_verify", tt.set); err == nil || !strings.Contains(got, tt.want) {
				t.Errorf("%s, %s: %v: got %q, want %q", tt.name, tls.VersionName(v), err, got, tt.want)
			}
		}
	}
}

func TestWayOutOfTexts(t *testing.T) {
	remote := func(text string) error { return &net.OpError{Op: "remote error", Err: errors.New(text)} }
	for _, tt := range []struct {
		err  error
		set  Client
		want string
	}{
		{remote("tls: handshake failure"), Client{}, "the other side may want a client certificate: client_cert"},
		{remote("tls: handshake failure"), Client{CertFile: "c"}, "the other side may not take the certificate of client_cert"},
		{remote("tls: protocol version not supported"), Client{}, "the other side speaks no TLS 1.2 or newer, and older is never used"},
		{tls.RecordHeaderError{Msg: "x"}, Client{}, "no TLS is spoken there: write http:, or the port of https"},
		{&net.OpError{Op: "dial", Err: errors.New("tls: bad certificate")}, Client{}, ""},
		{io.EOF, Client{}, ""},
		{nil, Client{}, ""},
	} {
		if got := WayOut(tt.err, "ssl_verify", tt.set); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}

// shake has a client and a server shake hands, and the client read, because with TLS
// 1.3 it is told only then what the server thinks of its certificate.
func shake(server, client *tls.Config) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	done := make(chan struct{})
	go answer(l, server, done)
	defer func() { <-done }()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer raw.Close()
	client.ServerName = "a.example"
	c := tls.Client(raw, client)
	if err := c.Handshake(); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

func answer(l net.Listener, cfg *tls.Config, done chan<- struct{}) {
	defer close(done)
	raw, err := l.Accept()
	if err != nil {
		return
	}
	defer raw.Close()
	if tls.Server(raw, cfg).Handshake() == nil {
		return
	}
	_, _ = io.Copy(io.Discard, raw) // or a reset would overtake the alert
}
