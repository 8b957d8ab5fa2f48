package auth

import (
	"slices"
	"testing"
)

func TestHeaderFault(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		good        bool
	}{
		{"Authorization", "Bearer x", true}, {"X-Tab", "a\tb", true}, {"X-Latin", "é", true}, {"!#$%&'*+-.^_`|~", "", true},
		{"", "x", false}, {"A B", "x", false}, {"A:", "x", false}, {"Ä", "x", false}, {"A\n", "x", false},
		{"A", "x\r\nB: c", false}, {"A", "x\x00", false}, {"A", "\x7f", false},
	} {
		if got := HeaderFault(tc.name, tc.value); (got == "") != tc.good {
			t.Errorf("%q: %q: got %q, want good %v", tc.name, tc.value, got, tc.good)
		}
	}
}

func TestSettingsValidate(t *testing.T) {
	for _, tc := range []struct {
		hosts, origins []string
		bad            []string
	}{
		{[]string{"mcp.example.com", "mcp.example.com:8443", "[::1]:80"}, []string{"https://app.example.com", "http://localhost:3000", "vscode-webview://abc"}, nil},
		{[]string{"*", "a/b", "", "u@h"}, nil, []string{"allowed_hosts", "allowed_hosts", "allowed_hosts", "allowed_hosts"}},
		{nil, []string{"*", "null", "https://a/", "https://*.a", "https://u@a", "//a"},
			[]string{"allowed_origins", "allowed_origins", "allowed_origins", "allowed_origins", "allowed_origins", "allowed_origins"}},
	} {
		s := Settings{AllowedHosts: tc.hosts, AllowedOrigins: tc.origins}
		var got []string
		s.Validate(func(key, _ string) { got = append(got, key) })
		if !slices.Equal(got, tc.bad) {
			t.Errorf("%v %v: got faults of %v, want %v", tc.hosts, tc.origins, got, tc.bad)
		}
	}
}
