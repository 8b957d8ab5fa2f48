package proxy

import (
	"errors"
	"strings"
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
		if got := describe("s", troubleOf(err), err, false); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// TestEffect holds what agents are told of a call's effect: nothing but what is so.
func TestEffect(t *testing.T) {
	for _, kind := range []upstream.Kind{upstream.Timeout, upstream.Protocol, upstream.TooLarge, upstream.Uncertain} {
		for _, tt := range []struct {
			unsent, safe bool
			want         string
		}{
			{false, false, "may have taken effect"},
			{false, true, "It does no harm to repeat the call."},
			{true, false, "The call was not sent."},
			{true, true, "The call was not sent."},
		} {
			err := &upstream.Error{Server: "s", Kind: kind, Unsent: tt.unsent, Err: errors.New("why")}
			got := describe("s", troubleOf(err), err, tt.safe)
			if !strings.Contains(got, tt.want) || strings.Contains(got, "may have") == (tt.unsent || tt.safe) {
				t.Errorf("unsent %v, safe %v: %s", tt.unsent, tt.safe, got)
			}
		}
	}
}
