package proxy

import (
	"errors"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// TestRetryHint holds that an agent is told once when to come again.
func TestRetryHint(t *testing.T) {
	for _, tt := range []struct {
		kind  upstream.Kind
		after time.Duration
		want  string
	}{
		{upstream.Busy, 0, `server "s" has too many calls in progress: why. Nothing was done. Try again in a moment. (code MCPS-BUSY)`},
		{upstream.Busy, 5 * time.Second, `server "s" has too many calls in progress: why. Nothing was done. Retry after 5s. (code MCPS-BUSY)`},
		{upstream.RateLimited, 0, `server "s" limits how often it can be called: why. Nothing was done. Wait before the next call. (code MCPS-RATE-LIMITED)`},
		{upstream.RateLimited, time.Minute, `server "s" limits how often it can be called: why. Nothing was done. Retry after 1m0s. (code MCPS-RATE-LIMITED)`},
		{upstream.Unreachable, 0, `server "s" cannot be reached: why. Other servers are not affected; try again later. (code MCPS-UNREACHABLE)`},
	} {
		err := &upstream.Error{Server: "s", Kind: tt.kind, RetryAfter: tt.after, Err: errors.New("why")}
		if got := describe("s", troubleOf(err), err); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
