package policy

import (
	"bytes"

	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// Report says what cleaning one JSON value did.
type Report struct {
	Strings int // strings that were rewritten
	Runes   int // characters taken out of them or replaced
	Bad     int // bytes and surrogates that were no text, now U+FFFD
	Meta    int // keys of _meta that were dropped; a _meta that is no object counts as one
}

// JSON cleans one valid JSON value: a result, an error object, the params of a
// notification, or an entry of a list. Where nothing has to change, out is raw
// itself. Else out is in dst's memory if that suffices, whatever its length; dst
// must not overlap raw.
//
// Every string is judged alike, property names included, wherever it stands.
// Base64 needs no exception, since its alphabet has nothing to clean, and
// identifiers such as uri get none: one with hidden characters must not reach a
// model either. Who routes by identifiers reads them before they are cleaned.
//
// In objects of the protocol, _meta loses what MetaReserved and MetaMalformed
// name, except where keep, which may be nil, says that this hop has set the key
// or negotiated it. A _meta that is empty then, or was before, or is no object,
// goes as a whole. Objects whose form is a server's own affair, such as those
// under structuredContent, may call a property _meta.
//
// Whatever stays, stays byte for byte: numbers, white space, the order of
// members, the escapes of clean strings.
func (c *Cleaner) JSON(dst, raw []byte, flags wire.Flags, keep func(metaKey string) bool) (out []byte, r Report) {
	if flags&wire.BadText != 0 {
		raw, r.Bad = wire.Repair(raw)
		flags |= wire.NonASCII
	}
	p := pass{raw: raw, keep: keep, report: r}
	p.text, p.meta = c.wants(raw, flags)
	if !p.text && !p.meta {
		return raw, r
	}
	p.run(dst)
	return p.result(), p.report
}

// wants tells which part of cleaning may find work in raw. The names that come
// out of cleaning may be _meta as well.
func (c *Cleaner) wants(raw []byte, flags wire.Flags) (text, meta bool) {
	var f finding
	switch {
	case !flags.Suspect():
	case c.text():
		f = scan(raw, dirty)
	case c.meta():
		f = scan(raw, spelled)
	}
	text = c.text() && f&dirty != 0
	meta = c.meta() && (text || f&spelled != 0 || bytes.Contains(raw, metaQuoted))
	return text, meta
}

var metaQuoted = []byte(`"_meta"`)

func (c *Cleaner) text() bool { return c == nil || !c.Off }

func (c *Cleaner) meta() bool { return c == nil || !c.KeepMeta }

// A pass goes through raw once. What it leaves alone is copied in stretches.
type pass struct {
	raw        []byte
	keep       func(string) bool
	text, meta bool // what to clean

	out    []byte
	done   int // raw[:done] is dealt with
	edited bool
	stack  []frame
	buf    []byte // for text
	looked int    // bytes read ahead for names
	report Report
}

// frame is an object or array that is open.
type frame struct {
	start  int
	object bool
	key    bool // a property name is next
	free   bool // a server's own object: _meta means nothing in it
	metas  bool // a _meta object of which some keys go

	// Of the member at hand: what its value's frame will have.
	nextFree, nextMetas bool

	comma int // the last comma
	kept  int // members that stay

	names map[string]int // property names that are taken; nil until one is dirty
	blind bool           // names does not hold all of them
}

func (p *pass) run(dst []byte) {
	p.out = dst[:0]
	for i := 0; i < len(p.raw); {
		switch p.raw[i] {
		case '{', '[':
			p.open(i)
		case '}', ']':
			p.stack = p.stack[:max(0, len(p.stack)-1)]
		case ',':
			p.comma(i)
		case '"':
			if f := p.top(); f != nil && f.key {
				i = p.member(f, i)
			} else {
				i = p.str(i)
			}
			continue
		}
		i++
	}
}

// result returns raw itself if there was no edit.
func (p *pass) result() []byte {
	if !p.edited {
		return p.raw
	}
	return append(p.out, p.raw[p.done:]...)
}

// cut leaves out raw[from:to].
func (p *pass) cut(from, to int) {
	p.out = append(p.out, p.raw[p.done:from]...)
	p.done, p.edited = to, true
}

func (p *pass) top() *frame {
	if len(p.stack) == 0 {
		return nil
	}
	return &p.stack[len(p.stack)-1]
}

func (p *pass) open(i int) {
	f := frame{start: i, object: p.raw[i] == '{'}
	f.key = f.object
	if up := p.top(); up != nil {
		f.free = up.free || up.nextFree
		f.metas = up.nextMetas && f.object
	}
	p.stack = append(p.stack, f)
}

func (p *pass) comma(i int) {
	if f := p.top(); f != nil && f.object {
		f.comma, f.key = i, true
	}
}

// str cleans the string value at i and returns its end.
func (p *pass) str(i int) int {
	end, found := scanString(p.raw, i)
	if !p.text || found&dirty == 0 {
		return end
	}
	if clean, n := p.clean(decode(p.raw[i:end])); n > 0 {
		p.count(n)
		p.cut(i, end)
		p.out = wire.AppendQuote(p.out, clean)
	}
	return end
}

// clean returns the clean text; it is s itself if nothing had to go.
func (p *pass) clean(s string) (string, int) {
	out, n := cleanText(p.buf, s)
	p.buf = out
	if n == 0 {
		return s, 0
	}
	return string(out), n
}

func (p *pass) count(runes int) {
	p.report.Strings++
	p.report.Runes += runes
}
