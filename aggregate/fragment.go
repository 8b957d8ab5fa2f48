package aggregate

import (
	"bytes"
	"crypto/sha256"
	"sync"
	"weak"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

// A fragment is one vetted entry. It holds no exposed name, so every view that
// shows the entry shares it.
type fragment struct {
	// name is the server's own: a name, a URI or a template.
	name string
	body []byte
	// from and to are the range of the name's value within body.
	from, to int
	sum      [sha256.Size]byte
	// withheld says why nobody may see the entry; empty when it may be shown.
	withheld string
	notes    []string
	// readOnly and safe are what a tool's annotations say.
	readOnly, safe bool
	// params are the arguments that go into headers as well.
	params *ParamHeaders
	// template is set for templates only.
	template *template
}

// vet makes the fragment of one raw entry, whose bytes it does not keep: they
// may belong to a whole page, which one entry must not keep alive. mirrors is true
// for servers that read arguments from headers.
func vet(k Kind, raw []byte, c *policy.Cleaner, mirrors bool) *fragment {
	v := vetting{kind: k, mirrors: mirrors}
	err := v.run(raw, c)
	var t *template
	if err == nil && k == Templates {
		t, err = parseTemplate(v.name)
	}
	if err != nil {
		return &fragment{name: clip(v.name, maxURIBytes), withheld: err.Error()}
	}
	f := &fragment{name: v.name, body: bytes.Clone(v.body), notes: v.notes, template: t, params: v.params}
	f.from, f.to, _ = wire.Find(f.body, k.key())
	f.sum = f.digest()
	if k == Tools {
		f.readOnly, f.safe = v.hints()
	}
	return f
}

func (f *fragment) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(f.body[:f.from])
	h.Write([]byte{0}) // no JSON text holds it
	h.Write(f.body[f.to:])
	h.Sum(sum[:0])
	return sum
}

// Fragments are entries that were vetted and cleaned, and encoded pages. Views
// and rebuilds share them, so that ten profiles over one server hold its tools
// once. An entry is kept for as long as some snapshot shows it. The zero value
// is ready; methods may be called concurrently.
type Fragments struct {
	// PageBytes bounds the encoded pages that are kept. If zero, 8 MiB. If
	// negative, none are.
	PageBytes int

	mu      sync.Mutex
	known   map[fragmentKey]weak.Pointer[fragment]
	sweepAt int
	pages   pageCache
}

type fragmentKey struct {
	server  string
	kind    Kind
	cleaner policy.Cleaner // by value: equal settings share
	mirrors bool
	raw     [sha256.Size]byte
}

const (
	minSweep = 1024
	maxKnown = 4 * maxEntries
)

// fragment returns the vetted entry, from an earlier time if it is still known.
func (fs *Fragments) fragment(s *Source, k Kind, raw []byte, c *policy.Cleaner) *fragment {
	key := fragmentKey{server: s.Server, kind: k, mirrors: k == Tools && s.mirrors(), raw: sha256.Sum256(raw)}
	if c != nil {
		key.cleaner = *c
	}
	if f := fs.lookup(key); f != nil {
		return f
	}
	f := vet(k, raw, c, key.mirrors) // outside the lock: it is the slow part
	fs.store(key, f)
	return f
}

func (fs *Fragments) lookup(key fragmentKey) *fragment {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.known[key].Value()
}

func (fs *Fragments) store(key fragmentKey, f *fragment) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.known == nil {
		fs.known, fs.sweepAt = map[fragmentKey]weak.Pointer[fragment]{}, minSweep
	}
	if len(fs.known) >= fs.sweepAt {
		fs.sweep()
	}
	fs.known[key] = weak.Make(f)
}

// sweep forgets entries that no snapshot shows any more. What it costs is paid
// for by as many stores before it.
func (fs *Fragments) sweep() {
	for key, w := range fs.known {
		if w.Value() == nil {
			delete(fs.known, key)
		}
	}
	if len(fs.known) >= maxKnown {
		clear(fs.known) // only sharing is lost
	}
	fs.sweepAt = max(minSweep, 2*len(fs.known))
}
