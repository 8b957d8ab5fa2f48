package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func TestUtilities(t *testing.T) {
	want := []string{
		`{"name":"mcp_fs_list_resources","description":"List available resources from MCP server 'fs'","inputSchema":{"type":"object","properties":{}}}`,
		`{"name":"mcp_fs_read_resource","description":"Read a resource by URI from MCP server 'fs'","inputSchema":{"type":"object","properties":{"uri":{"type":"string","description":"URI of the resource to read"}},"required":["uri"]}}`,
		`{"name":"mcp_fs_list_prompts","description":"List available prompts from MCP server 'fs'","inputSchema":{"type":"object","properties":{}}}`,
		`{"name":"mcp_fs_get_prompt","description":"Get a prompt by name from MCP server 'fs'","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"Name of the prompt to retrieve"},"arguments":{"type":"object","description":"Optional arguments to pass to the prompt","properties":{},"additionalProperties":true}},"required":["name"]}}`,
	}
	var got []string
	for _, u := range Utilities {
		got = append(got, string(u.Definition(nil, "mcp_fs_"+u.Tool(), "fs")))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("definitions (-want +got):\n%s", d)
	}
}

func TestUtilityQuotes(t *testing.T) {
	for _, u := range Utilities {
		def := u.Definition([]byte("x"), "n", "a\"b\n%s\u200b")[1:]
		if _, err := wire.Valid(def, wire.Limits{}); err != nil {
			t.Errorf("%s: %v", def, err)
		}
	}
}

func TestUtilityNeeds(t *testing.T) {
	for u, want := range map[Utility]bool{ListResources: true, ReadResource: true, ListPrompts: false, GetPrompt: false} {
		if u.NeedsResources() != want {
			t.Errorf("%s: got %v", u.Tool(), !want)
		}
	}
}
