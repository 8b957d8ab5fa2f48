package aggregate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

// A builder makes one snapshot.
type builder struct {
	view   *View
	shared *Fragments
	snap   *Snapshot
	faults faults
}

// foreignFaults passes on what the walk over a server's lists complained of.
func (b *builder) foreignFaults(i int) {
	src := &b.view.Sources[i]
	if src.Listing == nil {
		return
	}
	for _, reason := range src.Listing.Faults {
		b.faults.add(Fault{Server: src.Server, Reason: reason, Level: Warning})
	}
}

func (b *builder) fault(k Kind, src int, name string, l Level, format string, args ...any) {
	b.faults.add(Fault{b.view.Sources[src].Server, k, name, fmt.Sprintf(format, args...), l})
}

// table builds one list: each server's entries in configuration order, sorted by
// the server's own names, because some servers shuffle their lists; then the
// server's utility tools in their fixed order.
func (b *builder) table(k Kind) {
	share := b.share(k)
	var claims []entry
	for i := range b.view.Sources {
		claims = append(claims, b.native(k, i, share)...)
		if k == Tools && b.view.Utilities {
			claims = append(claims, b.utilities(i)...)
		}
	}
	t := &b.snap.tables[k]
	t.entries = b.settle(k, claims)
	t.index = make(map[string]int32, len(t.entries))
	for i := range t.entries {
		t.index[t.entries[i].exposed] = int32(i)
	}
	t.pages = paginate(t.entries, b.view.pageBytes())
	t.digest = t.sum()
	if k.named() {
		b.warnCase(k, t.entries)
	}
}

// share returns how many entries each server may have. A server that lists more
// than all of them together may, loses its own surplus only.
func (b *builder) share(k Kind) int {
	sizes := make([]int, 0, len(b.view.Sources))
	for i := range b.view.Sources {
		n, _ := entries(b.view.Sources[i].Listing, k)
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	left := maxEntries
	for i, n := range sizes {
		if fair := left / (len(sizes) - i); n > fair {
			return fair
		}
		left -= n
	}
	return maxEntries
}

// native returns what a server lists itself, vetted, filtered, named and sorted.
func (b *builder) native(k Kind, src, share int) []entry {
	s := &b.view.Sources[src]
	n, at := entries(s.Listing, k)
	if n > share {
		b.fault(k, src, "", Withheld, "%d %ss are over the limit of %d for all servers; %d were left out", n, k, maxEntries, n-share)
		n = share
	}
	list := make([]entry, 0, n)
	seen := make(map[string]bool, n)
	names := make([]string, 0, n)
	for i := range n {
		f := b.shared.fragment(s, k, at(i), b.view.Cleaner)
		if f.name != "" {
			names = append(names, f.name)
		}
		if k == Tools && f.name != "" && !s.Filter.Allow(f.name) {
			continue // what the configuration hides needs no report
		}
		if f.withheld != "" {
			b.withheld(k, src, i, f)
			continue
		}
		if seen[f.name] || !b.admit(k, src, f) {
			continue
		}
		seen[f.name] = true
		list = append(list, b.entry(k, src, f))
	}
	slices.SortFunc(list, func(x, y entry) int { return strings.Compare(x.frag.name, y.frag.name) })
	if k == Tools && s.Listing != nil {
		b.idleFilters(src, names)
	}
	return list
}

// idleFilters reports what of a filter matches no tool. In include that is most
// likely a slip; curated exclude lists may well name what is not there.
func (b *builder) idleFilters(src int, names []string) {
	list, idle := b.view.Sources[src].Filter.Idle(names)
	level := Warning
	if list == "exclude" {
		level = Info
	}
	for _, e := range idle {
		b.fault(Tools, src, "", level, "tools.%s: %.64q matches no tool; there are: %s", list, e, few(names))
	}
}

// few names some of many.
func few(names []string) string {
	const most = 8
	if len(names) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(names))
	var out []string
	for _, n := range sorted[:min(len(sorted), most)] {
		out = append(out, fmt.Sprintf("%.64q", n))
	}
	text := strings.Join(out, ", ")
	if len(sorted) > most {
		text += fmt.Sprintf(" and %d more", len(sorted)-most)
	}
	return text
}

func (b *builder) withheld(k Kind, src, i int, f *fragment) {
	if f.name == "" {
		b.fault(k, src, "", Withheld, "%s %d of the list: %s", k, i+1, f.withheld)
		return
	}
	b.fault(k, src, f.name, Withheld, "%s", f.withheld)
}

// admit applies the server's trust and reports what was changed.
func (b *builder) admit(k Kind, src int, f *fragment) bool {
	if k == Tools && b.view.Sources[src].ReadOnlyOnly && !f.readOnly {
		b.fault(k, src, f.name, Withheld, "the server is not trusted and readOnlyHint is not true")
		return false
	}
	for _, note := range f.notes {
		b.fault(k, src, f.name, Warning, "%s", note)
	}
	return true
}

func (b *builder) entry(k Kind, src int, f *fragment) entry {
	e := entry{frag: f, exposed: f.name, src: int32(src), verbatim: true}
	if !k.named() {
		return e
	}
	s := &b.view.Sources[src]
	if b.view.OwnNames || s.Namer == nil {
		e.exposed = policy.OwnName(f.name)
	} else {
		e.exposed = s.Namer.Name(s.Server, f.name)
	}
	e.verbatim = e.exposed == f.name
	return e
}

// utilities returns a server's utility tools: those that its capabilities and
// the configuration allow (NousResearch/hermes-agent#18051).
func (b *builder) utilities(src int) (list []entry) {
	s := &b.view.Sources[src]
	if s.Listing == nil {
		return nil
	}
	for _, u := range policy.Utilities {
		able, wanted := s.Listing.Info.Has("prompts"), s.Filter.Prompts()
		if u.NeedsResources() {
			able, wanted = s.Listing.Info.Has("resources"), s.Filter.Resources()
		}
		if able && wanted {
			list = append(list, b.utility(src, u))
		}
	}
	return list
}

// utility makes an entry that carries its server's name in every view: two
// servers have the same four.
func (b *builder) utility(src int, u policy.Utility) entry {
	s := &b.view.Sources[src]
	name := policy.OwnName(s.Server + "_" + u.Tool())
	if !b.view.OwnNames && s.Namer != nil {
		name = s.Namer.Wrapper(s.Server, u.Tool())
	}
	f := &fragment{name: u.Tool(), body: u.Definition(nil, name, s.Server), readOnly: true, safe: true}
	f.sum = sha256.Sum256(f.body)
	return entry{frag: f, exposed: name, src: int32(src), util: u, verbatim: true}
}

// sum digests the table as agents see it.
func (t *table) sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	var buf []byte
	for i := range t.entries {
		e := &t.entries[i]
		buf = binary.AppendUvarint(buf[:0], uint64(len(e.exposed)))
		buf = append(append(buf, e.exposed...), e.frag.sum[:]...)
		h.Write(buf)
	}
	h.Sum(sum[:0])
	return sum
}

// warnCase reports names that differ only in case: legal, and an easy way to
// pass one tool off as another.
func (b *builder) warnCase(k Kind, list []entry) {
	fold := make(map[string]*entry, len(list))
	for i := range list {
		e := &list[i]
		lower := strings.ToLower(e.exposed)
		first, taken := fold[lower]
		if !taken {
			fold[lower] = e
			continue
		}
		b.fault(k, int(e.src), e.frag.name, Warning, "name %q differs only in case from %q", e.exposed, first.exposed)
	}
}

// byName orders indices of claims by exposed name, then by position.
func byName(claims []entry) []int {
	order := make([]int, len(claims))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(strings.Compare(claims[i].exposed, claims[j].exposed), cmp.Compare(i, j))
	})
	return order
}
