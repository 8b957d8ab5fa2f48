package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// baseline reports whether a variable of ours goes to every child. All others
// stay here: they may be the secrets of other servers.
func baseline(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR":
		return true
	}
	return strings.HasPrefix(name, "XDG_")
}

func proxyVar(name string) bool {
	switch strings.ToLower(name) {
	case "http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy":
		return true
	}
	return false
}

// childEnv is the baseline out of parent, then the server's own env over it.
func childEnv(parent []string, s *Settings) (map[string]string, error) {
	out := make(map[string]string)
	for _, kv := range parent {
		k, v, _ := strings.Cut(kv, "=")
		if baseline(k) || s.InheritProxyEnv && proxyVar(k) {
			out[k] = v
		}
	}
	for k, v := range s.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return nil, setting(fmt.Errorf("%q cannot be the name of a variable", clip(k)), "env")
		}
		if strings.ContainsRune(v, 0) {
			return nil, setting(errNUL, "env", k)
		}
		out[k] = v
	}
	return out, nil
}

func sortedEnv(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// loaderVars names the configured variables that make a program load foreign code.
func loaderVars(s *Settings) (names []string) {
	for k := range s.Env {
		switch k {
		case "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "NODE_OPTIONS", "PYTHONSTARTUP", "BASH_ENV":
			names = append(names, k)
		default:
			if strings.HasPrefix(k, "DYLD_") {
				names = append(names, k)
			}
		}
	}
	slices.Sort(names)
	return names
}

// lookCommand finds the program as the child itself would: on the child's PATH.
func lookCommand(name, dir, home string, environ map[string]string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", errNUL
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return absCommand(name, dir)
	}
	dirs := filepath.SplitList(environ["PATH"])
	if name == "npx" || name == "npm" || name == "node" {
		if home != "" {
			dirs = append(dirs, filepath.Join(home, ".local", "bin"))
		}
		dirs = append(dirs, "/usr/local/bin")
	}
	denied := ""
	for _, d := range dirs {
		if !filepath.IsAbs(d) {
			continue // also an empty element, or a literal $PATH that nothing expanded
		}
		p := filepath.Join(d, name)
		err := executable(p)
		if err == nil {
			return p, nil
		}
		if denied == "" && errors.Is(err, fs.ErrPermission) {
			denied = p
		}
	}
	if denied != "" {
		return "", fmt.Errorf("%q: %s is not executable: %w", clip(name), denied, fs.ErrPermission)
	}
	return "", notFound(name, environ["PATH"])
}

// notFound words that no directory of the child's PATH holds the command.
func notFound(name, path string) error {
	if first, ok := commandLine(name, ""); ok {
		return lineFault(first)
	}
	return fmt.Errorf("%q is not on the server's PATH (%s); install it, or set env.PATH or an absolute command: %w",
		clip(name), shownPath(path), fs.ErrNotExist)
}

// commandLine reports whether a command that does not exist is most likely a line
// for a shell, and returns the program that it begins with.
func commandLine(name, dir string) (first string, ok bool) {
	words := strings.Fields(name)
	if len(words) < 2 {
		return "", false
	}
	if first = words[0]; !strings.ContainsRune(first, filepath.Separator) {
		return first, true
	}
	if !filepath.IsAbs(first) {
		first = filepath.Join(dir, first)
	}
	return words[0], executable(first) == nil
}

// lineFault does not repeat the rest of the line: it may hold a secret.
func lineFault(first string) error {
	return fmt.Errorf("%q is followed by blanks and more, and no shell splits it: leave the program here and put its arguments into args: %w",
		clip(first), fs.ErrNotExist)
}

// shownPath names the first directories of a PATH, and how many there are.
func shownPath(p string) string {
	const most = 3
	if p == "" {
		return "which is empty"
	}
	dirs := filepath.SplitList(p)
	shown := strings.Join(dirs[:min(len(dirs), most)], string(filepath.ListSeparator))
	if len(dirs) <= most {
		return clip(shown)
	}
	return fmt.Sprintf("%s and %d more", clip(shown), len(dirs)-most)
}

// absCommand makes a path absolute. Where the child starts elsewhere, a relative
// one counts from there.
func absCommand(name, dir string) (string, error) {
	p := name
	if !filepath.IsAbs(p) && dir != "" {
		p = filepath.Join(dir, p)
	}
	p, err := filepath.Abs(p)
	if err != nil {
		return "", fmt.Errorf("%q: %w", clip(name), err)
	}
	if err := executable(p); err != nil {
		if first, ok := commandLine(name, dir); ok && errors.Is(err, fs.ErrNotExist) {
			return "", lineFault(first)
		}
		return "", fmt.Errorf("%q: %w", clip(name), err)
	}
	return p, nil
}

func executable(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return bareCause(err)
	}
	if info.IsDir() {
		return fmt.Errorf("is a directory: %w", fs.ErrPermission)
	}
	if info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("is not marked executable: %w", fs.ErrPermission)
	}
	return nil
}

// prependPath puts the program's own directory on the child's PATH, so that npx
// finds the node that lies beside it.
func prependPath(environ map[string]string, command string) {
	dir := filepath.Dir(command)
	path := environ["PATH"]
	if slices.Contains(filepath.SplitList(path), dir) {
		return
	}
	if path == "" {
		environ["PATH"] = dir
		return
	}
	environ["PATH"] = dir + string(filepath.ListSeparator) + path
}
