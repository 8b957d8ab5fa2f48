//go:build npm

package parts

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

const everything = "@modelcontextprotocol/server-everything/dist/index.js"

// TestFence: what the processes of stdio servers reach. One runs curl, one is the
// reference server, whose tool fetches with Node's own client.
func TestFence(t *testing.T) {
	t.Parallel()
	needsNetwork(t)
	program(t, "curl", "curl")
	corp := newAuthority(t)
	plain, secure, other := startOrigin(t, toolsHost, nil), startOrigin(t, toolsHost, corp.pair.Server()), startOrigin(t, otherHost, nil)
	tiny, addr := startTinyproxy(t, basicAuth)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fence := func(via string) string {
		return fmt.Sprintf("egress: {allow: [%q, %q], via: %s}", toolsName+":"+plain.port(), toolsName+":"+secure.port(), via)
	}
	curl := func(name, via string) string {
		return fmt.Sprintf("  %s: {command: %q, env: {%s: '1'}, connect_timeout: 60s, %s}\n", name, exe, curlEnv, fence(via))
	}
	s := mcptest.StartSidecar(t, fmt.Sprintf("list_wait: 60s\negress: {proxy: %q}\nmcp_servers:\n", "http://"+proxyUser+":"+proxyWord+"@"+addr)+
		curl("curl", "corporate")+curl("straight", "direct")+
		fmt.Sprintf("  node: {command: %q, args: [%q], connect_timeout: 60s, %s}\n", mcptest.Node(t), mcptest.Module(t, "test/node", everything), fence("corporate")))
	a := &mcptest.Agent{URL: s.URL}
	page, secured, refused := "http://"+toolsName+":"+plain.port()+"/page", "https://"+toolsName+":"+secure.port()+"/page", "http://"+otherName+":"+other.port()+"/page"

	t.Run("curl", func(t *testing.T) {
		gets(t, a, "mcp_curl_get", page, "", "a page for "+exitHost+" 200")
		gets(t, a, "mcp_curl_get", secured, corp.file, "a page for "+exitHost+" 200 200")
		gets(t, a, "mcp_curl_get", refused, "", " 403 ")
		gets(t, a, "mcp_curl_get", "https://"+otherName+":"+other.port()+"/page", "", "403")
		gets(t, a, "mcp_curl_get", "http://169.254.169.254/latest/meta-data", "", " 403 ")
	})
	t.Run("direct", func(t *testing.T) {
		gets(t, a, "mcp_straight_get", page, "", "a page for "+toolsHost+" 200")
		gets(t, a, "mcp_straight_get", secured, corp.file, "a page for "+toolsHost+" 200 200")
		gets(t, a, "mcp_straight_get", refused, "", " 403 ")
	})
	t.Run("node", func(t *testing.T) {
		const tool = "mcp_node_gzip_file_as_resource"
		if r := call(t, a, tool, `{"name":"page.gz","data":`+jsonOf(page)+`,"outputType":"resource"}`); r.IsToolError() || !strings.Contains(string(r.Result), `"blob":"H4sI`) {
			t.Errorf("what is allowed: %.600s", r.Body)
		}
		if r := call(t, a, tool, `{"name":"page.gz","data":`+jsonOf(refused)+`}`); strings.Contains(string(r.Result), "a page") || len(other.headers()) != 0 {
			t.Errorf("what is not: %.600s", r.Body)
		}
	})
	t.Run("credentials", func(t *testing.T) {
		text := call(t, a, "mcp_curl_environment", "{}").Content()
		if strings.Contains(text, proxyWord) || strings.Contains(text, addr) || strings.Contains(text, exitHost) {
			t.Errorf("the process knows the proxy: %s", text)
		}
		if !strings.Contains(text, "\nHTTPS_PROXY=http://") || !strings.Contains(text, "\nhttp_proxy=http://") || !strings.Contains(text, "@127.0.0.1:") {
			t.Errorf("no proxy of ours: %s", text)
		}
		if got := call(t, a, "mcp_straight_environment", "{}").Content(); variable(got, "HTTP_PROXY") == variable(text, "HTTP_PROXY") {
			t.Error("two processes have the same credentials")
		}
	})
	if n := len(other.headers()); n != 0 {
		t.Errorf("the other host got %d requests", n)
	}
	for _, server := range []string{"curl", "straight"} {
		if !logged(s, "server="+server+" ", "egress of a child refused", otherName) {
			t.Errorf("the log does not tell what %s was refused:\n%s", server, s.Log())
		}
	}
	if text := tiny.out.String(); !strings.Contains(text, "CONNECT "+toolsName+":"+secure.port()) || strings.Contains(text, otherName) {
		t.Errorf("the corporate proxy says:\n%s", text)
	}
	secretsStay(t, s, plain, secure, other)
}

func variable(environ, name string) string {
	_, rest, _ := strings.Cut("\n"+environ, "\n"+name+"=")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// gets fetches through a tool, whose answer must hold want.
func gets(t *testing.T, a *mcptest.Agent, tool, url, ca, want string) {
	t.Helper()
	if r := call(t, a, tool, `{"url":`+jsonOf(url)+`,"ca":`+jsonOf(ca)+`}`); !strings.Contains(r.Content(), want) {
		t.Errorf("%s: got %q, want %q", url, r.Content(), want)
	}
}
