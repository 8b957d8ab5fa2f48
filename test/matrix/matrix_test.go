package matrix

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// TestMain runs many cells at once: they wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "24")
	os.Exit(mcptest.Run(m))
}

// versions are those of agents and of servers, the newest first.
var versions = append([]string{mcptest.Modern}, mcptest.LegacyVersions...)

// limit bounds one step of one cell.
const limit = 20 * time.Second

// serverTimeout is the call time-out that every server is configured with.
const serverTimeout = 2

// A pair is one cell's agent and server.
type pair struct {
	agentVersion, serverVersion string
	stdioAgent, stdioServer     bool
	isolated                    bool // the server runs in processes of its agents' own
	agent                       *mcptest.Agent
	prefix                      string // of tool names
}

// fake is the server of all pairs, in one version.
func fake(version, doc string) *mcptest.Upstream {
	form := mcptest.Question{Method: "elicitation/create", Params: `{"message":"Who?","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":1.0}},"required":["n"]}}`}
	sample := mcptest.Question{Method: "sampling/createMessage", Params: `{"messages":[{"role":"user","content":{"type":"text","text":"Say $N"}}],"maxTokens":10}`}
	roots := mcptest.Question{Method: "roots/list", Params: `{}`}
	tool := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
	return &mcptest.Upstream{
		Versions: []string{version}, Lab: true, Doc: doc,
		Tools: []string{tool("echo"), tool("steps"), tool("chatty"), tool("elicit1"), tool("elicit2"), tool("elicit3"), tool("sample"), tool("roots"), tool("both")},
		Notes: map[string][]string{
			"steps": {
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1,"total":2}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":2,"total":2}}`,
			},
			"chatty": {`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"lab","data":"heard"}}`},
		},
		Asks: map[string][][]mcptest.Question{
			"elicit1": {{form}}, "elicit2": {{form}, {form}}, "elicit3": {{form}, {form}, {form}},
			"sample": {{sample}}, "roots": {{roots}}, "both": {{form, roots}},
		},
	}
}

// answers is what the agents say to questions.
func answers(method string, params []byte) string {
	switch method {
	case "elicitation/create":
		return `"result":{"action":"accept","content":{"n":1.50}}`
	case "sampling/createMessage":
		return `"result":{"role":"assistant","content":{"type":"text","text":"said"},"model":"m","stopReason":"endTurn"}`
	case "roots/list":
		return `"result":{"roots":[{"uri":"file:///home/ada","name":"w"}]}`
	}
	return `"error":{"code":-32601,"message":"no such question"}`
}

// capabilities declare all that answers can do, and tasks.
const capabilities = `{"sampling":{},"elicitation":{"form":{}},"roots":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}},"tasks":{"requests":{}}}`

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// config is the sidecar's: every version over both transports.
func config(t *testing.T, more string) string {
	var y strings.Builder
	y.WriteString("mcp_servers:\n")
	for _, v := range versions {
		command, env := fake(v, "lab://stdio-"+v).Command(t)
		fmt.Fprintf(&y, "  stdio-%s: {command: %s, env: %s%s}\n", v, jsonOf(command), jsonOf(env), more)
		fmt.Fprintf(&y, "  http-%s: {url: %s%s}\n", v, jsonOf(fake(v, "lab://http-"+v).Start(t)), more)
	}
	return y.String()
}

func settings(more string) string { return fmt.Sprintf(", timeout: %d", serverTimeout) + more }

// TestMatrix runs every cell and compares the table of the outcomes with
// docs/COMPATIBILITY.md; UPDATE=1 writes it anew.
func TestMatrix(t *testing.T) {
	s := mcptest.StartSidecar(t, config(t, settings("")))
	got := newTable()
	eachPair(t, versions, func(t *testing.T, p *pair) {
		p.agent = newAgent(s, p)
		p.run(t, got)
	})
	got.hold(t)
}

// TestStdioAgents runs the cells of agents on standard input and output, with
// one program for all servers of a version pair.
func TestStdioAgents(t *testing.T) {
	for _, av := range versions {
		t.Run(av, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte("ops_listen: off\n"+config(t, settings(""))), 0o600); err != nil {
				t.Fatal(err)
			}
			a := &mcptest.Agent{Version: av, Capabilities: capabilities, Answer: answers}
			a.Spawn(t, "serve", "--stdio", "--config", file)
			for _, sv := range versions {
				for _, stdio := range []bool{false, true} {
					p := &pair{agentVersion: av, serverVersion: sv, stdioAgent: true, stdioServer: stdio, agent: a}
					p.prefix = "mcp_" + mcptest.HermesName(p.server()) + "_"
					t.Run(p.name(), func(t *testing.T) { p.run(t, newTable()) })
				}
			}
		})
	}
}

// TestIsolation repeats what questions need in the other modes of isolation.
func TestIsolation(t *testing.T) {
	for _, mode := range []string{"per_session", "per_caller"} {
		t.Run(mode, func(t *testing.T) {
			s := mcptest.StartSidecar(t, config(t, settings(", isolation: "+mode)))
			eachPair(t, []string{mcptest.Modern, mcptest.Legacy}, func(t *testing.T, p *pair) {
				p.isolated, p.agent = true, newAgent(s, p)
				p.run(t, newTable())
			})
		})
	}
}

// eachPair runs try for every pair of versions and both transports of the
// server. Servers work side by side, the agents of one after each other: what
// belongs to no call is then heard by the one who caused it.
func eachPair(t *testing.T, versions []string, try func(t *testing.T, p *pair)) {
	t.Run("pairs", func(t *testing.T) {
		for _, sv := range versions {
			for _, stdio := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/stdio=%v", sv, stdio), func(t *testing.T) {
					t.Parallel()
					for _, av := range versions {
						p := &pair{agentVersion: av, serverVersion: sv, stdioServer: stdio}
						t.Run(p.name(), func(t *testing.T) { try(t, p) })
					}
				})
			}
		}
	})
}

func newAgent(s *mcptest.Sidecar, p *pair) *mcptest.Agent {
	return &mcptest.Agent{URL: s.URL + "/" + p.server(), Version: p.agentVersion, Capabilities: capabilities, Answer: answers}
}

func (p *pair) server() string {
	if p.stdioServer {
		return "stdio-" + p.serverVersion
	}
	return "http-" + p.serverVersion
}

// doc is the URI of the server's resource.
func (p *pair) doc() string { return "lab://" + p.server() }

func (p *pair) name() string { return p.agentVersion + "/" + p.server() }

func (p *pair) modernAgent() bool { return p.agentVersion == mcptest.Modern }

// run opens the agent and tries every feature of the pair.
func (p *pair) run(t *testing.T, got *table) {
	if !p.stdioAgent || p.agent.Session == "" {
		p.open(t)
	}
	for _, f := range features {
		why := ""
		if f.impossible != nil {
			why = f.impossible(p)
		}
		if why != "" {
			got.impossible(f.name, p, why)
			continue
		}
		if !t.Run(f.name, func(t *testing.T) { f.try(t, p) }) {
			got.failed(f.name, p)
		}
	}
}

// open does the handshake; over stdio it is done once for all servers.
func (p *pair) open(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r, err := p.agent.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if p.stdioAgent {
		p.agent.Session = "stdio"
	}
	if v := mcptest.Text(r.Result, "protocolVersion"); !p.modernAgent() && v != p.agentVersion {
		t.Fatalf("the agent got version %q, want %q", v, p.agentVersion)
	}
}

// call calls a tool of the server, through all questions.
func (p *pair) call(t *testing.T, tool, arguments, meta string) (*mcptest.Reply, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	members := `"name":` + jsonOf(p.tool(tool)) + `,"arguments":` + arguments
	if meta != "" {
		members += "," + p.agent.Meta(meta)
	}
	r, rounds, err := p.agent.Converse(ctx, "tools/call", members)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r, rounds
}

func (p *pair) tool(name string) string {
	if p.prefix == "" {
		return name
	}
	return p.prefix + mcptest.HermesName(name)
}

// says calls a tool and compares its text.
func (p *pair) says(t *testing.T, tool, arguments, want string) int {
	t.Helper()
	r, rounds := p.call(t, tool, arguments, "")
	if got := r.Content(); got != want || r.IsToolError() {
		t.Errorf("%s: got %q, want %q: %.400s", tool, got, want, r.Body)
	}
	return rounds
}

// table holds what did not work, by feature.
type table struct {
	mu    sync.Mutex
	cells map[cell]string
}

type cell struct{ feature, agent, server string }

func newTable() *table { return &table{cells: map[cell]string{}} }

func (t *table) impossible(feature string, p *pair, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[cell{feature, p.agentVersion, p.serverVersion}] = why
}

func (t *table) failed(feature string, p *pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[cell{feature, p.agentVersion, p.serverVersion}] = "fails"
}
