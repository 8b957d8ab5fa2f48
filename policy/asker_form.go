package policy

import (
	"slices"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Bounds of one form.
const (
	maxFields  = 256
	maxChoices = 4096
)

// form checks the schema of a form: a flat object of fields that hold one value,
// or some of given choices.
func (q *question) form() *wire.Error {
	schema := q.member("requestedSchema")
	if wire.Kindof(schema) != '{' {
		return invalid("elicitation: requestedSchema is missing or not an object")
	}
	if s, _ := textOf(schema, "type"); s != "object" {
		return invalid(`elicitation: requestedSchema.type must be "object"`)
	}
	fields := member(schema, "properties")
	if wire.Kindof(fields) != '{' {
		return invalid("elicitation: requestedSchema.properties is missing or not an object")
	}
	if key := nesting(schema); key != "" {
		return invalid("elicitation: requestedSchema holds %q, but forms are flat", key)
	}
	if required := member(schema, "required"); required != nil && !allStrings(required) {
		return invalid("elicitation: requestedSchema.required is not a list of names")
	}
	return q.fields(fields)
}

func (q *question) fields(fields []byte) (err *wire.Error) {
	n := 0
	wire.Each(fields, func(key, schema []byte) bool {
		name := string(key)
		switch n++; {
		case n > maxFields:
			err = invalid("elicitation: more than %d fields", maxFields)
		case !isField(schema):
			err = invalid("elicitation: field %.80q is not one value of a simple type", name)
		case !q.asker.elicitation.AllowSecrets && asksSecret(name, schema):
			err = refuse("elicitation: field %.80q looks like a secret, which a form must not ask for: use mode \"url\"", name)
		}
		return err == nil
	})
	return err
}

// nesting returns a member by which a schema is more than it shows.
func nesting(schema []byte) (found string) {
	wire.Each(schema, func(key, _ []byte) bool {
		if oneOf(string(key), "$ref", "$dynamicRef", "$defs", "definitions", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
			"patternProperties", "propertyNames", "dependentSchemas", "dependencies", "unevaluatedProperties", "items", "prefixItems") {
			found = string(key)
		}
		return found == ""
	})
	if found == "" && wire.Kindof(member(schema, "additionalProperties")) == '{' {
		found = "additionalProperties"
	}
	return found
}

// isField reports whether a schema is one of MCP's: a string, number, integer or
// boolean, one choice, or a list of choices. Beyond that it may be nullable, since
// generators write optional fields so.
func isField(schema []byte) bool {
	if wire.Kindof(schema) != '{' {
		return false
	}
	if nested(schema, "$ref", "$dynamicRef", "properties", "patternProperties", "additionalProperties", "allOf", "not", "if", "prefixItems", "contains") {
		return false
	}
	types := typesOf(schema)
	if slices.Contains(types, "array") {
		return len(types) == 1 && member(schema, "anyOf") == nil && member(schema, "oneOf") == nil && areChoices(member(schema, "items"))
	}
	if nested(schema, "items") || !primitives(types) {
		return false
	}
	some, one := member(schema, "anyOf"), member(schema, "oneOf")
	if some == nil && one == nil {
		return len(types) > 0 || wire.Kindof(member(schema, "enum")) == '['
	}
	return alternatives(some) && alternatives(one)
}

func nested(schema []byte, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := wire.Get(schema, n); return ok })
}

// typesOf returns type, which is a word or a list of words.
func typesOf(schema []byte) (types []string) {
	val := member(schema, "type")
	if s, ok := wire.Unquote(val); ok {
		return []string{s}
	}
	wire.Elements(val, func(e []byte) bool {
		s, _ := wire.Unquote(e)
		types = append(types, s)
		return len(types) < 8
	})
	if val != nil && types == nil {
		return []string{""}
	}
	return types
}

func primitives(types []string) bool {
	return !slices.ContainsFunc(types, func(t string) bool {
		return !oneOf(t, "string", "number", "integer", "boolean", "null")
	})
}

// areChoices reports whether the items of a list are given.
func areChoices(items []byte) bool {
	if wire.Kindof(items) != '{' || nested(items, "items", "properties", "$ref", "allOf") {
		return false
	}
	if t := typesOf(items); len(t) > 0 && !slices.Equal(t, []string{"string"}) {
		return false
	}
	return isChoice(items)
}

// isChoice reports whether a schema gives all the values that there are.
func isChoice(schema []byte) bool {
	if wire.Kindof(member(schema, "enum")) == '[' {
		return true
	}
	if _, ok := wire.Get(schema, "const"); ok {
		return true
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if all(member(schema, name), func(e []byte) bool { _, ok := wire.Get(e, "const"); return ok }) {
			return true
		}
	}
	return false
}

// alternatives reports whether every schema of a list, if there is one, is a
// constant or of a simple type.
func alternatives(list []byte) bool {
	return list == nil || all(list, func(e []byte) bool {
		if wire.Kindof(e) != '{' || nested(e, "$ref", "anyOf", "oneOf", "allOf", "items", "properties") {
			return false
		}
		types := typesOf(e)
		return primitives(types) && (len(types) > 0 || isChoice(e))
	})
}

// all reports whether list is a list of some elements that all pass.
func all(list []byte, pass func(e []byte) bool) bool {
	if wire.Kindof(list) != '[' {
		return false
	}
	n, ok := 0, true
	wire.Elements(list, func(e []byte) bool {
		n++
		ok = n <= maxChoices && pass(e)
		return ok
	})
	return ok && n > 0
}

func allStrings(list []byte) bool {
	ok := wire.Kindof(list) == '['
	wire.Elements(list, func(e []byte) bool {
		ok = wire.Kindof(e) == '"'
		return ok
	})
	return ok
}
