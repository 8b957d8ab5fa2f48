package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// assertionLife is how long a signed assertion is good for.
const assertionLife = 2 * time.Minute

// maxKeyFile bounds a key's or an assertion's file in bytes.
const maxKeyFile = 64 << 10

// clientAssertion proves who a client is (RFC 7523, 2.2).
func clientAssertion(m Proof, p *Provider, id string, now time.Time) (string, error) {
	if m.KeyFile == "" {
		if m.AssertionFile == "" {
			return "", errors.New("private_key_jwt needs oauth.private_key_file or oauth.assertion_file")
		}
		return readAssertion(m.AssertionFile)
	}
	key, err := readKey(m.KeyFile)
	if err != nil {
		return "", err
	}
	audience := m.Audience
	if audience == "" {
		audience = p.Issuer
	}
	alg, err := algorithm(m.Algorithm, key, p.Meta.TokenEndpointAuthSigningAlgValuesSupported)
	if err != nil {
		return "", fmt.Errorf("oauth.private_key_file %s: %w", m.KeyFile, err)
	}
	return sign(key, alg, m.KeyID, claims{
		Issuer: id, Subject: id, Audience: audience, ID: rand.Text(),
		Issued: now.Unix(), Expires: now.Add(assertionLife).Unix(),
	})
}

// claims are those of RFC 7523, 3.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	ID       string `json:"jti"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// sign makes a compact JWS (RFC 7515).
func sign(key crypto.Signer, alg, kid string, c claims) (string, error) {
	head, err := json.Marshal(struct {
		Alg string `json:"alg"`
		Typ string `json:"typ"`
		Kid string `json:"kid,omitempty"`
	}{alg, "JWT", kid})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	b64 := base64.RawURLEncoding
	signed := b64.EncodeToString(head) + "." + b64.EncodeToString(body)
	sig, err := signature(key, alg, []byte(signed))
	if err != nil {
		return "", fmt.Errorf("oauth.private_key_file: %s: %w", alg, err)
	}
	return signed + "." + b64.EncodeToString(sig), nil
}

func signature(key crypto.Signer, alg string, data []byte) ([]byte, error) {
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return ed25519.Sign(k, data), nil
	case *ecdsa.PrivateKey:
		return ecSignature(k, digest(data))
	case *rsa.PrivateKey:
		if alg == "PS256" {
			return rsa.SignPSS(rand.Reader, k, crypto.SHA256, digest(data), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		}
		return rsa.SignPKCS1v15(nil, k, crypto.SHA256, digest(data))
	}
	return nil, errors.ErrUnsupported
}

func digest(data []byte) []byte {
	h := crypto.SHA256.New()
	h.Write(data)
	return h.Sum(nil)
}

// ecSignature is both numbers at their full length (RFC 7518, 3.4), not ASN.1.
func ecSignature(k *ecdsa.PrivateKey, sum []byte) ([]byte, error) {
	r, s, err := ecdsa.Sign(rand.Reader, k, sum)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out, nil
}

// algorithm is the one to sign with: what is wished, or else what fits the key and
// the provider.
func algorithm(wish string, key crypto.Signer, offered []string) (string, error) {
	var fit []string
	switch k := key.(type) {
	case ed25519.PrivateKey:
		fit = []string{"EdDSA"}
	case *ecdsa.PrivateKey:
		if k.Curve.Params().BitSize != 256 {
			return "", errors.New("of elliptic curves only P-256 is supported")
		}
		fit = []string{"ES256"}
	case *rsa.PrivateKey:
		if k.N.BitLen() < 2048 {
			return "", fmt.Errorf("an RSA key of %d bits is too short, want 2048 or more", k.N.BitLen())
		}
		fit = []string{"RS256", "PS256"}
	default:
		return "", errors.New("its kind of key is not supported; use P-256, RSA or Ed25519")
	}
	if wish != "" {
		if !slices.Contains(fit, wish) {
			return "", fmt.Errorf("oauth.signing_algorithm %q does not fit the key, which can do %s", wish, strings.Join(fit, " and "))
		}
		return wish, nil
	}
	for _, a := range fit {
		if slices.Contains(offered, a) {
			return a, nil
		}
	}
	return fit[0], nil
}

// readKey reads a private key: PKCS #8, SEC 1 or PKCS #1.
func readKey(path string) (crypto.Signer, error) {
	raw, err := readSmall("oauth.private_key_file", path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		key, known := parseKey(block)
		switch signer, ok := key.(crypto.Signer); {
		case ok:
			return signer, nil
		case known:
			return nil, fmt.Errorf("oauth.private_key_file %s: the %s in it cannot be read; it has to be a plain, unencrypted key", path, block.Type)
		}
	}
	return nil, fmt.Errorf("oauth.private_key_file %s: no private key in PEM", path)
}

// parseKey also reports whether the block should have been a key. What x509 says of
// it is dropped: it may quote.
func parseKey(b *pem.Block) (key any, known bool) {
	switch b.Type {
	case "PRIVATE KEY":
		key, _ = x509.ParsePKCS8PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		if k, err := x509.ParseECPrivateKey(b.Bytes); err == nil {
			key = k
		}
	case "RSA PRIVATE KEY":
		if k, err := x509.ParsePKCS1PrivateKey(b.Bytes); err == nil {
			key = k
		}
	case "ENCRYPTED PRIVATE KEY":
	default:
		return nil, false
	}
	return key, true
}

// readAssertion reads a ready token from a file, which others replace.
func readAssertion(path string) (string, error) {
	if path == "" {
		return "", errors.New("oauth.assertion_file: not set, and this grant needs it")
	}
	raw, err := readSmall("oauth.assertion_file", path)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(raw))
	if s == "" || !visible(s) {
		return "", fmt.Errorf("oauth.assertion_file %s: one token of visible characters is expected", path)
	}
	return s, nil
}

// readSmall reads a file that a setting names. A pipe that nobody writes to must
// not hold us.
func readSmall(setting, path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(5 * time.Second))
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", setting, err)
	case len(raw) > maxKeyFile:
		return nil, fmt.Errorf("%s %s: more than %d bytes", setting, path, maxKeyFile)
	}
	return raw, nil
}
