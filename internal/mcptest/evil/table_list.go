package evil

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// listFaults are what servers say that they have.
func listFaults() []Fault {
	return of(Pipes, Stdio, []Fault{
		{ID: "S18a", Says: "has a next page that is always the same", Start: true, Fine: true, pipe: pipeFault{line: pages(func(int) string { return `"again"` })}},
		{ID: "S18b", Says: "has a next page for ever", Start: true, Fine: true, pipe: pipeFault{line: pages(func(n int) string { return `"` + strconv.Itoa(n+1) + `"` })}},
		{ID: "S18c", Says: "has a next page of no name", Start: true, Fine: true, pipe: pipeFault{line: pages(func(int) string { return `""` })}},
		{ID: "S18d", Says: "fails at its second page", Start: true, Fine: true, pipe: pipeFault{line: brokenPage}},
		{ID: "S18e", Says: "has a next page that is a number", Start: true, Fine: true, pipe: pipeFault{line: pages(func(int) string { return `7` })}},
		{ID: "S19a", Says: "has 5,000 tools", Start: true, Fine: true, tools: func() []string { return manyTools(5000, 10) }},
		{ID: "S19b", Says: "has a list of 5 MiB", Start: true, Fine: true, tools: func() []string { return manyTools(500, 10<<10) }},
		{ID: "S20", Says: "has tools that are defined wrongly, beside good ones", Start: true, Fine: true, tools: brokenTools},
		{ID: "S20b", Says: "has a tool of 5,000 levels, beside good ones", Start: true, Fine: true, tools: deepTool},
	})
}

// pages answers tools/list with all tools and a cursor.
func pages(next func(page int) string) func(*Pipe, *mcptest.Message) bool {
	return func(p *Pipe, m *mcptest.Message) bool {
		if m.Method != "tools/list" {
			return false
		}
		n, _ := strconv.Atoi(mcptest.Text(m.Params, "cursor"))
		tools := fmt.Sprintf(`{"name":"page_%d","inputSchema":{"type":"object"}}`, n)
		if mcptest.Member(m.Params, "cursor") == nil {
			tools = strings.Join(goodTools, ",")
		}
		p.say(message(m, list(m, tools, `,"nextCursor":`+next(n))))
		return true
	}
}

func brokenPage(p *Pipe, m *mcptest.Message) bool {
	if m.Method != "tools/list" {
		return false
	}
	if mcptest.Member(m.Params, "cursor") != nil {
		p.say(message(m, failure(-32603, "the second page is lost")))
		return true
	}
	p.say(message(m, list(m, strings.Join(goodTools, ","), `,"nextCursor":"2"`)))
	return true
}

// manyTools are n tools with descriptions of a length.
func manyTools(n, length int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`{"name":"tool_%d","description":%s,"inputSchema":{"type":"object"}}`, i, quote(strings.Repeat("d", length)))
	}
	return out
}

// Kept are the names of those tools of S20 that can be shown, some repaired.
var Kept = []string{"null_schema", "cycle"}

func brokenTools() []string {
	return []string{
		`{"name":"null_schema","inputSchema":null}`,
		`{"name":"long","description":` + quote(strings.Repeat("d", 1<<20)) + `,"inputSchema":{"type":"object"}}`,
		`{"name":"cycle","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}}`,
		`{"name":"abroad","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:9/schema.json"}}}}`,
		`{"name":"","inputSchema":{"type":"object"}}`,
		`{"inputSchema":{"type":"object"}}`,
		`{"name":7,"inputSchema":{"type":"object"}}`,
		`{"name":"schema_true","inputSchema":true}`,
		`{"name":"schema_list","inputSchema":[]}`,
		`{"name":"schema_array","inputSchema":{"type":"array"}}`,
		`null`, `[]`, `"tool"`, `42`,
	}
}

func deepTool() []string {
	const levels = 2500 // of two braces each
	schema := strings.Repeat(`{"type":"object","properties":{"a":`, levels) + `{}` + strings.Repeat(`}}`, levels)
	return []string{`{"name":"deep","inputSchema":` + schema + `}`}
}
