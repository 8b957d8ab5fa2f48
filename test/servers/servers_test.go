//go:build npm

package servers

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestMain runs many servers at once: their tests wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "8")
	os.Exit(mcptest.Run(m))
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// entry writes a server as an entry of mcp_servers.
func entry(name string, s *server, extra string) string {
	return fmt.Sprintf("  %s:\n    command: %s\n    args: %s\n    env: %s\n    cwd: %s\n    connect_timeout: 120s\n%s",
		name, jsonOf(s.command), jsonOf(s.args), jsonOf(s.env), jsonOf(s.dir), extra)
}

// A probed is what a server says and answers with nothing between.
type probed struct {
	tools   map[string]json.RawMessage
	answers []mcptest.Message
	asked   []mcptest.Message
}

func direct(t *testing.T, s *server) *probed {
	p := startProbe(t, s)
	out := &probed{tools: map[string]json.RawMessage{}}
	for _, raw := range p.list(t, "tools/list", "tools") {
		out.tools[mcptest.Text(raw, "name")] = raw
	}
	for _, c := range s.calls {
		out.answers = append(out.answers, p.ask(t, "tools/call", `{"name":`+jsonOf(c.tool)+`,"arguments":`+c.args+`}`))
	}
	for _, k := range s.asks {
		out.asked = append(out.asked, p.ask(t, k.method, "{"+k.members+"}"))
	}
	return out
}

// TestRealServers runs all servers behind one sidecar.
func TestRealServers(t *testing.T) {
	work := t.TempDir()
	list := all(t, work)
	var y strings.Builder
	y.WriteString("list_wait: 60s\nmcp_servers:\n")
	for _, s := range list {
		y.WriteString(entry(s.name, s, ""))
	}
	y.WriteString(entry("some-files", list[1], "    tools: {include: [\"list_*\", read_text_file]}\n"))
	y.WriteString(entry("other-files", list[1], "    tools: {exclude: \"*file*\"}\n"))
	sc := mcptest.StartSidecar(t, y.String())

	want := map[string]string{} // exposed name -> server
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			d := direct(t, s)
			if len(d.tools) < s.tools {
				t.Errorf("the server itself lists %d tools, want at least %d", len(d.tools), s.tools)
			}
			for name := range d.tools {
				want["mcp_"+mcptest.HermesName(s.name)+"_"+mcptest.HermesName(name)] = s.name
			}
			for i, v := range []string{mcptest.Legacy, mcptest.Modern} {
				a := &mcptest.Agent{URL: sc.URL + "/" + s.name, Version: v}
				if _, err := a.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				sameTools(t, a, d)
				sameAsks(t, a, s, d)
				if i == 0 || s.name != "sequential-thinking" { // it counts its calls
					sameAnswers(t, a, s, d)
				}
			}
		})
	}
	t.Run("names", func(t *testing.T) { seedNames(t, sc, want) })
	t.Run("filters", func(t *testing.T) { filters(t, sc) })
}

// sameTools compares the list with the server's own, byte by byte.
func sameTools(t *testing.T, a *mcptest.Agent, d *probed) {
	t.Helper()
	got, err := a.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range d.tools {
		if string(got[name]) != string(raw) {
			t.Errorf("%s: %s:\n got %.600s\nwant %.600s", a.Version, name, got[name], raw)
		}
	}
	for name := range got {
		if d.tools[name] == nil {
			t.Errorf("%s: lists %s, which the server does not", a.Version, name)
		}
	}
}

// sameAnswers compares what calls return with the server's own bytes.
func sameAnswers(t *testing.T, a *mcptest.Agent, s *server, d *probed) {
	t.Helper()
	for i, c := range s.calls {
		r, err := a.Call(t.Context(), c.tool, c.args)
		if err != nil {
			t.Errorf("%s %s: %v", c.tool, c.args, err)
			continue
		}
		want := string(d.answers[i].Result)
		if a.Version == mcptest.Modern && want != "" {
			want = `{"resultType":"complete",` + want[1:]
		}
		if string(r.Result) != want || string(r.Error) != string(d.answers[i].Error) {
			t.Errorf("%s: %s %s:\n got %.600s %.300s\nwant %.600s %.300s", a.Version, c.tool, c.args, r.Result, r.Error, want, d.answers[i].Error)
		}
		if !strings.Contains(string(r.Raw), c.holds) {
			t.Errorf("%s %s: no %q in %.300s", c.tool, c.args, c.holds, r.Raw)
		}
	}
}

// sameAsks compares what the other methods return.
func sameAsks(t *testing.T, a *mcptest.Agent, s *server, d *probed) {
	t.Helper()
	for i, k := range s.asks {
		r, err := a.Do(t.Context(), k.method, k.members)
		if err != nil {
			t.Fatal(err)
		}
		got, want := string(r.Result), string(d.asked[i].Result)
		if k.key != "" { // a list: entry by entry, since pages are ours
			got, want = joined(r.Result, k.key), joined(d.asked[i].Result, k.key)
		} else if a.Version == mcptest.Modern && want != "" {
			// The era's own members come first, the server's follow unchanged.
			got, want = got[max(0, len(got)-len(want)+1):], want[1:]
		}
		if got != want || want == "" {
			t.Errorf("%s: %s %s:\n got %.600s\nwant %.600s", a.Version, k.method, k.members, got, want)
		}
	}
}

func joined(result []byte, key string) string {
	var all []string
	for _, e := range mcptest.Elements(mcptest.Member(result, key)) {
		all = append(all, string(e))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// seedNames holds the names of the aggregate: every tool of every server under
// mcp_<server>_<tool>, and besides them only the utility tools.
func seedNames(t *testing.T, sc *mcptest.Sidecar, want map[string]string) {
	a := &mcptest.Agent{URL: sc.URL}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := a.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if len(name) <= 64 && got[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	var extra []string
	for name := range got {
		if len(name) > 64 {
			t.Errorf("%s is longer than 64", name)
		}
		if want[name] == "" && !strings.HasPrefix(name, "mcp_some_files_") && !strings.HasPrefix(name, "mcp_other_files_") {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	utilities := []string{
		"mcp_desktop_commander_get_prompt", "mcp_desktop_commander_list_prompts", "mcp_desktop_commander_list_resources", "mcp_desktop_commander_read_resource",
		"mcp_everything_get_prompt", "mcp_everything_list_prompts", "mcp_everything_list_resources", "mcp_everything_read_resource",
		"mcp_memory_list_resources", "mcp_memory_read_resource",
		"mcp_mongodb_list_resources", "mcp_mongodb_read_resource",
	}
	if d := cmp.Diff(utilities, extra); d != "" {
		t.Errorf("tools that are no server's own (-want +got):\n%s", d)
	}
}

// filters holds that include and exclude act in lists and at calls.
func filters(t *testing.T, sc *mcptest.Sidecar) {
	a := &mcptest.Agent{URL: sc.URL, Version: mcptest.Legacy}
	if _, err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := a.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var some, other []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if n, ok := strings.CutPrefix(name, "mcp_some_files_"); ok {
			some = append(some, n)
		}
		if n, ok := strings.CutPrefix(name, "mcp_other_files_"); ok {
			other = append(other, n)
		}
	}
	if d := cmp.Diff([]string{"list_allowed_directories", "list_directory", "list_directory_with_sizes", "read_text_file"}, some); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"create_directory", "directory_tree", "list_allowed_directories", "list_directory", "list_directory_with_sizes"}, other); d != "" {
		t.Error(d)
	}
	hidden, err := a.Call(t.Context(), "mcp_some_files_write_file", `{"path":"x","content":"y"}`)
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := a.Call(t.Context(), "mcp_some_files_no_such_tool", `{"path":"x","content":"y"}`)
	if err != nil {
		t.Fatal(err)
	}
	same := strings.Replace(string(unknown.Error), "no_such_tool", "write_file", 1)
	if hidden.Error == nil || string(hidden.Error) != same {
		t.Errorf("a hidden tool answers %s, an unknown one %s", hidden.Raw, unknown.Raw)
	}
}
