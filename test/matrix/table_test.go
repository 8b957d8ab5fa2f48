package matrix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

const preface = `# Which agent works with which server

Every version of the protocol at the agent, every version at the server, with mcp-sidecar between.
` + "`go test ./test/matrix`" + ` tries every cell over Streamable HTTP and over stdio at the server, with
agents over Streamable HTTP and over stdio, and with ` + "`isolation`" + ` in each mode for the newest two
versions. It also writes this file: ` + "`UPDATE=1 go test ./test/matrix`" + `.

A cell is ✓ when the feature works over both transports of the server, else the number of the reason
why it cannot.
`

// hold compares the table with the one in the documentation.
func (t *table) hold(tt *testing.T) {
	root, err := mcptest.Root()
	if err != nil {
		tt.Fatal(err)
	}
	path := filepath.Join(root, "docs", "COMPATIBILITY.md")
	got := t.document()
	if os.Getenv("UPDATE") != "" && !tt.Failed() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			tt.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tt.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		tt.Errorf("docs/COMPATIBILITY.md says something else (-document +test):\n%s", d)
	}
}

// document writes one table per feature, and the reasons.
func (t *table) document() string {
	var out strings.Builder
	var reasons []string
	out.WriteString(preface)
	for _, f := range features {
		fmt.Fprintf(&out, "\n## %s\n\n| server ↓ agent → | %s |\n|%s\n", f.name, strings.Join(versions, " | "), strings.Repeat("---|", len(versions)+1))
		for _, sv := range versions {
			fmt.Fprintf(&out, "| %s |", sv)
			for _, av := range versions {
				why := t.cells[cell{f.name, av, sv}]
				mark := "✓"
				if why != "" {
					mark = fmt.Sprint(number(&reasons, why))
				}
				fmt.Fprintf(&out, " %s |", mark)
			}
			out.WriteString("\n")
		}
	}
	out.WriteString("\n## Reasons\n\n")
	for i, r := range reasons {
		fmt.Fprintf(&out, "%d. %s.\n", i+1, strings.ToUpper(r[:1])+r[1:])
	}
	return out.String()
}

func number(reasons *[]string, why string) int {
	if i := slices.Index(*reasons, why); i >= 0 {
		return i + 1
	}
	*reasons = append(*reasons, why)
	return len(*reasons)
}
