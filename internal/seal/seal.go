// Package seal makes values that leave the process and come back unread and
// unaltered: cursors, and whatever else an agent must hand back to us.
//
// A sealed value is readable only with the key, and bound to its kind, to the
// process that made it, and to bytes of the caller's choice.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// MaxToken bounds a token in bytes for Open; longer ones are malformed.
const MaxToken = 16 << 10

const (
	version  = 1
	idSize   = 4
	instSize = 8
	headSize = 1 + idSize + instSize + 1
)

// The ways in which a token is not accepted.
var (
	ErrMalformed     = errors.New("not a sealed value")
	ErrOtherInstance = errors.New("sealed by another instance")
	ErrRefused       = errors.New("sealed value is forged, altered or used out of place")
)

// A Sealer seals with one key and opens with several.
type Sealer struct {
	instance [instSize]byte
	keys     []key // the first seals
}

type key struct {
	id   [idSize]byte
	aead cipher.AEAD
}

// New returns a Sealer for the process called instance. The first key seals;
// it and all older ones open.
func New(first []byte, instance [8]byte, older ...[]byte) (*Sealer, error) {
	s := &Sealer{instance: instance}
	for i, raw := range append([][]byte{first}, older...) {
		k, err := derive(raw)
		if err != nil {
			return nil, fmt.Errorf("seal key %d: %w", i+1, err)
		}
		s.keys = append(s.keys, k)
	}
	return s, nil
}

// Random returns a Sealer with a key and an instance name of its own. What it
// seals does not outlive the process.
func Random() *Sealer {
	var raw [KeySize]byte
	var instance [instSize]byte
	rand.Read(raw[:])
	rand.Read(instance[:])
	s, err := New(raw[:], instance)
	if err != nil {
		panic(err) // unreachable: the key has the right size
	}
	return s
}

func derive(raw []byte) (k key, err error) {
	if len(raw) < KeySize {
		return k, fmt.Errorf("%d bytes, want at least %d", len(raw), KeySize)
	}
	out, err := hkdf.Key(sha256.New, raw, nil, "mcp-sidecar seal v1", KeySize+idSize)
	if err != nil {
		return k, err
	}
	block, err := aes.NewCipher(out[:KeySize])
	if err != nil {
		return k, err
	}
	copy(k.id[:], out[KeySize:])
	k.aead, err = cipher.NewGCM(block)
	return k, err
}

// Seal returns payload as URL-safe text that only Open with the same kind and
// bound reads.
func (s *Sealer) Seal(kind byte, bound, payload []byte) string {
	k := &s.keys[0]
	n := headSize + k.aead.NonceSize()
	buf := make([]byte, n, n+len(payload)+k.aead.Overhead())
	s.head(buf[:0], k, kind)
	rand.Read(buf[headSize:n])
	buf = k.aead.Seal(buf, buf[headSize:n], payload, associated(buf[:headSize], bound))
	return base64.RawURLEncoding.EncodeToString(buf)
}

// Open returns the payload of a token that Seal made with the same kind and
// bound, or one of the errors of this package.
func (s *Sealer) Open(kind byte, bound []byte, token string) ([]byte, error) {
	return s.OpenUpTo(MaxToken, kind, bound, token)
}

// OpenUpTo is Open for tokens of up to max bytes, where what is sealed is not
// ours alone.
func (s *Sealer) OpenUpTo(max int, kind byte, bound []byte, token string) ([]byte, error) {
	if len(token) > max || strings.ContainsAny(token, "\r\n") { // which base64 skips
		return nil, ErrMalformed
	}
	buf, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(buf) < headSize || buf[0] != version {
		return nil, ErrMalformed
	}
	head := buf[:headSize]
	if [instSize]byte(head[1+idSize:]) != s.instance {
		return nil, ErrOtherInstance
	}
	k := s.find([idSize]byte(head[1:]))
	if k == nil || head[headSize-1] != kind {
		return nil, ErrRefused
	}
	n := headSize + k.aead.NonceSize()
	if len(buf) < n+k.aead.Overhead() {
		return nil, ErrMalformed
	}
	out, err := k.aead.Open(nil, buf[headSize:n], buf[n:], associated(head, bound))
	if err != nil {
		return nil, ErrRefused
	}
	return out, nil
}

func (s *Sealer) head(dst []byte, k *key, kind byte) {
	dst = append(append(append(dst, version), k.id[:]...), s.instance[:]...)
	_ = append(dst, kind)
}

func (s *Sealer) find(id [idSize]byte) *key {
	for i := range s.keys {
		if s.keys[i].id == id {
			return &s.keys[i]
		}
	}
	return nil
}

// associated is what a token is bound to besides its key.
func associated(head, bound []byte) []byte {
	out := make([]byte, 0, len(head)+len(bound))
	return append(append(out, head...), bound...)
}
