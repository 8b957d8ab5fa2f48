package aggregate

import (
	"fmt"
	"strings"
	"testing"
)

// bigView is 3,300 tools of 11 servers, 1.8 MB.
func bigView(tb testing.TB) View {
	v := View{Name: "default", Utilities: true}
	for s := range 11 {
		var tools []string
		for i := range 300 {
			tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":%q,"inputSchema":{"type":"object","properties":`+
				`{"path":{"type":"string","description":%q},"n":{"$ref":"#/$defs/N"}},"required":["path"],"$defs":{"N":{"type":"integer"}}}}`,
				i, strings.Repeat("Does something. ", 12), strings.Repeat("A path. ", 16)))
		}
		v.Sources = append(v.Sources, source(tb, fmt.Sprintf("server%d", s), tools...))
	}
	return v
}

func BenchmarkBuildCold(b *testing.B) {
	v := bigView(b)
	b.ReportAllocs()
	for b.Loop() {
		Build(v, nil)
	}
}

func BenchmarkBuildShared(b *testing.B) {
	v, shared := bigView(b), new(Fragments)
	first := Build(v, shared)
	b.ReportAllocs()
	for b.Loop() {
		Build(v, shared)
	}
	_ = first.Count(Tools)
}

func BenchmarkPage(b *testing.B) {
	s := Build(bigView(b), nil)
	items, _, _ := s.Page(Tools, "")
	b.SetBytes(int64(len(items)))
	b.ReportAllocs()
	for b.Loop() {
		s.Page(Tools, "")
	}
}

func BenchmarkPageUncached(b *testing.B) {
	s := Build(bigView(b), &Fragments{PageBytes: -1})
	items, _, _ := s.Page(Tools, "")
	b.SetBytes(int64(len(items)))
	for b.Loop() {
		s.Page(Tools, "")
	}
}

func BenchmarkTool(b *testing.B) {
	s := Build(bigView(b), nil)
	for b.Loop() {
		if _, ok := s.Tool("mcp_server7_tool_200"); !ok {
			b.Fatal("no such tool")
		}
	}
}
