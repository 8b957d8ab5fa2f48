package proxy

import (
	"bytes"
	"slices"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	maxShelves   = 64
	maxLinks     = 256      // of one server on one shelf
	maxLinkBytes = 64 << 10 // of their URIs
)

// links remember which server gave which caller a link to a resource that is in
// no list. Every caller has a shelf per view, and every server its own part of
// it, so that none pushes out what is another's. The zero value is empty.
type links struct {
	mu      sync.Mutex
	shelves []*shelf // the longest unused first
}

type linkKey struct{ caller, view string }

// A shelf is the links of one caller in one view.
type shelf struct {
	linkKey
	owner map[string]string // the server of a URI
	given map[string]*given // by server
}

// given are the URIs that one server gave, the oldest first.
type given struct {
	uris  []string
	bytes int
}

func (l *links) find(k linkKey, uri string) (server string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.shelf(k); s != nil {
		server, ok = s.owner[uri]
	}
	return server, ok
}

// add notes a link. The first server that gave it keeps it.
func (l *links) add(k linkKey, uri, server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.shelf(k)
	if s == nil {
		if len(l.shelves) == maxShelves {
			l.evict()
		}
		s = &shelf{linkKey: k, owner: map[string]string{}, given: map[string]*given{}}
		l.shelves = append(l.shelves, s)
	}
	if _, taken := s.owner[uri]; !taken {
		s.add(uri, server)
	}
}

// shelf returns the shelf of k as the last used; nil when there is none.
func (l *links) shelf(k linkKey) *shelf {
	i := slices.IndexFunc(l.shelves, func(s *shelf) bool { return s.linkKey == k })
	if i < 0 {
		return nil
	}
	s := l.shelves[i]
	l.shelves = append(slices.Delete(l.shelves, i, i+1), s)
	return s
}

// evict takes away the longest unused shelf of the caller that has most.
func (l *links) evict() {
	has := map[string]int{}
	for _, s := range l.shelves {
		has[s.caller]++
	}
	worst := 0
	for i, s := range l.shelves {
		if has[s.caller] > has[l.shelves[worst].caller] {
			worst = i
		}
	}
	l.shelves = slices.Delete(l.shelves, worst, worst+1)
}

// add notes a link; the server's oldest ones make room.
func (s *shelf) add(uri, server string) {
	g := s.given[server]
	if g == nil {
		g = new(given)
		s.given[server] = g
	}
	for len(g.uris) == maxLinks || len(g.uris) > 0 && g.bytes+len(uri) > maxLinkBytes {
		delete(s.owner, g.uris[0])
		g.bytes -= len(g.uris[0])
		g.uris = slices.Delete(g.uris, 0, 1)
	}
	g.uris, g.bytes = append(g.uris, uri), g.bytes+len(uri)
	s.owner[uri] = server
}

var linkMark = []byte(`"resource_link"`)

// remember notes the links in the content of a tool's result.
func (x *exchange) remember(server string, content []byte) {
	wire.Elements(content, func(block []byte) bool {
		if typ, _ := wire.Get(block, "type"); bytes.Equal(typ, linkMark) {
			raw, _ := wire.Get(block, "uri")
			x.link(server, raw)
		}
		return true
	})
}

func (x *exchange) link(server string, raw []byte) {
	uri, ok := wire.Unquote(raw)
	if !ok || len(uri) > maxURI {
		return
	}
	if _, listed := x.snapshot().Resource(uri); !listed {
		x.f.links.add(linkKey{x.caller.ID, x.view.Key}, uri, server)
	}
}
