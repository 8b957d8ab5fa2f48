package tls

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const certType = "CERTIFICATE"

var (
	errEmpty  = errors.New("the file is empty")
	errNoPEM  = errors.New("there is no PEM block in it")
	errNoCert = errors.New("there is no certificate in it")
	pemBegin  = []byte("-----BEGIN ")
	pemEnd    = []byte("-----END ")
)

// blocks splits data into its PEM blocks. Text around them is allowed: bundles
// have titles there. A block that cannot be read is an error, where pem.Decode
// would go on to the next without a word.
func blocks(data []byte) ([]*pem.Block, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errEmpty
	}
	parts := bytes.Split(data, pemBegin)
	all := make([]*pem.Block, 0, len(parts))
	if bytes.Contains(parts[0], pemEnd) {
		return nil, malformed(1)
	}
	for i, part := range parts[1:] {
		b, rest := pem.Decode(append(pemBegin[:len(pemBegin):len(pemBegin)], part...))
		if b == nil || bytes.Contains(rest, pemEnd) {
			return nil, malformed(i + 1)
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return nil, errNoPEM
	}
	return all, nil
}

func malformed(n int) error { return fmt.Errorf("PEM block %d is malformed", n) }

// parseRoots takes all certificates of a bundle, or none: a bundle that lost one
// would trust less than it says, and an empty pool of crypto/tls more.
func parseRoots(data []byte) (*x509.CertPool, error) {
	all, err := blocks(data)
	if err != nil {
		return nil, err
	}
	for i, b := range all {
		if b.Type != certType {
			return nil, fmt.Errorf("PEM block %d is a %.40q, not a %q", i+1, b.Type, certType)
		}
	}
	certs, err := certificates(all)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}

// certificates parses the certificates among blocks.
func certificates(all []*pem.Block) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for i, b := range all {
		if b.Type != certType {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d: %w", i+1, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errNoCert
	}
	return certs, nil
}

// parsePair makes a client certificate of one file or two.
func parsePair(files []file, data [][]byte, passphrase string) (*tls.Certificate, error) {
	first, last := files[0], files[len(files)-1]
	certs, err := parseChain(data[0])
	if err != nil {
		return nil, first.fault(err)
	}
	key, err := parseKey(data[len(data)-1], passphrase)
	if errors.Is(err, errNoKey) && len(files) == 1 {
		err = fmt.Errorf("%w, and %s is not set", err, keyKey)
	}
	if err != nil {
		return nil, last.fault(err)
	}
	if !belongs(key, certs[0]) {
		return nil, last.fault(fmt.Errorf("the private key is not that of the first certificate in %q", first.path))
	}
	pair := &tls.Certificate{PrivateKey: key, Leaf: certs[0]}
	for _, c := range certs {
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return pair, nil
}

func parseChain(data []byte) ([]*x509.Certificate, error) {
	all, err := blocks(data)
	if err != nil {
		return nil, err
	}
	return certificates(all)
}

func belongs(key crypto.Signer, cert *x509.Certificate) bool {
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(cert.PublicKey)
}
