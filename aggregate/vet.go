package aggregate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A vetting takes one entry from the server's bytes to what agents may see.
// Every change is a splice: bytes that no rule names stay as they were sent.
type vetting struct {
	kind  Kind
	body  []byte
	name  string
	notes []string
	nulls []string // optional members that are null

	mirrors bool          // the server reads arguments from headers
	params  *ParamHeaders // those arguments
}

func (v *vetting) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

// cut removes a member that is there.
func (v *vetting) cut(member string) {
	if from, to, ok := wire.FindMember(v.body, member); ok {
		v.splice(from, to, nil)
	}
}

func (v *vetting) splice(from, to int, with []byte) {
	v.body = wire.Splice(make([]byte, 0, len(v.body)+len(with)), v.body, wire.Edit{From: from, To: to, With: with})
}

// run vets raw. An error says why the entry must be withheld; v.name is then
// the best name that is known for it.
func (v *vetting) run(raw []byte, c *policy.Cleaner) error {
	v.body = bytes.Trim(raw, " \t\r\n")
	v.name = v.text(v.kind.key())
	if len(v.body) > maxEntryBytes {
		return fmt.Errorf("entry of %d bytes is over the limit of %d", len(v.body), maxEntryBytes)
	}
	flags, err := wire.Valid(v.body, wire.Limits{Depth: maxDepth})
	if err != nil {
		return fmt.Errorf("entry is not valid JSON: %w", err)
	}
	if wire.Kindof(v.body) != '{' {
		return errors.New("entry is not a JSON object")
	}
	if err := v.identify(); err != nil {
		return err
	}
	if err := v.annotations(flags); err != nil {
		return err
	}
	v.clean(flags, c)
	if v.text(v.kind.key()) != v.name {
		return fmt.Errorf("%s holds characters that cannot be seen", v.kind.key())
	}
	return v.shape()
}

// text returns the string member of that name, or "".
func (v *vetting) text(member string) string {
	val, _ := wire.Get(v.body, member)
	s, _ := wire.Unquote(val)
	return s
}

// identify reads the name under which the server knows the entry.
func (v *vetting) identify() error {
	key := v.kind.key()
	val, ok := wire.Get(v.body, key)
	if !ok {
		return fmt.Errorf("%s is missing", key)
	}
	if v.name, ok = wire.Unquote(val); !ok {
		return fmt.Errorf("%s is not a string", key)
	}
	if v.name == "" {
		return fmt.Errorf("%s is empty", key)
	}
	limit := maxNameBytes
	if !v.kind.named() {
		limit = maxURIBytes
	}
	if len(v.name) > limit {
		return fmt.Errorf("%s of %d bytes is over the limit of %d", key, len(v.name), limit)
	}
	if i := strings.IndexFunc(v.name, unseen); i >= 0 {
		r, _ := utf8.DecodeRuneInString(v.name[i:])
		return fmt.Errorf("%s holds the character %U, which cannot be seen", key, r)
	}
	if v.kind == Resources && !hasScheme(v.name) {
		return errors.New("uri has no scheme")
	}
	return nil
}

// unseen reports whether r can make two names look the same: controls, format
// characters, variation selectors, fillers, and what stands for broken text.
func unseen(r rune) bool {
	switch r {
	case utf8.RuneError, 0x034f, 0x115f, 0x1160, 0x3164, 0xffa0:
		return true
	}
	return r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector) || r < 0x20
}

func hasScheme(uri string) bool {
	scheme, _, ok := strings.Cut(uri, ":")
	if !ok || scheme == "" {
		return false
	}
	for i, c := range []byte(scheme) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(c))) {
			return false
		}
	}
	return true
}

// clean replaces broken text and takes out what people would not see.
func (v *vetting) clean(flags wire.Flags, c *policy.Cleaner) {
	out, r := c.JSON(nil, v.body, flags, nil)
	v.body = out
	if r.Bad > 0 {
		v.note("%d bytes or surrogates that are no text were replaced", r.Bad)
	}
	if r.Strings > 0 {
		v.note("%d hidden characters were taken out of %d strings", r.Runes, r.Strings)
	}
	if r.Meta > 0 {
		v.note("%d reserved or malformed keys of _meta were left out", r.Meta)
	}
}

// optional says, member by member, which first byte its value must have. Clients
// refuse a whole list for one entry that breaks this, so such an entry is
// withheld; null is taken for absent.
var optional = [kinds]map[string]byte{
	Tools:     {"title": '"', "description": '"', "annotations": '{', "execution": '{', "_meta": '{', "icons": '[', "outputSchema": '{'},
	Prompts:   {"title": '"', "description": '"', "arguments": '[', "_meta": '{', "icons": '['},
	Resources: {"title": '"', "description": '"', "mimeType": '"', "size": '0', "annotations": '{', "_meta": '{', "icons": '['},
	Templates: {"title": '"', "description": '"', "mimeType": '"', "annotations": '{', "_meta": '{', "icons": '['},
}

// forgiving are members that are removed, not held against the entry.
func forgiving(member string) bool { return member == "icons" || member == "outputSchema" }

// shape checks the entry's own members and repairs what may be repaired.
func (v *vetting) shape() error {
	if err := v.members(); err != nil {
		return err
	}
	for _, member := range v.nulls {
		v.cut(member)
		v.note("%s was null and is left out", member)
	}
	v.icons()
	switch v.kind {
	case Tools:
		if err := v.inputSchema(); err != nil {
			return err
		}
		v.outputSchema()
	case Prompts:
		return v.arguments()
	default:
		if val, _ := wire.Get(v.body, "name"); wire.Kindof(val) != '"' {
			return errors.New("name is missing or not a string")
		}
	}
	return nil
}

// members refuses an entry that readers could take for two different ones, and
// one whose members have the wrong type.
func (v *vetting) members() (err error) {
	seen := make([][]byte, 0, 16)
	wire.Each(v.body, func(key, val []byte) bool {
		for _, k := range seen {
			if bytes.Equal(k, key) {
				err = fmt.Errorf("member %q comes twice", clip(string(key), 64))
				return false
			}
		}
		if seen = append(seen, key); len(seen) > maxMembers {
			err = fmt.Errorf("entry has over %d members", maxMembers)
			return false
		}
		err = v.member(string(key), val)
		return err == nil
	})
	return err
}

func (v *vetting) member(key string, val []byte) error {
	want, ok := optional[v.kind][key]
	switch got := wire.Kindof(val); {
	case !ok || got == want || forgiving(key) && got != 'n':
		return nil
	case got == 'n':
		v.nulls = append(v.nulls, key)
		return nil
	}
	names := map[byte]string{'"': "a string", '{': "an object", '[': "an array", '0': "a number"}
	return fmt.Errorf("%s is not %s", clip(key, 64), names[want])
}

// arguments checks what every client demands of a prompt's arguments.
func (v *vetting) arguments() (err error) {
	list, _ := wire.Get(v.body, "arguments")
	wire.Elements(list, func(arg []byte) bool {
		if name, _ := wire.Get(arg, "name"); wire.Kindof(name) != '"' {
			err = errors.New("an argument has no name")
		}
		return err == nil
	})
	return err
}

// hints reads the annotations that decide what may be repeated. A hint counts
// only when it is exactly true, wherever it stands.
func (v *vetting) hints() (readOnly, safe bool) {
	annotations, _ := wire.Get(v.body, "annotations")
	readOnly = hint(annotations, "readOnlyHint")
	return readOnly, readOnly || hint(annotations, "idempotentHint")
}

func hint(annotations []byte, name string) bool {
	n, all := 0, true
	wire.Each(annotations, func(key, val []byte) bool {
		if string(key) == name {
			n++
			all = all && string(val) == "true"
		}
		return true
	})
	return n > 0 && all
}
