package evil

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// quiet is for servers that are meant to have errors.
var quiet = log.New(io.Discard, "", 0)

// A secureFault is what a server does otherwise below HTTP. The zero value is a
// good certificate of the authority in ca.pem.
type secureFault struct {
	cert   func(*x509.Certificate) // changes the server's certificate before it is signed
	self   bool                    // it signs itself
	min    uint16                  // the oldest and
	max    uint16                  // the newest version of TLS; zero means Go's
	client bool                    // it wants a certificate of its authority
	raw    bool                    // no TLS at all
}

// secureFaults are those of TLS.
func secureFaults() []Fault {
	bad := func(id, says string, f secureFault) Fault {
		return Fault{ID: id, Says: says, Start: true, secure: f}
	}
	return of(TLS, HTTPS, []Fault{
		bad("T2a", "speaks TLS 1.1 and older only", secureFault{min: tls.VersionTLS10, max: tls.VersionTLS11}),
		bad("T2b", "speaks TLS 1.0 only", secureFault{min: tls.VersionTLS10, max: tls.VersionTLS10}),
		bad("T3", "wants a client certificate of its authority", secureFault{client: true}),
		bad("T6a", "has a certificate that expired", secureFault{cert: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }}),
		bad("T6b", "has a certificate that it signed itself", secureFault{self: true}),
		bad("T6c", "has a certificate for another host", secureFault{cert: func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere.example"} }}),
		bad("T6d", "has a certificate that is not valid yet", secureFault{cert: func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}}),
		bad("T6e", "has a good certificate of an authority that few know", secureFault{}),
		{ID: "T7a", Says: "stalls in the handshake", Start: true, serve: holds},
		{ID: "T7b", Says: "answers the handshake with garbage", Start: true, serve: garbles},
		{ID: "T7c", Says: "ends the handshake by an alert", Start: true, serve: alerts},
		{ID: "T7d", Says: "ends the connection in the handshake", Start: true, serve: hangsUp},
		bad("T7e", "speaks HTTP where TLS is due", secureFault{raw: true}),
		{ID: "T8", Says: "redirects from https to http", secure: secureFault{}, web: webFault{around: downgrade}},
	})
}

func garbles(_ *Server, c net.Conn) {
	io.ReadAtLeast(c, make([]byte, 64), 1)
	c.Write(make([]byte, 4096))
}

// alerts sends the alert handshake_failure.
func alerts(_ *Server, c net.Conn) {
	io.ReadAtLeast(c, make([]byte, 64), 1)
	c.Write([]byte{21, 3, 3, 0, 2, 2, 40})
}

func hangsUp(_ *Server, c net.Conn) { io.ReadAtLeast(c, make([]byte, 64), 1) }

func downgrade(s *Server, w http.ResponseWriter, r *http.Request) bool {
	_, ok := s.misbehaves(w, r)
	if ok {
		w.Header().Set("Location", s.other)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	return ok
}

// The files of an HTTPS server's authority, in the folder of its journal.
const (
	CAFile     = "ca.pem"
	ClientFile = "client.pem" // a certificate of the authority with its key
)

// dress wraps the listener as the fault has it.
func (s *Server) dress(l net.Listener) (net.Listener, error) {
	f := &s.Fault.secure
	if s.Fault.Transport != HTTPS || s.Fault.serve != nil || f.raw {
		return l, nil
	}
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	cert, err := ca.issue(f.cert, f.self)
	if err != nil {
		return nil, err
	}
	if err := ca.write(s.Journal.dir); err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: f.min, MaxVersion: f.max}
	if f.client {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		c.ClientCAs.AddCert(ca.cert)
	}
	return tls.NewListener(l, c), nil
}

// An authority signs certificates of one server.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("evil authority")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

// template is a certificate for loopback, valid today.
func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost", Behind},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issue makes a certificate, changed before it is signed; self has it sign itself.
func (a *authority) issue(change func(*x509.Certificate), self bool) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("evil server")
	if change != nil {
		change(t)
	}
	parent, signer := a.cert, a.key
	if self {
		parent, signer = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// write leaves what clients need, if there is a folder for it.
func (a *authority) write(dir string) error {
	if dir == "" {
		return nil
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	if err := os.WriteFile(filepath.Join(dir, CAFile), ca, 0o600); err != nil {
		return err
	}
	own, err := a.issue(nil, false)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		return err
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	return os.WriteFile(filepath.Join(dir, ClientFile), both, 0o600)
}
