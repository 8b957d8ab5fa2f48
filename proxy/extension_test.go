package proxy

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func TestVendorMethods(t *testing.T) {
	const ext = `{"extensions":{"com.example/x":{"a":1}}}`
	for _, tt := range []struct {
		name, path   string
		era          upstream.Era
		server       string // capabilities
		modern       bool
		agent        string // capabilities
		method       string
		wantMethod   bool
		wantToServer string
	}{
		{"both modern", "/mcp/v", upstream.Modern, ext, true, `{"extensions":{"com.example/x":{}}}`, "com.example/do", true, `{"extensions":{"com.example/x":{}}}`},
		{"experimental", "/mcp/v", upstream.Modern, `{"experimental":{"k":{}}}`, true, `{"experimental":{"k":{}}}`, "k/do", true, ""},
		{"legacy server, legacy agent", "/mcp/v", upstream.Legacy, `{"experimental":{"k":{}}}`, false, `{}`, "k/do", true, ""},
		{"legacy server, modern agent", "/mcp/v", upstream.Legacy, `{"experimental":{"k":{}}}`, true, `{}`, "k/do", true, ""},
		{"legacy agent, modern server", "/mcp/v", upstream.Modern, ext, false, `{"extensions":{"com.example/x":{}}}`, "x/do", true, `{"extensions":{"com.example/x":{}}}`},

		{"merged view", "/mcp", upstream.Modern, ext, true, ext, "com.example/do", false, ""},
		{"nothing in common", "/mcp/v", upstream.Modern, ext, true, `{"extensions":{"com.example/y":{}}}`, "com.example/do", false, ""},
		{"agent declared nothing", "/mcp/v", upstream.Modern, ext, true, `{}`, "com.example/do", false, ""},
		{"empty experimental", "/mcp/v", upstream.Legacy, `{"experimental":{}}`, false, `{}`, "k/do", false, ""},
		{"only apps in common", "/mcp/v", upstream.Modern, `{"extensions":{"io.modelcontextprotocol/ui":{}}}`, true, `{"extensions":{"io.modelcontextprotocol/ui":{}}}`, "x/do", false, ""},
		{"only tasks in common", "/mcp/v", upstream.Modern, modernTaskCaps, true, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, "x/do", false, ""},
		{"too much declared", "/mcp/v", upstream.Modern, ext, true, `{"extensions":{"com.example/x":"` + strings.Repeat("x", maxExtensions) + `"}}`, "x/do", false, ""},
		{"long method", "/mcp/v", upstream.Modern, ext, true, ext, strings.Repeat("x", maxVendorMethod+1), false, ""},
		{"tools/", "/mcp/v", upstream.Modern, ext, true, ext, "tools/callMany", false, ""},
		{"resources/", "/mcp/v", upstream.Modern, ext, true, ext, "resources/write", false, ""},
		{"ping", "/mcp/v", upstream.Modern, ext, true, ext, "ping", false, ""},
		{"initialize", "/mcp/v", upstream.Modern, ext, true, ext, "initialize", false, ""},
		{"a server's request", "/mcp/v", upstream.Modern, ext, true, ext, "sampling/createMessage", false, ""},
		{"modern method of a legacy agent", "/mcp/v", upstream.Legacy, `{"experimental":{"k":{}}}`, false, `{}`, "server/discover", false, ""},
		{"rpc.", "/mcp/v", upstream.Modern, ext, true, ext, "rpc.discover", false, ""},
	} {
		w := newWorld(t)
		w.lead(sourceOf("v", tt.era, tt.server))
		last := caught(w, `{"n":1.50, "_meta":{"mcp.dev/x":1},"t":"a\u200bb"}`, tt.era)
		r := w.vendorCall(tt.path, tt.method, tt.modern, tt.agent)
		if !tt.wantMethod {
			if code(r.body) != -32601 || tt.modern && r.status != 404 || len(w.seen()) > 0 {
				t.Errorf("%s: %d %s, %d calls", tt.name, r.status, r.body, len(w.seen()))
			}
			continue
		}
		if r.status != 200 || !strings.Contains(r.body, `"n":1.50,"t":"ab"}`) {
			t.Errorf("%s: %d %s", tt.name, r.status, r.body)
		}
		if string(last.Params) != `{"a":1.0}` || last.Method != tt.method || string(last.Capabilities) != tt.wantToServer {
			t.Errorf("%s: went out as %s %s with %s", tt.name, last.Method, last.Params, last.Capabilities)
		}
	}
}

// vendorCall sends a request of no known kind from an agent with capabilities.
func (w *world) vendorCall(path, method string, modern bool, caps string) httpReply {
	if modern {
		body := strings.Replace(modernBody("1", method, `{"a":1.0}`), `clientCapabilities":{}`, `clientCapabilities":`+caps, 1)
		return w.send("POST", path, body, modernHeader(method, "")...)
	}
	open := w.send("POST", path, strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+caps, 1))
	return w.send("POST", path, taskRPC(method, `{"a":1.0}`), "Mcp-Session-Id", open.header.Get("Mcp-Session-Id"))
}

// What a server does not know after all is unknown.
func TestVendorErrorPasses(t *testing.T) {
	w := newWorld(t)
	w.lead(sourceOf("v", upstream.Modern, `{"extensions":{"com.example/x":{}}}`))
	w.answerWith(upstream.Response{Error: []byte(`{"code":-32601,"message":"never heard of it"}`), Era: upstream.Modern})
	r := w.vendorCall("/mcp/v", "x/do", true, `{"extensions":{"com.example/x":{}}}`)
	if r.status != 404 || !strings.Contains(r.body, "never heard of it") {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

func TestDeclaredExtensions(t *testing.T) {
	const (
		vendor = `{"tools":{},"extensions":{"com.example/x":{"a":1.0},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]},"io.modelcontextprotocol/tasks":{}},"experimental":{"k":{"t":"a\u200bb"}}}`
		ui     = `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}`
	)
	for _, tt := range []struct {
		name, path, version string
		want                string // after the capabilities of the core
	}{
		{"merged, modern", "/mcp", versionModern, `,"extensions":{` + ui + `,"io.modelcontextprotocol/tasks":{}}`},
		{"merged, legacy", "/mcp", "2025-11-25", `,"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{` + ui + `}`},
		{"merged, older", "/mcp", "2025-06-18", `,"extensions":{` + ui + `}`},
		{"single, modern", "/mcp/new", versionModern, `,"extensions":{"com.example/x":{"a":1.0},` + ui + `,"io.modelcontextprotocol/tasks":{}},"experimental":{"k":{"t":"ab"}}`},
		{"single, legacy", "/mcp/new", "2025-11-25", `,"extensions":{"com.example/x":{"a":1.0},` + ui + `},"experimental":{"k":{"t":"ab"}}`},
		{"single with tasks", "/mcp/old", "2025-11-25", `,"tasks":{"requests":{"tools":{"call":{}}}}`},
		{"single with tasks, modern", "/mcp/old", versionModern, ``},
		{"single without any", "/mcp/none", "2025-11-25", ``},
	} {
		w := newWorld(t)
		w.lead(sourceOf("new", upstream.Modern, vendor), sourceOf("none", upstream.Legacy, `{"tools":{}}`),
			sourceOf("old", upstream.Legacy, `{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}}`),
			sourceOf("cancels", upstream.Legacy, legacyTaskCaps))
		var r httpReply
		if tt.version == versionModern {
			r = w.send("POST", tt.path, modernBody("1", "server/discover", "{}"), modernHeader("server/discover", "")...)
		} else {
			r = w.send("POST", tt.path, strings.Replace(initialize, "2025-11-25", tt.version, 1))
		}
		caps := member(t, r.body, "capabilities")
		if i := strings.Index(caps, "}"); caps[i+1:] != tt.want+"}" {
			t.Errorf("%s: got %s, want it to end in %s}", tt.name, caps, tt.want)
		}
	}
}

// A page under ui:// is read from the server whose tool names it.
func TestAppPageIsRead(t *testing.T) {
	w := newWorld(t)
	w.lead(sourceOf("app", upstream.Modern, `{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`,
		`{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://app/page","csp":{"resourceDomains":["https://e.com"]}}}}`))
	last := caught(w, `{"resultType":"complete","contents":[{"uri":"ui://app/page","mimeType":"text/html;profile=mcp-app","text":"<p>","_meta":{"ui":{"prefersBorder":true}}}],"ttlMs":5,"cacheScope":"public"}`, upstream.Modern)
	body := strings.Replace(modernBody("1", "resources/read", `{"uri":"ui://app/page"}`), `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]},"com.example/secret":{}}}`, 1)
	r := w.post(body, modernHeader("resources/read", "ui://app/page")...)
	if r.status != 200 || !strings.Contains(r.body, `"_meta":{"ui":{"prefersBorder":true}}`) || last.Name != "ui://app/page" {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if got := string(last.Capabilities); got != `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}` {
		t.Errorf("the server was told of %s", got)
	}
	if l := w.modern("2", "tools/list", "", "{}"); !strings.Contains(l.body, `"ui":{"resourceUri":"ui://app/page","csp":{"resourceDomains":["https://e.com"]}}`) {
		t.Errorf("the tool changed: %s", l.body)
	}
}

// answerWith has every call answered alike.
func (w *world) answerWith(r upstream.Response) {
	w.answer = func(context.Context, *upstream.Call) (upstream.Response, error) { return r, nil }
}

// A server that needs an extension says so to the agent that declared another one.
func TestMissingExtension(t *testing.T) {
	w := newWorld(t)
	w.lead(sourceOf("jobs", upstream.Modern, modernTaskCaps, slowTool))
	missing := `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
	w.answerWith(upstream.Response{Error: []byte(missing), Era: upstream.Modern})
	body := strings.Replace(modernBody("1", "tools/call", `{"name":"mcp_jobs_slow"}`), `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/ui":{}}}`, 1)
	r := w.post(body, modernHeader("tools/call", "mcp_jobs_slow")...)
	if r.status != 400 || !strings.Contains(r.body, `"error":`+missing) {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if r := w.modernTasks("tools/call", "mcp_jobs_slow", `{"name":"mcp_jobs_slow"}`); !strings.Contains(r.body, "MCPS-UNSUPPORTED") {
		t.Errorf("to one that declared it: %d %s", r.status, r.body)
	}
}
