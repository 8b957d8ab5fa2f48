package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
)

// TestCountsOf holds that the log of what servers asked names what happened alone.
func TestCountsOf(t *testing.T) {
	if got := countsOf(policy.AskCounts{}); got != nil {
		t.Errorf("got %v of nothing", got)
	}
	var n policy.AskCounts
	n.Elicitation.Requests, n.Elicitation.Accepted, n.Elicitation.Incomplete, n.Roots.Errors = 3, 2, 1, 4
	want := []any{"elicitation", uint64(3), "accepted", uint64(2), "accepted_without_required_fields", uint64(1), "roots_errors", uint64(4)}
	if diff := cmp.Diff(want, countsOf(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
