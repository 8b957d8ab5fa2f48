package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"syscall"
	"time"

	"github.com/goccy/go-yaml/token"
)

// pipeWait bounds the reading of a pipe, which a shell can make of a command.
const pipeWait = 5 * time.Second

// maxFileBytes bounds one configuration file.
const maxFileBytes = 8 << 20

// A file is one configuration file on its way from bytes to nodes.
type file struct {
	name string // as it was given, for messages
	path string // where it is
	// hermes says that the caller called it a file of Hermes.
	hermes bool
	json   bool
	flavor flavor
	root   *node // nil when empty
	vars   dotenv
}

func (f *file) fault(at *node, path, msg string) Fault {
	if at == nil {
		at = &node{}
	}
	var name string
	switch {
	case at.file != nil:
		name = at.file.name
	case f != nil:
		name = f.name
	}
	return Fault{File: name, Line: at.line, Column: at.column, Path: path, Msg: msg}
}

func (f *file) whole(msg string) Fault { return Fault{File: f.name, Msg: msg} }

func (f *file) at(data []byte, off int) *node {
	var c cursor
	c.to(data, off)
	return &node{file: f, line: c.line + 1, column: c.column + 1}
}

func (f *file) token(tk *token.Token) *node {
	n := &node{file: f}
	if tk != nil && tk.Position != nil {
		n.line, n.column = tk.Position.Line, tk.Position.Column
	}
	return n
}

// read fills root.
func (f *file) read() (faults, warnings []Fault) {
	data, info, err := readBounded(f.path, maxFileBytes)
	if err != nil {
		return []Fault{f.whole(err.Error())}, nil
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o022 != 0 {
		warnings = append(warnings, f.whole(fmt.Sprintf("others may write to it (mode %04o): whoever can change it decides what runs here", info.Mode().Perm())))
	}
	f.root, faults = f.parse(data)
	f.flavor = f.guess()
	if f.root == nil && len(faults) == 0 {
		warnings = append(warnings, f.whole("is empty"))
	}
	return faults, warnings
}

// parse reads text of either language.
func (f *file) parse(data []byte) (*node, []Fault) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, []Fault{f.whole("is UTF-16, save it as UTF-8")}
	}
	if off := invalid(data); off >= 0 {
		return nil, []Fault{f.fault(f.at(data, off), "", "holds a byte that is neither text nor UTF-8")}
	}
	f.json = f.isJSON(data)
	n, faults := (*node)(nil), []Fault(nil)
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, nil
	case f.json:
		n, faults = readJSON(f, data)
	default:
		n, faults = readYAML(f, data)
	}
	if n == nil || n.kind == null {
		return nil, faults
	}
	if n.kind != mapping {
		return nil, append(faults, f.fault(n, "", fmt.Sprintf("a configuration is a mapping, not %s", n.kind)))
	}
	return n, faults
}

// invalid returns where the first byte is that no text has, or -1.
func invalid(data []byte) int {
	for i := 0; i < len(data); {
		if c := data[i]; c < utf8.RuneSelf {
			if c == 0 {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func (f *file) isJSON(data []byte) bool {
	switch strings.ToLower(filepath.Ext(f.path)) {
	case ".json", ".jsonc", ".json5":
		return true
	case ".yaml", ".yml":
		return false
	}
	start := bytes.TrimSpace(data)
	for _, p := range []string{"{", "//", "/*"} {
		if bytes.HasPrefix(start, []byte(p)) {
			return true
		}
	}
	return false
}

// readBounded reads a file whole, and refuses what is not a file or too large.
func readBounded(path string, limit int64) ([]byte, os.FileInfo, error) {
	fh, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, cause(err)
	}
	defer fh.Close()
	// A pipe that nobody writes to must not hold us; files have no deadline.
	_ = fh.SetReadDeadline(time.Now().Add(pipeWait))
	info, err := fh.Stat()
	if err != nil {
		return nil, nil, cause(err)
	}
	if info.IsDir() {
		return nil, nil, errors.New("is a directory")
	}
	data, err := io.ReadAll(io.LimitReader(fh, limit+1))
	if err != nil {
		return nil, nil, cause(err)
	}
	if int64(len(data)) > limit {
		return nil, nil, fmt.Errorf("larger than %d bytes, the limit", limit)
	}
	return data, info, nil
}

// cause drops the path that os puts in front: the fault names it already.
func cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", pe.Op, pe.Err)
	}
	return err
}
