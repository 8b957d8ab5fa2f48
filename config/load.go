package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Bounds of a whole configuration.
const (
	maxFiles   = 100
	maxServers = 10_000
)

// Input is what a configuration is made from.
type Input struct {
	// Files are the files to read; "hermes:FILE" is one of Hermes. If empty, those
	// that the environment names, else the default search.
	Files []string
	// NoSearch leaves out the default search.
	NoSearch bool
	// Env is the environment as os.Environ has it.
	Env []string
	// Flags are the values set on the command line.
	Flags Process
	// Dir is the directory that relative names start from. If empty, the
	// process's own.
	Dir string
	// Home is the user's home directory. If empty, none is known.
	Home string
}

// Load reads everything and returns a valid configuration, or a *Faults that
// lists all that is wrong.
func Load(in Input) (*Config, error) {
	l := loader{in: in, c: &Config{env: environ(in.Env), home: in.Home}}
	l.process()
	l.names()
	l.read()
	l.top()
	l.servers()
	l.finish()
	l.c.Warnings = sorted(l.c.Warnings, l.c.Files)
	if len(l.faults) > 0 {
		return nil, &Faults{List: sorted(l.faults, l.c.Files), Warnings: l.c.Warnings, Config: l.c}
	}
	return l.c, nil
}

type loader struct {
	in     Input
	c      *Config
	set    Process // what flags and environment set
	faults []Fault
}

func (l *loader) bad(f ...Fault)  { l.faults = append(l.faults, f...) }
func (l *loader) warn(f ...Fault) { l.c.Warnings = append(l.c.Warnings, f...) }

func (l *loader) process() {
	envs, faults, warnings := fromEnv(l.c.env)
	l.bad(faults...)
	l.warn(warnings...)
	flags := l.in.Flags
	if len(l.in.Files) > 0 {
		flags.Config = l.in.Files
	}
	l.set, l.c.origins = overlay(flags, envs)
	l.c.InsecureNoAuth = l.set.InsecureNoAuth != nil && *l.set.InsecureNoAuth
}

// names decides which files are read.
func (l *loader) names() {
	named := l.set.Config
	if len(named) == 0 && !l.in.NoSearch {
		named = l.search()
	}
	if len(named) > maxFiles {
		l.bad(Fault{Msg: fmt.Sprintf("more than %d configuration files", maxFiles)})
		named = named[:maxFiles]
	}
	for _, n := range named {
		name, isHermes := strings.CutPrefix(n, "hermes:")
		f := &file{name: name, path: l.abs(name), hermes: isHermes}
		if slices.ContainsFunc(l.c.files, func(o *file) bool { return o.path == f.path }) {
			l.bad(Fault{Msg: fmt.Sprintf("file %q is named twice", name)})
			continue
		}
		l.c.files = append(l.c.files, f)
		l.c.Files = append(l.c.Files, name)
	}
}

// search looks where a configuration is when nobody says where.
func (l *loader) search() []string {
	places := []string{"mcp-sidecar.yaml"}
	dir := l.c.env["XDG_CONFIG_HOME"]
	if dir == "" && l.in.Home != "" {
		dir = filepath.Join(l.in.Home, ".config")
	}
	if filepath.IsAbs(dir) {
		places = append(places, filepath.Join(dir, "mcp-sidecar", "mcp-sidecar.yaml"))
	}
	for _, p := range places {
		if _, err := os.Stat(l.abs(p)); err == nil {
			return []string{p}
		}
	}
	l.warn(Fault{Msg: "no configuration found at " + strings.Join(places, " or ")})
	return nil
}

// abs makes a name absolute, from Dir; ~ is the user's home.
func (l *loader) abs(name string) string { return l.absFrom(l.in.Dir, name) }

func (l *loader) absFrom(dir, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok && l.in.Home != "" {
		return filepath.Join(l.in.Home, rest)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if a, err := filepath.Abs(name); err == nil {
		return a
	}
	return name
}

func (l *loader) read() {
	for _, f := range l.c.files {
		faults, warnings := f.read()
		l.bad(faults...)
		l.warn(warnings...)
		if f.flavor != client && f.flavor != claude {
			l.warn(f.besides()...)
		}
	}
}

// top merges our own files and decodes all but their servers.
func (l *loader) top() {
	merged := &node{kind: mapping}
	for _, f := range l.c.files {
		if f.root == nil || f.flavor != own {
			continue
		}
		l.c.document = merged
		l.merge(merged, f.root.without(serversKey), nil)
	}
	var doc document
	if l.c.document != nil {
		root := l.later(merged, nil)
		d := decoder{extra: append([]string{serversKey}, append(later[""].keys, later["quiet"].keys...)...)}
		d.structInto(root, reflect.ValueOf(&doc).Elem(), "", nil)
		l.bad(d.faults...)
	}
	l.settle(&doc)
}

// merge adds the keys of one of our files to those of the files before it. A
// value can stand in one file only.
func (l *loader) merge(into, from *node, path []string) {
	for _, p := range from.pairs {
		here := extend(path, p.key)
		old := into.pair(p.key)
		switch {
		case old == nil && p.val.kind == mapping:
			c := &node{kind: mapping, file: p.val.file, line: p.val.line, column: p.val.column}
			into.pairs = append(into.pairs, pair{key: p.key, at: p.at, val: c})
			l.merge(c, p.val, here)
		case old == nil:
			into.pairs = append(into.pairs, p)
		case old.val.kind == mapping && p.val.kind == mapping:
			l.merge(old.val, p.val, here)
		default:
			l.bad(p.at.file.fault(p.at, join(here...), fmt.Sprintf("is set in %s:%d too", old.at.file.name, old.at.line)))
		}
	}
}

// later takes out what a later version gives life to, and says so.
func (l *loader) later(n *node, path []string) *node {
	out := *n
	out.pairs = nil
	for _, p := range n.pairs {
		here := extend(path, p.key)
		refuse, quiet := laterKey(join(path...), p.key)
		empty := len(p.val.pairs)+len(p.val.items) == 0 && (p.val.kind == null || p.val.kind == mapping || p.val.kind == list)
		switch {
		case refuse && !empty:
			l.bad(p.at.file.fault(p.at, join(here...), "is not supported in this version"))
		case quiet && !empty:
			l.warn(p.at.file.fault(p.at, join(here...), "not active yet"))
		case refuse || quiet:
		default:
			if p.val.kind == mapping {
				p.val = l.later(p.val, here)
			}
			out.pairs = append(out.pairs, p)
		}
	}
	return &out
}

func laterKey(parent, key string) (refuse, quiet bool) {
	if l, ok := later[parent]; ok && slices.Contains(l.keys, key) {
		return true, false
	}
	return false, parent == "" && slices.Contains(later["quiet"].keys, key)
}
