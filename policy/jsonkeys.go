package policy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// maxNamed bounds the hidden characters that a renamed property spells out.
const maxNamed = 16

// maxLooks bounds how often raw is read ahead for the names of siblings.
const maxLooks = 4

// member deals with the property name at i, and with the whole member if it has
// to go. It returns where to go on: at the value, or behind the member.
func (p *pass) member(f *frame, i int) int {
	end, found := scanString(p.raw, i)
	value := skipSpace(p.raw, end)
	if value < len(p.raw) && p.raw[value] == ':' {
		value = skipSpace(p.raw, value+1)
	}
	f.key, f.nextFree, f.nextMetas = false, false, false
	if f.metas && !p.keeps(decode(p.raw[i:end])) {
		p.report.Meta++
		return p.drop(f, i, value)
	}
	name, runes := p.raw[i:end], 0
	if p.text && found&dirty != 0 {
		name, runes = p.rename(f, i, end)
	}
	if !f.free && p.meta && p.reads(f, name, value) {
		return p.drop(f, i, value)
	}
	if runes > 0 {
		p.count(runes)
		p.cut(i, end)
		p.out = append(p.out, name...)
	}
	f.kept++
	return value
}

// reads looks at a member of a protocol object by its quoted name and reports
// whether it is a _meta that goes as a whole.
func (p *pass) reads(f *frame, name []byte, value int) (drop bool) {
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(`"` + decode(name) + `"`)
	}
	if !bytes.Equal(name, metaQuoted) {
		f.nextFree = freeForm(name)
		return false
	}
	if value >= len(p.raw) || p.raw[value] != '{' {
		p.report.Meta++
		return true
	}
	kept, gone := p.countMeta(value)
	if kept == 0 {
		p.report.Meta += gone
		return true
	}
	f.nextFree, f.nextMetas = true, gone > 0
	return false
}

// freeForm reports whether what a member holds is not the protocol's business:
// arguments, structured results, schemas, log and error data.
func freeForm(quoted []byte) bool {
	switch string(quoted) {
	case `"structuredContent"`, `"arguments"`, `"inputSchema"`, `"outputSchema"`,
		`"requestedSchema"`, `"input"`, `"data"`:
		return true
	}
	return false
}

// countMeta counts the members of the _meta object at i that stay and that go.
func (p *pass) countMeta(i int) (kept, gone int) {
	for i = skipSpace(p.raw, i+1); i < len(p.raw) && p.raw[i] == '"'; i = skipSpace(p.raw, i+1) {
		end := skipString(p.raw, i)
		if p.keeps(decode(p.raw[i:end])) {
			kept++
		} else {
			gone++
		}
		if i = p.skipMember(end); i >= len(p.raw) || p.raw[i] != ',' {
			break
		}
	}
	return kept, gone
}

// keeps judges a _meta key as the server spelled it. One that cleaning would
// change is malformed, so that no hidden character can feign a key of ours.
func (p *pass) keeps(key string) bool {
	return p.keep != nil && p.keep(key) || !MetaReserved(key) && !MetaMalformed(key)
}

// drop cuts the member whose name is at i and whose value is at value, with the
// comma before it, or after it if it comes first.
func (p *pass) drop(f *frame, i, value int) int {
	end := skipValue(p.raw, value)
	if f.kept > 0 {
		p.cut(f.comma, end)
		return end
	}
	if next := skipSpace(p.raw, end); next < len(p.raw) && p.raw[next] == ',' {
		end = skipSpace(p.raw, next+1)
		f.key = true
	}
	p.cut(i, end)
	return end
}

// rename returns the clean name for the property name at raw[i:end], quoted, and
// how many characters cleaning took. If a sibling has that name already, the
// characters that differ are spelled out behind it: agents would otherwise take
// one of the two at random.
func (p *pass) rename(f *frame, i, end int) (name []byte, runes int) {
	s := decode(p.raw[i:end])
	clean, n := p.clean(s)
	if n == 0 {
		return p.raw[i:end], 0
	}
	if f.names == nil {
		f.names, f.blind = p.cleanNames(f.start)
	}
	if f.blind {
		f.names[clean] = 0
	}
	unique := distinct(f.names, clean, s)
	f.names[unique] = 0
	return wire.AppendQuote(nil, unique), n
}

// cleanNames collects the names of the object at i that cleaning leaves alone.
// Objects within objects would be read once per level, so there is a budget for
// it: beyond, every name that had to be cleaned counts as taken.
func (p *pass) cleanNames(i int) (names map[string]int, blind bool) {
	names = map[string]int{}
	if p.looked > maxLooks*len(p.raw) {
		return names, true
	}
	p.looked -= i
	for i = skipSpace(p.raw, i+1); i < len(p.raw) && p.raw[i] == '"'; i = skipSpace(p.raw, i+1) {
		end := skipString(p.raw, i)
		name := decode(p.raw[i:end])
		if _, n := p.clean(name); n == 0 {
			names[name] = 0
		}
		if i = p.skipMember(end); i >= len(p.raw) || p.raw[i] != ',' {
			break
		}
	}
	p.looked += i
	return names, false
}

// skipMember returns what follows the value of the member whose name ends at i.
func (p *pass) skipMember(i int) int {
	colon := skipSpace(p.raw, i)
	return skipSpace(p.raw, skipValue(p.raw, skipSpace(p.raw, colon+1)))
}

// distinct returns clean, or a longer name that is not in taken. The counts in
// taken keep many equal names from being tried over and over.
func distinct(taken map[string]int, clean, original string) string {
	if _, ok := taken[clean]; !ok {
		return clean
	}
	base := clean + spell(original)
	if _, ok := taken[base]; !ok {
		return base
	}
	for n := taken[base] + 2; ; n++ {
		name := fmt.Sprintf("%s #%d", base, n)
		if _, ok := taken[name]; !ok {
			taken[base] = n - 1
			return name
		}
	}
}

// spell writes out the suspect characters of s.
func spell(s string) string {
	var b strings.Builder
	named := 0
	for _, r := range s {
		if suspect(r) && named < maxNamed {
			fmt.Fprintf(&b, " U+%04X", r)
			named++
		}
	}
	return b.String()
}

func decode(quoted []byte) string {
	s, _ := wire.Unquote(quoted)
	return s
}
