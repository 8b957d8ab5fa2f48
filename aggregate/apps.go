package aggregate

import (
	"bytes"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// uiScheme is that of the pages which MCP Apps attaches to tools.
const uiScheme = "ui://"

// apps notes whose tools name which ui:// page. Servers need not list the pages,
// and yet an agent that shows a tool must be able to read its page.
func (b *builder) apps() {
	s := b.snap
	for i := range s.tables[Tools].entries {
		e := &s.tables[Tools].entries[i]
		uri := appPage(e.frag.body)
		if uri == "" || len(uri) > maxURIBytes {
			continue
		}
		owner, taken := e.src, false
		if r, ok := s.tables[Resources].index[uri]; ok {
			owner, taken = s.tables[Resources].entries[r].src, true
		} else if a, ok := s.pages[uri]; ok {
			owner, taken = a, true
		}
		if owner != e.src {
			b.fault(Tools, int(e.src), e.frag.name, Warning,
				"its page %q belongs to %s, which answers for it", clip(uri, 128), s.servers[owner])
		}
		if !taken {
			if s.pages == nil {
				s.pages = map[string]int32{}
			}
			s.pages[uri] = e.src
		}
	}
}

// appPage returns the ui:// URI in a tool's definition, in its form of today or
// that of the extension's first drafts; empty when there is none.
func appPage(body []byte) string {
	if !bytes.Contains(body, []byte("resourceUri")) {
		return ""
	}
	meta, _ := wire.Get(body, "_meta")
	ui, _ := wire.Get(meta, "ui")
	raw, ok := wire.Get(ui, "resourceUri")
	if !ok {
		raw, _ = wire.Get(meta, "ui/resourceUri")
	}
	if uri, _ := wire.Unquote(raw); strings.HasPrefix(uri, uiScheme) {
		return uri
	}
	return ""
}
