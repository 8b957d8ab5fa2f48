package tls

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"hash"
)

// maxIterations is far above what tools choose, and some seconds of work.
const maxIterations = 10_000_000

// The forms of RFC 5958 section 3 and RFC 8018 appendix A.
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2 struct {
		Derivation, Scheme pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

const (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
)

// prfs are the pseudo-random functions by object identifier; the one that is
// left out is HMAC-SHA-1.
var prfs = map[string]func() hash.Hash{
	"":                    sha1.New,
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
	"1.2.840.113549.2.12": sha512.New512_224,
	"1.2.840.113549.2.13": sha512.New512_256,
}

type scheme struct {
	keySize int
	block   func(key []byte) (cipher.Block, error)
}

// schemes are the ciphers, all in CBC mode.
var schemes = map[string]scheme{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// openPKCS8 opens what `openssl pkcs8 -topk8` and `openssl genpkey` write. The
// standard library has all the parts but not the envelope.
func openPKCS8(b *pem.Block, passphrase []byte) ([]byte, error) {
	var ek encryptedKey
	var p pbes2
	if !exactly(b.Bytes, &ek) {
		return nil, errBadKey
	}
	if ek.Algorithm.Algorithm.String() != oidPBES2 || !exactly(ek.Algorithm.Parameters.FullBytes, &p) {
		return nil, errEncryption
	}
	sch, ok := schemes[p.Scheme.Algorithm.String()]
	var iv []byte
	if !ok || !exactly(p.Scheme.Parameters.FullBytes, &iv) {
		return nil, errEncryption
	}
	key, err := derive(p.Derivation, string(passphrase), sch.keySize)
	if err != nil {
		return nil, err
	}
	block, err := sch.block(key)
	if err != nil || len(iv) != block.BlockSize() {
		return nil, errEncryption
	}
	return decryptCBC(block, iv, ek.Data)
}

func derive(kdf pkix.AlgorithmIdentifier, passphrase string, size int) ([]byte, error) {
	var p pbkdf2Params
	if kdf.Algorithm.String() != oidPBKDF2 || !exactly(kdf.Parameters.FullBytes, &p) {
		return nil, errEncryption
	}
	prf, ok := prfs[p.PRF.Algorithm.String()]
	if !ok || p.Iterations < 1 {
		return nil, errEncryption
	}
	if p.Iterations > maxIterations {
		return nil, fmt.Errorf("the private key is encrypted with %d iterations, more than %d", p.Iterations, maxIterations)
	}
	key, err := pbkdf2.Key(prf, passphrase, p.Salt, p.Iterations, size)
	if err != nil {
		return nil, errEncryption
	}
	return key, nil
}

// decryptCBC decrypts and takes the padding off, which a wrong key nearly always
// leaves broken.
func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(data) == 0 || len(data)%size != 0 {
		return nil, errBadKey
	}
	out := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, data)
	pad := int(out[len(out)-1])
	if pad == 0 || pad > size {
		return nil, errPassphrase
	}
	body := out[:len(out)-pad]
	if !bytes.Equal(out[len(body):], bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errPassphrase
	}
	return body, nil
}

// exactly decodes der into v, with nothing left over.
func exactly(der []byte, v any) bool {
	rest, err := asn1.Unmarshal(der, v)
	return err == nil && len(rest) == 0
}
