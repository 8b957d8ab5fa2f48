//go:build npm

package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// The suite starts a client per scenario and names its mock server in the last
// argument. Here the client is this test binary: it starts the program before
// that server, then drives it with the SDK's fixture client.
const (
	envProgram = "MCPTEST_CONFORMANCE_PROGRAM"
	envDriver  = "MCPTEST_CONFORMANCE_DRIVER"
)

func init() {
	if os.Getenv(envProgram) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := beClient(ctx, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// beClient puts the program between the fixture client and the suite's server.
func beClient(ctx context.Context, url string) error {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "c.yaml")
	entry := []string{"url: " + url}
	if scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO"); strings.HasPrefix(scenario, "auth/") {
		o, err := oauthOf(scenario, dir)
		if err != nil {
			return err
		}
		entry = append(entry, "auth: oauth", "oauth: "+o)
	}
	if err := os.WriteFile(file, []byte(config(strings.Join(entry, "\n    "))), 0o600); err != nil {
		return err
	}
	program := exec.Command(os.Getenv(envProgram), "serve", "--config", file, "--insecure-no-auth",
		"--listen", "127.0.0.1:0", "--ops-listen", "off", "--state-dir", dir, "--interactive-login")
	// The suite's provider agrees at once, so a browser is what follows redirects.
	program.Env = append(os.Environ(), "BROWSER=curl -sSL --max-time 20 -o /dev/null %s")
	said, err := program.StderrPipe()
	if err != nil {
		return err
	}
	if err := program.Start(); err != nil {
		return err
	}
	defer program.Wait()
	defer program.Process.Signal(syscall.SIGTERM)
	at, err := endpointOf(said)
	if err != nil {
		return err
	}
	driver := exec.CommandContext(ctx, os.Getenv(envDriver), at)
	driver.Env = append(os.Environ(), "DRIVER_VERSION="+os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION"))
	if slices.Contains(withoutPerson, os.Getenv("MCP_CONFORMANCE_SCENARIO")) {
		// The driver knows none of these, and does the same in this one: it calls a tool.
		driver.Env = append(driver.Env, "MCP_CONFORMANCE_SCENARIO=auth/metadata-default")
	}
	driver.Stdout, driver.Stderr = os.Stdout, os.Stderr
	return driver.Run()
}

var endpointLine = regexp.MustCompile(`endpoint +(http://\S+)`)

// endpointOf reads what the program prints until it has named its endpoint and what
// became of its server, and passes on the rest: some scenarios are about the
// handshake alone, and end with the driver.
func endpointOf(said io.Reader) (at string, err error) {
	in := bufio.NewReader(said)
	for {
		line, err := in.ReadString('\n')
		fmt.Fprint(os.Stderr, line)
		if m := endpointLine.FindStringSubmatch(line); m != nil {
			at = m[1]
		}
		if at != "" && strings.HasPrefix(line, "server ") {
			go io.Copy(os.Stderr, in)
			return at, nil
		}
		if err != nil {
			return "", fmt.Errorf("the program named no endpoint: %w", err)
		}
	}
}

// oauthOf is the oauth block for a scenario, from what the suite says of it.
func oauthOf(scenario, dir string) (string, error) {
	var c struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Key          string `json:"private_key_pem"`
		Algorithm    string `json:"signing_algorithm"`
		Assertion    string `json:"valid_jwt"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return "", err
		}
	}
	o := map[string]string{}
	set := func(key, val string) {
		if val != "" {
			o[key] = val
		}
	}
	set("client_id", c.ClientID)
	set("client_secret", c.ClientSecret)
	switch scenario {
	case "auth/basic-cimd":
		set("client_metadata_url", "https://conformance-test.local/client-metadata.json")
	case "auth/client-credentials-jwt", "auth/client-credentials-basic":
		set("grant", "client_credentials")
	case "auth/wif-jwt-bearer":
		set("grant", "jwt_bearer")
	}
	for _, f := range []struct{ key, name, text string }{{"private_key_file", "key.pem", c.Key}, {"assertion_file", "jwt", c.Assertion}} {
		if f.text == "" {
			continue
		}
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			return "", err
		}
		set(f.key, path)
	}
	if c.Key != "" {
		set("token_endpoint_auth_method", "private_key_jwt")
		set("signing_algorithm", c.Algorithm)
	}
	b, err := json.Marshal(o)
	return string(b), err
}

// withoutPerson are the extensions by which programs get tokens.
var withoutPerson = []string{"auth/client-credentials-basic", "auth/client-credentials-jwt", "auth/wif-jwt-bearer"}

// authScenarios are those about OAuth that both revisions score.
var authScenarios = []string{
	"auth/basic-cimd", "auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3",
	"auth/pre-registration", "auth/scope-from-scopes-supported", "auth/scope-from-www-authenticate",
	"auth/scope-omitted-when-undefined", "auth/scope-retry-limit", "auth/scope-step-up", "auth/token-endpoint-auth-basic",
	"auth/token-endpoint-auth-none", "auth/token-endpoint-auth-post",
}

// clientScenarios are the other scored ones of each revision.
var clientScenarios = map[string][]string{
	"2025-11-25": {"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"},
	"2026-07-28": {"tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers",
		"http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref",
		"auth/authorization-server-migration", "auth/iss-normalized", "auth/iss-not-advertised", "auth/iss-supported",
		"auth/iss-supported-missing", "auth/iss-unexpected", "auth/iss-wrong-issuer", "auth/metadata-issuer-mismatch",
		"auth/offline-access-not-supported", "auth/offline-access-scope", "auth/resource-mismatch"},
}

// TestAsClient runs them with the program as the client under test, and an agent
// of the same revision before it.
func TestAsClient(t *testing.T) {
	driver, program := fixtureClient(t), mcptest.Binary(t)
	for revision, scenarios := range clientScenarios {
		for _, scenario := range slices.Concat(scenarios, authScenarios, withoutPerson) {
			t.Run(revision+"/"+scenario, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				p := mcptest.Program{
					Path: mcptest.Node(t),
					Args: []string{
						mcptest.Module(t, "test/node", "@modelcontextprotocol/conformance/dist/index.js"),
						"client", "--command", self(t), "--scenario", scenario, "--spec-version", revision, "--timeout", "45000", "-o", dir,
						"--force", // extensions are on no revision's list
					},
					Env:   []string{envProgram + "=" + program, envDriver + "=" + driver},
					Limit: 2 * time.Minute,
				}
				stdout, stderr, err := p.Run(t)
				if err != nil {
					t.Errorf("%v\n%s\n%s\n%s", err, failures(dir, scenario), stdout, stderr)
				}
			})
		}
	}
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// fixtureClient builds the SDK's everything-client, changed so that the version
// it speaks is ours to choose.
func fixtureClient(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "conformance", "everything-client", "main.go")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const call = "client.Connect(ctx, transport, nil)"
	if !bytes.Contains(source, []byte(call)) {
		t.Fatalf("the fixture client has no %s", call)
	}
	source = bytes.ReplaceAll(source, []byte(call), []byte(`client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: os.Getenv("DRIVER_VERSION")})`))
	os.Chmod(file, 0o644)
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "everything-client")
	build := exec.Command("go", "build", "-o", path, "./conformance/everything-client")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}
