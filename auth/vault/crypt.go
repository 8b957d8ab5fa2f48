package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

const keyIDSize = 8

func (v *Vault) checkKey() error {
	if v.Key != nil && len(v.Key) != KeySize {
		return fmt.Errorf("the encryption key has %d bytes, want %d", len(v.Key), KeySize)
	}
	return nil
}

// keyID tells keys apart and says nothing about them, so that a wrong key is not
// taken for a damaged file.
func keyID(key []byte) string { return hex.EncodeToString(derive(key, "id", keyIDSize)) }

func derive(key []byte, what string, n int) []byte {
	out, err := hkdf.Key(sha256.New, key, nil, "mcp-sidecar vault v1 "+what, n)
	if err != nil {
		panic(err) // unreachable: the lengths are constants
	}
	return out
}

func cipherOf(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(derive(key, "seal", KeySize))
	if err != nil {
		panic(err) // unreachable: the key has the right size
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // unreachable, as above
	}
	return aead
}

// seal binds what is sealed to the file's name: one server's file, copied over
// another's, does not open.
func seal(key []byte, name string, plain []byte) []byte {
	return cipherOf(key).Seal(nil, nil, plain, []byte(name))
}

func unseal(key []byte, name string, sealed []byte) ([]byte, bool) {
	out, err := cipherOf(key).Open(nil, nil, sealed, []byte(name))
	return out, err == nil
}

// ReadKey reads a key file: 32 bytes, or these in base64 or hexadecimal on one
// line. The warning says that others on this machine can read it; it may be empty.
func ReadKey(path string) (key []byte, warning string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	// A pipe that nobody writes to must not hold us; files have no deadline.
	_ = f.SetReadDeadline(time.Now().Add(5 * time.Second))
	raw, err := io.ReadAll(io.LimitReader(f, 4*KeySize))
	if err != nil {
		return nil, "", fmt.Errorf("key file %s: %w", path, err)
	}
	if key, err = parseKey(raw); err != nil {
		return nil, "", fmt.Errorf("key file %s: %w", path, err)
	}
	if st, err := f.Stat(); err == nil && st.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("key file %s: mode %04o lets others read it, want 0600", path, st.Mode().Perm())
	}
	return key, warning, nil
}

func parseKey(raw []byte) ([]byte, error) {
	if len(raw) == KeySize {
		return raw, nil
	}
	text := string(bytes.TrimSpace(raw))
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString,
		base64.RawStdEncoding.DecodeString, base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString} {
		if key, err := decode(text); err == nil && len(key) == KeySize {
			return key, nil
		}
	}
	return nil, errors.New("want 32 bytes, as they are, in base64 or in hexadecimal")
}
