package aggregate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Level says how much a fault costs.
type Level uint8

// The levels: Info is expected, Warning means that an entry is shown but was
// changed or deserves a look, Withheld means that it is not shown.
const (
	Info Level = iota
	Warning
	Withheld
)

// String returns the level as the log spells it.
func (l Level) String() string {
	switch l {
	case Info:
		return "info"
	case Warning:
		return "warning"
	}
	return "withheld"
}

// A Fault is something about a server's listing that people should know.
type Fault struct {
	Server string
	Kind   Kind
	// Name is the server's own name of the entry. If empty, Reason is about the
	// server's list as a whole.
	Name   string
	Reason string
	Level  Level
}

// String is one line for people. Name and Reason hold text from outside, which
// is quoted.
func (f Fault) String() string {
	if f.Name == "" {
		return f.Server + ": " + f.Reason
	}
	return fmt.Sprintf("%s %q of %s: %s", f.Kind, f.Name, f.Server, f.Reason)
}

// faults collects a bounded number of faults for each server and kind.
type faults struct {
	kept    []Fault
	count   map[faultKey]int
	dropped map[faultKey]int
}

type faultKey struct {
	server string
	kind   Kind
	level  Level
}

func (fs *faults) add(f Fault) {
	key := faultKey{f.Server, f.Kind, f.Level}
	if fs.count == nil {
		fs.count, fs.dropped = map[faultKey]int{}, map[faultKey]int{}
	}
	if fs.count[key] >= maxServerFaults {
		fs.dropped[key]++
		return
	}
	fs.count[key]++
	f.Name = clip(f.Name, maxNameBytes)
	fs.kept = append(fs.kept, f)
}

// list returns the faults by server, kind and name: an order that does not
// depend on how a server happened to sort its list.
func (fs *faults) list(sources []Source) []Fault {
	for key, n := range fs.dropped {
		reason := fmt.Sprintf("%d more %ss with faults of level %s", n, key.kind, key.level)
		fs.kept = append(fs.kept, Fault{key.server, key.kind, "", reason, key.level})
	}
	order := make(map[string]int, len(sources))
	for i := range sources {
		order[sources[i].Server] = i
	}
	slices.SortStableFunc(fs.kept, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(order[a.Server], order[b.Server]),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(b.Level, a.Level),
			cmp.Compare(a.Reason, b.Reason))
	})
	return fs.kept
}

// clip cuts s to at most n bytes at a character's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
