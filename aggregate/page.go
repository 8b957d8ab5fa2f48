package aggregate

import (
	"sort"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A page is a run of a table's entries. Its encoding is made when somebody asks
// and may be dropped at any time.
type page struct {
	first, last int // entries[first:last]
	bytes       atomic.Pointer[[]byte]
	used        atomic.Int64
}

// paginate cuts entries into pages of at most limit bytes each, but at least
// one entry.
func paginate(entries []entry, limit int) (pages []*page) {
	size := 0
	for i := range entries {
		n := entries[i].size() + 1
		if len(pages) == 0 || size+n > limit {
			pages = append(pages, &page{first: i})
			size = 0
		}
		size += n
		pages[len(pages)-1].last = i + 1
	}
	return pages
}

// join encodes entries as the inside of a JSON array.
func join(entries []entry) []byte {
	size := 0
	for i := range entries {
		size += entries[i].size() + 1
	}
	dst := make([]byte, 0, size)
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = entries[i].append(dst)
	}
	return dst
}

// size is what append appends; a name that needs escapes is longer, which costs
// a reallocation and nothing else.
func (e *entry) size() int {
	if e.verbatim {
		return len(e.frag.body)
	}
	return len(e.frag.body) - (e.frag.to - e.frag.from) + len(e.exposed) + 2
}

func (e *entry) append(dst []byte) []byte {
	f := e.frag
	if e.verbatim {
		return append(dst, f.body...)
	}
	dst = append(dst, f.body[:f.from]...)
	dst = wire.AppendQuote(dst, e.exposed)
	return append(dst, f.body[f.to:]...)
}

// Page returns the entries that follow the one called after (from the start if
// it is empty) as the inside of a JSON array, and the name to continue after,
// which is empty at the end. ok is false when there is no entry called after.
// The bytes must not be changed.
func (s *Snapshot) Page(k Kind, after string) (items []byte, next string, ok bool) {
	t := s.table(k)
	start := 0
	if after != "" {
		i, found := t.index[after]
		if !found {
			return nil, "", false
		}
		start = int(i) + 1
	}
	if start >= len(t.entries) {
		return nil, "", true
	}
	i := sort.Search(len(t.pages), func(i int) bool { return t.pages[i].last > start })
	p := t.pages[i]
	if p.last < len(t.entries) {
		next = t.entries[p.last-1].exposed
	}
	if p.first != start { // a cursor of an earlier snapshot
		return join(t.entries[start:p.last]), next, true
	}
	return s.shared.encoded(t, p), next, true
}

// encoded returns the page's bytes, which it keeps if there is room.
func (fs *Fragments) encoded(t *table, p *page) []byte {
	p.used.Store(fs.pages.clock.Add(1))
	if b := p.bytes.Load(); b != nil {
		return *b
	}
	b := join(t.entries[p.first:p.last])
	fs.pages.keep(p, b, fs.pageBytes())
	return b
}

func (fs *Fragments) pageBytes() int {
	if fs.PageBytes == 0 {
		return 8 << 20
	}
	return fs.PageBytes
}

// A pageCache bounds the encoded pages of all snapshots together. It does not
// keep a page alive whose snapshot is gone.
type pageCache struct {
	clock atomic.Int64 // counts uses: a page's age is its last one

	mu    sync.Mutex
	held  []heldPage
	bytes int
}

type heldPage struct {
	page weak.Pointer[page]
	size int
}

const maxHeldPages = 4096

// keep holds on to a page's bytes and lets go of those that were not used for
// the longest time.
func (c *pageCache) keep(p *page, b []byte, limit int) {
	if len(b) > limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.bytes.Load() != nil {
		return
	}
	for len(c.held) > 0 && (c.bytes+len(b) > limit || len(c.held) >= maxHeldPages) {
		c.evict()
	}
	p.bytes.Store(&b)
	c.held = append(c.held, heldPage{weak.Make(p), len(b)})
	c.bytes += len(b)
}

// evict drops one page: one whose snapshot is gone, or else the oldest.
func (c *pageCache) evict() {
	oldest, age := 0, int64(0)
	for i, h := range c.held {
		p := h.page.Value()
		if p == nil {
			oldest = i
			break
		}
		if used := p.used.Load(); i == 0 || used < age {
			oldest, age = i, used
		}
	}
	if p := c.held[oldest].page.Value(); p != nil {
		p.bytes.Store(nil)
	}
	c.bytes -= c.held[oldest].size
	last := len(c.held) - 1
	c.held[oldest] = c.held[last]
	c.held = c.held[:last]
}
