package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxRefFile bounds what a ${file:...} reference may bring in.
const maxRefFile = 64 << 10

// Vars gives references in settings their values.
type Vars struct {
	// Lookup finds a variable. If nil, none is set.
	Lookup func(name string) (string, bool)
	// Home is what ~ and ${userHome} stand for. If empty, both are errors.
	Home string
	// Workspace is what ${workspaceFolder} stands for. If empty, it is an error.
	Workspace string
}

// Expand replaces every reference in s once. What a reference brings in is not
// looked at again. Where a variable is not set or empty, ${NAME:-text} stands for
// text. A reference that cannot be resolved is an error that names it.
func (v Vars) Expand(s string) (string, error) {
	return v.expand(s, nil)
}

// expand calls secret, if it is not nil, with each value that came from a variable
// or a file, so that the caller can keep it out of logs.
func (v Vars) expand(s string, secret func(name, value string)) (string, error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			out.WriteString("${")
			out.WriteString(rest)
			return out.String(), nil
		}
		val, err := v.reference(name, secret)
		if err != nil {
			return "", err
		}
		out.WriteString(val)
		s = after
	}
}

// reference resolves what stands between the braces. A default is literal text.
func (v Vars) reference(inner string, secret func(name, value string)) (string, error) {
	if strings.Contains(inner, "${") {
		return "", fmt.Errorf("${%s} is a reference within a reference, which is not supported", clip(shownRef(inner)))
	}
	name, otherwise, ok := cutDefault(inner)
	val, err := v.resolve(name, secret)
	if !ok || !errors.Is(err, errUnset) {
		return val, err
	}
	if secret != nil && looksSecret(name) {
		secret(name, otherwise)
	}
	return otherwise, nil
}

// cutDefault splits NAME:-text. A file's path may hold anything, so that it has no
// default.
func cutDefault(inner string) (name, otherwise string, ok bool) {
	name = strings.TrimSpace(inner)
	if kind, _, _ := strings.Cut(name, ":"); kind == "file" {
		return name, "", false
	}
	name, otherwise, ok = strings.Cut(inner, ":-")
	return strings.TrimSpace(name), otherwise, ok
}

// shownRef is a reference without its default, which may be a secret.
func shownRef(inner string) string {
	name, _, ok := cutDefault(inner)
	if ok {
		return name + ":-..."
	}
	return name
}

// errUnset is what a default stands in for.
var errUnset = errors.New("is not set")

// unset words an absence; hint says how to end it, and may be empty.
func unset(name, hint string) error {
	return fmt.Errorf("${%s} %w%s", clip(name), errUnset, hint)
}

func (v Vars) resolve(name string, secret func(name, value string)) (string, error) {
	if name == "" {
		return "", errors.New("${} names no variable")
	}
	if val, known, err := v.context(name); known {
		return val, err
	}
	kind, arg, ok := strings.Cut(name, ":")
	if ok && kind == "file" {
		val, err := v.file(strings.TrimSpace(arg))
		return keep(name, val, err, secret)
	}
	if ok && kind == "input" {
		return "", fmt.Errorf("${%s} asks a person for input, which this program cannot do: put the value in a variable and write ${%s}",
			clip(name), clip(strings.ToUpper(arg)))
	}
	val, err := v.variable(name)
	return keep(strings.TrimPrefix(name, "env:"), val, err, secret)
}

func keep(name, val string, err error, secret func(name, value string)) (string, error) {
	if err == nil && secret != nil {
		secret(name, val)
	}
	return val, err
}

// context resolves the names that editors define.
func (v Vars) context(name string) (val string, known bool, err error) {
	hint := ": give --workspace DIR or the profile's workspace key"
	switch name {
	case "userHome":
		val, hint = v.Home, ": set HOME"
	case "workspaceFolder":
		val = v.Workspace
	case "workspaceFolderBasename":
		if val = v.Workspace; val != "" {
			val = filepath.Base(val)
		}
	case "pathSeparator", "/":
		val = string(filepath.Separator)
	default:
		return "", false, nil
	}
	if val == "" {
		return "", true, unset(name, hint)
	}
	return val, true, nil
}

func (v Vars) variable(name string) (string, error) {
	key := strings.TrimSpace(strings.TrimPrefix(name, "env:"))
	val, ok := "", false
	if v.Lookup != nil {
		val, ok = v.Lookup(key)
	}
	switch {
	case !ok:
		return "", unset(name, "")
	case val == "":
		return "", unset(name, " (it is empty)")
	case holdsRef(val):
		// A line such as A=${B} in an .env file would otherwise send the text ${B}.
		return "", fmt.Errorf("${%s} is not set to a plain value: it holds a reference of its own", clip(name))
	}
	return val, nil
}

func holdsRef(s string) bool {
	_, rest, ok := strings.Cut(s, "${")
	return ok && strings.Contains(rest, "}")
}

// file returns what a file holds, without the newline at its end. Errors name the
// path and never the content.
func (v Vars) file(path string) (string, error) {
	full, err := v.Path(path)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(full) {
		return "", fmt.Errorf("${file:%s}: the path must be absolute", clip(path))
	}
	b, err := readSmall(full)
	if err != nil {
		return "", fmt.Errorf("${file:%s}: %w", clip(path), err)
	}
	val := strings.TrimRight(string(b), "\r\n")
	if val == "" {
		return "", fmt.Errorf("${file:%s}: the file is empty", clip(path))
	}
	return val, nil
}

// readSmall reads a regular file. O_NONBLOCK keeps a named pipe from holding us.
func readSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, bareCause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, bareCause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRefFile+1))
	if err != nil {
		return nil, bareCause(err)
	}
	if len(b) > maxRefFile {
		return nil, fmt.Errorf("larger than the limit of %d bytes", maxRefFile)
	}
	return b, nil
}

// bareCause drops the operation and path of a PathError, which our text repeats.
func bareCause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Path expands a leading ~ or ~/. Other users' homes are not looked up.
func (v Vars) Path(p string) (string, error) {
	p = strings.TrimSpace(p)
	if p != "~" && !strings.HasPrefix(p, "~/") {
		return p, nil
	}
	if v.Home == "" {
		return "", fmt.Errorf("%q: the home directory is not known", clip(p))
	}
	return filepath.Join(v.Home, strings.TrimPrefix(p, "~")), nil
}

// clip keeps names from settings short in error texts.
func clip(s string) string {
	if len(s) > 120 {
		return strings.ToValidUTF8(s[:120], "") + "..."
	}
	return s
}
