package policy

import (
	"strings"
	"testing"
)

func TestMetaKeys(t *testing.T) {
	for _, tt := range []struct {
		key                 string
		reserved, malformed bool
	}{
		// Under the rule of 2025-06-18.
		{"modelcontextprotocol.io/x", true, false},
		{"mcp.dev/x", true, false},
		// Under that of 2025-11-25 and 2026-07-28.
		{"io.modelcontextprotocol/serverInfo", true, false},
		{"io.modelcontextprotocol/related-task", true, false},
		{"dev.mcp/x", true, false},
		// Under both.
		{"api.modelcontextprotocol.org/x", true, false},
		{"tools.mcp.com/x", true, false},
		{"com.mcp.tools/x", true, false},
		{"org.modelcontextprotocol.api/x", true, false},
		// Under neither.
		{"com.example.mcp/x", false, false},
		{"com.example/handoff", false, false},
		{"com.example/", false, false},
		{"mcp/x", false, false},
		{"handoff", false, false},
		{"ui", false, false},
		{"mcp", false, false},
		{"mcp.dev", false, false},
		{"a", false, false},
		{"", false, false},
		{"a-b_c.d", false, false},
		// Case does not count in labels.
		{"MCP.Dev/x", true, false},
		{"Io.ModelContextProtocol/x", true, false},
		// Without a prefix.
		{"progressToken", true, false},
		{"baggage", true, false},
		{"traceparent", false, false},
		{"tracestate", false, false},
		{"ProgressToken", false, false},
		// Malformed.
		{"1x.y/z", false, true},
		{"a..b/c", false, true},
		{"x-/y", false, true},
		{"/name", false, true},
		{"a/b/c", false, true},
		{"_fastmcp", false, true},
		{"com.example/-x", false, true},
		{"com.example/x-", false, true},
		{"com.exa_mple/x", false, true},
		{"com.example/a b", false, true},
		{"com.example/é", false, true},
		{"hand\u200boff", false, true},
		{"io.modelcontextprotocol/a b", true, true},
		{strings.Repeat("k", maxMetaKey), false, false},
		{strings.Repeat("k", maxMetaKey+1), false, true},
	} {
		if got := MetaReserved(tt.key); got != tt.reserved {
			t.Errorf("MetaReserved(%q) = %v", tt.key, got)
		}
		if got := MetaMalformed(tt.key); got != tt.malformed {
			t.Errorf("MetaMalformed(%q) = %v", tt.key, got)
		}
	}
}

func FuzzMetaKey(f *testing.F) {
	f.Add("io.modelcontextprotocol/serverInfo")
	f.Add("a..b/c")
	f.Fuzz(func(t *testing.T, key string) {
		if MetaReserved(key) != MetaReserved(lowerPrefix(key)) {
			t.Fatalf("%q: case counts", key)
		}
		if !MetaMalformed(key) {
			for _, c := range []byte(key) {
				if c >= 0x80 || suspect(rune(c)) || c == ' ' {
					t.Fatalf("%q is well formed?", key)
				}
			}
		}
	})
}

func lowerPrefix(key string) string {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		return key
	}
	return strings.ToLower(prefix) + "/" + name
}
