package aggregate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

func raws(entries ...string) (list []json.RawMessage) {
	for _, e := range entries {
		list = append(list, json.RawMessage(e))
	}
	return list
}

// source is a server that lists tools and nothing else.
func source(t testing.TB, server string, tools ...string) Source {
	t.Helper()
	namer, err := policy.CompileNaming("", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return Source{Server: server, Namer: namer, Listing: &upstream.Listing{Tools: raws(tools...)}}
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"description":"does %s","inputSchema":{"type":"object"}}`, name, name)
}

func many(n int) (tools []string) {
	for i := range n {
		tools = append(tools, tool(fmt.Sprintf("tool_%05d", i)))
	}
	return tools
}

func onePage(t *testing.T, s *Snapshot, k Kind) string {
	t.Helper()
	items, next, ok := s.Page(k, "")
	if !ok || next != "" {
		t.Fatalf("page: ok %v, next %q", ok, next)
	}
	return string(items)
}

// A definition that needs no repair crosses byte for byte: vendor fields, digits,
// key order, white space, odd escapes (go-sdk#1236, gridctl#848).
func TestUntouchedBytes(t *testing.T) {
	entries := []string{
		`{ "x-vendor" : {"b":1,"a":2} ,"name":"%s","inputSchema":{"type":"object","properties":{"id":{"maximum":9007199254740993,"default":1.0e+02}},"$defs":{"Z":{},"A":{}}}}`,
		`{"name":"%s","title":"","description":"","annotations":{"title":"x","destructiveHint":false,"x":[1, 2]},"execution":{"taskSupport":"optional"},"inputSchema":{"type":"object","additionalProperties":false}}`,
		`{"inputSchema":{"type":"object","required":[],"properties":{}},"outputSchema":{"type":"object","anyOf":[{"$ref":"#/$defs/A"}],"$defs":{"A":{"type":"object"}}},"icons":[{"src":"https://e.com/i.png","theme":"dark","x":1.50}],"_meta":{"com.example/n":-0.0,"ui":{"resourceUri":"ui://x"}},"name":"%s"}`,
		"{\n\t\"name\": \"%s\",\n\t\"description\": \"caf\\u00e9 \\/ 日本語 👨‍👩‍👧\\n\",\n\t\"inputSchema\": {\"type\": \"object\"}\n}",
	}
	for _, c := range []*policy.Cleaner{{}, {Off: true, KeepMeta: true}} {
		for _, e := range entries {
			src := source(t, "srv", fmt.Sprintf(e, "my-tool"))
			got := onePage(t, Build(View{Sources: []Source{src}, Cleaner: c}, nil), Tools)
			if want := fmt.Sprintf(e, "mcp_srv_my_tool"); got != want {
				t.Errorf("cleaner %+v:\n got %s\nwant %s", *c, got, want)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	deep := strings.Repeat(`{"properties":`, 101) + `1` + strings.Repeat("}", 101)
	long := strings.Repeat("n", maxNameBytes+1)
	wide := `{"name":"wide"`
	for i := range maxMembers {
		wide += fmt.Sprintf(`,"k%d":1`, i)
	}
	icon := fmt.Sprintf(`{"name":"icon","inputSchema":{"type":"object"},"icons":[{"src":"data:,%s"}]}`, strings.Repeat("A", maxIconBytes))
	src := source(t, "a", tool("good"), tool(long), wide+"}", icon,
		fmt.Sprintf(`{"name":"big","description":%q}`, strings.Repeat("x", maxEntryBytes)),
		fmt.Sprintf(`{"name":"deep","inputSchema":{"type":"object","x":%s}}`, deep))
	src.Listing.Resources = raws(fmt.Sprintf(`{"uri":"x:%s","name":"u"}`, strings.Repeat("u", maxURIBytes)))
	src.Listing.Templates = raws(fmt.Sprintf(`{"uriTemplate":"x:%s","name":"u"}`, strings.Repeat("{a}", 100)))
	s := Build(View{Sources: []Source{src}}, nil)
	want := `{"name":"mcp_a_good","description":"does good","inputSchema":{"type":"object"}},{"name":"mcp_a_icon","inputSchema":{"type":"object"}}`
	if got := onePage(t, s, Tools); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	var got []string
	for _, f := range s.Faults() {
		got = append(got, clip(f.Name, 8)+": "+f.Reason)
	}
	wantFaults := []string{
		"big: entry of 1048607 bytes is over the limit of 1048576",
		"deep: entry is not valid JSON: more than 100 levels of nesting",
		"icon: an icon is left out: its data is over the limit of 64 KiB",
		"nnnnnnnn…: name of 257 bytes is over the limit of 256",
		"wide: entry has over 256 members",
		"x:uuuuuu…: uri of 8194 bytes is over the limit of 8192",
		"x:{a}{a}…: uriTemplate has over 32 expressions",
	}
	if diff := cmp.Diff(wantFaults, got); diff != "" {
		t.Errorf("faults differ (-want +got):\n%s", diff)
	}
}

// A flooding server loses its own surplus; a small one loses nothing, wherever
// it stands in the configuration.
func TestFloodIsCutForTheFlooderOnly(t *testing.T) {
	big, small := source(t, "big"), source(t, "small", many(100)...)
	for range maxEntries + 10 {
		big.Listing.Tools = append(big.Listing.Tools, json.RawMessage(`{"name":"x","inputSchema":{"type":"object"}}`))
	}
	s := Build(View{Sources: []Source{big, small}}, nil)
	if got := s.Count(Tools); got != 101 {
		t.Errorf("got %d tools, want 101", got)
	}
	want := "big: 50010 tools are over the limit of 50000 for all servers; 110 were left out"
	if f := s.Faults(); len(f) != 1 || f[0].String() != want {
		t.Errorf("got %v, want %q", f, want)
	}
}

func TestShare(t *testing.T) {
	for _, tt := range []struct {
		sizes []int
		want  int
	}{
		{nil, maxEntries},
		{[]int{3, maxEntries - 3}, maxEntries},
		{[]int{maxEntries + 1}, maxEntries},
		{[]int{100, maxEntries + 10}, maxEntries - 100},
		{[]int{maxEntries, 100, maxEntries}, (maxEntries - 100) / 2},
		{[]int{maxEntries, maxEntries, maxEntries, maxEntries}, maxEntries / 4},
	} {
		var v View
		for _, n := range tt.sizes {
			v.Sources = append(v.Sources, Source{Listing: &upstream.Listing{Tools: make([]json.RawMessage, n)}})
		}
		b := builder{view: &v}
		if got := b.share(Tools); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.sizes, got, tt.want)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var bad []string
	for i := range 5000 {
		bad = append(bad, fmt.Sprintf(`{"name":"t%d","inputSchema":true}`, i))
	}
	a, b := source(t, "a", bad...), source(t, "b", `{"name":"x","inputSchema":1}`)
	f := Build(View{Sources: []Source{a, b}}, nil).Faults()
	if len(f) != maxServerFaults+2 {
		t.Fatalf("got %d faults", len(f))
	}
	if want := "a: 4900 more tools with faults of level withheld"; f[0].String() != want {
		t.Errorf("got %q, want %q", f[0], want)
	}
	if want := `tool "x" of b: inputSchema is a number, not an object`; f[len(f)-1].String() != want {
		t.Errorf("got %q, want %q", f[len(f)-1], want)
	}
}

func TestListingFaultsArePassedOn(t *testing.T) {
	src := source(t, "a")
	src.Listing.Faults = []string{"tools/list: cursor came twice"}
	f := Build(View{Sources: []Source{src}}, nil).Faults()
	if len(f) != 1 || f[0].String() != "a: tools/list: cursor came twice" {
		t.Errorf("got %v", f)
	}
}

// walk reads all pages and checks that each keeps to the limit.
func walk(t *testing.T, s *Snapshot, limit int) (pages int, all []byte) {
	t.Helper()
	for after := ""; ; pages++ {
		items, next, ok := s.Page(Tools, after)
		if !ok {
			t.Fatalf("no page after %q", after)
		}
		if len(items) > limit && bytes.Contains(items, []byte("},{")) {
			t.Errorf("page of %d bytes, limit %d", len(items), limit)
		}
		if all = append(all, items...); next == "" {
			return pages + 1, all
		}
		all = append(all, ',')
		after = next
	}
}

func TestPages(t *testing.T) {
	v := View{Sources: []Source{source(t, "a", many(100)...)}}
	whole := onePage(t, Build(v, nil), Tools)
	for _, limit := range []int{1, 90, 1000, 1 << 20} {
		v.PageBytes = limit
		n, all := walk(t, Build(v, nil), limit)
		if string(all) != whole {
			t.Errorf("limit %d: pages do not add up to the whole list", limit)
		}
		if limit == 1 && n != 100 || limit == 1<<20 && n != 1 {
			t.Errorf("limit %d: %d pages", limit, n)
		}
	}
}

// A cursor outlives a rebuild as long as its entry does.
func TestPageAfterAnyEntry(t *testing.T) {
	v := View{Sources: []Source{source(t, "a", many(100)...)}, PageBytes: 1000}
	s := Build(v, nil)
	for i := range 100 {
		items, _, ok := s.Page(Tools, fmt.Sprintf("mcp_a_tool_%05d", i))
		first, _ := wire.Get(items, "name")
		if want := fmt.Sprintf(`"mcp_a_tool_%05d"`, i+1); !ok || i < 99 && string(first) != want {
			t.Errorf("after %d: got %s, %v", i, first, ok)
		}
	}
	for _, k := range []Kind{Tools, Prompts, kinds, 200} {
		if _, _, ok := s.Page(k, "mcp_a_gone"); ok {
			t.Errorf("kind %d: an unknown name has a page", k)
		}
	}
	if items, next, ok := s.Page(Resources, ""); !ok || len(items) > 0 || next != "" {
		t.Errorf("empty list: got %q, %q, %v", items, next, ok)
	}
}

func TestPageCacheIsBounded(t *testing.T) {
	shared := &Fragments{PageBytes: 3000}
	v := View{Sources: []Source{source(t, "a", many(100)...)}, PageBytes: 1000}
	s, gone := Build(v, shared), Build(v, shared)
	for range 3 {
		walk(t, s, 1000)
		walk(t, gone, 1000)
		if shared.pages.bytes > 3000 || len(shared.pages.held) > 4 {
			t.Fatalf("%d bytes in %d pages are held", shared.pages.bytes, len(shared.pages.held))
		}
	}
	first, _, _ := s.Page(Tools, "")
	again, _, _ := s.Page(Tools, "")
	if &first[0] != &again[0] {
		t.Error("a page that was just read is encoded anew")
	}
	off := Build(v, &Fragments{PageBytes: -1})
	if walk(t, off, 1000); len(off.shared.pages.held) != 0 {
		t.Error("pages are held though none should be")
	}
}

// Views and rebuilds share fragments; what no snapshot shows is forgotten.
func TestFragmentsAreShared(t *testing.T) {
	shared := new(Fragments)
	v := View{Sources: []Source{source(t, "a", many(minSweep)...)}}
	s1 := Build(v, shared)
	v.OwnNames, v.Cleaner = true, new(policy.Cleaner)
	s2 := Build(v, shared)
	if s1.tables[Tools].entries[7].frag != s2.tables[Tools].entries[7].frag {
		t.Error("two views hold two fragments of one tool")
	}
	v.Cleaner = &policy.Cleaner{Off: true}
	if s3 := Build(v, shared); s1.tables[Tools].entries[7].frag == s3.tables[Tools].entries[7].frag {
		t.Error("another cleaner shares a fragment")
	}
	runtime.KeepAlive(s1)
	runtime.KeepAlive(s2)
	s1, s2 = nil, nil
	runtime.GC()
	Build(View{Sources: []Source{source(t, "b", many(1)...)}}, shared)
	if n := len(shared.known); n > 1 {
		t.Errorf("%d entries are known, want 1", n)
	}
}

// A fragment must not keep the server's whole page alive.
func TestFragmentsCopy(t *testing.T) {
	raw := []byte(tool("x"))
	src := source(t, "a")
	src.Listing.Tools = []json.RawMessage{raw}
	s := Build(View{Sources: []Source{src}}, nil)
	for i := range raw {
		raw[i] = '!'
	}
	if got, want := onePage(t, s, Tools), `{"name":"mcp_a_x","description":"does x","inputSchema":{"type":"object"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDigest(t *testing.T) {
	build := func(tools ...string) *Snapshot {
		return Build(View{Sources: []Source{source(t, "a", tools...)}}, nil)
	}
	base := build(tool("x"), tool("y"))
	if build(tool("y"), tool("x")).Digest(Tools) != base.Digest(Tools) {
		t.Error("the server's order changes the digest")
	}
	hidden := strings.Replace(tool("x"), "does", "do\u200bes", 1)
	if build(hidden, tool("y")).Digest(Tools) != base.Digest(Tools) {
		t.Error("what is cleaned away changes the digest")
	}
	if build(strings.Replace(tool("x"), "does", "did", 1), tool("y")).Digest(Tools) == base.Digest(Tools) {
		t.Error("another description keeps the digest")
	}
	if build(tool("x")).Digest(Tools) == base.Digest(Tools) {
		t.Error("a tool less keeps the digest")
	}
	if base.Digest(Prompts) != build().Digest(Tools) {
		t.Error("two empty lists differ")
	}
}

func TestHas(t *testing.T) {
	a, b := source(t, "a"), source(t, "b")
	a.Listing.Info.Capabilities = []byte(`{"resources":{},"logging":null}`)
	b.Listing.Info.Capabilities = []byte(`{}`)
	s := Build(View{Sources: []Source{a, b}}, nil)
	for capability, want := range map[string]bool{"resources": true, "tools": false, "logging": false, "prompts": false} {
		if got := s.Has(capability); got != want {
			t.Errorf("%s: got %v", capability, got)
		}
	}
	b.Listing = nil
	if !Build(View{Sources: []Source{a, b}}, nil).Has("prompts") {
		t.Error("what a silent server may have is not declared")
	}
	if !Build(View{Sources: []Source{a}, Utilities: true}, nil).Has("tools") {
		t.Error("utility tools do not count as tools")
	}
}

func TestInnerAndNative(t *testing.T) {
	a := source(t, "a", tool("x"), tool("hidden"), tool("z"))
	a.Filter, _ = policy.Tools{Exclude: []string{"hidden"}}.Compile()
	a.Listing.Info.Capabilities = []byte(`{"resources":{},"prompts":{}}`)
	b := source(t, "b", tool("x"))
	b.Listing.Info.Capabilities = a.Listing.Info.Capabilities
	s := Build(View{Sources: []Source{a, b}, Utilities: true}, nil)
	for server, names := range map[string][]string{"a": {"x", "z"}, "b": {"x"}} {
		for _, name := range names {
			r, ok := s.Inner(Tools, server, name)
			if want := (Route{Server: server, Inner: name, Exposed: "mcp_" + server + "_" + name}); !ok || r != want {
				t.Errorf("got %+v, %v, want %+v", r, ok, want)
			}
		}
		var got []string
		for r, entry := range s.Native(Tools, server) {
			name, _ := wire.Get(entry, "name")
			if got = append(got, r.Inner); string(name) != `"`+r.Inner+`"` {
				t.Errorf("entry of %s is %s", r.Inner, entry)
			}
		}
		if diff := cmp.Diff(names, got); diff != "" {
			t.Errorf("native of %s (-want +got):\n%s", server, diff)
		}
	}
	for _, q := range [][2]string{{"a", "hidden"}, {"a", "list_resources"}, {"c", "x"}, {"b", "z"}, {"", ""}} {
		if r, ok := s.Inner(Tools, q[0], q[1]); ok {
			t.Errorf("%v: got %+v", q, r)
		}
	}
}

func TestToolsYieldsDescriptions(t *testing.T) {
	s := Build(View{Sources: []Source{source(t, "a", tool("x"), tool("y"))}}, nil)
	var got []string
	for r, text := range s.Tools() {
		if got = append(got, r.Exposed+": "+text); len(got) == 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{"mcp_a_x: does x", "mcp_a_y: does y"}, got); diff != "" {
		t.Error(diff)
	}
}

// Names depend neither on who else is there nor on what arrived first (issue
// threads agentgateway#495, docker#567).
func TestNamesAreStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	servers := []Source{
		source(t, "one", many(20)...), source(t, "two", tool("a-b"), tool("c"), tool(strings.Repeat("long", 30))),
		source(t, "three", tool("a.b"), tool("x")),
	}
	want := routes(Build(View{Sources: servers}, nil))
	for range 20 {
		var shuffled []Source
		for _, s := range servers {
			l := *s.Listing
			l.Tools = slices.Clone(l.Tools)
			rng.Shuffle(len(l.Tools), func(i, j int) { l.Tools[i], l.Tools[j] = l.Tools[j], l.Tools[i] })
			s.Listing = &l
			shuffled = append(shuffled, s)
		}
		s := Build(View{Sources: shuffled}, nil)
		if diff := cmp.Diff(want, routes(s)); diff != "" {
			t.Fatalf("order matters (-want +got):\n%s", diff)
		}
		more := Build(View{Sources: append(shuffled, source(t, "four", many(20)...))}, nil)
		for _, r := range want {
			if got, ok := more.Tool(r.Exposed); !ok || got != r {
				t.Fatalf("with another server %q routes to %+v, %v", r.Exposed, got, ok)
			}
		}
	}
	// A server that arrives later takes nothing away either.
	late := slices.Clone(servers)
	late[0].Listing = nil
	for _, r := range routes(Build(View{Sources: late}, nil)) {
		if !slices.Contains(want, r) {
			t.Errorf("%+v is there only while another server is missing", r)
		}
	}
}

func routes(s *Snapshot) (list []Route) {
	for r := range s.Tools() {
		list = append(list, r)
	}
	return list
}

// Whatever servers list, every name that is shown routes to one entry of one
// server, and the pages are valid JSON that shows each name once.
func TestRandomListings(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	names := []string{"a", "A", "a-b", "a_b", "a.b", "b", "", "x y", "é", "list_resources", strings.Repeat("n", 80)}
	shapes := []string{
		`{"name":%q}`, `{"name":%q,"inputSchema":{"type":"object"}}`, `{"name":%q,"inputSchema":7}`, `%q`,
		`{"uri":"x:%[1]s","uriTemplate":"x:{%[1]s}","name":%[1]q}`, `{"name":%q,"name":"z"}`, `{"name":%q`,
	}
	shared := new(Fragments)
	for range 300 {
		v := View{OwnNames: rng.IntN(3) == 0, Utilities: rng.IntN(2) == 0, PageBytes: rng.IntN(300)}
		template := []string{"", "{tool}", "{server}_{tool}"}[rng.IntN(3)]
		namer, _ := policy.CompileNaming(template, 0, 0)
		for _, server := range []string{"a", "a_b", "a-b", "c"} {
			list := func() (l []json.RawMessage) {
				for range rng.IntN(6) {
					l = append(l, json.RawMessage(fmt.Sprintf(shapes[rng.IntN(len(shapes))], names[rng.IntN(len(names))])))
				}
				return l
			}
			src := Source{Server: server, Namer: namer, Listing: &upstream.Listing{Tools: list(), Prompts: list(), Resources: list(), Templates: list()}}
			src.Listing.Info.Capabilities = []byte(`{"resources":{},"prompts":{}}`)
			v.Sources = append(v.Sources, src)
		}
		checkSnapshot(t, Build(v, shared))
	}
}

// checkSnapshot holds what is true of every snapshot.
func checkSnapshot(t *testing.T, s *Snapshot) {
	t.Helper()
	for k := range kinds {
		owner := map[string]bool{}
		n := 0
		for after, more := "", true; more; {
			items, next, ok := s.Page(k, after)
			if !ok {
				t.Fatalf("%s: no page after %q", k, after)
			}
			list := []byte("[" + string(items) + "]")
			if _, err := wire.Valid(list, wire.Limits{}); err != nil {
				t.Fatalf("%s: %v in %s", k, err, list)
			}
			wire.Elements(list, func(el []byte) bool {
				n++
				val, _ := wire.Get(el, k.key())
				name, _ := wire.Unquote(val)
				r, ok := s.lookup(k, name)
				id := fmt.Sprint(r.Server, "\x00", r.Inner, "\x00", r.Utility)
				if !ok || r.Exposed != name || owner[id] {
					t.Errorf("%s %q routes to %+v, %v, again %v", k, name, r, ok, owner[id])
				}
				owner[id] = true
				if back, ok := s.Inner(k, r.Server, r.Inner); r.Utility == 0 && (!ok || back != r) {
					t.Errorf("%s %q: inner finds %+v", k, name, back)
				}
				return true
			})
			after, more = next, next != ""
		}
		if n != s.Count(k) {
			t.Errorf("%s: %d listed, %d counted", k, n, s.Count(k))
		}
	}
	for _, f := range s.Faults() {
		if strings.ContainsFunc(f.String(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("fault %q holds a control character", f)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	shared := &Fragments{PageBytes: 4000}
	src := source(t, "a", many(50)...)
	want := onePage(t, Build(View{Sources: []Source{src}}, shared), Tools)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				s := Build(View{Sources: []Source{src}, PageBytes: 1000 + i}, shared)
				if _, all := walk(t, s, 2000); string(all) != want {
					t.Error("pages differ")
				}
			}
		})
	}
	wg.Wait()
}

func FuzzBuild(f *testing.F) {
	for _, seed := range []string{
		tool("x"), `{"name":"a","inputSchema":null}`, `{"name":"\ud800","inputSchema":{}}`, `{"name":"n","icons":[{"src":"x:"}]}`,
		`{"uri":"a:b","name":"n","_meta":{"mcp.x/y":1}}`, `{"uriTemplate":"a:{+b}/{?c*}","name":"n"}`, "{", "null", "",
		`{"name":"r","inputSchema":{"$ref":"#/a/0","a":[{"$ref":"http://x"}],"required":null,"type":null,"properties":null},"outputSchema":{"$ref":"#/%zz"}}`,
		" {\"name\":\"\u200b\"}\n", `{"name":"d","annotations":{"readOnlyHint":true},"title":null,"title":1}`,
	} {
		f.Add([]byte(seed), "a:b/c?d")
	}
	f.Fuzz(func(t *testing.T, entry []byte, uri string) {
		list := raws(string(entry), tool("neighbour"))
		src := source(t, "a")
		src.Listing = &upstream.Listing{Tools: list, Prompts: list, Resources: list, Templates: list}
		src.Listing.Info.Instructions = uri
		for _, v := range []View{{}, {Utilities: true, PageBytes: 1}, {OwnNames: true, Cleaner: &policy.Cleaner{Off: true, KeepMeta: true}}} {
			v.Sources = []Source{src}
			s := Build(v, nil)
			checkSnapshot(t, s)
			s.Resource(uri)
			if _, ok := s.Inner(Tools, "a", "neighbour"); !ok && !bytes.Contains(entry, []byte("neighbour")) {
				t.Error("the neighbour is gone")
			}
		}
	})
}

// An include entry that matches nothing is most likely a slip, and is said.
func TestIdleFilterIsReported(t *testing.T) {
	src := source(t, "a")
	src.Listing.Tools = []json.RawMessage{[]byte(`{"name":"echo","inputSchema":{"type":"object"}}`), []byte(`{"name":"\u001badd"}`)}
	f, err := policy.Tools{Include: []string{"ech", "echo"}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	src.Filter = f
	var got []string
	for _, f := range Build(View{Sources: []Source{src}}, nil).Faults() {
		if f.Level == Warning {
			got = append(got, f.String())
		}
	}
	want := `tools.include: "ech" matches no tool; there are: "\x1badd", "echo"`
	if len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
