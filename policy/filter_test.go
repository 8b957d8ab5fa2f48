package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var globNames = []string{"", "a", "b", "x", "ax", "bx", "dx", "read_file", "write_file", "get_a", "get_ab", "[", "[a", "a[", "]", "-", "z", "!", "^", "\\", "ab", "a_b", "aXbYb", "read_x", "read-x", "*", "?", "x[y", "é", "été", "aé", "A", "azb", "acb", "c", "d", "e", "[]", "[!]", "[!", "a.b", "aab"}

// globWant is what Python's fnmatch.fnmatchcase finds among globNames.
var globWant = []struct {
	pattern string
	matches []string
}{
	{"*", globNames},
	{"?", []string{"a", "b", "x", "[", "]", "-", "z", "!", "^", "\\", "*", "?", "é", "A", "c", "d", "e"}},
	{"a*", []string{"a", "ax", "a[", "ab", "a_b", "aXbYb", "aé", "azb", "acb", "a.b", "aab"}},
	{"*_file", []string{"read_file", "write_file"}},
	{"get_?", []string{"get_a"}},
	{"[a-c]x", []string{"ax", "bx"}},
	{"[!a]x", []string{"bx", "dx"}},
	{"[]a]", []string{"a", "]"}},
	{"[!]a]", []string{"b", "x", "[", "-", "z", "!", "^", "\\", "*", "?", "é", "A", "c", "d", "e"}},
	{"[", []string{"["}},
	{"[a", []string{"[a"}},
	{"a[", []string{"a["}},
	{"[]", []string{"[]"}},
	{"[!]", []string{"[!]"}},
	{"[!", []string{"[!"}},
	{"[a-]", []string{"a", "-"}},
	{"[-a]", []string{"a", "-"}},
	{"[z-a]", []string{}},
	{"[!z-a]", []string{"a", "b", "x", "[", "]", "-", "z", "!", "^", "\\", "*", "?", "é", "A", "c", "d", "e"}},
	{"a[z-a]b", []string{}},
	{"[a-c-e]", []string{"a", "b", "-", "c", "e"}},
	{"[--a]", []string{"a", "[", "]", "-", "^", "\\", "?", "A"}},
	{"[]-a]", []string{"a", "]", "^"}},
	{"[^a]", []string{"a", "^"}},
	{"[\\]", []string{"\\"}},
	{"*a*b*", []string{"get_ab", "ab", "a_b", "aXbYb", "azb", "acb", "a.b", "aab"}},
	{"**", globNames},
	{"a**b", []string{"ab", "a_b", "aXbYb", "azb", "acb", "a.b", "aab"}},
	{"read[_-]*", []string{"read_file", "read_x", "read-x"}},
	{"[*]", []string{"*"}},
	{"[?]", []string{"?"}},
	{"x[[]y", []string{"x[y"}},
	{"é*", []string{"é", "été"}},
	{"?é", []string{"aé"}},
	{"[à-é]", []string{"é"}},
	{"A*", []string{"A"}},
	{"a.b", []string{"a.b"}},
	{"[!!]", []string{"a", "b", "x", "[", "]", "-", "z", "^", "\\", "*", "?", "é", "A", "c", "d", "e"}},
	{"[a!]", []string{"a", "!"}},
}

func TestGlob(t *testing.T) {
	for _, tt := range globWant {
		g := compileGlob(tt.pattern)
		got := []string{}
		for _, n := range globNames {
			if g.match(n) {
				got = append(got, n)
			}
		}
		if d := cmp.Diff(tt.matches, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", tt.pattern, d)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, tt := range []struct {
		name  string
		tools Tools
		want  []string
	}{
		{"nothing set", Tools{}, []string{"read_file", "write_file", "Read_file"}},
		{"include", Tools{Include: []string{"read_file"}}, []string{"read_file"}},
		{"glob, case counts", Tools{Include: []string{"read_*"}}, []string{"read_file"}},
		{"empty include is nothing", Tools{Include: []string{}}, nil},
		{"include wins", Tools{Include: []string{"*_file"}, Exclude: []string{"read_file"}}, []string{"read_file", "write_file", "Read_file"}},
		{"empty include wins too", Tools{Include: []string{}, Exclude: []string{"x"}}, nil},
		{"exclude", Tools{Exclude: []string{"write_*"}}, []string{"read_file", "Read_file"}},
		{"empty exclude", Tools{Exclude: []string{}}, []string{"read_file", "write_file", "Read_file"}},
		{"exposed names do not count", Tools{Include: []string{"mcp_fs_read_file"}}, nil},
	} {
		f, err := tt.tools.Compile()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range []string{"read_file", "write_file", "Read_file"} {
			if f.Allow(n) {
				got = append(got, n)
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestFilterExactNameOfGlob(t *testing.T) {
	f, err := Tools{Include: []string{"a[b]"}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if !f.Allow("a[b]") || !f.Allow("ab") || f.Allow("a[b") {
		t.Error("an entry must match as a glob and as the name it spells")
	}
}

func TestFilterSwitches(t *testing.T) {
	off, on := false, true
	for _, tt := range []struct {
		tools              Tools
		resources, prompts bool
	}{
		{Tools{}, true, true},
		{Tools{Resources: &off, Prompts: &on}, false, true},
		{Tools{Resources: &on, Prompts: &off, Include: []string{}}, true, false},
	} {
		f, err := tt.tools.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if f.Resources() != tt.resources || f.Prompts() != tt.prompts {
			t.Errorf("got %v, %v, want %v, %v", f.Resources(), f.Prompts(), tt.resources, tt.prompts)
		}
	}
	var none *Filter
	if !none.Allow("x") || !none.Resources() || !none.Prompts() || none.Both() != nil {
		t.Error("a nil filter must pass all")
	}
}

func TestFilterBoth(t *testing.T) {
	f, err := Tools{Include: []string{"b", "a", "b", "x*"}, Exclude: []string{"x*", "b", "c"}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"b", "x*"}, f.Both()); d != "" {
		t.Error(d)
	}
}

func TestFilterErrors(t *testing.T) {
	long := strings.Repeat("a", maxPatternLen+1)
	_, err := Tools{Include: []string{"ok", long}, Exclude: slices.Repeat([]string{"x"}, maxPatterns+1)}.Compile()
	want := `include[1]: "` + long[:32] + `"… has 1025 bytes, limit 1024` + "\n" + `exclude: 10001 entries, limit 10000`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestFilterLongName(t *testing.T) {
	long := strings.Repeat("a", maxFiltered+1)
	for _, tools := range []Tools{{Include: []string{"*"}}, {Exclude: []string{"b"}}} {
		f, err := tools.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if f.Allow(long) {
			t.Errorf("%v lets a name of %d bytes pass", tools, len(long))
		}
	}
}

// Stars must not multiply: this takes 2^200 steps where they do.
func TestGlobStars(t *testing.T) {
	g := compileGlob(strings.Repeat("*a", 200) + "b")
	start := time.Now()
	if g.match(strings.Repeat("a", maxFiltered)) {
		t.Error("matched")
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

func FuzzGlob(f *testing.F) {
	for _, tt := range globWant {
		f.Add(tt.pattern, "read_file")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > maxPatternLen || len(name) > maxFiltered {
			return
		}
		g := compileGlob(pattern)
		g.match(name)
		if compileGlob("*").match(name) == false {
			t.Fatal("* must match everything")
		}
		if !isGlob(pattern) && g.match(pattern) != true {
			t.Fatalf("%q does not match itself", pattern)
		}
		// Stars around a pattern can only add matches.
		if g.match(name) && !compileGlob("*"+pattern+"*").match("x"+name+"x") {
			t.Fatalf("%q matches %q, but not with stars around it", pattern, name)
		}
	})
}

func TestIdle(t *testing.T) {
	for _, tt := range []struct {
		tools Tools
		list  string
		idle  []string
	}{
		{Tools{}, "exclude", nil},
		{Tools{Include: []string{"ech", "add", "nope_*", "*l*w"}, Exclude: []string{"x"}}, "include", []string{"ech", "nope_*"}},
		{Tools{Exclude: []string{"add", "del*"}}, "exclude", []string{"del*"}},
	} {
		f, err := tt.tools.Compile()
		if err != nil {
			t.Fatal(err)
		}
		list, idle := f.Idle([]string{"add", "echo", "slow"})
		if list != tt.list || !slices.Equal(idle, tt.idle) {
			t.Errorf("%+v: got %s %q, want %s %q", tt.tools, list, idle, tt.list, tt.idle)
		}
	}
	if _, idle := (*Filter)(nil).Idle([]string{"a"}); idle != nil {
		t.Errorf("no filter: got %q", idle)
	}
}
