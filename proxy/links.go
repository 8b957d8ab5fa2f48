package proxy

import (
	"bytes"
	"sync"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	maxLinks    = 1024
	maxLinkSize = 8 << 10 // of one URI
)

// links remember which server gave which caller a link to a resource that is
// in no list. The oldest go first. The zero value is empty.
type links struct {
	mu   sync.Mutex
	m    map[linkKey]string // server
	ring []linkKey
	next int
}

type linkKey struct{ caller, view, uri string }

func (l *links) find(k linkKey) (server string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server, ok = l.m[k]
	return server, ok
}

func (l *links) add(k linkKey, server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[linkKey]string{}
	}
	if _, ok := l.m[k]; ok {
		l.m[k] = server
		return
	}
	if len(l.ring) < maxLinks {
		l.ring = append(l.ring, k)
	} else {
		delete(l.m, l.ring[l.next])
		l.ring[l.next] = k
		l.next = (l.next + 1) % maxLinks
	}
	l.m[k] = server
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
	if !ok || len(uri) > maxLinkSize {
		return
	}
	if _, listed := x.view.snapshot().Resource(uri); !listed {
		x.f.links.add(linkKey{x.caller.ID, x.view.Key, uri}, server)
	}
}
