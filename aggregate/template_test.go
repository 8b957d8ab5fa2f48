package aggregate

import (
	"fmt"
	"strings"
	"testing"
)

func TestTemplateMatch(t *testing.T) {
	for _, tt := range []struct {
		template string
		yes, no  []string
	}{
		{"x://a", []string{"x://a"}, []string{"x://ab", "x://", ""}},
		{"x://{id}", []string{"x://7", "x://a,b", "x://%2F"}, []string{"x://", "x://a/b", "x://a?b", "y://7"}},
		{"x://{a}/{b}", []string{"x://1/2"}, []string{"x://1", "x://1/2/3", "x:///2"}},
		{"x://{a}-{b}.txt", []string{"x://1-2.txt", "x://1-2-3.txt"}, []string{"x://12.txt", "x://-2.txt"}},
		{"file:///{+path}", []string{"file:///a", "file:///a/b?c#d"}, []string{"file:///"}},
		{"x://s{/p}", []string{"x://s", "x://s/a"}, []string{"x://s/a/b", "x://sa"}},
		{"x://s{/p*}", []string{"x://s", "x://s/a/b"}, []string{"x://s/a?b"}},
		{"x://s{?q,lang}", []string{"x://s", "x://s?q=1", "x://s?q=1&lang=a/b"}, []string{"x://s&q", "x://sq", "x://s?q#f"}},
		{"x://s{#f}", []string{"x://s", "x://s#a/b"}, []string{"x://sa"}},
		{"x://s{.ext}", []string{"x://s", "x://s.tar.gz"}, []string{"x://s/a"}},
		{"x://s?f=1{&q}", []string{"x://s?f=1", "x://s?f=1&q=2"}, []string{"x://s?f=12"}},
		{"{a}{b}", []string{"xy", "xyz"}, []string{"x", ""}},
	} {
		parsed, err := parseTemplate(tt.template)
		if err != nil {
			t.Fatalf("%s: %v", tt.template, err)
		}
		for _, uri := range tt.yes {
			if !newMatcher(uri).match(0, parsed) {
				t.Errorf("%s does not match %s", tt.template, uri)
			}
		}
		for _, uri := range tt.no {
			if newMatcher(uri).match(0, parsed) {
				t.Errorf("%s matches %s", tt.template, uri)
			}
		}
	}
}

func templates(list ...string) (entries []string) {
	for _, s := range list {
		entries = append(entries, fmt.Sprintf(`{"uriTemplate":%q,"name":"n"}`, s))
	}
	return entries
}

func TestResourceRouting(t *testing.T) {
	a, b := source(t, "a"), source(t, "b")
	a.Listing.Templates = raws(templates("db://{+any}", "same://{x}")...)
	a.Listing.Resources = raws(`{"uri":"db://users/1","name":"n"}`)
	b.Listing.Templates = raws(templates("db://users/{id}", "same://{y}", "db://{+z}/end")...)
	b.Listing.Resources = raws(`{"uri":"db://x","name":"n"}`)
	s := Build(View{Sources: []Source{a, b}}, nil)
	for uri, want := range map[string]string{
		"db://users/1":  "a", // listed
		"db://x":        "b", // listed
		"db://users/2":  "b", // the more specific template
		"db://other":    "a",
		"db://q/r/end":  "b",
		"same://1":      "a", // configuration order
		"same://1/2":    "",
		"other://users": "",
		"":              "",
		"db://" + strings.Repeat("x", maxURIBytes): "",
	} {
		r, ok := s.Resource(uri)
		if r.Server != want || ok != (want != "") || ok && r.Inner != uri {
			t.Errorf("%s: got %+v, %v, want %q", clip(uri, 40), r, ok, want)
		}
	}
	if r, ok := s.Template("db://users/{id}"); !ok || r.Server != "b" {
		t.Errorf("template: got %+v, %v", r, ok)
	}
	if _, ok := s.Template("db://users/{other}"); ok {
		t.Error("an unlisted template has an owner")
	}
}

func TestSingleServerTakesAnyURI(t *testing.T) {
	a := source(t, "a")
	v := View{Sources: []Source{a}, OwnNames: true}
	if _, ok := Build(v, nil).Resource("x://unlisted"); ok {
		t.Error("a server without resources gets a URI")
	}
	a.Listing.Info.Capabilities = []byte(`{"resources":{}}`)
	if r, ok := Build(v, nil).Resource("x://unlisted"); !ok || r.Server != "a" || r.Inner != "x://unlisted" {
		t.Errorf("got %+v, %v", r, ok)
	}
	v.Sources[0].Listing = nil
	if _, ok := Build(v, nil).Resource("x://unlisted"); ok {
		t.Error("an unknown server gets a URI")
	}
}

// Templates that are made to be slow cost their own server only.
func TestHostileTemplatesAreBounded(t *testing.T) {
	a, b := source(t, "a"), source(t, "b")
	for i := range 2000 {
		a.Listing.Templates = append(a.Listing.Templates, raws(templates(fmt.Sprintf("db://%s!%d", strings.Repeat("{+a}", 31), i))...)...)
	}
	b.Listing.Templates = raws(templates("db://{+x}/end")...)
	s := Build(View{Sources: []Source{a, b}}, nil)
	uri := "db://" + strings.Repeat("y", 8000) + "/end"
	if r, ok := s.Resource(uri); !ok || r.Server != "b" {
		t.Errorf("got %+v, %v", r, ok)
	}
	m, n := newMatcher(uri), 0
	for _, e := range s.tables[Templates].entries {
		if e.src == 0 && m.match(e.src, e.frag.template) {
			t.Errorf("%s matches", e.exposed)
		}
		if m.left >= 0 {
			n++
		}
	}
	if n > maxMatchSteps/len(uri) {
		t.Errorf("%d templates were tried to their end", n)
	}
}

// Schemas made to be slow to check are refused within a budget.
func TestHostileSchemasAreBounded(t *testing.T) {
	var refs []string
	for i := range 8000 {
		refs = append(refs, fmt.Sprintf(`{"$ref":"#/x/y/%d"}`, i))
	}
	schema := fmt.Sprintf(`{"type":"object","anyOf":[%s],"x":{"y":[%s]}}`, strings.Join(refs, ","), strings.Repeat("1,", 100_000)+"1")
	src := source(t, "a", fmt.Sprintf(`{"name":"slow","inputSchema":%s}`, schema),
		fmt.Sprintf(`{"name":"out","inputSchema":{"type":"object"},"outputSchema":%s}`, schema))
	s := Build(View{Sources: []Source{src}}, nil)
	if got, want := onePage(t, s, Tools), `{"name":"mcp_a_out","inputSchema":{"type":"object"}}`; got != want {
		t.Errorf("got %.200s, want %s", got, want)
	}
	if f := s.Faults(); len(f) != 2 || f[1].Reason != "inputSchema is too entangled to check its references" {
		t.Errorf("got %v", f)
	}
	// An honest schema with hundreds of references into $defs passes.
	var defs []string
	for i := range 500 {
		defs = append(defs, fmt.Sprintf(`"T%d":{"type":"object","properties":{"next":{"$ref":"#/$defs/T%d"}}}`, i, (i+1)%500))
	}
	src = source(t, "a", fmt.Sprintf(`{"name":"big","inputSchema":{"type":"object","$defs":{%s}}}`, strings.Join(defs, ",")))
	if s := Build(View{Sources: []Source{src}}, nil); s.Count(Tools) != 1 || len(s.Faults()) != 0 {
		t.Errorf("got %v", s.Faults())
	}
}

func TestInstructionsAreCapped(t *testing.T) {
	var v View
	for i := range 10 {
		src := source(t, fmt.Sprintf("s%d", i), tool("x"))
		src.Listing.Info.Instructions = strings.Repeat("é", maxInstructions)
		v.Sources = append(v.Sources, src)
	}
	s := Build(v, nil)
	text := s.Instructions()
	if len(text) > maxAllInstructions || !strings.Contains(text, "[cut at 8 KiB]") || strings.Count(text, mark) != 3 {
		t.Errorf("got %d bytes, %d sections", len(text), strings.Count(text, mark))
	}
	if strings.ContainsRune(text, '\ufffd') {
		t.Error("a character was cut in two")
	}
	if n := len(s.Faults()); n != 17 { // ten were cut, seven then left out
		t.Errorf("got %d faults: %v", n, s.Faults())
	}
}
