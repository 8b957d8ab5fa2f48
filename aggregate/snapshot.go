package aggregate

import (
	"cmp"
	"crypto/sha256"
	"iter"
	"slices"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A Snapshot is what one view shows at one moment. It never changes; methods may
// be called concurrently.
type Snapshot struct {
	view         string
	servers      []string
	infos        []*upstream.Info // nil where nothing is known
	single       bool             // one server under its own names
	tables       [kinds]table
	pages        map[string]int32 // whose tools name which ui:// page; may be nil
	faults       []Fault
	instructions string
	shared       *Fragments
	unlisted     []Source // of whom nothing is known yet
}

// A table is one list: its entries in order, and who answers to which name.
type table struct {
	entries []entry
	index   map[string]int32
	pages   []*page
	digest  [sha256.Size]byte
}

// An entry is a fragment under the name that this view gives it.
type entry struct {
	frag     *fragment
	exposed  string
	src      int32
	util     policy.Utility
	verbatim bool // the fragment's bytes hold the exposed name already
}

// A Route says who answers to an exposed name.
type Route struct {
	Server string
	// Inner is the server's own name, or the URI.
	Inner string
	// Utility is the wrapper that answers; zero for what the server lists itself.
	Utility policy.Utility
	// Safe is true when the server said that a repeated call does no harm.
	Safe bool
	// Exposed is the name that agents use.
	Exposed string
	// Params are the arguments that requests over HTTP repeat in headers; nil when
	// there are none.
	Params *ParamHeaders
}

func newSnapshot(v *View, shared *Fragments) *Snapshot {
	s := &Snapshot{view: v.Name, shared: shared, single: v.OwnNames && len(v.Sources) == 1}
	for i := range v.Sources {
		s.servers = append(s.servers, v.Sources[i].Server)
		var info *upstream.Info
		if l := v.Sources[i].Listing; l != nil {
			info = &l.Info
		} else {
			s.unlisted = append(s.unlisted, v.Sources[i])
		}
		s.infos = append(s.infos, info)
	}
	return s
}

func (s *Snapshot) table(k Kind) *table {
	if k >= kinds {
		return new(table)
	}
	return &s.tables[k]
}

func (s *Snapshot) route(e *entry) Route {
	return Route{Server: s.servers[e.src], Inner: e.frag.name, Utility: e.util, Safe: e.frag.safe, Exposed: e.exposed, Params: e.frag.params}
}

func (s *Snapshot) lookup(k Kind, name string) (Route, bool) {
	t := s.table(k)
	i, ok := t.index[name]
	if !ok {
		return Route{}, false
	}
	return s.route(&t.entries[i]), true
}

// View is the name of the view that this is a snapshot of.
func (s *Snapshot) View() string { return s.view }

// Tool routes an exposed tool name.
func (s *Snapshot) Tool(name string) (Route, bool) { return s.lookup(Tools, name) }

// Prompt routes an exposed prompt name.
func (s *Snapshot) Prompt(name string) (Route, bool) { return s.lookup(Prompts, name) }

// Template routes a URI template that is listed, word for word.
func (s *Snapshot) Template(uriTemplate string) (Route, bool) {
	return s.lookup(Templates, uriTemplate)
}

// Resource routes a URI: to the server that lists it, or else to the one whose
// tool names it as its page, or else to the one with the most specific template
// that matches. A view of a single server sends it
// every URI if it has resources at all. Servers are never tried in turn: that
// would show the URI to strangers.
func (s *Snapshot) Resource(uri string) (Route, bool) {
	if r, ok := s.lookup(Resources, uri); ok {
		return r, true
	}
	if uri == "" || len(uri) > maxURIBytes {
		return Route{}, false
	}
	if s.single {
		ok := s.infos[0] != nil && s.infos[0].Has("resources")
		return Route{Server: s.servers[0], Inner: uri, Exposed: uri}, ok
	}
	src, ok := s.pages[uri]
	if !ok {
		src = s.matching(uri)
	}
	if src < 0 {
		return Route{}, false
	}
	return Route{Server: s.servers[src], Inner: uri, Exposed: uri}, true
}

// matching returns whose template fits uri best, or -1.
func (s *Snapshot) matching(uri string) int32 {
	src, m := int32(-1), newMatcher(uri)
	var best *template
	for i := range s.tables[Templates].entries {
		e := &s.tables[Templates].entries[i]
		if t := e.frag.template; (best == nil || t.beats(best)) && m.match(e.src, t) {
			best, src = t, e.src
		}
	}
	return src
}

// Inner finds what the view shows of a server under the server's own name. What
// the view hides, it hides here too.
func (s *Snapshot) Inner(k Kind, server, inner string) (Route, bool) {
	src := int32(slices.Index(s.servers, server))
	list := s.table(k).entries
	i, ok := slices.BinarySearchFunc(list, inner, func(e entry, inner string) int {
		return cmp.Or(cmp.Compare(e.src, src), cmp.Compare(min(e.util, 1), 0), cmp.Compare(e.frag.name, inner))
	})
	if !ok {
		return Route{}, false
	}
	return s.route(&list[i]), true
}

// Native yields what the view shows of one server: the route, and the entry as
// agents see it but under the server's own name.
func (s *Snapshot) Native(k Kind, server string) iter.Seq2[Route, []byte] {
	return func(yield func(Route, []byte) bool) {
		t := s.table(k)
		for i := range t.entries {
			e := &t.entries[i]
			if e.util == 0 && s.servers[e.src] == server && !yield(s.route(e), e.frag.body) {
				return
			}
		}
	}
}

// Tools yields every tool in order with its description.
func (s *Snapshot) Tools() iter.Seq2[Route, string] {
	return func(yield func(Route, string) bool) {
		t := &s.tables[Tools]
		for i := range t.entries {
			raw, _ := wire.Get(t.entries[i].frag.body, "description")
			text, _ := wire.Unquote(raw)
			if !yield(s.route(&t.entries[i]), text) {
				return
			}
		}
	}
}

// Has reports whether the view has a capability: some server declared it, or may
// yet, since nothing is known of it; or there are tools of ours. A legacy agent
// asks once, so what may come must be declared.
func (s *Snapshot) Has(capability string) bool {
	for _, info := range s.infos {
		if info == nil || info.Has(capability) {
			return true
		}
	}
	return capability == "tools" && len(s.tables[Tools].entries) > 0
}

// Info is what is known of a server of the view; nil when nothing is, or when
// the view has no such server.
func (s *Snapshot) Info(server string) *upstream.Info {
	if i := slices.Index(s.servers, server); i >= 0 {
		return s.infos[i]
	}
	return nil
}

// Servers yields the servers of the view in configuration order with what is
// known of them: nil when nothing is.
func (s *Snapshot) Servers() iter.Seq2[string, *upstream.Info] {
	return func(yield func(string, *upstream.Info) bool) {
		for i, name := range s.servers {
			if !yield(name, s.infos[i]) {
				return
			}
		}
	}
}

// Count is the number of entries of kind k.
func (s *Snapshot) Count(k Kind) int { return len(s.table(k).entries) }

// Digest changes exactly when what agents see of kind k changes.
func (s *Snapshot) Digest(k Kind) [sha256.Size]byte { return s.table(k).digest }

// Faults are what was withheld, repaired or deserves a look, by server.
func (s *Snapshot) Faults() []Fault { return s.faults }

// Instructions are those of the servers that the view shows something of.
func (s *Snapshot) Instructions() string { return s.instructions }

// Unlisted returns a server that has not listed anything yet, and may have what is
// looked for under a name or a URI.
func (s *Snapshot) Unlisted(k Kind, name string) (server string, ok bool) {
	for _, src := range s.unlisted {
		if s.single || k.named() && (src.Namer == nil || src.Namer.Fits(src.Server, name)) {
			return src.Server, true
		}
	}
	return "", false
}
