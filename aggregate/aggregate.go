// Package aggregate merges the listings of many servers into one immutable
// snapshot per view.
//
// It is pure: the same listings give the same snapshot, whichever arrived first
// and whoever else is there. What a server lists is foreign data. Each entry is
// vetted, repaired where that is safe, cleaned and named; what cannot be shown is
// withheld and reported as a Fault, and never takes its neighbours with it.
package aggregate

import (
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// Kind is one of the four lists that a snapshot serves.
type Kind uint8

// The kinds, in the order in which they are built and reported.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates
	kinds
)

// String returns what one entry of the kind is called.
func (k Kind) String() string {
	if k >= kinds {
		return "entry"
	}
	return [kinds]string{"tool", "prompt", "resource", "template"}[k]
}

// named reports whether entries are exposed under names of ours; resources and
// templates keep their URIs.
func (k Kind) named() bool { return k == Tools || k == Prompts }

// key is the member that identifies an entry.
func (k Kind) key() string {
	return [kinds]string{"name", "name", "uri", "uriTemplate"}[k]
}

// A Source is one server of a view.
type Source struct {
	Server string
	// Listing is what the server offers. If nil, nothing is known yet.
	Listing *upstream.Listing
	// Filter decides on raw names. If nil, all pass.
	Filter *policy.Filter
	// Namer makes exposed names. If nil, they are the server's own.
	Namer *policy.Namer
	// ReadOnlyOnly withholds tools whose readOnlyHint is not exactly true.
	ReadOnlyOnly bool
}

// A View is what one kind of caller sees.
type View struct {
	// Name is "default" or "default/<server>"; cursors are bound to it.
	Name string
	// Sources are in configuration order, which is the order of every list.
	Sources []Source
	// OwnNames exposes the servers' own names, without a prefix.
	OwnNames bool
	// Utilities adds the utility tools of every server that can answer them.
	Utilities bool
	// Prefer decides who keeps a name that several servers claim: the server
	// that it names first. If none of them is named, nobody keeps it.
	Prefer []string
	// Cleaner cleans what models read. If nil, everything is cleaned.
	Cleaner *policy.Cleaner
	// PageBytes bounds one page of a list. If zero, 4 MiB.
	PageBytes int
}

func (v *View) pageBytes() int {
	if v.PageBytes <= 0 {
		return 4 << 20
	}
	return v.PageBytes
}

// Limits of what servers may list. Hitting one is a Fault that names it.
const (
	maxEntries      = 50_000  // of one kind, all servers together
	maxEntryBytes   = 1 << 20 // of one entry
	maxDepth        = 100     // of one entry's nesting
	maxMembers      = 256     // of one entry's own members
	maxNameBytes    = 256     // of a tool's or prompt's own name
	maxURIBytes     = 8 << 10 // of a resource's URI or a template
	maxIconBytes    = 64 << 10
	maxServerFaults = 100 // of one server and kind; the rest is counted
)

// Build merges the listings of v's servers. It never fails: what cannot be shown
// is left out and reported. shared may be nil; sharing one between views and
// rebuilds saves memory and time.
func Build(v View, shared *Fragments) *Snapshot {
	if shared == nil {
		shared = new(Fragments)
	}
	b := builder{view: &v, shared: shared, snap: newSnapshot(&v, shared)}
	for k := range kinds {
		b.table(k)
	}
	b.apps()
	for i := range v.Sources {
		b.foreignFaults(i)
	}
	b.snap.instructions = b.instructions()
	b.snap.faults = b.faults.list(v.Sources)
	return b.snap
}

// entries returns what a listing holds of kind k.
func entries(l *upstream.Listing, k Kind) (n int, at func(int) []byte) {
	if l == nil {
		return 0, nil
	}
	list := l.Tools
	switch k {
	case Prompts:
		list = l.Prompts
	case Resources:
		list = l.Resources
	case Templates:
		list = l.Templates
	}
	return len(list), func(i int) []byte { return list[i] }
}
