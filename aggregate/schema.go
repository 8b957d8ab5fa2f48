package aggregate

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

const anyObject = `{"type":"object"}`

// inputSchema makes sure that the tool has a schema that every client accepts.
// Only what is missing or null is repaired: a schema that says something else
// than "object" is not ours to reinterpret.
func (v *vetting) inputSchema() error {
	from, to, ok := wire.Find(v.body, "inputSchema")
	if !ok {
		end := len(v.body) - 1 // the closing brace; a name comes before it
		v.splice(end, end, []byte(`,"inputSchema":`+anyObject))
		v.note("inputSchema was missing")
		return nil
	}
	schema := v.body[from:to]
	if wire.Kindof(schema) == 'n' {
		v.splice(from, to, []byte(anyObject))
		v.note("inputSchema was null")
		return nil
	}
	fixed, err := v.repair(schema)
	if err != nil {
		return err
	}
	if err := v.inputRefs(fixed); err != nil {
		return err
	}
	if !bytes.Equal(fixed, schema) {
		v.splice(from, to, fixed)
	}
	return nil
}

// repair returns schema with its type added and null keywords removed, or
// schema itself.
func (v *vetting) repair(schema []byte) ([]byte, error) {
	if wire.Kindof(schema) != '{' {
		return nil, fmt.Errorf("inputSchema is %s, not an object", about(schema))
	}
	typ, err := v.keywords(schema)
	if err != nil {
		return nil, err
	}
	for _, word := range []string{"properties", "required"} {
		if val, _ := wire.Get(schema, word); wire.Kindof(val) == 'n' {
			from, to, _ := wire.FindMember(schema, word)
			schema = wire.Splice(nil, schema, wire.Edit{From: from, To: to})
			v.note("inputSchema.%s was null", word)
		}
	}
	switch {
	case typ == nil:
		v.note("inputSchema had no type")
		return insertType(schema), nil
	case wire.Kindof(typ) == 'n':
		v.note("inputSchema.type was null")
		from, to, _ := wire.Find(schema, "type")
		return wire.Splice(nil, schema, wire.Edit{From: from, To: to, With: []byte(`"object"`)}), nil
	}
	return schema, nil
}

// keywords checks the three keywords that clients look at and returns the type.
func (v *vetting) keywords(schema []byte) (typ []byte, err error) {
	seen := 0
	wire.Each(schema, func(key, val []byte) bool {
		bit, good := 0, true
		switch string(key) {
		case "type":
			bit, typ = 1, val
			text, _ := wire.Unquote(val)
			good = text == "object"
		case "properties":
			bit, good = 2, wire.Kindof(val) == '{'
		case "required":
			bit, good = 4, wire.Kindof(val) == '['
		}
		switch {
		case seen&bit != 0:
			err = fmt.Errorf("inputSchema.%s comes twice", key)
		case !good && wire.Kindof(val) != 'n':
			err = fmt.Errorf("inputSchema.%s is %s", key, about(val))
		}
		seen |= bit
		return err == nil
	})
	return typ, err
}

// insertType adds the type in front of the other keywords.
func insertType(schema []byte) []byte {
	with := `"type":"object"`
	empty := true
	wire.Each(schema, func(_, _ []byte) bool { empty = false; return false })
	if !empty {
		with += ","
	}
	return wire.Splice(nil, schema, wire.Edit{From: 1, To: 1, With: []byte(with)})
}

// inputRefs withholds a tool whose input cannot be described without fetching
// something: nobody here fetches, and an agent must not be made to.
func (v *vetting) inputRefs(schema []byte) error {
	r := findRefs(schema)
	switch {
	case r.over:
		return errors.New("inputSchema is too entangled to check its references")
	case r.external != "":
		return fmt.Errorf("inputSchema refers to %q outside itself", clip(r.external, 128))
	case r.dangling != "":
		v.note("inputSchema refers to %q, which is not there", clip(r.dangling, 128))
	}
	return nil
}

// outputSchema drops a schema that clients would choke on. The tool works
// without it.
func (v *vetting) outputSchema() {
	schema, ok := wire.Get(v.body, "outputSchema")
	if !ok {
		return
	}
	if why := refuseOutput(schema); why != "" {
		v.cut("outputSchema")
		v.note("outputSchema is left out: it %s", why)
	}
}

// refuseOutput returns why an output schema is left out, or "".
func refuseOutput(schema []byte) string {
	if wire.Kindof(schema) != '{' {
		return "is " + about(schema)
	}
	switch r := findRefs(schema); {
	case r.over:
		return "is too entangled to check its references"
	case r.external != "":
		return fmt.Sprintf("refers to %q outside itself", clip(r.external, 128))
	case r.dangling != "":
		return fmt.Sprintf("refers to %q, which is not there", clip(r.dangling, 128))
	}
	return ""
}

// about says what a JSON value is, without its bytes unless they are quoted.
func about(val []byte) string {
	switch wire.Kindof(val) {
	case '"':
		text, _ := wire.Unquote(val)
		return fmt.Sprintf("%q", clip(text, 32))
	case 't':
		return "true"
	case 'f':
		return "false"
	case 'n':
		return "null"
	case '[':
		return "an array"
	case '{':
		return "an object"
	}
	return "a number"
}
