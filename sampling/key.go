package sampling

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const maxKey = 64 << 10

// KeyFault says what a look at a key file finds wrong with it, and is empty when
// that is nothing. It does not open the file.
func KeyFault(path string) string {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file"
	case err != nil:
		return "cannot be read"
	case !st.Mode().IsRegular():
		return notRegular
	case st.Size() == 0:
		return "is empty"
	case open(st.Mode()):
		return fmt.Sprintf("others may read it (mode %04o), want mode 0600", st.Mode().Perm())
	}
	return ""
}

const notRegular = "is not a regular file"

func open(m os.FileMode) bool { return m.Perm()&0o077 != 0 }

// key reads a key file, which may have changed since the last time.
func (c *Client) key(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", fmt.Errorf("key file %s: %s", path, notRegular) // a pipe might never end
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if open(st.Mode()) {
		c.warn(path, st.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(data))
	if fault := keyFault(key, len(data)); fault != "" {
		return "", fmt.Errorf("key file %s: %s", path, fault)
	}
	return key, nil
}

// keyFault never quotes the key.
func keyFault(key string, size int) string {
	switch {
	case size > maxKey:
		return fmt.Sprintf("has more than %d bytes", maxKey)
	case key == "":
		return "is empty"
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "holds more than one word of plain characters"
	}
	return ""
}

// maxWarned bounds the key files that are remembered.
const maxWarned = 10_000

// warn says once that others may read a key file.
func (c *Client) warn(path string, mode os.FileMode) {
	c.mu.Lock()
	seen := c.warned[path] || len(c.warned) >= maxWarned
	c.warned[path] = true
	c.mu.Unlock()
	if !seen {
		c.opt.Log.Warn("sampling: others may read the key file, want mode 0600", "file", path, "mode", fmt.Sprintf("%04o", mode))
	}
}
