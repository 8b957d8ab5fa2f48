package aggregate

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
	"github.com/mcp-sidecar/mcp-sidecar/wire"
)

var update = flag.Bool("update", false, "rewrite what the transcripts want")

// settings is the view section of a transcript.
type settings struct {
	Naming    string
	Own       bool
	Utilities bool
	Prefer    []string
	Untrusted []string
	Filters   map[string]policy.Tools
	NoClean   bool
}

// TestTranscripts builds the view that each file describes. The want section
// lists every entry as exposed = server:inner and its bytes; then the faults.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { transcript(t, file) })
	}
}

func transcript(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v View
	var want *txtar.File
	var cfg settings
	for i := range ar.Files {
		f := &ar.Files[i]
		switch server, ok := strings.CutPrefix(f.Name, "upstream/"); {
		case f.Name == "view":
			if err := json.Unmarshal(f.Data, &cfg); err != nil {
				t.Fatal(err)
			}
		case f.Name == "want":
			want = f
		case ok:
			v.Sources = append(v.Sources, Source{Server: server, Listing: listing(t, f.Data)})
		default:
			t.Fatalf("unknown section %q", f.Name)
		}
	}
	apply(t, &v, cfg)
	got := describe(t, Build(v, nil))
	if *update && want != nil {
		want.Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want == nil {
		t.Fatal("no want section")
	}
	if diff := cmp.Diff(string(want.Data), got); diff != "" {
		t.Errorf("snapshot differs (-want +got):\n%s", diff)
	}
}

func apply(t *testing.T, v *View, cfg settings) {
	t.Helper()
	namer, err := policy.CompileNaming(cfg.Naming, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	v.Name, v.OwnNames, v.Utilities, v.Prefer = "default", cfg.Own, cfg.Utilities, cfg.Prefer
	v.Cleaner = &policy.Cleaner{Off: cfg.NoClean, KeepMeta: cfg.NoClean}
	for i := range v.Sources {
		s := &v.Sources[i]
		s.Namer = namer
		for _, u := range cfg.Untrusted {
			s.ReadOnlyOnly = s.ReadOnlyOnly || u == s.Server
		}
		if tools, ok := cfg.Filters[s.Server]; ok {
			if s.Filter, err = tools.Compile(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// listing reads an upstream section; entries keep their bytes.
func listing(t *testing.T, b []byte) *upstream.Listing {
	t.Helper()
	b = []byte(strings.TrimSpace(string(b)))
	if _, err := wire.Valid(b, wire.Limits{Depth: 1000}); err != nil {
		t.Fatalf("upstream section: %v", err)
	}
	if string(b) == "null" {
		return nil
	}
	l := new(upstream.Listing)
	l.Info.Capabilities, _ = wire.Get(b, "capabilities")
	if text, ok := wire.Get(b, "instructions"); ok {
		l.Info.Instructions, _ = wire.Unquote(text)
	}
	for member, list := range map[string]*[]json.RawMessage{
		"tools": &l.Tools, "prompts": &l.Prompts, "resources": &l.Resources, "resourceTemplates": &l.Templates,
	} {
		arr, _ := wire.Get(b, member)
		wire.Elements(arr, func(v []byte) bool { *list = append(*list, v); return true })
	}
	return l
}

func describe(t *testing.T, s *Snapshot) string {
	var b strings.Builder
	for k := range kinds {
		items, next, ok := s.Page(k, "")
		if !ok || next != "" {
			t.Fatalf("%ss: page ok %v, next %q", k, ok, next)
		}
		lookup := [kinds]func(string) (Route, bool){s.Tool, s.Prompt, s.Resource, s.Template}[k]
		wire.Elements([]byte("["+string(items)+"]"), func(el []byte) bool {
			key, _ := wire.Get(el, k.key())
			name, _ := wire.Unquote(key)
			r, ok := lookup(name)
			if !ok || r.Exposed != name {
				t.Errorf("%s %q is listed but routes to %+v, %v", k, name, r, ok)
			}
			inner := r.Inner
			if r.Utility != 0 {
				inner = fmt.Sprintf("utility %d", r.Utility)
			}
			safe := ""
			if r.Safe {
				safe = " (safe)"
			}
			fmt.Fprintf(&b, "%s %s = %s:%s%s\n  %s\n", k, name, r.Server, inner, safe, el)
			return true
		})
	}
	for _, f := range s.Faults() {
		fmt.Fprintf(&b, "%s: %s\n", f.Level, f)
	}
	if text := s.Instructions(); text != "" {
		fmt.Fprintf(&b, "instructions:\n%s\n", text)
	}
	return b.String()
}
