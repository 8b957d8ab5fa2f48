package tls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often handshakes look at the files at most.
const lookEvery = time.Second

var errNoName = errors.New("the server is dialled by its address, and the configuration is not for one")

// A Source holds what one server's handshakes need and follows the files it came
// from. It may be used concurrently, and owns no goroutine: the handshakes
// themselves look.
type Source struct {
	client Client
	now    func() time.Time

	roots atomic.Pointer[x509.CertPool]   // nil: the system's
	pair  atomic.Pointer[tls.Certificate] // nil: none

	mu       sync.Mutex // held by the handshake that looks; no other waits for it
	looked   time.Time
	ca, cert watched
	caTold   notice
	certTold notice
	dated    notice
}

// Config returns a new configuration for the servers that are dialled by name.
// See [Source.ConfigFor].
func (s *Source) Config() *tls.Config { return s.ConfigFor("") }

// ConfigFor returns a new configuration for the server at host, the host of its
// URL. It follows the files at each handshake. It has no session cache, so that
// every handshake is a full one; with one that a caller adds, the server is
// verified all the same, but its session keeps the client certificate it began
// with.
//
// The host matters only if it is an IP address: crypto/tls does not tell a
// verifier the address, because it is never sent as a server name.
func (s *Source) ConfigFor(host string) *tls.Config {
	c := ClientConfig()
	c.InsecureSkipVerify = s.client.SkipVerify
	if s.client.CAFile != "" {
		// RootCAs cannot follow a file. VerifyConnection does what crypto/tls
		// does otherwise, and is called on resumption too.
		c.InsecureSkipVerify = true
		host = plainHost(host)
		c.VerifyConnection = func(cs tls.ConnectionState) error { return s.verify(cs, host) }
	}
	if s.client.CertFile != "" {
		c.GetClientCertificate = s.certificate
	}
	return c
}

// plainHost takes the brackets and the zone from an address, since no
// certificate has them.
func plainHost(host string) string {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if err != nil {
		return strings.TrimRight(host, ".")
	}
	return a.WithZone("").String()
}

// verify is the verification of crypto/tls with the roots of now.
func (s *Source) verify(cs tls.ConnectionState, host string) error {
	s.look()
	if cs.ServerName != "" {
		host = cs.ServerName // of this handshake, which may be with a proxy on the way
	}
	if host == "" {
		return errNoName // an empty name would mean: any
	}
	if len(cs.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	opts := x509.VerifyOptions{
		DNSName:       host,
		Roots:         s.roots.Load(),
		Intermediates: x509.NewCertPool(),
	}
	for _, c := range cs.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	if _, err := cs.PeerCertificates[0].Verify(opts); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
	}
	return nil
}

// certificate answers a server that wants one. What the server says about its
// authorities is not looked at: such lists are often incomplete, and a refusal by
// the server says more than a certificate that was not sent.
func (s *Source) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	s.look()
	return s.pair.Load(), nil
}

// Certificate returns when the client certificate in use expires; ok is false
// when there is none.
func (s *Source) Certificate() (notAfter time.Time, ok bool) {
	p := s.pair.Load()
	if p == nil {
		return time.Time{}, false
	}
	return p.Leaf.NotAfter, true
}

// look takes what has changed in the files, unless that was done a moment ago or
// is being done: a file system that hangs holds up one handshake, not all.
func (s *Source) look() {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.looked) < lookEvery {
		return
	}
	s.looked = now
	s.tell(&s.caTold, s.ca.load(s.takeRoots))
	s.tell(&s.certTold, s.cert.load(s.takePair))
	s.tell(&s.dated, s.outOfDate())
}

func (s *Source) takeRoots(data [][]byte) error {
	pool, err := parseRoots(data[0])
	if err != nil {
		return s.ca.files[0].fault(err)
	}
	s.roots.Store(pool)
	return nil
}

func (s *Source) takePair(data [][]byte) error {
	pair, err := parsePair(s.cert.files, data, s.client.Passphrase)
	if err != nil {
		return err
	}
	s.pair.Store(pair)
	return nil
}

// outOfDate says that the client certificate in use is outside its time. The
// server decides what follows from that, whose clock may be another.
func (s *Source) outOfDate() error {
	p := s.pair.Load()
	if p == nil {
		return nil
	}
	var err error
	switch now := s.now(); {
	case now.After(p.Leaf.NotAfter):
		err = fmt.Errorf("the certificate expired at %s", stamp(p.Leaf.NotAfter))
	case now.Before(p.Leaf.NotBefore):
		err = fmt.Errorf("the certificate is not valid before %s", stamp(p.Leaf.NotBefore))
	default:
		return nil
	}
	return s.cert.files[0].fault(err)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// A notice is the last thing that was told about one matter.
type notice string

func (s *Source) tell(n *notice, err error) {
	if err == nil {
		*n = ""
		return
	}
	text := notice(err.Error())
	if *n == text {
		return
	}
	*n = text
	if s.client.Told != nil {
		s.client.Told(err)
	}
}

// String names the files, so that no verb prints what they hold.
func (s *Source) String() string { return s.client.String() }

// GoString is String.
func (s *Source) GoString() string { return s.client.String() }
