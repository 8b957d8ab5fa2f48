package field

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

const (
	// plain notes its process and becomes the server.
	plain = `echo $$ >> "$PIDS"; exec "$SERVER"`
	// family starts a helper first, which knows no end.
	family = `sleep 1000 & echo $! >> "$PIDS"; echo $$ >> "$PIDS"; exec "$SERVER"`
	// stubborn is a family that ignores polite requests.
	stubborn = `trap '' TERM; ` + family
	// strict ends at a first message that is not initialize.
	strict = `echo $$ >> "$PIDS"; read -r line; case "$line" in *'"method":"initialize"'*) { printf '%s\n' "$line"; cat; } | "$SERVER";; *) exit 1;; esac`
	// dump writes its environment down.
	dump = `env > "$LOG"; echo $$ >> "$PIDS"; exec "$SERVER"`
)

// kill ends a process that the program has started.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// end stops the program by a signal and waits until it is gone.
func end(t *testing.T, s *mcptest.Sidecar, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.PID, sig); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program to end", func() bool { return !alive(s.PID) })
}

func oneChild(t *testing.T) {
	d := newDir(t)
	u := &mcptest.Upstream{Tools: []string{tool("a")}, Delays: map[string]time.Duration{"server/discover": 300 * time.Millisecond}}
	s := mcptest.LaunchServe(t, "--config", d.write(t, "c.yaml", "mcp_servers:\n"+d.shell(t, "u", u, stubborn), 0o600), "--insecure-no-auth")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			r, err := (&mcptest.Agent{URL: s.URL + "/u"}).Call(t.Context(), "a", "{}")
			if err != nil || r.Content() != "{}" {
				t.Errorf("a first call: %v %+v", err, r)
			}
		})
	}
	wg.Wait()
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
	if got := d.pids(); len(got) != 2 || living(got) != 2 {
		t.Errorf("started %d processes, want one server and its helper", len(got))
	}
	end(t, s, syscall.SIGTERM)
	gone(t, d)
}

// TestSIGKILL holds that nothing outlives the program, however it ends.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	u := &mcptest.Upstream{Tools: []string{tool("a")}}
	s := serve(t, d.shell(t, "one", u, stubborn), d.shell(t, "two", u, plain))
	a := open(t, s.URL, mcptest.Modern)
	works(t, a, "mcp_one_a")
	works(t, a, "mcp_two_a")
	if got := d.pids(); len(got) != 3 || living(got) != 3 {
		t.Fatalf("%d of %d processes live", living(got), len(got))
	}
	end(t, s, syscall.SIGKILL)
	gone(t, d)
}

// respawns holds that each death of a server leaves one family, not two.
func respawns(t *testing.T) {
	d := newDir(t)
	u := &mcptest.Upstream{Tools: []string{tool("a")}}
	s := serve(t, d.shell(t, "u", u, family))
	a := open(t, s.URL, mcptest.Legacy)
	for i := 1; i <= 3; i++ {
		waitFor(t, "the server", func() bool { return len(d.pids()) == 2*i && !call(t, a, "mcp_u_a", "{}").IsToolError() })
		if n := living(d.pids()); n != 2 {
			t.Errorf("life %d: %d processes, want 2", i, n)
		}
		kill(t, d.pids()[2*i-1])
	}
}

// deathMidCall is a server that dies while it works.
func deathMidCall(t *testing.T) {
	d := newDir(t)
	u := &mcptest.Upstream{Tools: []string{tool("slow"), tool("a")}, Delays: map[string]time.Duration{"slow": time.Minute}}
	s := serve(t, d.shell(t, "u", u, plain))
	a := open(t, s.URL, mcptest.Legacy)
	works(t, a, "mcp_u_a")
	done := make(chan *mcptest.Reply, 1)
	go func() {
		r, _ := a.Call(t.Context(), "mcp_u_slow", "{}")
		done <- r
	}()
	// A later call on the same pipe is answered: the slow one has arrived.
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
	kill(t, d.pids()[0])
	select {
	case r := <-done:
		if r == nil || !r.IsToolError() || !strings.Contains(r.Content(), `server "u"`) || !strings.Contains(r.Content(), "MCPS-UN") {
			t.Errorf("the call in flight: %+v", r)
		}
	case <-time.After(patience):
		t.Fatal("a dead server holds the call")
	}
	waitFor(t, "the server to come back", func() bool { return !call(t, a, "mcp_u_a", "{}").IsToolError() })
	if n := len(d.pids()); n != 2 {
		t.Errorf("%d processes were started, want 2", n)
	}
}

func recovers(t *testing.T) {
	d := newDir(t)
	u := &mcptest.Upstream{Tools: []string{tool("a")}}
	entry := d.shell(t, "u", u, family)
	config := d.write(t, "c.yaml", "mcp_servers:\n"+entry, 0o600)
	if stdout, stderr, err := command(t, "tools", "--config", config); err != nil || !strings.Contains(stdout, "mcp_u_a") {
		t.Fatalf("tools: %v\n%s%s", err, stdout, stderr)
	}
	gone(t, d)
	s := serve(t, entry)
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
	syscall.Kill(-d.pids()[3], syscall.SIGKILL)
	waitFor(t, "a new process, by itself", func() bool { return len(d.pids()) == 6 && living(d.pids()) == 2 })
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
}

func exitsOnDiscover(t *testing.T) {
	d := newDir(t)
	u := &mcptest.Upstream{Versions: mcptest.LegacyVersions, Tools: []string{tool("a")}}
	s := serve(t, d.shell(t, "u", u, strict))
	a := open(t, s.URL, mcptest.Modern)
	works(t, a, "mcp_u_a")
	if n := len(d.pids()); n != 2 {
		t.Fatalf("%d processes were started, want one for the question and one to stay", n)
	}
	syscall.Kill(-d.pids()[1], syscall.SIGKILL)
	waitFor(t, "the server to come back", func() bool { return len(d.pids()) >= 3 && !call(t, a, "mcp_u_a", "{}").IsToolError() })
	if n := len(d.pids()); n != 3 {
		t.Errorf("%d processes were started, want 3: the era is known", n)
	}
}

func diesBeforeInitialize(t *testing.T) {
	d := newDir(t)
	bad := d.shell(t, "u", &mcptest.Upstream{}, `echo "DATABASE_URL is not set" >&2; exit 7`)
	s := serve(t, bad, at("good", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	for _, words := range []string{"DATABASE_URL is not set", "7"} {
		waitLog(t, s, words)
	}
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_good_a")
	config := d.write(t, "c.yaml", "mcp_servers:\n"+bad, 0o600)
	start := time.Now()
	_, stderr, err := command(t, "tools", "--config", config)
	if err == nil || !strings.Contains(stderr, "DATABASE_URL is not set") || !strings.Contains(stderr, "status 7") {
		t.Errorf("tools: %v\n%s", err, stderr)
	}
	if d := time.Since(start); d > 8*time.Second {
		t.Errorf("it took %v", d)
	}
}

func cannotSpawn(t *testing.T) {
	d := newDir(t)
	locked := d.write(t, "locked", "#!/bin/sh\n", 0o644)
	junk := d.write(t, "junk", "\x00\x01 no program", 0o755)
	s := serve(t,
		"  missing: {command: no-such-program-anywhere}\n", "  gone: {command: /no/such/program}\n",
		"  locked: {command: "+jsonOf(locked)+"}\n", "  junk: {command: "+jsonOf(junk)+"}\n",
		"  nowhere: {command: sh, cwd: /no/such/folder}\n",
		at("good", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	eachEra(t, s.URL, func(t *testing.T, a *mcptest.Agent) {
		lists(t, a, "mcp_good_a")
		works(t, a, "mcp_good_a")
	})
	for _, words := range []string{"is not on the server's PATH", "/no/such/program", "is not marked executable", "/no/such/folder"} {
		waitLog(t, s, words)
	}
}

func cooldown(t *testing.T) {
	d := newDir(t)
	s := serve(t, d.shell(t, "bad", &mcptest.Upstream{}, `echo $$ >> "$PIDS"; exit 1`), at("good", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	start := time.Now()
	for range 10 {
		a := open(t, s.URL, mcptest.Legacy)
		lists(t, a, "mcp_good_a")
		works(t, a, "mcp_good_a")
	}
	// Two processes an attempt; after the first, a pause that doubles from a second.
	if n, limit := len(d.pids()), 4+2*int(time.Since(start)/time.Second); n > limit {
		t.Errorf("%d processes for 10 agents in %v, want at most %d", n, time.Since(start), limit)
	}
}

func childEnvironment(t *testing.T) {
	d := newDir(t)
	s := serve(t, d.shell(t, "u", &mcptest.Upstream{Tools: []string{tool("a")}}, dump))
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
	got := d.read("log")
	if strings.Contains(got, leak) || strings.Contains(got, leakProxy) {
		t.Errorf("the child has the sidecar's environment:\n%s", got)
	}
	for _, name := range []string{"PATH=", "LOG=", "SERVER="} {
		if !strings.Contains("\n"+got, "\n"+name) {
			t.Errorf("the child has no %s\n%s", name, got)
		}
	}
}

func proxyVariables(t *testing.T) {
	d := newDir(t)
	s := serve(t, d.shell(t, "u", &mcptest.Upstream{Tools: []string{tool("a")}}, dump, "inherit_proxy_env: true"))
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
	if got := d.read("log"); !strings.Contains(got, "FTP_PROXY="+leakProxy) || strings.Contains(got, leak) {
		t.Errorf("the child's environment:\n%s", got)
	}
}

// ownPath is a command that only the server's own PATH has.
func ownPath(t *testing.T) {
	d := newDir(t)
	exe, env := (&mcptest.Upstream{Tools: []string{tool("a")}}).Command(t)
	d.write(t, "my-server", "#!/bin/sh\nexec "+exe+"\n", 0o755)
	env["PATH"] = d.at + ":/usr/bin:/bin"
	s := serve(t, fmt.Sprintf("  u: {command: my-server, env: %s}\n", jsonOf(env)))
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
}

func literalPath(t *testing.T) {
	config := newDir(t).write(t, "c.yaml", "mcp_servers: {u: {command: sh, env: {PATH: \"/opt/x:$PATH\"}}}\n", 0o600)
	if _, stderr, _ := command(t, "check", "--config", config); !strings.Contains(stderr, "$PATH") {
		t.Errorf("nothing is said about a PATH that nobody expands:\n%s", stderr)
	}
}

func dotEnv(t *testing.T) {
	d := newDir(t)
	d.write(t, ".env", "FIELD_TOKEN='from the file'\n", 0o600)
	exe, env := (&mcptest.Upstream{Tools: []string{tool("a")}}).Command(t)
	env["SERVER"], env["LOG"], env["PIDS"], env["GIVEN"] = exe, d.path("log"), d.path("pids"), "${FIELD_TOKEN}"
	config := d.write(t, "c.yaml", fmt.Sprintf("mcp_servers: {u: {command: sh, args: %s, env: %s}}\n", jsonOf([]string{"-c", dump}), jsonOf(env)), 0o600)
	s := mcptest.StartServe(t, "--config", config, "--insecure-no-auth")
	works(t, open(t, s.URL, mcptest.Legacy), "mcp_u_a")
	if got := d.read("log"); !strings.Contains(got, "GIVEN=from the file\n") || strings.Contains(got, "FIELD_TOKEN=") {
		t.Errorf("the child's environment:\n%s", got)
	}
}

// rotated is a secret that changes while the server runs.
func rotated(t *testing.T) {
	d := newDir(t)
	secret := d.write(t, "secret", "one\n", 0o600)
	exe, env := (&mcptest.Upstream{Tools: []string{tool("a")}}).Command(t)
	env["SERVER"], env["LOG"], env["PIDS"], env["GIVEN"] = exe, d.path("log"), d.path("pids"), "${file:"+secret+"}"
	s := serve(t, fmt.Sprintf("  u: {command: sh, args: %s, env: %s}\n", jsonOf([]string{"-c", dump}), jsonOf(env)))
	a := open(t, s.URL, mcptest.Legacy)
	works(t, a, "mcp_u_a")
	if got := d.read("log"); !strings.Contains(got, "GIVEN=one\n") {
		t.Errorf("the child's environment:\n%s", got)
	}
	d.write(t, "secret", "two\n", 0o600)
	kill(t, d.pids()[0])
	waitFor(t, "the server to come back", func() bool { return len(d.pids()) == 2 && !call(t, a, "mcp_u_a", "{}").IsToolError() })
	if got := d.read("log"); !strings.Contains(got, "GIVEN=two\n") {
		t.Errorf("after the change:\n%s", got)
	}
}

// placeholders must not leave the process.
func placeholders(t *testing.T) {
	u := &mcptest.Upstream{Tools: []string{tool("a")}}
	d := newDir(t)
	s := serve(t, at("u", u.Start(t), `headers: {Authorization: "Bearer ${FIELD_NOWHERE}"}`),
		d.shell(t, "v", u, plain, `cwd: "${FIELD_NOWHERE_ELSE}"`), at("good", u.Start(t)))
	lists(t, open(t, s.URL, mcptest.Legacy), "mcp_good_a")
	waitLog(t, s, "FIELD_NOWHERE")
	waitLog(t, s, "FIELD_NOWHERE_ELSE")
	for _, r := range u.Seen("") {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("sent %q", r.Header)
		}
	}
	if len(d.pids()) > 0 {
		t.Error("a process was started with a reference that does not resolve")
	}
}

// stringArguments are written as one string, as some configurations have them.
func stringArguments(t *testing.T) {
	exe, env := (&mcptest.Upstream{Tools: []string{tool("a")}}).Command(t)
	env["SERVER"] = exe
	s := serve(t, fmt.Sprintf("  u: {command: sh, args: %s, env: %s}\n", jsonOf(`-c 'exec "$SERVER"' x`), jsonOf(env)))
	a := open(t, s.URL, mcptest.Legacy)
	works(t, a, "mcp_u_a")
	refused(t, a, "tools/call", `"name":"mcp_u_a","arguments":"{}"`, "arguments is not an object")
}

func largeLines(t *testing.T) {
	const size = 5 << 20
	u := &mcptest.Upstream{Tools: []string{tool("big"), tool("a")}, Answers: map[string]string{"big": text(strings.Repeat("x", size))}}
	d := newDir(t)
	s := serve(t, d.shell(t, "wide", u, plain), d.shell(t, "narrow", u, plain, "max_message_bytes: 2000000"))
	wide, narrow := open(t, s.URL+"/wide", mcptest.Modern), open(t, s.URL+"/narrow", mcptest.Legacy)
	if r := call(t, wide, "big", "{}"); len(r.Content()) != size {
		t.Errorf("5 MiB in one line: %.300s", r.Body)
	}
	fails(t, narrow, "big", `server "narrow"`, "max_message_bytes", "MCPS-TOO-LARGE")
	works(t, wide, "a")
	works(t, narrow, "a")
	if n := len(d.pids()); n != 2 {
		t.Errorf("%d processes were started, want 2", n)
	}
}

// sharedPath holds that what tools and call show is what is served.
func sharedPath(t *testing.T) {
	d := newDir(t)
	u := &mcptest.Upstream{Tools: []string{tool("echo")}}
	entry := d.shell(t, "u", u, plain)
	config := d.write(t, "c.yaml", "mcp_servers:\n"+entry, 0o600)
	stdout, stderr, err := command(t, "call", "--config", config, "mcp_u_echo", `{"n":1.0}`)
	if err != nil || stdout != "{\"n\":1.0}\n" {
		t.Errorf("call: %v\n%s%s", err, stdout, stderr)
	}
	s := serve(t, entry)
	if got := call(t, open(t, s.URL, mcptest.Legacy), "mcp_u_echo", `{"n":1.0}`).Content(); got != `{"n":1.0}` {
		t.Errorf("serve: %s", got)
	}
}

func startupProbe(t *testing.T) {
	d := newDir(t)
	hang := d.shell(t, "hang", &mcptest.Upstream{}, `sleep 1000`, "connect_timeout: 1")
	s := serve(t, hang, at("good", (&mcptest.Upstream{Tools: []string{tool("a")}}).Start(t)))
	// StartSidecar returns at the first 200 of /startupz.
	r, err := (&mcptest.Agent{URL: s.URL, Version: mcptest.Legacy}).Open(t.Context())
	if err != nil || r.Status != http.StatusOK {
		t.Errorf("/startupz passes, but /mcp does not answer: %v", err)
	}
}
