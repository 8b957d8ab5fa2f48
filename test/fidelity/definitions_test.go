package fidelity

import (
	"maps"
	"slices"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// A definition is one tool as a server lists it. $N stands for its name.
type definition struct {
	name string
	sent string
	// want is what agents see when that differs from sent.
	want string
	// clean is what they see with cleaning on, when only that differs.
	clean string
	// withheld entries are not listed; their neighbours are.
	withheld bool
}

var definitions = []definition{
	{name: "minimal", sent: `{"name":"$N","inputSchema":{"type":"object"}}`},
	{name: "task support", sent: `{"name":"$N","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`},
	{name: "vendor members", sent: `{"name":"$N","x-vendor":{"a":1.0},"inputSchema":{"type":"object","x-order":["b","a"]}}`},
	{name: "unknown icon keys", sent: `{"name":"$N","icons":[{"src":"https://e.example/i.png","theme":"dark","x":1}],"inputSchema":{"type":"object"}}`},
	{name: "annotations without hints", sent: `{"name":"$N","inputSchema":{"type":"object"},"annotations":{"title":"T","x-risk":"low"}}`},
	{name: "read-only hint", sent: `{"name":"$N","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`},
	{name: "empty description", sent: `{"name":"$N","description":"","inputSchema":{"type":"object"}}`},
	{name: "title and vendor _meta", sent: `{"name":"$N","title":"A title","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/b"},"com.example/v":[1]}}`},
	{name: "big numbers in the schema", sent: `{"name":"$N","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9223372036854775807,"multipleOf":1.0,"default":1e3}}}}`},
	{name: "order of schema keys", sent: `{"name":"$N","inputSchema":{"required":["z"],"properties":{"z":{"type":"string"},"a":{"description":"x","type":"number"}},"type":"object"}}`},
	{name: "definitions and references", sent: `{"name":"$N","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"p":{"anyOf":[{"type":"null"},{"const":1}]}},"properties":{"p":{"$ref":"#/$defs/p"}},"additionalProperties":false}}`},
	{name: "output schema", sent: `{"name":"$N","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"id":{"type":"integer","minimum":-9007199254740993}}}}`},
	{name: "white space and escapes", sent: `{ "name" : "$N" , "description":"\u0041\/b" ,"inputSchema" : { "type":"object" } }`},
	{name: "schema without a type", sent: `{"name":"$N","inputSchema":{}}`, want: `{"name":"$N","inputSchema":{"type":"object"}}`},
	{name: "null properties and required", sent: `{"name":"$N","inputSchema":{"type":"object","properties":null,"required":null}}`, want: `{"name":"$N","inputSchema":{"type":"object"}}`},
	{name: "no schema", sent: `{"name":"$N","description":"d"}`, want: `{"name":"$N","description":"d","inputSchema":{"type":"object"}}`},
	{name: "null schema", sent: `{"name":"$N","inputSchema":null}`, want: `{"name":"$N","inputSchema":{"type":"object"}}`},
	{name: "schema true", sent: `{"name":"$N","inputSchema":true}`, withheld: true},
	{name: "type that is a list", sent: `{"name":"$N","inputSchema":{"type":["object","null"]}}`, withheld: true},
	{name: "array schema", sent: `{"name":"$N","inputSchema":{"type":"array"}}`, withheld: true},
	{name: "network reference", sent: `{"name":"$N","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://e.example/s.json"}}}}`, withheld: true},
	{
		name:  "hidden characters in a schema",
		sent:  `{"name":"$N","inputSchema":{"type":"object","properties":{"n":{"description":"a` + "\U000E0049" + `b","maximum":1.0}}}}`,
		clean: `{"name":"$N","inputSchema":{"type":"object","properties":{"n":{"description":"ab","maximum":1.0}}}}`,
	},
}

func (d *definition) expect(cleaning bool, name string) string {
	switch {
	case d.want != "":
		return named(d.want, name)
	case cleaning && d.clean != "":
		return named(d.clean, name)
	}
	return named(d.sent, name)
}

// TestDefinitions compares every listed tool on the wire.
func TestDefinitions(t *testing.T) {
	fake := &mcptest.Upstream{}
	for i := range definitions {
		fake.Tools = append(fake.Tools, named(definitions[i].sent, nameOf(i)))
	}
	eachPair(t, fake, func(t *testing.T, a *mcptest.Agent, _ string, cleaning bool) {
		got, err := a.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range definitions {
			compare(t, &definitions[i], nameOf(i), cleaning, got)
		}
		if len(got) > len(definitions) {
			t.Errorf("listed %v", slices.Sorted(maps.Keys(got)))
		}
	})
}

func compare[T ~[]byte](t *testing.T, d *definition, name string, cleaning bool, got map[string]T) {
	raw, listed := got[name]
	switch {
	case listed == d.withheld:
		t.Errorf("%s: listed is %v, withheld should be %v", d.name, listed, d.withheld)
	case listed && string(raw) != d.expect(cleaning, name):
		t.Errorf("%s\n got %s\nwant %s", d.name, raw, d.expect(cleaning, name))
	}
}
