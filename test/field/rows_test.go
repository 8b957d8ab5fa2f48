package field

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// leak and leakProxy are in the program's own environment in every test; see R15.
const (
	leak      = "canary-of-the-environment"
	leakProxy = "http://canary-proxy.invalid:3128"
)

func TestMain(m *testing.M) {
	os.Setenv("FIELD_SECRET", leak)
	os.Setenv("FTP_PROXY", leakProxy)
	flag.Parse()
	flag.Set("test.parallel", "8") // the tests wait for processes more than they compute
	os.Exit(mcptest.Run(m))
}

// A row is what became of one report, or of several that are one.
type row struct {
	// ids are the numbers of the reports, with spaces between.
	ids string
	// name says what is tested, and test does it.
	name string
	test func(*testing.T)
	// by names what tests it instead: another row as "TestField/R1", or a test
	// function as "proxy.TestCancel", where the package is its directory.
	by string
	// later says why it is not tested, or which part of it waits.
	later string
}

// run holds that the rows are exactly the numbers, runs what they test, and
// prints what they do not.
func run(t *testing.T, numbers string, rows []row) {
	complete(t, strings.Fields(numbers), rows)
	for _, r := range rows {
		switch {
		case r.test != nil:
			first, _, _ := strings.Cut(r.ids, " ")
			t.Run(first+"_"+r.name, func(t *testing.T) {
				t.Parallel()
				r.test(t)
			})
		case r.by != "":
			exists(t, r)
		case r.later == "":
			t.Errorf("%s: neither tested nor postponed", r.ids)
		}
	}
	t.Log("\n" + table(rows))
}

func complete(t *testing.T, numbers []string, rows []row) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range rows {
		for _, id := range strings.Fields(r.ids) {
			if seen[id] {
				t.Errorf("%s comes twice", id)
			}
			seen[id] = true
			if !slices.Contains(numbers, id) {
				t.Errorf("%s is not among the numbers", id)
			}
		}
	}
	for _, n := range numbers {
		if !seen[n] {
			t.Errorf("%s is neither tested nor postponed", n)
		}
	}
}

// table lists what is tested elsewhere and what is postponed.
func table(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		if r.by != "" {
			fmt.Fprintf(&b, "%-32s tested by %s\n", r.ids, r.by)
		}
		if r.later != "" {
			fmt.Fprintf(&b, "%-32s later: %s\n", r.ids, r.later)
		}
	}
	return b.String()
}

// suites are the tables of this package by the test that runs them.
var suites = map[string][]row{"TestField": fieldRows, "TestHermes": hermesRows, "TestProjects": projectRows, "TestWished": wishedRows}

// exists holds that what r.by names is there.
func exists(t *testing.T, r row) {
	t.Helper()
	if suite, id, ok := strings.Cut(r.by, "/"); ok && suites[suite] != nil {
		if !tested(suites[suite], id) {
			t.Errorf("%s: %s is no row with a test", r.ids, r.by)
		}
		return
	}
	dot := strings.LastIndexByte(r.by, '.')
	if dot < 0 || !declared(t, r.by[:dot], r.by[dot+1:]) {
		t.Errorf("%s: there is no test %s", r.ids, r.by)
	}
}

func tested(rows []row, id string) bool {
	return slices.ContainsFunc(rows, func(r row) bool {
		return r.test != nil && slices.Contains(strings.Fields(r.ids), id)
	})
}

// declared reports whether a directory of this module has that test function.
func declared(t *testing.T, dir, name string) bool {
	t.Helper()
	root, err := mcptest.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// TestTables holds that the tables can fail.
func TestTables(t *testing.T) {
	if declared(t, "proxy", "TestNoSuchThing") || !declared(t, "test/field", "TestTables") {
		t.Error("test functions are not found by name")
	}
	if tested([]row{{ids: "1 2", later: "x"}}, "2") {
		t.Error("a postponed row counts as tested")
	}
}
