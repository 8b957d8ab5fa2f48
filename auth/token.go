package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// tokenName is the token's file in the state directory.
const tokenName = "token"

// minToken is the length below which a token draws a warning.
const minToken = 16

// maxTokenFile bounds a token file in bytes.
const maxTokenFile = 64 << 10

// LoadOrCreateToken returns the first token of the state directory's own token
// file, and makes the file when there is none.
func LoadOrCreateToken(stateDir string) (path, token string, created bool, err error) {
	path = filepath.Join(stateDir, tokenName)
	tokens, _, err := ReadTokens(path)
	if err == nil {
		return path, tokens[0], false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return path, "", false, err
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return path, "", false, fmt.Errorf("state directory: %w", err)
	}
	created, err = createToken(path)
	if err != nil {
		return path, "", false, fmt.Errorf("token file: %w", err)
	}
	tokens, _, err = ReadTokens(path)
	if err != nil {
		return path, "", false, err
	}
	return path, tokens[0], created, nil
}

// createToken makes path appear whole or not at all, and never over another
// process' file; then created is false.
func createToken(path string) (created bool, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // 0600, O_EXCL
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(newToken() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	err = os.Link(f.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func newToken() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// ReadTokens returns the tokens in the file at path, one a line. The warning
// says that others on this machine can read the file; it may be empty.
func ReadTokens(path string) (tokens []string, warning string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	// A pipe that nobody writes to must not hold us; files have no deadline.
	_ = f.SetReadDeadline(time.Now().Add(5 * time.Second))
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, "", fmt.Errorf("token file %s: %w", path, err)
	}
	if len(raw) > maxTokenFile {
		return nil, "", fmt.Errorf("token file %s: more than %d bytes", path, maxTokenFile)
	}
	for n, line := range bytes.Split(raw, []byte("\n")) {
		t := strings.TrimSpace(string(line))
		if t == "" {
			continue
		}
		if !visible(t) {
			return nil, "", fmt.Errorf("token file %s:%d: a token holds only visible ASCII characters", path, n+1)
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 {
		return nil, "", fmt.Errorf("token file %s: empty", path)
	}
	for _, t := range tokens {
		if len(t) < minToken {
			warning = fmt.Sprintf("token file %s: a token of %d characters can be guessed, use %d or more", path, len(t), minToken)
		}
	}
	if st, err := f.Stat(); err == nil && st.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("token file %s: mode %04o lets others read it, want 0600", path, st.Mode().Perm())
	}
	return tokens, warning, nil
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
