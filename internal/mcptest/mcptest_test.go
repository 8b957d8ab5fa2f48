package mcptest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

func sample() *Upstream {
	return &Upstream{
		Tools: []string{
			`{"name":"one", "inputSchema":{"type":"object"}}`,
			`{"name":"two","inputSchema":{"type":"object"}}`,
			`{"name":"three","inputSchema":{"type":"object"}}`,
		},
		Resources: []string{`{"uri":"x://a","name":"a"}`},
		Answers: map[string]string{
			"one": `"result":{"content":[{"type":"text","text":"1"}],"big":9007199254740993}`,
			"two": `"error":{"code":-7,"message":"no","data":[1.0]}`,
		},
		Notes: map[string][]string{
			"one": {`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`},
		},
		PageSize: 2,
	}
}

// TestBothEras is the agent and the upstream against each other: bytes cross
// unchanged, pages are walked, the answer is found after notifications.
func TestBothEras(t *testing.T) {
	for _, v := range append([]string{Modern}, LegacyVersions...) {
		t.Run(v, func(t *testing.T) {
			u := sample()
			a := &Agent{URL: u.Start(t), Version: v}
			if _, err := a.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			tools, err := a.List(t.Context(), "tools/list", "tools")
			if err != nil || len(tools) != 3 || string(tools[0]) != u.Tools[0] {
				t.Errorf("tools: %s %v", tools, err)
			}
			r, err := a.Call(t.Context(), "one", `{}`)
			if err != nil || `"result":`+string(r.Result) != u.Answers["one"] || len(r.Notes) != 1 {
				t.Errorf("one: %s, %d notes, %v", r.Body, len(r.Notes), err)
			}
			if r, err = a.Call(t.Context(), "two", `{}`); err != nil || r.Code() != -7 {
				t.Errorf("two: %s %v", r.Body, err)
			}
			if r, err = a.Call(t.Context(), "three", `{"a": 1.50}`); err != nil || r.Content() != `{"a": 1.50}` {
				t.Errorf("three: %s %v", r.Body, err)
			}
			if n := len(u.Seen("tools/call")); n != 3 {
				t.Errorf("upstream saw %d calls", n)
			}
		})
	}
}

func TestSDKClient(t *testing.T) {
	for _, v := range []string{Modern, Legacy, "2024-11-05"} {
		c := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil)
		cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: sample().Start(t)}, &mcp.ClientSessionOptions{ProtocolVersion: v})
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "one"})
		if err != nil || r.Content[0].(*mcp.TextContent).Text != "1" {
			t.Errorf("%s: %v %v", v, r, err)
		}
		cs.Close()
	}
}

func TestStdioChild(t *testing.T) {
	u := sample()
	u.Noise = "hello\n\n"
	exe, env := u.Command(t)
	cmd := exec.CommandContext(t.Context(), exe)
	for k, v := range env {
		cmd.Env = append(os.Environ(), k+"="+v)
	}
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"one","arguments":{}}}
`)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"hello", "",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{"listChanged":true},"resources":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}}`,
		u.Notes["one"][0],
		`{"jsonrpc":"2.0","id":"a",` + u.Answers["one"] + `}`, ""}
	if d := cmp.Diff(want, strings.Split(string(out), "\n")); d != "" {
		t.Error(d)
	}
}

func TestOneEra(t *testing.T) {
	modern := sample()
	modern.Versions = []string{Modern}
	if _, err := (&Agent{URL: modern.Start(t), Version: Legacy}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "-32022") {
		t.Errorf("initialize at a modern server: %v", err)
	}
	legacy := sample()
	legacy.Versions = []string{"2025-06-18"}
	url := legacy.Start(t)
	if _, err := (&Agent{URL: url}).Open(t.Context()); err == nil {
		t.Error("discover at a legacy server passed")
	}
	a := &Agent{URL: url, Version: Legacy}
	if _, err := a.Open(t.Context()); err != nil || a.agreed != "2025-06-18" {
		t.Errorf("agreed %q, %v", a.agreed, err)
	}
}

func TestHermesKnowsLostSession(t *testing.T) {
	u := sample()
	h := &Hermes{URL: u.Start(t), Server: "my-api"}
	if _, err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	tools, err := h.Tools(t.Context())
	if err != nil || len(tools) != 3 || tools[0].Name != "mcp_my_api_one" {
		t.Errorf("%v %v", tools, err)
	}
	u.ExpireSessions()
	if _, err := h.Call(t.Context(), "one", "{}"); err != ErrSessionExpired {
		t.Errorf("got %v", err)
	}
}

// TestFaults shows that every fault is one: no agent gets a result from it.
func TestFaults(t *testing.T) {
	for name, f := range Faults {
		t.Run(name, func(t *testing.T) {
			u := sample()
			u.Faults = map[string]Fault{"one": f}
			a := &Agent{URL: u.Start(t)}
			r, err := a.Call(t.Context(), "one", "{}")
			if big := strings.HasPrefix(name, "20 MiB"); err == nil && !big && name != "two values" && r.Result != nil {
				t.Errorf("got %s", r.Result)
			}
			if r, err := a.Call(t.Context(), "three", "{}"); err != nil || r.Content() != "{}" {
				t.Errorf("after it: %v %v", r, err)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	e := NewEvents(strings.NewReader(": a\r\nid: 7\r\ndata:x\r\ndata: y\r\n\r\n\n: b\n\nevent: z\n\ndata: last\n\ndata: cut"))
	var got []string
	for e.Next() {
		got = append(got, e.ID+" "+string(e.Data))
	}
	if d := cmp.Diff([]string{"7 x\ny", "7 last"}, got); d != "" || e.Comments != 2 {
		t.Error(d, e.Comments)
	}
}
