package mcptest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A CA issues certificates that nobody outside a test trusts.
type CA struct {
	Cert  *x509.Certificate
	key   crypto.Signer
	chain []byte // PEM of what stands between its certificates and the root
}

// A Leaf says what a certificate is for. The zero value is a client's, valid
// since an hour ago and for an hour.
type Leaf struct {
	// Hosts are DNS names and IP addresses. If empty, the certificate names none.
	Hosts []string
	// From and Until bound its time. If zero, an hour ago and in an hour.
	From, Until time.Time
	// Key is the private key. If nil, a new P-256 key.
	Key crypto.Signer
}

// A Pair is a certificate and its key.
type Pair struct {
	X509 *x509.Certificate
	Cert []byte // PEM, the leaf first, then the intermediates
	Key  []byte // PEM, PKCS#8
	sign crypto.Signer
}

// NewCA returns a new authority.
func NewCA(t testing.TB, name string) *CA {
	c := &CA{key: newKey(t)}
	c.Cert = sign(t, authority(name), nil, c.key.Public(), c.key)
	return c
}

// Intermediate returns an authority below c. The certificates it issues come
// with its own.
func (c *CA) Intermediate(t testing.TB, name string) *CA {
	sub := &CA{key: newKey(t)}
	sub.Cert = sign(t, authority(name), c.Cert, sub.key.Public(), c.key)
	sub.chain = append(pemOf("CERTIFICATE", sub.Cert.Raw), c.chain...)
	return sub
}

// Issue returns a certificate for clients and servers.
func (c *CA) Issue(t testing.TB, l Leaf) *Pair {
	p := l.pair(t, c.Cert, c.key)
	p.Cert = append(p.Cert, c.chain...)
	return p
}

// SelfSigned returns a certificate that no authority stands behind.
func SelfSigned(t testing.TB, l Leaf) *Pair { return l.pair(t, nil, nil) }

// PEM is the authority's certificate.
func (c *CA) PEM() []byte { return pemOf("CERTIFICATE", c.Cert.Raw) }

// Pool holds the authority alone.
func (c *CA) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c.Cert)
	return p
}

// File writes the authority's certificate below dir and returns its path.
func (c *CA) File(t testing.TB, dir string) string {
	return writeFile(t, dir, "ca.crt", c.PEM())
}

// Server is the configuration of a server with this certificate.
func (p *Pair) Server() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{p.TLS()}} }

// MutualServer is that of a server that wants certificates of clients' authority.
func (p *Pair) MutualServer(clients *CA) *tls.Config {
	c := p.Server()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool()
	return c
}

// TLS is the pair as crypto/tls has it.
func (p *Pair) TLS() tls.Certificate {
	c := tls.Certificate{PrivateKey: p.sign, Leaf: p.X509}
	for rest := p.Cert; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return c
		}
		c.Certificate = append(c.Certificate, b.Bytes)
	}
}

// Combined is certificate and key in one PEM.
func (p *Pair) Combined() []byte { return append(p.Cert[:len(p.Cert):len(p.Cert)], p.Key...) }

// Files writes the pair below dir under the names of a Kubernetes secret.
func (p *Pair) Files(t testing.TB, dir string) (cert, key string) {
	return writeFile(t, dir, "tls.crt", p.Cert), writeFile(t, dir, "tls.key", p.Key)
}

func (l Leaf) pair(t testing.TB, parent *x509.Certificate, by crypto.Signer) *Pair {
	key := l.Key
	if key == nil {
		key = newKey(t)
	}
	if by == nil {
		by = key
	}
	cert := sign(t, l.template(), parent, key.Public(), by)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &Pair{X509: cert, Cert: pemOf("CERTIFICATE", cert.Raw), Key: pemOf("PRIVATE KEY", der), sign: key}
}

func (l Leaf) template() *x509.Certificate {
	c := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "leaf"},
		NotBefore:   l.From,
		NotAfter:    l.Until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	return c
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
}

// sign makes a certificate of a template; without a parent it signs itself.
func sign(t testing.TB, c, parent *x509.Certificate, pub crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.SerialNumber = serial(t)
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, pub, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func serial(t testing.TB) *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		t.Fatal(err)
	}
	return n.Add(n, big.NewInt(1))
}

func newKey(t testing.TB) crypto.Signer {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeFile puts a file in its place in one step, as whoever rotates
// certificates should.
func writeFile(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}
