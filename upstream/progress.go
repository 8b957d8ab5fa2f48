package upstream

import (
	"strconv"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const (
	progressMethod = "notifications/progress"
	logMethod      = "notifications/message"
)

// A progressGate lets the progress of one call through: under the caller's
// token, and only while it increases, as the protocol demands.
type progressGate struct {
	last float64
	seen bool
}

// pass returns params with the caller's token, or false when the notification
// must be dropped: another token, no number, or no increase.
func (g *progressGate) pass(params []byte, id int64, token []byte) ([]byte, bool) {
	from, to, ok := wire.Find(params, "progressToken")
	if !ok || token == nil || string(params[from:to]) != strconv.FormatInt(id, 10) {
		return nil, false
	}
	raw, ok := wire.Get(params, "progress")
	if !ok {
		return nil, false
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || g.seen && n <= g.last {
		return nil, false
	}
	g.last, g.seen = n, true
	return wire.Splice(nil, params, wire.Edit{From: from, To: to, With: token}), true
}
