package tls

import (
	"bytes"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crypto/x509/pkix"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// The keys of testdata are one P-256 key and one RSA key as OpenSSL 3 writes
// them, with this passphrase where they are encrypted. They guard nothing.
const passphrase = "hunter2"

func data(name string) string { return filepath.Join("testdata", name) }

func TestKeys(t *testing.T) {
	tests := []struct{ cert, key string }{
		{"cert.pem", "plain.pem"}, // with EC PARAMETERS in front
		{"cert.pem", "pbes2.pem"},
		{"cert.pem", "pbes2-3des-sha512.pem"},
		{"cert.pem", "pbes2-aes128-sha1.pem"},
		{"cert.pem", "legacy.pem"},
		{"rsa-cert.pem", "rsa-pkcs1.pem"},
		{"rsa-cert.pem", "rsa-legacy.pem"},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			c := Client{CertFile: data(tt.cert), KeyFile: data(tt.key), Passphrase: passphrase}
			if _, err := c.Load(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	ca := mcptest.NewCA(t, "ours")
	pair, other := ca.Issue(t, mcptest.Leaf{}), ca.Issue(t, mcptest.Leaf{})
	cert, key := pair.Files(t, dir)
	third := bytes.Join([][]byte{ca.PEM(), ca.PEM(), ca.PEM()}, nil)
	second := len(ca.PEM()) + 60
	file := func(name string, b []byte) string { return write(t, dir, name, b) }
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		client Client
		want   string
	}{
		{"CA missing", Client{CAFile: dir + "/no.pem"}, `ssl_verify "DIR/no.pem": no such file or directory`},
		{"CA empty", Client{CAFile: file("empty", nil)}, `ssl_verify "DIR/empty": the file is empty`},
		{"CA blank", Client{CAFile: file("blank", []byte(" \n"))}, `ssl_verify "DIR/blank": the file is empty`},
		{"CA is a directory", Client{CAFile: dir}, `ssl_verify "DIR": not a regular file`},
		{"CA is a pipe", Client{CAFile: dir + "/pipe"}, `ssl_verify "DIR/pipe": not a regular file`},
		{"CA is a loop", Client{CAFile: dir + "/loop"}, `ssl_verify "DIR/loop": too many levels of symbolic links`},
		{"CA is DER", Client{CAFile: file("der", ca.Cert.Raw)}, `ssl_verify "DIR/der": there is no PEM block in it`},
		{"CA is huge", Client{CAFile: file("huge", make([]byte, maxFile+1))}, `ssl_verify "DIR/huge": larger than 1048576 bytes`},
		{"CA: one of three has a foreign byte", Client{CAFile: file("c1", replaced(third, second, '*'))}, `ssl_verify "DIR/c1": PEM block 2 is malformed`},
		{"CA: one of three has a wrong bit", Client{CAFile: file("c2", bytes.Join([][]byte{ca.PEM(), block(certType, ca.Cert.Raw[:99]), ca.PEM()}, nil))}, `ssl_verify "DIR/c2": PEM block 2: x509: malformed certificate`},
		{"CA: one of three has a bad end", Client{CAFile: file("c3", bytes.Replace(third, []byte("-----END "), []byte("----END "), 1))}, `ssl_verify "DIR/c3": PEM block 1 is malformed`},
		{"CA: one of three has a bad beginning", Client{CAFile: file("c4", bytes.Replace(third, []byte("-----BEGIN "), []byte("----BEGIN "), 1))}, `ssl_verify "DIR/c4": PEM block 1 is malformed`},
		{"CA: half of the last", Client{CAFile: file("c5", third[:len(third)-90])}, `ssl_verify "DIR/c5": PEM block 3 is malformed`},
		{"CA: a key", Client{CAFile: file("c6", append(ca.PEM(), pair.Key...))}, `ssl_verify "DIR/c6": PEM block 2 is a "PRIVATE KEY", not a "CERTIFICATE"`},
		{"CA and no verification", Client{CAFile: cert, SkipVerify: true}, `ssl_verify "DIR/tls.crt": a CA bundle, but verification is off`},

		{"certificate missing", Client{CertFile: dir + "/no.pem"}, `client_cert "DIR/no.pem": no such file or directory`},
		{"certificate empty", Client{CertFile: dir + "/empty", KeyFile: key}, `client_cert "DIR/empty": the file is empty`},
		{"certificate is a directory", Client{CertFile: dir, KeyFile: key}, `client_cert "DIR": not a regular file`},
		{"certificate is huge", Client{CertFile: dir + "/huge"}, `client_cert "DIR/huge": larger than 1048576 bytes`},
		{"certificate without a key", Client{CertFile: cert}, `client_cert "DIR/tls.crt": there is no private key in it, and client_key is not set`},
		{"certificate file has the key alone", Client{CertFile: key}, `client_cert "DIR/tls.key": there is no certificate in it`},
		{"certificate: half a chain", Client{CertFile: file("half", append(ca.PEM(), ca.PEM()[:200]...)), KeyFile: key}, `client_cert "DIR/half": PEM block 2 is malformed`},
		{"certificate is a key", Client{CertFile: file("odd", append(block(certType, []byte("x")), pair.Key...))}, `client_cert "DIR/odd": PEM block 1: x509: malformed certificate`},
		{"two keys", Client{CertFile: file("two", append(pair.Combined(), other.Key...))}, `client_cert "DIR/two": there are 2 private keys in it`},
		{"combined, another's key", Client{CertFile: file("mix", append(pair.Cert[:len(pair.Cert):len(pair.Cert)], other.Key...))}, `client_cert "DIR/mix": the private key is not that of the first certificate in "DIR/mix"`},

		{"key alone", Client{KeyFile: key}, `client_key "DIR/tls.key": set, but client_cert is not`},
		{"key missing", Client{CertFile: cert, KeyFile: dir + "/no.key"}, `client_key "DIR/no.key": no such file or directory`},
		{"key empty", Client{CertFile: cert, KeyFile: dir + "/empty"}, `client_key "DIR/empty": the file is empty`},
		{"key is a pipe", Client{CertFile: cert, KeyFile: dir + "/pipe"}, `client_key "DIR/pipe": not a regular file`},
		{"key is a certificate", Client{CertFile: cert, KeyFile: cert}, `client_key "DIR/tls.crt": there is no private key in it`},
		{"key is another's", Client{CertFile: cert, KeyFile: file("k1", other.Key)}, `client_key "DIR/k1": the private key is not that of the first certificate in "DIR/tls.crt"`},
		{"key is noise", Client{CertFile: cert, KeyFile: file("k2", block("PRIVATE KEY", []byte("noise")))}, `client_key "DIR/k2": the private key is of a kind that is not known, or malformed`},
		{"key of OpenSSH", Client{CertFile: cert, KeyFile: file("k3", block("OPENSSH PRIVATE KEY", []byte("openssh-key-v1")))}, `client_key "DIR/k3": the private key is of a kind that is not known, or malformed`},
		{"key is half", Client{CertFile: cert, KeyFile: file("k4", pair.Key[:100])}, `client_key "DIR/k4": PEM block 1 is malformed`},

		{"no passphrase", keyed("pbes2.pem", ""), `client_key "testdata/pbes2.pem": the private key is encrypted, and no passphrase is set`},
		{"no passphrase, legacy", keyed("legacy.pem", ""), `client_key "testdata/legacy.pem": the private key is encrypted, and no passphrase is set`},
		{"wrong passphrase", keyed("pbes2.pem", "swordfish"), `client_key "testdata/pbes2.pem": the passphrase does not open the private key`},
		{"wrong passphrase, 3DES", keyed("pbes2-3des-sha512.pem", "swordfish"), `client_key "testdata/pbes2-3des-sha512.pem": the passphrase does not open the private key`},
		{"wrong passphrase, legacy", keyed("legacy.pem", "swordfish"), `client_key "testdata/legacy.pem": the passphrase does not open the private key`},
		{"scrypt", keyed("scrypt.pem", passphrase), `client_key "testdata/scrypt.pem": the private key is encrypted in a way that is not known: PBES2 with PBKDF2 and AES-CBC is`},
		{"PBES1", keyed("pbes1.pem", passphrase), `client_key "testdata/pbes1.pem": the private key is encrypted in a way that is not known: PBES2 with PBKDF2 and AES-CBC is`},
		{"envelope is noise", Client{CertFile: cert, KeyFile: file("k5", block("ENCRYPTED PRIVATE KEY", []byte("noise"))), Passphrase: passphrase}, `client_key "DIR/k5": the private key is of a kind that is not known, or malformed`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.client.Load()
			if err == nil {
				t.Fatal("loaded")
			}
			if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
			var fe *FileError
			if !errors.As(err, &fe) || fe.Path == "" {
				t.Errorf("got a %T", err)
			}
			if p := tt.client.Passphrase; p != "" && strings.Contains(err.Error(), p) {
				t.Error("the passphrase is in the error")
			}
		})
	}
	_, err := Client{CAFile: dir + "/no.pem"}.Load()
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func replaced(b []byte, at int, c byte) []byte {
	b = bytes.Clone(b)
	b[at] = c
	return b
}

func keyed(key, pass string) Client {
	return Client{CertFile: data("cert.pem"), KeyFile: data(key), Passphrase: pass}
}

// Envelopes that would make crypto/cipher panic, or work for hours, are errors.
func TestBadEnvelopes(t *testing.T) {
	sound := envelope{Iterations: 1000, IV: make([]byte, 16), Data: make([]byte, 32)}
	tests := []struct {
		name string
		bend func(*envelope)
		want error
	}{
		{"sound but for the passphrase", func(*envelope) {}, errPassphrase},
		{"short IV", func(e *envelope) { e.IV = e.IV[:8] }, errEncryption},
		{"long IV", func(e *envelope) { e.IV = make([]byte, 17) }, errEncryption},
		{"no data", func(e *envelope) { e.Data = nil }, errBadKey},
		{"half a block", func(e *envelope) { e.Data = e.Data[:24] }, errBadKey},
		{"no iterations", func(e *envelope) { e.Iterations = 0 }, errEncryption},
		{"negative iterations", func(e *envelope) { e.Iterations = -5 }, errEncryption},
		{"iterations for ever", func(e *envelope) { e.Iterations = maxIterations + 1 },
			errors.New("the private key is encrypted with 10000001 iterations, more than 10000000")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := sound
			tt.bend(&e)
			_, err := openKey(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: e.der(t)}, passphrase)
			if fmt.Sprint(err) != tt.want.Error() {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// An envelope is an AES-256 key envelope with parameters of our choice.
type envelope struct {
	Iterations int
	IV, Data   []byte
}

func (e envelope) der(t *testing.T) []byte {
	kdf := struct {
		Salt       []byte
		Iterations int
	}{[]byte("saltsalt"), e.Iterations}
	return mustDER(t, encryptedKey{
		Algorithm: algorithm(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}, pbes2{
			Derivation: algorithm(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}, kdf),
			Scheme:     algorithm(t, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, e.IV),
		}),
		Data: e.Data,
	})
}

func algorithm(t *testing.T, oid asn1.ObjectIdentifier, params any) pkix.AlgorithmIdentifier {
	return pkix.AlgorithmIdentifier{Algorithm: oid, Parameters: asn1.RawValue{FullBytes: mustDER(t, params)}}
}

func mustDER(t *testing.T, v any) []byte {
	t.Helper()
	der, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestExpiredIsTold(t *testing.T) {
	dir := t.TempDir()
	until := time.Now().Add(-time.Hour).Truncate(time.Second)
	old := mcptest.SelfSigned(t, mcptest.Leaf{From: until.Add(-time.Hour), Until: until})
	w := load(t, dir, Client{CertFile: write(t, dir, "all.pem", old.Combined())})
	w.wantTold(`client_cert "DIR/all.pem": the certificate expired at ` + until.UTC().Format(time.RFC3339))
	next := mcptest.SelfSigned(t, mcptest.Leaf{From: until.Add(2 * time.Hour), Until: until.Add(3 * time.Hour)})
	write(t, dir, "all.pem", next.Combined())
	for range 3 {
		w.later()
		w.look()
	}
	w.wantTold(`client_cert "DIR/all.pem": the certificate is not valid before ` + next.X509.NotBefore.Format(time.RFC3339))
	w.pass(90 * time.Minute) // it becomes valid
	w.look()
	w.wantTold()
	w.pass(time.Hour) // and expires while in use
	w.look()
	w.wantTold(`client_cert "DIR/all.pem": the certificate expired at ` + next.X509.NotAfter.Format(time.RFC3339))
}

// No verb of fmt may print what the files hold.
func TestPrinting(t *testing.T) {
	c := keyed("pbes2.pem", passphrase)
	s, err := c.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{c, &c, s} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, passphrase) {
				t.Errorf("%s of a %T: %s", format, v, got)
			}
		}
	}
}
