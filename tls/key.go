package tls

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// What is wrong with a key is said in these words only: the errors of the
// parsers may quote what they parsed.
var (
	errNoKey        = errors.New("there is no private key in it")
	errBadKey       = errors.New("the private key is of a kind that is not known, or malformed")
	errNoPassphrase = errors.New("the private key is encrypted, and no passphrase is set")
	errPassphrase   = errors.New("the passphrase does not open the private key")
	errEncryption   = errors.New("the private key is encrypted in a way that is not known: PBES2 with PBKDF2 and AES-CBC is")
)

// parseKey returns the private key among the PEM blocks of data.
func parseKey(data []byte, passphrase string) (crypto.Signer, error) {
	all, err := blocks(data)
	if err != nil {
		return nil, err
	}
	var found *pem.Block
	n := 0
	for _, b := range all {
		if strings.HasSuffix(b.Type, "PRIVATE KEY") {
			found, n = b, n+1
		}
	}
	switch n {
	case 0:
		return nil, errNoKey
	case 1:
		return openKey(found, passphrase)
	}
	return nil, fmt.Errorf("there are %d private keys in it", n)
}

func openKey(b *pem.Block, passphrase string) (crypto.Signer, error) {
	open, encrypted := opener(b)
	if !encrypted {
		return parseDER(b.Bytes)
	}
	if passphrase == "" {
		return nil, errNoPassphrase
	}
	der, err := open(b, []byte(passphrase))
	if err != nil {
		return nil, err
	}
	key, err := parseDER(der)
	if err != nil {
		return nil, errPassphrase // one wrong passphrase in some hundred gives well-padded noise
	}
	return key, nil
}

func opener(b *pem.Block) (open func(*pem.Block, []byte) ([]byte, error), encrypted bool) {
	switch {
	case b.Type == "ENCRYPTED PRIVATE KEY":
		return openPKCS8, true
	case b.Headers["DEK-Info"] != "":
		return openLegacy, true
	}
	return nil, false
}

// parseDER takes the three forms in which keys are written.
func parseDER(der []byte) (crypto.Signer, error) {
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if s, ok := k.(crypto.Signer); ok {
			return s, nil
		}
		return nil, errBadKey
	}
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k, nil
	}
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k, nil
	}
	return nil, errBadKey
}

// openLegacy opens what `openssl rsa -aes256` wrote before PKCS#8. Its integrity
// is weak, which is why the function is deprecated; the files are still there.
func openLegacy(b *pem.Block, passphrase []byte) ([]byte, error) {
	//lint:ignore SA1019 the form is insecure by design, but it is what people have
	der, err := x509.DecryptPEMBlock(b, passphrase)
	switch {
	case errors.Is(err, x509.IncorrectPasswordError):
		return nil, errPassphrase
	case err != nil:
		return nil, errEncryption
	}
	return der, nil
}
