package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// servers reads the servers of all files, in order.
func (l *loader) servers() {
	first := map[string]*Server{}
	for _, f := range l.c.files {
		if f.root == nil {
			continue
		}
		entries, faults, warnings := f.entries()
		l.bad(faults...)
		l.warn(warnings...)
		for i := range entries {
			if len(l.c.Servers) == maxServers {
				l.bad(f.whole(fmt.Sprintf("more than %d servers", maxServers)))
				return
			}
			s := l.server(f, &entries[i].pair, entries[i].block)
			if old := first[s.Name]; old != nil {
				l.bad(f.fault(entries[i].at, join(serversKey, s.Name), fmt.Sprintf("the same server is in %s:%d", old.File, old.Line)))
				continue
			}
			first[s.Name] = s
			l.c.Servers = append(l.c.Servers, *s)
		}
	}
}

// An entry is one server on its way from node to settings.
type entry struct {
	l       *loader
	f       *file
	s       *Server
	path    []string
	at      *node // the key
	faults  []Fault
	pending []Fault
}

func (l *loader) server(f *file, p *pair, block string) *Server {
	fl := f.flavor
	s := &Server{Name: p.key, File: f.name, Line: p.at.line, Column: p.at.column, Foreign: fl != own, file: f, node: p.val, block: block}
	e := entry{l: l, f: f, s: s, path: []string{block, p.key}, at: p.at}
	if p.val.kind != mapping {
		e.bad(fmt.Sprintf("must be a mapping, not %s", p.val.kind))
	} else {
		e.decode(fl)
	}
	e.close()
	return s
}

func (e *entry) fault(msg string, path ...string) Fault {
	at := e.s.node.at(e.at, path)
	return at.file.fault(at, join(append(e.path[:2:2], path...)...), msg)
}

func (e *entry) bad(msg string, path ...string) { e.faults = append(e.faults, e.fault(msg, path...)) }
func (e *entry) warn(msg string, path ...string) {
	e.l.warn(e.fault(msg, path...))
}

func (e *entry) decode(fl flavor) {
	var envFile *node
	if fl != own {
		t := translate(e.s.node, fl)
		e.s.node, envFile = t.entry, t.envFile
		for _, w := range t.warnings {
			e.l.warn(w.at.file.fault(w.at, join(append(e.path[:2:2], w.path)...), w.msg))
		}
	}
	e.s.node = switches(e.s.node)
	d := decoder{foreign: fl != own}
	d.structInto(e.s.node, reflect.ValueOf(&e.s.Settings).Elem(), "", e.path)
	e.faults = append(e.faults, d.faults...)
	e.l.warn(d.warnings...)
	e.shut(d.closed)
	normalize(&e.s.Settings)
	e.keyFile()
	if fl != own {
		e.soften()
	}
	if fl == hermes {
		e.globals()
	}
	if envFile != nil {
		e.envFile(envFile)
	}
	e.emptyEndpoint()
	e.emptyProxy()
	e.texts(e.s.node, nil)
	e.validate(len(d.faults) > 0)
}

// normalize takes blanks away where none can be meant.
func normalize(s *upstream.Settings) {
	for _, p := range []*string{&s.Command, &s.URL, &s.Transport, &s.Protocol, &s.Trust, &s.Builtin, &s.ClientKey, &s.Cwd, &s.Egress.Proxy,
		&s.Sampling.Model, &s.Sampling.Endpoint.URL, &s.Sampling.Endpoint.KeyFile, &s.Sampling.Endpoint.Model} {
		*p = strings.TrimSpace(*p)
	}
	s.Auth = strings.ToLower(strings.TrimSpace(s.Auth))
}

// keyFile makes the path of a chat endpoint's key start from the folder of the
// file that holds it. Where a reference comes first, what it means decides.
func (e *entry) keyFile() {
	p := &e.s.Settings.Sampling.Endpoint.KeyFile
	if *p == "" || strings.HasPrefix(*p, "~") || strings.HasPrefix(*p, "${") {
		return
	}
	*p = e.l.absFrom(filepath.Dir(e.f.path), *p)
}

// validate sorts what the settings say of themselves by what it costs. Where a
// key could not be read, nothing is said of keys that seem to be missing.
func (e *entry) validate(unread bool) {
	for _, f := range e.s.Settings.Validate(e.s.Name) {
		if unread && f.Missing {
			continue
		}
		switch f.Severity {
		case upstream.Broken:
			e.bad(f.Msg, f.Path...)
		case upstream.Pending:
			e.pending = append(e.pending, e.fault(f.Msg, f.Path...))
		default:
			e.warn(f.Msg, f.Path...)
		}
	}
	p := e.l.c.Profile()
	if n := e.s.Settings.Naming; n != "" {
		if _, err := policy.CompileNaming(n, cmp.Or(p.MaxNameLength, e.l.c.MaxNameLength), p.Reserve); err != nil {
			e.bad(err.Error(), "naming")
		}
	}
}

// close decides what the faults cost: in our own file all, in a foreign one this
// server. What is not active yet costs this server anywhere.
func (e *entry) close() {
	switch {
	case len(e.faults) > 0 && !e.s.Foreign:
		e.l.bad(e.faults...)
	case len(e.faults) > 0:
		e.s.Err = &Faults{List: append(e.faults, e.pending...)}
	case len(e.pending) > 0:
		e.s.Err = &Faults{List: e.pending}
	}
}

// texts looks at every string of the entry as it is written.
func (e *entry) texts(n *node, path []string) {
	switch n.kind {
	case mapping:
		for _, p := range n.pairs {
			e.texts(p.val, extend(path, p.key))
		}
	case list:
		for i, item := range n.items {
			e.texts(item, extend(path, fmt.Sprint(i)))
		}
	case text:
		if n.text != strings.TrimSpace(n.text) {
			e.warn("the value begins or ends with white space", path...)
		}
		if e.block() == serversKey && len(path) > 0 && slices.Contains(referring, path[0]) && bareSecret.MatchString(n.text) && !strings.HasSuffix(n.text, "$PATH") {
			e.warn("holds a literal $NAME: references are written ${NAME}", path...)
		}
		if e.block() != serversKey && bareVariable.MatchString(n.text) {
			e.warn("holds a literal $NAME: references are written ${NAME}", path...)
		}
		if name, ok := prompted(n.text); ok {
			e.bad(fmt.Sprintf("${input:%s} is asked for by an editor, and nobody can be asked here: set an environment variable and write ${%s}", name, variable(name)), path...)
		}
	}
}

// referring are keys whose values are handed on, and whose $NAME nothing else resolves.
var referring = []string{"url", "headers", "env", "oauth", "identity_header"}

// bareSecret is a $NAME that was hardly meant as it stands.
var bareSecret = regexp.MustCompile(`(^|[\s=:/])\$[A-Z][A-Z0-9_]{2,}$`)

// bareVariable is how Gemini's files may name a variable.
var bareVariable = regexp.MustCompile(`\$[A-Za-z_]`)

func (e *entry) block() string { return e.path[0] }

// prompted finds the first ${input:NAME}.
func prompted(s string) (name string, ok bool) {
	_, after, ok := strings.Cut(s, "${input:")
	if !ok {
		return "", false
	}
	name, _, ok = strings.Cut(after, "}")
	return fmt.Sprintf("%.64s", strings.Map(printable, name)), ok
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// variable makes a name for an environment variable out of an input's.
func variable(input string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, input))
}

// globals applies what Hermes says of all its servers.
func (e *entry) globals() {
	s, root := &e.s.Settings, e.f.root
	if off(root.get("mcp").get("client")) || s.URL == "" && off(root.get("mcp").get("stdio_servers")) {
		no := false
		s.Enabled = &no
	}
	limit := root.get("timeouts").get("mcp").get("tool_call")
	if limit == nil || limit.kind == null || s.Timeout != 0 {
		return
	}
	if d, msg := duration(limit); msg == "" {
		s.Timeout = d
	} else {
		e.l.warn(e.f.fault(limit, "timeouts.mcp.tool_call", msg+", ignored"))
	}
}

func off(n *node) bool {
	if n == nil {
		return false
	}
	on, msg := boolish(n)
	return msg == "" && !on
}

// finish checks what one part says of another.
func (l *loader) finish() {
	known := make([]string, len(l.c.Servers))
	for i, s := range l.c.Servers {
		known[i] = s.Name
	}
	p := l.c.Profile()
	l.serverNames(p.Servers, known, "servers")
	l.serverNames(p.Prefer, known, "prefer")
	if len(known) == 0 && len(l.c.files) > 0 && len(l.faults) == 0 {
		l.warn(Fault{Msg: "no servers are configured"})
	}
}

func (l *loader) serverNames(list, known []string, key string) {
	have := make(map[string]bool, len(known))
	for _, k := range known {
		have[k] = true
	}
	hints := 0
	for _, n := range list {
		if have[n] {
			continue
		}
		msg := fmt.Sprintf("no server %.64q", n)
		if hints++; hints > maxHints {
			known = nil
		}
		if best := nearest(n, known); best != "" {
			msg += fmt.Sprintf(" (did you mean %q?)", best)
		}
		l.fault(msg, "profiles", DefaultProfile, key)
	}
}
