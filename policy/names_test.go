package policy

import (
	"cmp"
	"regexp"
	"strings"
	"testing"
)

func mustName(t *testing.T, template string, max, reserve int) *Namer {
	t.Helper()
	n, err := CompileNaming(template, max, reserve)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestName(t *testing.T) {
	long := strings.Repeat("t", 60)
	for _, tt := range []struct {
		template     string
		server, tool string
		want         string
	}{
		{"", "filesystem", "read_file", "mcp_filesystem_read_file"},
		{"", "github", "create-issue", "mcp_github_create_issue"},
		{"", "my-api", "query.data", "mcp_my_api_query_data"},
		{"mcp__{server}__{tool}", "my-api", "list-items.v2", "mcp__my_api__list_items_v2"},
		{"{server}__{tool}", "a", "b", "a__b"},
		{"{tool}", "a", "test_simple_text", "test_simple_text"},
		{"{tool}", "a", "get-sum.v2", "get-sum.v2"},
		{"{tool}", "a", "two words-x", "two_words_x"},
		{"{tool}", "a", "", "_"},
		{"{tool}_x", "a", "get-sum", "get_sum_x"},
		{"", "é:./ ü", "日本", "mcp__________"},
		{"", "A", "bad\xff\xfe", "mcp_A_bad__"},
		{"", "", "", "mcp__"},
		// The hash covers the names as they were, not as they were mapped.
		{"", "a-b", long, "mcp_a_b_" + long[:45] + "_7hwhggr2vl"},
		{"", "a.b", long, "mcp_a_b_" + long[:45] + "_4yssdoodfd"},
		{"", "enterprise-database-management", long, ""},
		{"{tool}", "", strings.Repeat("a-", 40), ""},
	} {
		n := mustName(t, tt.template, 0, 0)
		got := n.Name(tt.server, tt.tool)
		if tt.want != "" && got != tt.want {
			t.Errorf("%q: Name(%q, %q) = %q, want %q", tt.template, tt.server, tt.tool, got, tt.want)
		}
		if len(got) > DefaultMaxName {
			t.Errorf("%q has %d characters", got, len(got))
		}
	}
}

func TestNameLimit(t *testing.T) {
	tool := strings.Repeat("x", 200)
	for _, tt := range []struct{ max, reserve, want int }{{0, 0, 64}, {64, 12, 52}, {128, 0, 128}, {24, 0, 24}} {
		if got := len(mustName(t, "", tt.max, tt.reserve).Name("s", tool)); got != tt.want {
			t.Errorf("max %d, reserve %d: %d characters, want %d", tt.max, tt.reserve, got, tt.want)
		}
	}
	exact := strings.Repeat("x", 64-len("mcp_s_"))
	if got := mustName(t, "", 0, 0).Name("s", exact); got != "mcp_s_"+exact {
		t.Errorf("a name of just the limit was cut: %q", got)
	}
}

func TestCompileNamingErrors(t *testing.T) {
	for _, tt := range []struct {
		template     string
		max, reserve int
		want         string
	}{
		{"x", 0, 0, `naming "x": must hold {tool} exactly once`},
		{"{tool}{tool}", 0, 0, `naming "{tool}{tool}": must hold {tool} exactly once`},
		{"{server}{server}{tool}", 0, 0, `naming "{server}{server}{tool}": must not hold {server} twice`},
		{"{tool}{profile}", 0, 0, `naming "{tool}{profile}": only {server} and {tool} may stand in braces`},
		{"{tool}}", 0, 0, `naming "{tool}}": only {server} and {tool} may stand in braces`},
		{"{", 0, 0, `naming "{": only {server} and {tool} may stand in braces`},
		{"{server}-{tool}", 0, 0, `naming "{server}-{tool}": '-' is not one of A-Z a-z 0-9 _`},
		{"", 20, 0, "max name length 20 less reserve 0: must leave at least 24"},
		{"", 64, 41, "max name length 64 less reserve 41: must leave at least 24"},
		{"", 64, -1, "reserve -1: must not be negative"},
		{"", -1, 0, "max name length -1: must be 24 to 128"},
		{"", 129, 0, "max name length 129: must be 24 to 128"},
		{strings.Repeat("p", 33) + "{tool}", 0, 0, `naming "` + strings.Repeat("p", 33) + `{tool}": 33 characters of its own, limit 32 (half of a name)`},
	} {
		_, err := CompileNaming(tt.template, tt.max, tt.reserve)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, want %s", tt.template, err, tt.want)
		}
	}
}

func TestWrapper(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		{"", "mcp_my_api_list_resources"},
		{"{tool}", "my_api_list_resources"},
		{"x_{tool}", "my_api_x_list_resources"},
		{"{server}__{tool}", "my_api__list_resources"},
	} {
		if got := mustName(t, tt.template, 0, 0).Wrapper("my-api", ListResources.Tool()); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.template, got, tt.want)
		}
	}
}

func TestOwnName(t *testing.T) {
	for in, want := range map[string]string{
		"get-sum.v2": "get-sum.v2",
		"a b-c":      "a_b_c",
		"":           "_",
		"日本":         "__",
	} {
		if got := OwnName(in); got != want {
			t.Errorf("OwnName(%q) = %q, want %q", in, got, want)
		}
	}
	if got := strings.Repeat("n", 128); OwnName(got) != got {
		t.Error("a name of 128 characters was cut")
	}
	if got := OwnName(strings.Repeat("n", 129)); len(got) != 128 {
		t.Errorf("got %d characters, want 128", len(got))
	}
}

func FuzzName(f *testing.F) {
	f.Add("", "my-api", "query.data", "other", "x", 64, 0)
	f.Add("{tool}", "é", strings.Repeat("日", 100), "é", strings.Repeat("本", 100), 64, 12)
	f.Add("{server}{tool}", strings.Repeat("s", 70), "\xff", "a", "b", 24, 0)
	valid := regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	f.Fuzz(func(t *testing.T, template, server, tool, server2, tool2 string, max, reserve int) {
		n, err := CompileNaming(template, max, reserve)
		if err != nil {
			return
		}
		a, b := n.Name(server, tool), n.Name(server2, tool2)
		for _, name := range []string{a, b, n.Wrapper(server, tool), OwnName(tool)} {
			if !valid.MatchString(name) {
				t.Fatalf("invalid name %q", name)
			}
		}
		if len(a) > n.limit || a != n.Name(server, tool) {
			t.Fatalf("name %q: over %d or not stable", a, n.limit)
		}
		cut := len(expand(n.parts, server, tool)) > n.limit
		if cut && a == b && (server != server2 || tool != tool2) && strings.IndexByte(server+tool+server2+tool2, 0) < 0 {
			t.Fatalf("%q/%q and %q/%q both are %q", server, tool, server2, tool2, a)
		}
	})
}

// Every name of a server fits it, and those of others do not, unless the template
// leaves no trace of the server.
func TestFits(t *testing.T) {
	for _, template := range []string{"", "mcp__{server}__{tool}", "{tool}_{server}", "x_{tool}", "{tool}"} {
		n := mustName(t, template, 0, 0)
		for _, server := range []string{"a", "my-api", strings.Repeat("s", 80)} {
			for _, tool := range []string{"t", "get-sum", "", strings.Repeat("t", 90)} {
				if name := n.Name(server, tool); !n.Fits(server, name) {
					t.Errorf("%q: %q does not fit %q", template, name, server)
				}
			}
			says := strings.Contains(cmp.Or(template, DefaultNaming), serverSlot)
			if n.Fits(server, n.Name("other", "t")) == says && !strings.HasPrefix(template, "x_") {
				t.Errorf("%q: a name of another server fits %q: %v", template, server, says)
			}
		}
	}
	if mustName(t, "x_{tool}", 0, 0).Fits("a", "y_t") {
		t.Error("a name that the template cannot make fits")
	}
}
