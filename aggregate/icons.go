package aggregate

import (
	"bytes"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// icons drops icons that a client must not load (MCP: only https: and data:)
// and inline ones that would bloat every list.
func (v *vetting) icons() {
	from, to, ok := wire.Find(v.body, "icons")
	if !ok {
		return
	}
	if wire.Kindof(v.body[from:to]) != '[' {
		v.cut("icons")
		v.note("icons is not an array and is left out")
		return
	}
	var kept [][]byte
	dropped := 0
	wire.Elements(v.body[from:to], func(icon []byte) bool {
		if why := refuseIcon(icon); why != "" {
			if dropped++; dropped == 1 {
				v.note("an icon is left out: %s", why)
			}
			return true
		}
		kept = append(kept, icon)
		return true
	})
	switch {
	case dropped == 0:
	case len(kept) == 0:
		v.cut("icons")
	default:
		list := append([]byte{'['}, bytes.Join(kept, []byte{','})...)
		v.splice(from, to, append(list, ']'))
	}
}

// refuseIcon returns why an icon is left out, or "".
func refuseIcon(icon []byte) string {
	var src string
	n := 0
	wire.Each(icon, func(key, val []byte) bool {
		if string(key) == "src" {
			n++
			src, _ = wire.Unquote(val)
		}
		return true
	})
	scheme, _, _ := strings.Cut(src, ":")
	switch {
	case n != 1 || src == "":
		return "it has no src"
	case strings.EqualFold(scheme, "https"):
		return ""
	case !strings.EqualFold(scheme, "data"):
		return "its src is neither https: nor data:"
	case len(src) > maxIconBytes:
		return "its data is over the limit of 64 KiB"
	}
	return ""
}
