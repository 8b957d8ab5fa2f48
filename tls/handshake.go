package tls

import (
	"context"
	"crypto/tls"
	"net"
)

// Handshake speaks TLS as a client on conn, to the host of that name or address,
// for connections that no http.Transport makes. It closes conn when it fails.
func Handshake(ctx context.Context, conn net.Conn, cfg *tls.Config, host string) (net.Conn, error) {
	cfg = cfg.Clone()
	cfg.ServerName = plainHost(host)
	c := tls.Client(conn, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}
