package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// maxSocketPath is what every platform's sockaddr_un can hold.
const maxSocketPath = 103

// listen opens host:port or unix:PATH for what the flag and the key name.
func listen(flag, addr string) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		l, err := net.Listen("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, &hinted{fmt.Errorf("%s %s: %w", flag, addr, syscall.EADDRINUSE), "choose another with --" + flag + " 127.0.0.1:PORT, or stop the program that has it"}
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", flag, addr, unwrapOp(err))
		}
		return l, nil
	}
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s %s: the path has %d bytes, a unix socket's at most %d", flag, addr, len(path), maxSocketPath)
	}
	l, err := listenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, addr, unwrapOp(err))
	}
	return l, nil
}

// listenUnix makes a socket that only our user can open, in a directory that
// only our user can change.
func listenUnix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if st.Mode().Perm()&0o022 != 0 && st.Mode()&os.ModeSticky == 0 {
		return nil, fmt.Errorf("directory %s: mode %04o lets others replace the socket", dir, st.Mode().Perm())
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	old := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	return l, err
}

// removeStale removes a socket that nobody listens on, and nothing else.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode()&os.ModeSocket == 0 {
		return errors.New("a file that is no socket is in the way")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return errors.New("another program listens there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// unwrapOp takes the parts off a net error that our own text says already.
func unwrapOp(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}
