package tls

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"
)

func TestHandshake(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	cfg := ClientConfig()
	cfg.RootCAs = x509.NewCertPool()
	cfg.RootCAs.AddCert(srv.Certificate())
	for host, ok := range map[string]bool{"example.com": true, "example.com.": true, "127.0.0.1": true, "other.test": false, "": false} {
		raw, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := Handshake(t.Context(), raw, cfg, host)
		if (err == nil) != ok {
			t.Errorf("%q: got %v", host, err)
		}
		if err == nil {
			conn.Close()
		} else if _, err := raw.Write([]byte("x")); err == nil {
			t.Errorf("%q: the connection is still open", host)
		}
	}
	if cfg.ServerName != "" {
		t.Error("the configuration was changed")
	}
}

func TestHandshakeEnds(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go io.Copy(io.Discard, far) // a peer that never answers
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Handshake(ctx, near, ClientConfig(), "example.com"); err == nil {
		t.Error("no error")
	}
}
