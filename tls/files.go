package tls

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	// maxFile is far above the size of any bundle: the system's has 250 KB.
	maxFile = 1 << 20
	// settle is longer than the steps in which file systems count time. A file
	// that was written less than this before it was read may be written again
	// without a change of its times.
	settle = 3 * time.Second
	// attempts to read files while somebody writes them, before the next look.
	attempts = 3
)

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = fmt.Errorf("larger than %d bytes", maxFile)
	errWritten    = errors.New("the file changes while it is read")
)

// A file is a path and the key of the setting that names it.
type file struct{ key, path string }

// fault puts the key and the path in front of err, once.
func (f file) fault(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &FileError{f.key, f.path, err}
}

// read returns the bytes of a regular file and its state, which was the same
// before and after.
func (f file) read() ([]byte, fs.FileInfo, error) {
	if info, err := os.Stat(f.path); err != nil {
		return nil, nil, f.fault(err)
	} else if !info.Mode().IsRegular() {
		return nil, nil, f.fault(errNotRegular)
	}
	r, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe put there since would block
	if err != nil {
		return nil, nil, f.fault(err)
	}
	defer r.Close()
	data, info, err := readOpen(r)
	if err != nil {
		return nil, nil, f.fault(err)
	}
	return data, info, nil
}

func readOpen(r *os.File) ([]byte, fs.FileInfo, error) {
	before, err := r.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, errNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxFile {
		return nil, nil, errTooLarge
	}
	after, err := r.Stat()
	if err == nil && !same(before, after) {
		err = errWritten
	}
	return data, after, err
}

// same reports whether a and b are the same state of the same file.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() &&
		a.ModTime().Equal(b.ModTime()) && changed(a).Equal(changed(b))
}

// A watched is files that are taken together or not at all.
type watched struct {
	files   []file
	infos   []fs.FileInfo // of what was read last
	settled bool          // what has the states of infos has the bytes that were read
	sum     [sha256.Size]byte
	err     error // what take said of the bytes with that sum
}

// load reads the files if they changed, and gives their bytes to take. It returns
// what is wrong with them now. A failure to read is not kept: the next load tries
// again.
func (w *watched) load(take func(data [][]byte) error) error {
	if len(w.files) == 0 || w.settled && unchanged(w.files, w.infos) {
		return w.err
	}
	data, err := w.read()
	if err != nil {
		return err
	}
	if sum := digest(data); sum != w.sum {
		w.sum, w.err = sum, take(data)
	}
	return w.err
}

// read reads all files in a moment in which nobody changes one of them, so that
// a certificate and a key that were swapped together are seen together.
func (w *watched) read() ([][]byte, error) {
	var last error
	for range attempts {
		began := time.Now()
		data, infos, err := readAll(w.files)
		if err == nil && unchanged(w.files, infos) {
			w.infos, w.settled = infos, old(infos, began)
			return data, nil
		}
		last = err
	}
	if last == nil {
		last = w.files[0].fault(errWritten)
	}
	return nil, last
}

func readAll(files []file) (data [][]byte, infos []fs.FileInfo, err error) {
	for _, f := range files {
		d, info, err := f.read()
		if err != nil {
			return nil, nil, err
		}
		data, infos = append(data, d), append(infos, info)
	}
	return data, infos, nil
}

// unchanged looks at what the paths lead to now.
func unchanged(files []file, infos []fs.FileInfo) bool {
	for i, f := range files {
		info, err := os.Stat(f.path)
		if err != nil || !same(info, infos[i]) {
			return false
		}
	}
	return true
}

func old(infos []fs.FileInfo, now time.Time) bool {
	for _, info := range infos {
		if now.Sub(info.ModTime()) < settle || now.Sub(changed(info)) < settle {
			return false
		}
	}
	return true
}

func digest(data [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, d := range data {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(d))))
		h.Write(d)
	}
	h.Sum(sum[:0])
	return sum
}
