package aggregate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// mirroring makes a source one that reads arguments from headers.
func mirroring(s Source) Source {
	s.Listing.Info.Era, s.Listing.Info.HTTP = upstream.Modern, true
	return s
}

func schemaTool(props string) string {
	return `{"name":"t","inputSchema":{"type":"object","properties":{` + props + `}}}`
}

func TestParamHeaders(t *testing.T) {
	for _, tt := range []struct {
		name, tool string
		want       ParamHeaders
		fault      string // part of the reason why the tool is withheld
	}{
		{"one", schemaTool(`"r":{"type":"string","x-mcp-header":"Region"}`), ParamHeaders{{"Mcp-Param-Region", []string{"r"}}}, ""},
		{"three types", schemaTool(`"a":{"type":"string","x-mcp-header":"A"},"b":{"x-mcp-header":"EmptyVal","type":"integer"},"c":{"type":"boolean","x-mcp-header":"x-1!"}`),
			ParamHeaders{{"Mcp-Param-A", []string{"a"}}, {"Mcp-Param-Emptyval", []string{"b"}}, {"Mcp-Param-X-1!", []string{"c"}}}, ""},
		{"nested", schemaTool(`"o":{"type":"object","properties":{"x.y":{"type":"string","x-mcp-header":"N"}}}`), ParamHeaders{{"Mcp-Param-N", []string{"o", "x.y"}}}, ""},
		{"escaped keyword", schemaTool(`"r":{"type":"string","x-mcp-h\u0065ader":"Region"}`), ParamHeaders{{"Mcp-Param-Region", []string{"r"}}}, ""},
		{"none", schemaTool(`"r":{"type":"string"}`), nil, ""},
		{"a property of that name", schemaTool(`"x-mcp-header":{"type":"string"}`), nil, ""},
		{"in values", schemaTool(`"r":{"type":"object","default":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":"A"}],"const":{"x-mcp-header":1}}`), nil, ""},

		{"empty", schemaTool(`"r":{"type":"string","x-mcp-header":""}`), nil, "no header can be called"},
		{"null", schemaTool(`"r":{"type":"string","x-mcp-header":null}`), nil, "not a string"},
		{"number", schemaTool(`"r":{"type":"string","x-mcp-header":1}`), nil, "not a string"},
		{"space", schemaTool(`"r":{"type":"string","x-mcp-header":"My Region"}`), nil, "no header can be called"},
		{"colon", schemaTool(`"r":{"type":"string","x-mcp-header":"A:B"}`), nil, "no header can be called"},
		{"not ASCII", schemaTool(`"r":{"type":"string","x-mcp-header":"Région"}`), nil, "no header can be called"},
		{"tab", schemaTool(`"r":{"type":"string","x-mcp-header":"A\t1"}`), nil, "no header can be called"},
		{"line break", schemaTool(`"r":{"type":"string","x-mcp-header":"A\r\nHost: x"}`), nil, "no header can be called"},
		{"hidden character, which cleaning would take out", schemaTool(`"r":{"type":"string","x-mcp-header":"Reg\u200bion"}`), nil, "no header can be called"},
		{"long", schemaTool(`"r":{"type":"string","x-mcp-header":"` + strings.Repeat("a", 129) + `"}`), nil, "no header can be called"},
		{"type object", schemaTool(`"r":{"type":"object","x-mcp-header":"A"}`), nil, "needs the type"},
		{"type array", schemaTool(`"r":{"type":"array","items":{"type":"string"},"x-mcp-header":"A"}`), nil, "needs the type"},
		{"type null", schemaTool(`"r":{"type":"null","x-mcp-header":"A"}`), nil, "needs the type"},
		{"type number", schemaTool(`"r":{"type":"number","x-mcp-header":"A"}`), nil, "needs the type"},
		{"no type", schemaTool(`"r":{"x-mcp-header":"A"}`), nil, "needs the type"},
		{"two types", schemaTool(`"r":{"type":["string","null"],"x-mcp-header":"A"}`), nil, "needs the type"},
		{"type twice", schemaTool(`"r":{"type":"string","type":"object","x-mcp-header":"A"}`), nil, "needs the type"},
		{"used twice", schemaTool(`"a":{"type":"string","x-mcp-header":"R"},"b":{"type":"string","x-mcp-header":"R"}`), nil, "used twice"},
		{"used twice but for case", schemaTool(`"a":{"type":"string","x-mcp-header":"MyField"},"b":{"type":"string","x-mcp-header":"myfield"}`), nil, "used twice"},
		{"comes twice", schemaTool(`"a":{"type":"string","x-mcp-header":"R","x-mcp-header":"S"}`), nil, "comes twice"},
		{"root", `{"name":"t","inputSchema":{"type":"object","x-mcp-header":"R"}}`, nil, "names no argument"},
		{"items", schemaTool(`"a":{"type":"array","items":{"type":"string","x-mcp-header":"R"}}`), nil, "names no argument"},
		{"prefixItems", schemaTool(`"a":{"type":"array","prefixItems":[{"type":"string","x-mcp-header":"R"}]}`), nil, "names no argument"},
		{"properties below items", schemaTool(`"a":{"type":"array","items":{"properties":{"b":{"type":"string","x-mcp-header":"R"}}}}`), nil, "names no argument"},
		{"anyOf", schemaTool(`"a":{"anyOf":[{"type":"string","x-mcp-header":"R"},{"type":"null"}]}`), nil, "names no argument"},
		{"if", `{"name":"t","inputSchema":{"type":"object","if":{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}}}`, nil, "names no argument"},
		{"$defs", `{"name":"t","inputSchema":{"type":"object","$defs":{"a":{"type":"string","x-mcp-header":"R"}},"properties":{"a":{"$ref":"#/$defs/a"}}}}`, nil, "names no argument"},
		{"additionalProperties", `{"name":"t","inputSchema":{"type":"object","additionalProperties":{"type":"string","x-mcp-header":"R"}}}`, nil, "names no argument"},
		{"hidden argument", schemaTool(`"a\u200b":{"type":"string","x-mcp-header":"R"}`), nil, "cannot be seen"},
		{"too many", schemaTool(headers(MaxParamHeaders + 1)), nil, "more than 32 times"},
	} {
		s := Build(View{Sources: []Source{mirroring(source(t, "srv", tt.tool, tool("other")))}, OwnNames: true}, nil)
		if _, ok := s.Tool("other"); !ok {
			t.Errorf("%s: its neighbour is gone", tt.name)
		}
		r, ok := s.Tool("t")
		if tt.fault != "" {
			if f := fmt.Sprint(s.Faults()); ok || !strings.Contains(f, tt.fault) {
				t.Errorf("%s: routed %v, faults %s, want %q", tt.name, ok, f, tt.fault)
			}
			continue
		}
		var got ParamHeaders
		if r.Params != nil {
			got = *r.Params
		}
		if diff := cmp.Diff(tt.want, got); !ok || diff != "" {
			t.Errorf("%s: routed %v, faults %v (-want +got):\n%s", tt.name, ok, s.Faults(), diff)
		}
		if page := onePage(t, s, Tools); !strings.Contains(page, tt.tool) {
			t.Errorf("%s: the definition changed: %s", tt.name, page)
		}
	}
}

func headers(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"H%d"}`, i, i))
	}
	return strings.Join(parts, ",")
}

// Servers that read no headers keep their tools, whatever they annotate, and
// agents see no annotation.
func TestAnnotationsAreStripped(t *testing.T) {
	for _, tt := range []struct{ tool, want string }{
		{schemaTool(`"r":{"type":"string","x-mcp-header":"Region"}`), schemaTool(`"r":{"type":"string"}`)},
		{schemaTool(`"r":{"x-mcp-header":"Region", "type":"string"}`), schemaTool(`"r":{"type":"string"}`)},
		{schemaTool(`"r":{"x-mcp-header":5,"x-mcp-header":"b"}`), schemaTool(`"r":{}`)},
		{schemaTool(`"r":{"type":"array","items":[{"x-mcp-header":"A", "maximum":1.50 }]}`), schemaTool(`"r":{"type":"array","items":[{"maximum":1.50 }]}`)},
		{schemaTool(`"x-mcp-header":{"type":"string","default":{"x-mcp-header":"A"}}`), schemaTool(`"x-mcp-header":{"type":"string","default":{"x-mcp-header":"A"}}`)},
		{`{"name":"t","inputSchema":{"x-mcp-header":"A","type":"object","properties":{"o":{"properties":{"p":{"type":"number","x-mcp-header":"A"}}}}}}`,
			`{"name":"t","inputSchema":{"type":"object","properties":{"o":{"properties":{"p":{"type":"number"}}}}}}`},
	} {
		stdio, legacy := source(t, "srv", tt.tool), source(t, "srv", tt.tool)
		stdio.Listing.Info.Era = upstream.Modern
		legacy.Listing.Info.HTTP = true
		for _, src := range []Source{stdio, legacy} {
			s := Build(View{Sources: []Source{src}, OwnNames: true}, nil)
			if r, ok := s.Tool("t"); !ok || r.Params != nil {
				t.Errorf("%s: routed %v, params %v", tt.tool, ok, r.Params)
			}
			if got := onePage(t, s, Tools); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		}
	}
}

// One server can come back as another kind of server.
func TestMirroringIsNotShared(t *testing.T) {
	shared := new(Fragments)
	raw := schemaTool(`"r":{"type":"string","x-mcp-header":"Region"}`)
	plain := Build(View{Sources: []Source{source(t, "srv", raw)}, OwnNames: true}, shared)
	modern := Build(View{Sources: []Source{mirroring(source(t, "srv", raw))}, OwnNames: true}, shared)
	if r, _ := plain.Tool("t"); r.Params != nil {
		t.Error("a server that reads no headers has some")
	}
	if r, _ := modern.Tool("t"); r.Params == nil {
		t.Error("a server that reads headers has none")
	}
	if plain.Digest(Tools) == modern.Digest(Tools) {
		t.Error("the lists look alike")
	}
}

func FuzzParamHeaders(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}`,
		`{"properties":{"o":{"properties":{"a":{"type":"integer","x-mcp-header":"a"},"b":{"type":"boolean","x-mcp-header":"A"}}}}}`,
		`{"x-mcp-header":1,"items":[{"x-mcp-header":"","x-mcp-h\u0065ader":{}} , {"$defs":{"x-mcp-header":{"x-mcp-header":[]}}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		schema = bytes.TrimSpace(schema)
		if _, err := wire.Valid(schema, wire.Limits{Depth: maxDepth}); err != nil || wire.Kindof(schema) != '{' {
			return // no schema
		}
		list, err := paramHeaders(schema)
		seen := map[string]bool{}
		for _, p := range list {
			lower := strings.ToLower(p.Name)
			if err != nil || seen[lower] || len(p.Path) == 0 || !isToken(p.Name) && len(p.Name) <= maxParamName {
				t.Errorf("%+v of %s: %v", p, schema, err)
			}
			seen[lower] = true
		}
		plain, serr := unannotated(schema)
		if serr != nil {
			return
		}
		if _, err := wire.Valid(plain, wire.Limits{Depth: maxDepth}); err != nil {
			t.Fatalf("%s became %s: %v", schema, plain, err)
		}
		if left, err := paramHeaders(plain); err != nil || len(left) > 0 {
			t.Errorf("%s keeps %v, %v", plain, left, err)
		}
		if len(list) == 0 && err == nil && !bytes.Equal(plain, schema) {
			t.Errorf("%s changed to %s", schema, plain)
		}
	})
}
