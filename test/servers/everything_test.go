//go:build npm

package servers

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

const everything = "@modelcontextprotocol/server-everything/dist/index.js"

// onLoopback makes the server listen on loopback only: it listens on all
// addresses, and has no setting for that.
const onLoopback = `data:text/javascript,import net from 'node:net'; const l = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, f) { return l.call(this, port, '127.0.0.1', f) }`

// startEverything runs server-everything over Streamable HTTP.
func startEverything(t *testing.T) (url string) {
	t.Helper()
	port := fmt.Sprint(mcptest.FreePort(t))
	cmd := exec.Command(mcptest.Node(t), "--import", onLoopback, mcptest.Module(t, "test/node", everything), "streamableHttp")
	cmd.Env = append(cmd.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
	})
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return "http://127.0.0.1:" + port + "/mcp"
		}
	}
	t.Fatal("server-everything does not listen")
	return ""
}

// patience bounds the wait for what another process does.
const patience = 20 * time.Second

// modes are those of isolation.
var modes = []string{"shared", "per_session", "per_caller"}

// startAll runs the program over server-everything, once per transport and mode
// of isolation; the servers are named after both.
func startAll(t *testing.T) *mcptest.Sidecar {
	t.Helper()
	url := startEverything(t)
	var y strings.Builder
	y.WriteString("list_wait: 60s\nmcp_servers:\n")
	for _, mode := range modes {
		more := "isolation: " + mode + ", connect_timeout: 120s, sampling: {max_rpm: 1000}"
		fmt.Fprintf(&y, "  http-%s: {url: %s, %s}\n", mode, jsonOf(url), more)
		fmt.Fprintf(&y, "  stdio-%s: {command: %s, args: [%s], %s}\n", mode, jsonOf(mcptest.Node(t)), jsonOf(mcptest.Module(t, "test/node", everything)), more)
	}
	return mcptest.StartSidecar(t, y.String())
}

// canAnswer is what the agents declare that answer questions.
const canAnswer = `{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}`

// A party is an agent that answers questions, and what it was asked.
type party struct {
	*mcptest.Agent
	name string

	mu    sync.Mutex
	asked []string
}

// join opens an agent of a version at a server; name tells its answers from others'.
func join(t *testing.T, s *mcptest.Sidecar, server, version, name string) *party {
	t.Helper()
	p := &party{name: name}
	p.Agent = &mcptest.Agent{URL: s.URL + "/" + server, Version: version, Capabilities: canAnswer, Answer: p.answer}
	if _, err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// answer answers as the agent of this name.
func (p *party) answer(method string, params []byte) string {
	p.mu.Lock()
	p.asked = append(p.asked, method+" "+string(params))
	p.mu.Unlock()
	switch method {
	case "elicitation/create":
		if mcptest.Text(params, "mode") == "url" {
			return `"result":{"action":"accept"}`
		}
		if strings.Contains(string(params), `"interpretation"`) {
			return `"result":{"action":"accept","content":{"interpretation":"historical"}}`
		}
		return `"result":{"action":"accept","content":{"name":` + jsonOf(p.name) + `,"integer":7}}`
	case "sampling/createMessage":
		return `"result":{"role":"assistant","content":{"type":"text","text":"said by ` + p.name + `"},"model":"m","stopReason":"endTurn"}`
	case "roots/list":
		return `"result":{"roots":[{"uri":"file:///home/ada/` + p.name + `","name":"w"}]}`
	}
	return `"error":{"code":-32601,"message":"no such question"}`
}

// questions are those of a method, without what came before.
func (p *party) questions(method string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.asked {
		if m, params, _ := strings.Cut(q, " "); m == method {
			all = append(all, params)
		}
	}
	p.asked = nil
	return all
}

// tool calls a tool through all questions; more are further members.
func (p *party) tool(t *testing.T, name, arguments string, more ...string) *mcptest.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	members := strings.Join(append([]string{`"name":` + jsonOf(name) + `,"arguments":` + arguments}, more...), ",")
	r, _, err := p.Converse(ctx, "tools/call", members)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// do sends a request of another method.
func (p *party) do(t *testing.T, method, members string) *mcptest.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := p.Do(ctx, method, members)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return r
}

// says calls a tool whose texts must hold want.
func (p *party) says(t *testing.T, name, arguments, want string) *mcptest.Reply {
	t.Helper()
	r := p.tool(t, name, arguments)
	if !strings.Contains(string(r.Result), jsonText(want)) || r.IsToolError() {
		t.Errorf("%s: no %q in %.600s", name, want, r.Raw)
	}
	return r
}

// jsonText is a text as it stands within a JSON string.
func jsonText(s string) string {
	q := jsonOf(s)
	return q[1 : len(q)-1]
}

// TestEverything has agents of both eras use all of server-everything, over both
// of its transports and in every mode of isolation.
func TestEverything(t *testing.T) {
	s := startAll(t)
	t.Run("servers", func(t *testing.T) {
		for _, mode := range modes {
			for _, how := range []string{"http", "stdio"} {
				server := how + "-" + mode
				t.Run(server, func(t *testing.T) {
					t.Parallel()
					for _, v := range []string{mcptest.Legacy, mcptest.Modern} {
						t.Run(v, func(t *testing.T) { everyFeature(t, s, server, v) })
					}
				})
			}
		}
	})
	t.Run("aggregate", func(t *testing.T) { namesTheAsker(t, s) })
}

func everyFeature(t *testing.T, s *mcptest.Sidecar, server, version string) {
	p := join(t, s, server, version, server+"-"+version)
	for _, f := range []struct {
		name string
		try  func(t *testing.T, s *mcptest.Sidecar, server string, p *party)
	}{
		{"lists", listsByAnswers},
		{"sampling", samples},
		{"elicitation by form", fillsForm},
		{"elicitation by link", opensLink},
		{"link before the call", linkFirst},
		{"roots", tellsRoots},
		{"annotations", annotated},
		{"embedded resources", embeds},
		{"links to resources", follows},
		{"resource of the session", zips},
		{"templates", expands},
		{"completion", completes},
		{"progress", reports},
		{"cancel", givesUp},
		{"subscription", subscribes},
		{"task", researches},
		{"at once", atOnce},
	} {
		t.Run(f.name, func(t *testing.T) { f.try(t, s, server, p) })
	}
}

// listsByAnswers: server-everything has tools only for those who can answer.
func listsByAnswers(t *testing.T, s *mcptest.Sidecar, server string, p *party) {
	mute := &mcptest.Agent{URL: p.URL, Version: p.Version}
	if _, err := mute.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	few, err := mute.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	many, err := p.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var more []string
	for name, raw := range many {
		if few[name] == nil {
			more = append(more, name)
		} else if string(few[name]) != string(raw) {
			t.Errorf("%s differs:\n%s\n%s", name, few[name], raw)
		}
	}
	slices.Sort(more)
	want := []string{"get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"}
	if d := cmp.Diff(want, more); d != "" || len(many) != len(few)+len(want) {
		t.Errorf("%d tools for some, %d for others (-want +got):\n%s", len(few), len(many), d)
	}
	r, err := mute.Call(t.Context(), "trigger-sampling-request", `{"prompt":"x"}`)
	if err != nil || r.Code() != -32602 {
		t.Errorf("a tool that is not listed answers %v %s", err, r.Raw)
	}
}
