// Package tls turns file paths into *crypto/tls.Config. Everybody else passes
// the result on and needs no import of crypto/tls.
package tls

import (
	"crypto/tls"
	"fmt"
	"time"
)

// The keys of a server's settings that name files, as a [FileError] gives them.
const (
	keyVerify = "ssl_verify"
	keyCert   = "client_cert"
	keyKey    = "client_key"
)

// ClientConfig returns a new configuration for connections to servers: the
// system's roots, TLS 1.2 or newer.
func ClientConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// A Client says how one server is met over TLS. The zero value is the system's
// roots and no certificate. Paths are used as they are: whoever reads them from
// a configuration expands them first.
type Client struct {
	// CAFile is a PEM bundle that stands in place of the system's roots, never
	// beside them. If empty, the system's roots.
	CAFile string
	// SkipVerify takes any certificate of the server. It excludes CAFile.
	SkipVerify bool
	// CertFile is the client certificate with its chain in PEM, and its key when
	// KeyFile is empty. If empty, no client certificate.
	CertFile string
	// KeyFile is the key of CertFile's first certificate. If empty, it is in
	// CertFile.
	KeyFile string
	// Passphrase opens an encrypted key. For a plain one it is not used.
	Passphrase string
	// Told hears what goes wrong after Load has succeeded: files that cannot be
	// taken, so that the last good ones stay in use, and a client certificate
	// outside its time, which Load tells too. It is called once for each state, by
	// whoever is shaking hands, and never by two at once; it should return soon.
	// If nil, nobody hears.
	Told func(error)
}

// Load reads and checks every file now. Its error is a *FileError.
func (c Client) Load() (*Source, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Source{client: c, now: time.Now}
	if c.CAFile != "" {
		s.ca.files = []file{{keyVerify, c.CAFile}}
	}
	if c.CertFile != "" {
		s.cert.files = []file{{keyCert, c.CertFile}}
	}
	if c.KeyFile != "" {
		s.cert.files = append(s.cert.files, file{keyKey, c.KeyFile})
	}
	s.looked = s.now()
	if err := s.ca.load(s.takeRoots); err != nil {
		return nil, err
	}
	if err := s.cert.load(s.takePair); err != nil {
		return nil, err
	}
	s.tell(&s.dated, s.outOfDate())
	return s, nil
}

func (c Client) check() error {
	if c.KeyFile != "" && c.CertFile == "" {
		return &FileError{keyKey, c.KeyFile, fmt.Errorf("set, but %s is not", keyCert)}
	}
	if c.CAFile != "" && c.SkipVerify {
		return &FileError{keyVerify, c.CAFile, fmt.Errorf("a CA bundle, but verification is off")}
	}
	return nil
}

// String names the files; the passphrase is not in it.
func (c Client) String() string {
	return fmt.Sprintf("ca %q, skip %v, cert %q, key %q", c.CAFile, c.SkipVerify, c.CertFile, c.KeyFile)
}

// GoString is String, so that no verb prints the passphrase.
func (c Client) GoString() string { return c.String() }

// A FileError says what is wrong with one file of one server. Its text has
// neither a passphrase nor a byte of a key.
type FileError struct {
	Key  string // ssl_verify, client_cert or client_key
	Path string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("%s %q: %v", e.Key, e.Path, e.Err) }

func (e *FileError) Unwrap() error { return e.Err }
