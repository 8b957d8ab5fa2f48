package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func pemFile(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return secretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pkcs8File(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemFile(t, "PRIVATE KEY", der, err)
}

type signKeys struct {
	ec  *ecdsa.PrivateKey
	rsa *rsa.PrivateKey
	ed  ed25519.PrivateKey
}

func newSignKeys(t *testing.T) signKeys {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signKeys{ec, r, ed}
}

// verify checks a compact JWS with the public half of a key.
func verifyJWS(t *testing.T, jws, alg string, k signKeys) (head, body map[string]any) {
	t.Helper()
	parts := strings.Split(jws, ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	raw := make([][]byte, 3)
	for i, p := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			t.Fatal(err)
		}
	}
	data := []byte(parts[0] + "." + parts[1])
	sum := sha256.Sum256(data)
	ok := false
	switch alg {
	case "ES256":
		ok = len(raw[2]) == 64 && ecdsa.Verify(&k.ec.PublicKey, sum[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:]))
	case "RS256":
		ok = rsa.VerifyPKCS1v15(&k.rsa.PublicKey, crypto.SHA256, sum[:], raw[2]) == nil
	case "PS256":
		ok = rsa.VerifyPSS(&k.rsa.PublicKey, crypto.SHA256, sum[:], raw[2], &rsa.PSSOptions{SaltLength: 32}) == nil
	case "EdDSA":
		ok = ed25519.Verify(k.ed.Public().(ed25519.PublicKey), data, raw[2])
	}
	if !ok {
		t.Fatalf("%s: the signature is wrong", alg)
	}
	if json.Unmarshal(raw[0], &head) != nil || json.Unmarshal(raw[1], &body) != nil {
		t.Fatal("no JSON")
	}
	return head, body
}

func TestClientAssertion(t *testing.T) {
	k := newSignKeys(t)
	sec1, errEC := x509.MarshalECPrivateKey(k.ec)
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		name, alg string
		m         Proof
		offered   []string
	}{
		{"P-256", "ES256", Proof{KeyFile: pkcs8File(t, k.ec)}, nil},
		{"P-256 in SEC 1", "ES256", Proof{KeyFile: pemFile(t, "EC PRIVATE KEY", sec1, errEC)}, []string{"RS256"}},
		{"RSA", "RS256", Proof{KeyFile: pkcs8File(t, k.rsa), KeyID: "k1"}, nil},
		{"RSA in PKCS #1", "RS256", Proof{KeyFile: pemFile(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.rsa), nil)}, []string{"PS256", "RS256"}},
		{"RSA where PS256 is wanted", "PS256", Proof{KeyFile: pkcs8File(t, k.rsa)}, []string{"PS256", "ES256"}},
		{"RSA where PS256 is set", "PS256", Proof{KeyFile: pkcs8File(t, k.rsa), Algorithm: "PS256"}, []string{"RS256"}},
		{"Ed25519", "EdDSA", Proof{KeyFile: pkcs8File(t, k.ed), Audience: "https://as.example/token"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := providerAt("https://as.example")
			p.Meta.TokenEndpointAuthSigningAlgValuesSupported = tt.offered
			jws, err := clientAssertion(tt.m, p, "me", now)
			if err != nil {
				t.Fatal(err)
			}
			head, body := verifyJWS(t, jws, tt.alg, k)
			wantHead := map[string]any{"alg": tt.alg, "typ": "JWT"}
			if tt.m.KeyID != "" {
				wantHead["kid"] = tt.m.KeyID
			}
			aud := tt.m.Audience
			if aud == "" {
				aud = "https://as.example"
			}
			if id, _ := body["jti"].(string); len(id) < 20 {
				t.Errorf("jti %q can be guessed", id)
			}
			delete(body, "jti")
			wantBody := map[string]any{"iss": "me", "sub": "me", "aud": aud, "iat": 1.8e9, "exp": 1.8e9 + 120}
			if d := cmp.Diff([]any{wantHead, wantBody}, []any{head, body}); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestKeyFaults(t *testing.T) {
	k := newSignKeys(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const canary = "TUlJRW93SUJBQUtDQVFFQWNhbmFyeQ=="
	for _, tt := range []struct {
		name, want string
		m          Proof
	}{
		{"none", "private_key_jwt needs oauth.private_key_file or oauth.assertion_file", Proof{}},
		{"missing", "no such file", Proof{KeyFile: filepath.Join(t.TempDir(), "gone")}},
		{"no PEM", "no private key in PEM", Proof{KeyFile: secretFile(t, canary)}},
		{"certificate", "no private key in PEM", Proof{KeyFile: secretFile(t, "-----BEGIN CERTIFICATE-----\n"+canary+"\n-----END CERTIFICATE-----\n")}},
		{"garbage", "cannot be read; it has to be a plain, unencrypted key", Proof{KeyFile: secretFile(t, "-----BEGIN PRIVATE KEY-----\n"+canary+"\n-----END PRIVATE KEY-----\n")}},
		{"encrypted", "the ENCRYPTED PRIVATE KEY in it cannot be read", Proof{KeyFile: secretFile(t, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"+canary+"\n-----END ENCRYPTED PRIVATE KEY-----\n")}},
		{"P-384", "only P-256", Proof{KeyFile: pkcs8File(t, p384)}},
		{"wrong algorithm", `oauth.signing_algorithm "none" does not fit the key, which can do RS256 and PS256`, Proof{KeyFile: pkcs8File(t, k.rsa), Algorithm: "none"}},
		{"large", "more than 65536 bytes", Proof{KeyFile: secretFile(t, strings.Repeat("x", 70<<10))}},
		{"empty assertion", "one token of visible characters is expected", Proof{AssertionFile: secretFile(t, " \n")}},
		{"two assertions", "one token of visible characters is expected", Proof{AssertionFile: secretFile(t, canary+"\n"+canary)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := clientAssertion(tt.m, providerAt("https://as.example"), "me", time.Now())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), canary) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// The two ways of a ready assertion: as who the client is, and as the grant.
func TestAssertionFile(t *testing.T) {
	file := secretFile(t, "eyJ.workload.token\n")
	for _, tt := range []struct {
		grant string
		c     *Client
		want  url.Values
	}{
		{GrantClient, &Client{ID: "me", Kind: Configured}, url.Values{"grant_type": {"client_credentials"}, "client_id": {"me"},
			"client_assertion_type": {jwtBearerClient}, "client_assertion": {"eyJ.workload.token"}}},
		{GrantJWT, nil, url.Values{"grant_type": {jwtBearerGrant}, "assertion": {"eyJ.workload.token"}}},
		{GrantJWT, &Client{ID: "me", Kind: Configured}, url.Values{"grant_type": {jwtBearerGrant}, "assertion": {"eyJ.workload.token"}, "client_id": {"me"}}},
	} {
		var got url.Values
		s, p := tokensAt(t, func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			got = r.PostForm
			saysAlways(200, "", `{"access_token":"a"}`)(w, r)
		})
		prove(s, Proof{Grant: tt.grant, AssertionFile: file})
		if _, err := ClientCredentials(t.Context(), s, p, tt.c, ""); err != nil {
			t.Fatal(err)
		}
		tt.want.Set("resource", "https://mcp.example.com/mcp")
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.grant, d)
		}
	}
}
