package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// notAsListed is what the log says of entries that agents do not see, or see
// otherwise.
const notAsListed = "not shown as the server lists it"

// report logs faults: one line for each server and kind, which names the first, and
// every one at level debug. What was said before is not said again.
func (v *views) report(faults []aggregate.Fault) {
	now := make(map[string]bool, len(faults))
	for i := 0; i < len(faults); {
		n, first := 0, faults[i]
		for ; i < len(faults) && faults[i].Server == first.Server && faults[i].Kind == first.Kind; i++ {
			f := &faults[i]
			v.once(now, slog.LevelDebug, f.String(), "server", f.Server, "err", f.String())
			if f.Level == aggregate.Info {
				continue
			}
			if n++; n == 1 {
				first = *f
			}
		}
		if n > 0 {
			text := first.String()
			v.once(now, slog.LevelInfo, fmt.Sprint(n, " ", text), "server", first.Server, "kind", first.Kind.String(), "count", n, "err", text)
		}
	}
	v.faults = now
}

// once logs facts unless the last report did; key tells them apart.
func (v *views) once(now map[string]bool, level slog.Level, key string, facts ...any) {
	now[key] = true
	if !v.faults[key] {
		v.log.Log(context.Background(), level, notAsListed, facts...)
	}
}

// settled reports whether every server had its first chance: until then each that
// comes may win names from others, and lose them again.
func (v *views) settled() bool {
	for _, name := range v.set.Names() {
		if st, _ := v.set.Status(name); st.State == upstream.Connecting {
			return false
		}
	}
	return true
}
