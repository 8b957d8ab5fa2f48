package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of a .env file.
const (
	maxEnvBytes = 1 << 20
	maxEnvVars  = 10_000
)

// dotenv holds the variables of one .env file. It prints as nothing: the values
// are secrets.
type dotenv struct {
	vars map[string]string
}

func (dotenv) String() string   { return "[redacted]" }
func (dotenv) GoString() string { return "[redacted]" }

// besides reads the .env in the folder of a configuration file, if there is one.
// A line that cannot be read costs only itself: what needs it says so.
func (f *file) besides() (warnings []Fault) {
	path := filepath.Join(filepath.Dir(f.path), ".env")
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	vars, bad, warnings := readEnvFile(path, filepath.Join(filepath.Dir(f.name), ".env"))
	f.vars = dotenv{vars: vars}
	return append(bad, warnings...)
}

// readEnvFile reads a file of NAME=value lines.
func readEnvFile(path, name string) (vars map[string]string, faults, warnings []Fault) {
	data, info, err := readBounded(path, maxEnvBytes)
	if err != nil {
		return nil, []Fault{{File: name, Msg: err.Error()}}, nil
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o022 != 0 {
		warnings = append(warnings, Fault{File: name, Msg: fmt.Sprintf("others may write to it (mode %04o)", info.Mode().Perm())})
	}
	vars, faults = parseEnv(data, name)
	return vars, faults, warnings
}

// parseEnv reads lines of NAME=value, with export, quotes and comments. Nothing
// is expanded. A fault never quotes a line: it may hold a secret.
func parseEnv(data []byte, name string) (map[string]string, []Fault) {
	p := envParser{rest: string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), vars: map[string]string{}, name: name, line: 1}
	for p.rest != "" && len(p.vars) <= maxEnvVars {
		p.entry()
	}
	if len(p.vars) > maxEnvVars {
		p.bad(fmt.Sprintf("more than %d variables", maxEnvVars))
	}
	return p.vars, p.faults
}

type envParser struct {
	rest   string
	line   int
	name   string
	vars   map[string]string
	faults []Fault
}

func (p *envParser) bad(msg string) {
	p.faults = append(p.faults, Fault{File: p.name, Line: p.line, Column: 1, Msg: msg})
}

// entry reads one line, or more when a quoted value spans them.
func (p *envParser) entry() {
	line, rest, _ := strings.Cut(p.rest, "\n")
	text := strings.TrimSpace(line)
	if text == "" || text[0] == '#' {
		p.rest, p.line = rest, p.line+1
		return
	}
	key, val, ok := strings.Cut(line, "=")
	key = strings.TrimSpace(key)
	if after, found := strings.CutPrefix(key, "export "); found {
		key = strings.TrimSpace(after)
	}
	if !ok || !validName(key) {
		p.bad("is not NAME=value, skipped")
		p.rest, p.line = rest, p.line+1
		return
	}
	val = strings.TrimLeft(val, " \t")
	if val == "" || val[0] != '"' && val[0] != '\'' {
		p.set(key, plainValue(val))
		p.rest, p.line = rest, p.line+1
		return
	}
	p.rest = p.rest[len(line)-len(val):]
	p.quoted(key)
}

func (p *envParser) set(key, val string) {
	if strings.ContainsRune(val, 0) {
		p.bad("holds a NUL byte")
		return
	}
	p.vars[key] = val
}

// plainValue ends at a comment that a blank precedes.
func plainValue(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
			break
		}
	}
	return strings.TrimSpace(s)
}

// quoted reads the value whose opening quote p.rest begins with. In double
// quotes \n, \r, \t, \" \\ and \$ are escapes.
func (p *envParser) quoted(key string) {
	quote, first := p.rest[0], p.line
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == quote:
			p.line = first + strings.Count(p.rest[:i], "\n")
			p.set(key, b.String())
			p.tail(p.rest[i+1:])
			return
		case c == '\\' && quote == '"' && i+1 < len(p.rest):
			i++
			b.WriteString(unescape(p.rest[i]))
		default:
			b.WriteByte(c)
		}
	}
	p.bad("a quote has no end, the rest is skipped")
	p.rest = ""
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case '"', '\\', '$':
		return string(c)
	}
	return "\\" + string(c)
}

// tail wants nothing but a comment after a closing quote.
func (p *envParser) tail(after string) {
	line, rest, _ := strings.Cut(after, "\n")
	if t := strings.TrimSpace(line); t != "" && t[0] != '#' {
		p.bad("has text after the closing quote")
	}
	p.rest, p.line = rest, p.line+1
}

func validName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || (r < '0' || r > '9') && r != '.' && r != '-') {
			return false
		}
	}
	return s != ""
}
