package field

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

// canaries are secrets that the configuration of a test holds.
type canaries struct{ all []string }

func (c *canaries) one() string {
	s := fmt.Sprintf("cnry%02dQ7f3kPz9", len(c.all))
	c.all = append(c.all, s)
	return s
}

// in holds that none of them is in what somebody gets to see.
func (c *canaries) in(t *testing.T, where, said string) {
	t.Helper()
	for _, s := range c.all {
		for _, form := range []string{s, url.QueryEscape(s), strings.ToUpper(s)} {
			if i := strings.Index(said, form); i >= 0 {
				t.Errorf("%s has %s: %.300q", where, s, said[max(0, i-200):])
				break
			}
		}
	}
}

// parrot refuses everything and repeats what it was sent.
func parrot(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(w, "refused %s with %q and key %s", r.URL, r.Header, r.Header.Get("X-Key"))
}

// secretWorld writes a configuration with a secret in every slot, over servers
// that fail in every way.
func secretWorld(t *testing.T, d *dir) *canaries {
	c := new(canaries)
	login := mcptest.Status(http.StatusUnauthorized, "no", "WWW-Authenticate: Bearer")
	denied := &mcptest.Upstream{Faults: map[string]mcptest.Fault{"server/discover": login, "initialize": login}}
	good := &mcptest.Upstream{Tools: []string{tool("ok"), tool("bad"), tool("slow")}, Faults: map[string]mcptest.Fault{"bad": mcptest.ResetInBody, "slow": mcptest.Hang}}
	repeats := (&gate{to: http.HandlerFunc(parrot)}).start(t)
	refused, hole := strings.TrimPrefix(mcptest.Refused(t), "http://"), strings.TrimPrefix(mcptest.Blackhole(t), "http://")
	d.write(t, ".env", "FROM_ENV_FILE="+c.one()+"\n", 0o600)
	file := d.write(t, "secret", c.one()+"\n", 0o600)
	key := d.write(t, "key.pem", "-----BEGIN PRIVATE KEY-----\n"+c.one()+"\n", 0o600)
	stderrs := `echo "cannot log in with $KEY and $2" >&2; exit 3`
	entries := []string{
		at("userinfo", "http://user:"+c.one()+"@"+refused),
		at("query", "http://"+refused+"?api_key="+c.one()+"&x=1"),
		at("silent", "http://u2:"+c.one()+"@"+hole+"?token="+c.one(), "connect_timeout: 1", "headers: {X-Key: "+c.one()+"}"),
		at("denied", denied.Start(t)+"?k="+c.one(), `headers: {Authorization: "Bearer `+c.one()+`", X-Key: "${FROM_ENV_FILE}"}`),
		at("parrot", repeats+"?secret="+c.one(), "headers: {X-Key: "+c.one()+"}"),
		at("good", good.Start(t)+"?k="+c.one(), "timeout: 1", `headers: {X-Key: "${file:`+file+`}", Cookie: "s=`+c.one()+`"}`, "identity_header: {name: X-Who, value: "+c.one()+"}"),
		at("login", "https://"+refused, "auth: oauth", "oauth: {client_id: x, client_secret: "+c.one()+"}"),
		at("cert", "https://"+refused, "client_cert: ["+key+", "+key+", "+c.one()+"]"),
		at("unresolved", "https://"+refused+"/${FIELD_NOWHERE}?k="+c.one()),
		"  missing: {command: no-such-program, args: [--token, " + c.one() + "], env: {KEY: " + c.one() + "}}\n",
		fmt.Sprintf("  dies: {command: sh, args: %s, env: {KEY: %s}}\n", jsonOf([]string{"-c", stderrs, "x", "--api-key", c.one()}), c.one()),
		fmt.Sprintf("  noise: {command: sh, args: %s, env: {KEY: %s}, connect_timeout: 1}\n", jsonOf([]string{"-c", `echo "token $KEY"; sleep 100`}), c.one()),
	}
	d.write(t, "c.yaml", "mcp_servers:\n"+strings.Join(entries, ""), 0o600)
	d.write(t, "token", c.one()+"-front-token\n", 0o600)
	return c
}

func secrets(t *testing.T) {
	d := newDir(t)
	c := secretWorld(t, d)
	if len(c.all) < 20 {
		t.Fatalf("%d secrets, want 20", len(c.all))
	}
	token := strings.TrimSpace(d.read("token"))
	s := mcptest.StartServe(t, "--config", d.path("c.yaml"), "--token-file", d.path("token"), "-v")
	for _, v := range []string{mcptest.Modern, mcptest.Legacy} {
		for _, server := range []string{"", "/userinfo", "/query", "/silent", "/denied", "/parrot", "/good", "/missing", "/dies", "/noise", "/login", "/cert", "/unresolved"} {
			c.in(t, "the answers of "+s.URL+server, converse(t, &mcptest.Agent{URL: s.URL + server, Version: v, Token: token}))
		}
	}
	wrong := &mcptest.Agent{URL: s.URL, Token: "wrong"}
	c.in(t, "a refusal", converse(t, wrong))
	c.in(t, "a health page", health(t, s))
	var wg sync.WaitGroup
	for _, args := range [][]string{{"check"}, {"check", "--json"}, {"check", "-v"}, {"tools", "-v"}, {"call", "mcp_good_bad", "-v"}, {"call", "mcp_good_ok", "--json"}} {
		wg.Go(func() {
			stdout, stderr, _ := command(t, append(args, "--config", d.path("c.yaml"))...)
			if stdout+stderr == "" {
				t.Errorf("%v says nothing", args)
			}
			c.in(t, strings.Join(args, " "), stdout+stderr)
		})
	}
	wg.Wait()
	end(t, s, syscall.SIGTERM)
	if !strings.Contains(s.Log(), "level=DEBUG") {
		t.Error("the log is not at debug level")
	}
	c.in(t, "the log", s.Log())
}

// converse does what agents do and returns all that it got.
func converse(t *testing.T, a *mcptest.Agent) string {
	var b strings.Builder
	a.Open(t.Context())
	for _, ask := range [][2]string{
		{"server/discover", ""}, {"tools/list", ""}, {"resources/list", ""}, {"prompts/list", ""},
		{"tools/call", `"name":"bad","arguments":{}`}, {"tools/call", `"name":"mcp_good_bad","arguments":{}`}, {"tools/call", `"name":"ok","arguments":{}`},
		{"tools/call", `"name":"anything","arguments":{}`}, {"resources/read", `"uri":"x://1"`}, {"prompts/get", `"name":"p"`},
	} {
		r, err := a.Do(t.Context(), ask[0], ask[1])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%v %s\n", r.Header, r.Body)
	}
	return b.String()
}

func health(t *testing.T, s *mcptest.Sidecar) string {
	t.Helper()
	var b strings.Builder
	for _, p := range []string{"/livez", "/readyz", "/startupz", "/"} {
		resp, err := http.Get(s.Ops + p)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		b.Write(body)
	}
	return b.String()
}
