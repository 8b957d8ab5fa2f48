package vault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Waiting for a lock is asking for it again and again: there is no way to be told,
// and to stop waiting too.
const (
	firstPoll = 2 * time.Millisecond
	lastPoll  = 50 * time.Millisecond
)

// Lock makes the caller the only one of all processes that holds the lock of a
// server, until it calls unlock or its process ends. It waits until ctx is done.
// unlock may be called again and does nothing then.
func (v *Vault) Lock(ctx context.Context, server string) (unlock func(), err error) {
	if err := errors.Join(checkName(server), v.checkKey()); err != nil {
		return nil, fmt.Errorf("lock of the credentials of %q: %w", server, err)
	}
	if err := v.makeDir(); err != nil {
		return nil, fmt.Errorf("lock of the credentials of %q: %w", server, err)
	}
	path := filepath.Join(v.Dir, baseName(server)+lockSuffix)
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		f, err := tryLock(path)
		if err != nil {
			return nil, fmt.Errorf("lock of the credentials of %q: %w", server, err)
		}
		if f != nil {
			return sync.OnceFunc(func() { f.Close() }), nil
		}
		if err := pause(ctx, poll/2+rand.N(poll)); err != nil {
			return nil, fmt.Errorf("lock of the credentials of %q: another process holds it: %w", server, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock returns the locked file, or nil when somebody else has it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|nofollow, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s: %w: it is a symbolic link", path, ErrRefused)
	}
	if err != nil {
		return nil, err
	}
	held, err := hold(f, path)
	if !held {
		f.Close()
		return nil, err
	}
	return f, nil
}

// hold locks f if it is still what is at path. We never remove a lock's file; where
// somebody did, the lock of the file that is gone keeps nobody out.
func hold(f *os.File, path string) (bool, error) {
	opened, err := f.Stat()
	if err == nil {
		err = checkOwn(path, opened)
	}
	if err != nil {
		return false, err
	}
	if locked, err := flock(f); err != nil || !locked {
		return false, err
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, now), nil
}

// flock reports whether f is locked now. The lock ends as f is closed.
func flock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, fmt.Errorf("%s: this file system has no locks: %w", f.Name(), err)
		}
	}
}
