package vault

import (
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

const (
	// nofollow does not open symbolic links, and does not wait at pipes.
	nofollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	// maxFiles bounds what is looked at in a directory.
	maxFiles = 10_000
	// abandoned is how long ago a new file was last written to before it counts as
	// one of a writer that died. Writers lock theirs, but not at once.
	abandoned = time.Minute
)

// checkDir reports whether Dir is there, and refuses one that we would not have
// made. A looser one is tightened.
func (v *Vault) checkDir() (there bool, err error) {
	if v.Dir == "" {
		return false, errors.New("no directory is set for credentials")
	}
	dir := filepath.Clean(v.Dir) // a slash at the end would follow a link
	before, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !before.IsDir() {
		return false, fmt.Errorf("%s: %w: it is no directory", dir, ErrRefused)
	}
	if err := checkOwn(dir, before); err != nil {
		return false, err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|nofollow, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = fmt.Errorf("%s: %w: it was replaced meanwhile", dir, ErrRefused)
	}
	if err != nil {
		return false, err
	}
	v.tighten(f, after, 0o700)
	return true, nil
}

// makeDir is checkDir, and makes Dir when it is not there.
func (v *Vault) makeDir() error {
	there, err := v.checkDir()
	if err != nil || there {
		return err
	}
	if err := os.MkdirAll(v.Dir, 0o700); err != nil {
		return err
	}
	if there, err = v.checkDir(); err == nil && !there {
		err = fmt.Errorf("%s: %w", v.Dir, fs.ErrNotExist)
	}
	if err == nil {
		_ = syncDir(filepath.Dir(filepath.Clean(v.Dir))) // which we need not be able to read
	}
	return err
}

// checkOwn refuses what is a symbolic link, or not ours: whoever owns it could
// read it, or has put it there for us to use.
func checkOwn(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s: %w: it is a symbolic link", path, ErrRefused)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s: %w: it belongs to another user: give it to user %d, or remove it", path, ErrRefused, os.Geteuid())
	}
	return nil
}

// tighten takes from others what they may do. That this fails is no reason not to
// read: it was open to others before.
func (v *Vault) tighten(f *os.File, info fs.FileInfo, want fs.FileMode) {
	if info.Mode().Perm()&0o077 == 0 {
		return
	}
	facts := []any{"path", f.Name(), "mode", fmt.Sprintf("%04o", info.Mode().Perm())}
	if err := f.Chmod(want); err != nil {
		v.warn("credentials are open to others, and that cannot be changed", append(facts, "err", err)...)
		return
	}
	v.warn("credentials were open to others; they no longer are", facts...)
}

// readOwn returns what is in a file of Dir; fs.ErrNotExist when there is none, and
// errUnfit for what can be no file of ours.
func (v *Vault) readOwn(path string) ([]byte, error) {
	before, err := os.Lstat(path)
	if err == nil {
		err = checkOwn(path, before)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nofollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	after, err := f.Stat()
	if err == nil {
		err = checkOwn(path, after)
	}
	if err != nil {
		return nil, err
	}
	v.tighten(f, after, 0o600)
	return readAll(f, after)
}

// readForeign returns what is in a file that is only read, wherever it is: those
// of a mounted secret are links, belong to root, and are open to others.
func readForeign(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	b, err := readAll(f, info)
	return b, info, err
}

// errUnfit is of a file that is no file, or too long.
var errUnfit = fmt.Errorf("no regular file of at most %d bytes", maxFile)

func readAll(f *os.File, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, errUnfit
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		return nil, errUnfit
	}
	return b, err
}

// replace puts b in place of what Dir has under name. A crash at any time leaves
// one of the two, whole.
func (v *Vault) replace(name string, b []byte) error {
	v.sweep()
	f, err := os.CreateTemp(v.Dir, tempPrefix+"*") // 0600, O_EXCL
	if err != nil {
		return err
	}
	_, _ = flock(f) // for sweep; without locks its age has to do
	if err := fill(f, b); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), filepath.Join(v.Dir, name)); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return errors.Join(f.Close(), syncDir(v.Dir))
}

func fill(f *os.File, b []byte) error {
	if err := f.Chmod(0o600); err != nil { // whatever the umask
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

// syncDir makes renames last. Not every file system can, or needs it.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// sweep removes what writers that died left behind.
func (v *Vault) sweep() {
	names, err := list(v.Dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, tempPrefix) {
			sweepOne(filepath.Join(v.Dir, name))
		}
	}
}

func sweepOne(path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|nofollow, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < abandoned {
		return
	}
	if dead, err := flock(f); err == nil && dead {
		os.Remove(path)
	}
}

// list returns the names in a directory; none when there is no directory.
func list(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxFiles)
	if err == io.EOF {
		err = nil
	}
	return names, err
}

func markOf(info fs.FileInfo, err error) mark {
	if err != nil {
		return mark{}
	}
	m := mark{mtime: info.ModTime().UnixNano(), size: info.Size()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		m.inode = st.Ino
	}
	return m
}
