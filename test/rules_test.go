package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcp-sidecar/mcp-sidecar"

// ladder is the order of the packages: each imports from lower steps only,
// never from its own step or above.
var ladder = [][]string{
	{"cmd"},
	{"catalog", "messaging", "admin", "demo"},
	{"config"},
	{"proxy"},
	{"aggregate"},
	{"upstream", "sampling"},
	{"policy", "auth"},
	{"egress"},
	{"tls", "wire"},
}

// internals are the packages below internal that the program itself uses, with
// the lowest step that may import each.
var internals = map[string]string{
	"internal/seal": "proxy",
}

// A rule keeps an import out of all packages but some.
type rule struct {
	// imports is a path; one that ends in "..." means everything below, too.
	imports string
	// only are the top-level packages, or paths, that may import it.
	only   []string
	reason string
}

var rules = []rule{
	{"github.com/goccy/go-yaml...", []string{"config", "catalog"}, "one place knows the file format and its positions"},
	{"os/exec", []string{"upstream", "messaging", "catalog", "auth", "cmd", "internal/mcptest", "test"}, "starting a program is a decision with rules about environment, groups and shells"},
	{"crypto/tls", []string{"tls", "internal/mcptest"}, "certificates come through tls, which reloads them and never falls back"},
	{"github.com/sony/gobreaker/v2", []string{"upstream"}, "one breaker per server, owned by its supervisor"},
	{"golang.org/x/net...", []string{"egress"}, "how a connection leaves is decided in one place"},
	{"github.com/caarlos0/env/v11", []string{"config"}, "the environment is read once, with its origins"},
	{"github.com/elazarl/goproxy...", []string{"egress", "internal/mcptest"}, "the children's proxy is egress; the corporate proxy is a fake"},
	{"github.com/modelcontextprotocol/go-sdk/mcp", []string{"demo", "messaging", "internal/mcptest", "test"}, "its types round integers and drop fields: never in the path of a forwarded message"},
	{module + "/internal/mcptest", []string{"internal/mcptest", "test"}, "fakes are for tests"},
	{"testing", []string{"internal/mcptest", "test"}, "the program has no tests inside"},
	{"unsafe", nil, "bytes from outside are read by bounds-checked code"},
	{"plugin", nil, "the program loads no foreign code"},
	{"math/rand", nil, "what needs no secret uses math/rand/v2, what does crypto/rand"},
}

// A pkg is what `go list` says of a package.
type pkg struct {
	ImportPath, Name, Doc, Dir         string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// rel is the path below the module.
func (p *pkg) rel() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// top is the package's place in the ladder.
func (p *pkg) top() string { return topOf(p.rel()) }

func topOf(rel string) string {
	first, rest, _ := strings.Cut(rel, "/")
	if first == "internal" {
		second, _, _ := strings.Cut(rest, "/")
		return path.Join(first, second)
	}
	return first
}

// packages lists the module for one operating system.
func packages(t *testing.T, goos string) []*pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-tags", "npm", "-json=ImportPath,Name,Doc,Dir,Imports,TestImports,XTestImports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []*pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, &p)
	}
}

func everywhere(t *testing.T, f func(t *testing.T, p *pkg)) {
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			all := packages(t, goos)
			if len(all) < 5 {
				t.Fatalf("go list found %d packages", len(all))
			}
			for _, p := range all {
				f(t, p)
			}
		})
	}
}

func step(top string) int {
	return slices.IndexFunc(ladder, func(names []string) bool { return slices.Contains(names, top) })
}

// TestLadder holds the order of the packages.
func TestLadder(t *testing.T) {
	everywhere(t, func(t *testing.T, p *pkg) {
		if p.top() == "test" || p.top() == "internal/mcptest" {
			return
		}
		for _, imp := range p.Imports {
			rel, ours := strings.CutPrefix(imp, module+"/")
			if !ours || topOf(rel) == p.top() {
				continue
			}
			if why := climbs(p.top(), topOf(rel)); why != "" {
				t.Errorf("%s imports %s: %s", p.rel(), rel, why)
			}
		}
	})
}

// climbs says why one package may not import another, or nothing.
func climbs(from, to string) string {
	if lowest, ok := internals[to]; ok {
		if s := step(from); s < 0 || s > step(lowest) {
			return "it is for " + lowest + " and what stands above it"
		}
		return ""
	}
	a, b := step(from), step(to)
	_, internal := internals[from]
	switch {
	case b < 0:
		return to + " has no step in the ladder; give it one in test/rules_test.go"
	case internal:
		return "an internal package stands below the ladder"
	case a < 0:
		return from + " has no step in the ladder; give it one in test/rules_test.go"
	case a >= b:
		return "imports go down the ladder only"
	}
	return ""
}

// TestForbiddenImports holds who may import what.
func TestForbiddenImports(t *testing.T) {
	everywhere(t, func(t *testing.T, p *pkg) {
		for _, imp := range p.Imports {
			for _, r := range rules {
				if r.forbids(p, imp) {
					t.Errorf("%s imports %s, which only %v may: %s", p.rel(), imp, r.only, r.reason)
				}
			}
		}
	})
}

func (r *rule) forbids(p *pkg, imp string) bool {
	if prefix, ok := strings.CutSuffix(r.imports, "..."); ok {
		if imp != prefix && !strings.HasPrefix(imp, prefix+"/") {
			return false
		}
	} else if imp != r.imports {
		return false
	}
	return !slices.Contains(r.only, p.top())
}

// TestRulesBite shows that the two checks above can fail.
func TestRulesBite(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"wire", "tls"}, {"upstream", "proxy"}, {"policy", "auth"}, {"wire", "internal/seal"}, {"proxy", "newcomer"},
		{"internal/seal", "wire"}, {"demo", "admin"}, {"upstream", "internal/seal"},
	} {
		if climbs(c.from, c.to) == "" {
			t.Errorf("%s may import %s", c.from, c.to)
		}
	}
	for _, c := range []struct{ from, to string }{{"cmd", "wire"}, {"proxy", "internal/seal"}, {"config", "proxy"}, {"upstream", "policy"}} {
		if why := climbs(c.from, c.to); why != "" {
			t.Errorf("%s may not import %s: %s", c.from, c.to, why)
		}
	}
	proxy := &pkg{ImportPath: module + "/proxy"}
	for _, imp := range []string{"github.com/goccy/go-yaml/ast", "golang.org/x/net/http2", "os/exec", "github.com/modelcontextprotocol/go-sdk/mcp"} {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.forbids(proxy, imp) }) {
			t.Errorf("proxy may import %s", imp)
		}
	}
}

// TestPackageSentence holds that each package says in one sentence what it is.
func TestPackageSentence(t *testing.T) {
	for _, p := range packages(t, "linux") {
		if len(p.GoFiles) == 0 {
			continue
		}
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + path.Base(p.ImportPath) + " "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its comment begins %q, want %q", p.rel(), p.Doc, want+"…")
		}
		if slices.Contains([]string{"util", "utils", "common", "helpers", "types", "base", "misc"}, p.Name) {
			t.Errorf("%s: the name says nothing", p.rel())
		}
	}
}
