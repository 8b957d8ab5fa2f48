package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// maxFaults bounds what one error lists.
const maxFaults = 500

// maxHints bounds the search for what a wrong key was meant to be.
const maxHints = 50

// A Fault is one thing that is wrong, or worth a warning, at one place.
type Fault struct {
	// File is the file as it was named; empty for flags and the environment.
	File string
	// Line and Column count from 1; zero when the place is the whole file.
	Line, Column int
	// Path is the setting: mcp_servers.github.url. It may be empty.
	Path string
	Msg  string
}

func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		b.WriteString(": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Msg)
	return b.String()
}

// Faults is everything that is wrong with a configuration, in the order of the
// files and of the places in them.
type Faults struct {
	List []Fault
	// Warnings are what else deserves a word.
	Warnings []Fault
	// Config is what was read, as far as it goes: more may be found out about it, but
	// it is not to be used.
	Config *Config
}

func (f *Faults) Error() string {
	lines := make([]string, 0, len(f.List))
	for i, one := range f.List {
		if i == maxFaults {
			lines = append(lines, fmt.Sprintf("and %d more", len(f.List)-i))
			break
		}
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// Faults takes apart what keeps this server off: its own Err, or what resolving
// its settings returned. Each fault has its place, and prints on one line. It is
// empty when err is nil.
func (s *Server) Faults(err error) []Fault {
	if err == nil {
		return nil
	}
	var all *Faults
	if errors.As(err, &all) {
		return all.List
	}
	settings := upstream.SettingFaults(err)
	if len(settings) == 0 {
		return []Fault{s.fault(nameless(err).Error())}
	}
	out := make([]Fault, len(settings))
	for i, f := range settings {
		out[i] = s.fault(f.Err.Error(), f.Path...)
	}
	return sorted(out, []string{s.File})
}

// Place makes a fault of what was found about the setting at path elsewhere.
func (s *Server) Place(msg string, path ...string) Fault { return s.fault(msg, path...) }

// nameless drops the server's name, which a fault's path repeats.
func nameless(err error) error {
	var of *upstream.Error
	if errors.As(err, &of) && of.Err != nil {
		return of.Err
	}
	return err
}

// fault is a fault of the setting at path, wherever that stands.
func (s *Server) fault(msg string, path ...string) Fault {
	at := s.node.at(&node{file: s.file, line: s.Line, column: s.Column}, path)
	return s.file.fault(at, join(append([]string{cmp.Or(s.block, serversKey), s.Name}, path...)...), msg)
}

// sorted puts faults in order of file (as given), then place, and drops
// repetitions.
func sorted(list []Fault, files []string) []Fault {
	rank := make(map[string]int, len(files))
	for i, f := range files {
		rank[f] = i
	}
	slices.SortStableFunc(list, func(a, b Fault) int {
		if d := rank[a.File] - rank[b.File]; d != 0 {
			return d
		}
		if d := a.Line - b.Line; d != 0 {
			return d
		}
		return a.Column - b.Column
	})
	return slices.Compact(list)
}

// join writes a path, quoting the segments that a dot would make ambiguous.
func join(path ...string) string {
	out := make([]string, len(path))
	for i, p := range path {
		out[i] = segment(p)
	}
	return strings.Join(out, ".")
}

func segment(p string) string {
	plain := p != "" && len(p) <= 64 && !strings.ContainsFunc(p, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if plain {
		return p
	}
	return fmt.Sprintf("%.64q", p)
}

// unknown words the complaint about a key that nobody knows.
func unknown(key string, known []string) string {
	msg := fmt.Sprintf("unknown key %.64q", key)
	if best := nearest(key, known); best != "" {
		msg += fmt.Sprintf(" (did you mean %q?)", best)
	}
	return msg
}

// nearest returns the known word that key is most likely a slip of, or "".
func nearest(key string, known []string) string {
	if len(key) > 64 {
		return ""
	}
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
	}
	best, least := "", 1+max(1, len(key)/3)
	for _, k := range known {
		d := distance(fold(key), fold(k))
		if d < least {
			best, least = k, d
		}
	}
	if len(key) >= 3 && least > 1 { // no mere slip: a word that goes on is likelier
		return cmp.Or(longer(key, known), best)
	}
	return best
}

// longer returns the one known word that begins with key, or "".
func longer(key string, known []string) (found string) {
	for _, k := range known {
		if !strings.HasPrefix(k, key+"_") {
			continue
		}
		if found != "" {
			return ""
		}
		found = k
	}
	return found
}

// distance is Damerau's: insert, delete, replace, swap neighbours.
func distance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
