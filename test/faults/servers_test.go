package faults

import (
	"cmp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest/evil"
)

// A row says what becomes of servers with these faults.
type row struct {
	// ids are of the faults; what follows a plus tells rows about one fault apart.
	ids      string
	settings []string // of the evil servers' entries
	test     func(*testing.T, *world)
	// shared names the world that the faults are in together, with those of other
	// rows of that name. If empty, each has a world of its own.
	shared string
}

// brief makes the limit of an answer one that is soon reached; the time-out is not.
var brief = []string{"max_message_bytes: 1000000", "timeout: 30s"}

// slow is for what takes its time on a busy machine.
var slow = []string{"timeout: 30s"}

// hasty ends a first connect soon.
var hasty = []string{"connect_timeout: 2s"}

var rows = []row{
	{ids: "S0 S2a S2b S2c S6d", shared: "noise", test: serves},
	{ids: "S2d", shared: "noise", test: quietNoise},
	{ids: "S7b", shared: "noise", settings: []string{"env: {EVIL_SECRET: " + canary + "}"}, test: scrubbed},
	{ids: "S3a S3b", shared: "silent", settings: []string{"connect_timeout: 2s", "lifecycle: {retry_pause: 500ms, stop_grace: 500ms}"}, test: restarted("connect_timeout of 2s")},
	{ids: "S3c", shared: "silent", settings: []string{"lifecycle: {retry_pause: 500ms}"}, test: restarted("no answer within 2s")},
	{ids: "S3d", shared: "silent", test: tired},
	{ids: "S3d+keepalive", shared: "silent", settings: []string{"keepalive_interval: 5s", "keepalive_timeout: 1s"}, test: foundDead},
	{ids: "S3e", test: cancels},
	{ids: "S4a S4c", settings: brief, test: fails(10*time.Second, "TOO-LARGE")},
	{ids: "S4b S10c S10e", test: fails(callTime, "UNCERTAIN")},
	{ids: "S4d", test: fails(callTime+calmTime, "TIMEOUT")},
	{ids: "S4e", shared: "ids", test: fails(callTime, "PROTOCOL")},
	{ids: "S6a S6b S6c S6e", shared: "ids", test: answers},
	{ids: "S6f", shared: "ids", test: fails(callTime+calmTime, "TIMEOUT")},
	{ids: "S7a", test: flooded},
	{ids: "S7c", settings: slow, test: answers},
	{ids: "S8", test: stuck},
	{ids: "S10a", test: crashLoop},
	{ids: "S10b", test: flapping},
	{ids: "S10d", test: answers},
	{ids: "S11a S11b S11c", test: serves},
	{ids: "S12", test: daemonStays},
	{ids: "S14", test: inherits},
	{ids: "S15a S15b", test: undeclared},
	{ids: "S16", test: flips},
	{ids: "S18a S18c S18d S18e", shared: "pages", test: serves},
	{ids: "S18b", settings: slow, test: endless},
	{ids: "S19a", settings: slow, test: has("tool_0", "tool_4999")},
	{ids: "S19b", settings: slow, test: has("tool_0", "tool_499")},
	{ids: "S20", shared: "pages", test: has(evil.Kept...)},
	{ids: "S20b", shared: "pages", test: withheld("deep")},
	{ids: "R19", settings: slow, test: large},
	{ids: "R21", test: remembersEra},
	{ids: "A57958 A19559 A95187", shared: "reports", test: serves},
	{ids: "A97245", shared: "reports", settings: []string{"keepalive_interval: 5s", "keepalive_timeout: 1s"}, test: outlives},
	{ids: "S0+idle", shared: "recycled", settings: []string{"idle_timeout_seconds: 1"}, test: sleepsWhenIdle},
	{ids: "S11c+idle", shared: "recycled", settings: []string{"idle_timeout_seconds: 1", "lifecycle: {stop_grace: 200ms}"}, test: sleepsWhenIdle},
	{ids: "S0+aged", shared: "recycled", settings: []string{"max_lifetime_seconds: 1"}, test: ages},
	{ids: "A32744", shared: "reports", settings: []string{"relist_interval: 5s"}, test: relists},

	{ids: "U1a", shared: "down", test: down("connection refused")},
	{ids: "U1b", shared: "down", test: down("reset by peer")},
	{ids: "U10a U10b", shared: "down", test: down("session id")},
	{ids: "A113359", shared: "down", test: down("unsupported variant 7")},
	{ids: "R17", shared: "down", test: needsLogin},
	{ids: "U1c U1d U1f U4e U4i", shared: "bodies", settings: slow, test: fails(callTime, "UNCERTAIN")},
	{ids: "U1e", settings: hasty, test: down("connect_timeout of 2s")},
	{ids: "U2-400 U2-404 U2-405 U2-409 U2-421", shared: "statuses", test: fails(callTime, "PROTOCOL")},
	{ids: "U2-401 U2-401w U2-403", shared: "statuses", test: fails(callTime, "UNAUTHORIZED")},
	{ids: "U2-503 U2-503r", shared: "statuses", test: fails(callTime, "UNREACHABLE")},
	{ids: "U2-408 U2-500 U2-502 U2-504", shared: "statuses", test: fails(callTime, "UNCERTAIN")},
	{ids: "U2-429 U2-429r", shared: "statuses", test: fails(callTime, "RATE-LIMITED")},
	{ids: "U2-429x", shared: "statuses", test: paused},
	{ids: "U4a U4b U4d U5a", settings: brief, test: fails(10*time.Second, "TOO-LARGE")},
	{ids: "U4c", shared: "bodies", test: fails(callTime, "PROTOCOL")},
	{ids: "U4f U4g", shared: "bodies", test: fails(callTime, "PROTOCOL")},
	{ids: "U4h U12", test: fails(callTime+calmTime, "TIMEOUT")},
	{ids: "U5b U5d U5e U5f U5g U5h U5i U5j U6b U6c", shared: "streams", test: answers},
	{ids: "U5c U6a U6d", shared: "streams", test: fails(callTime, "UNCERTAIN")},
	{ids: "U6e", shared: "streams", test: fails(callTime, "PROTOCOL")},
	{ids: "U5k", test: fails(callTime+calmTime, "TIMEOUT", "TOO-LARGE", "UNCERTAIN")},
	{ids: "U8a U8b U8e U8f", shared: "redirects", test: redirected},
	{ids: "U8c U8d", shared: "redirects", test: answers},
	{ids: "U8g", shared: "redirects", test: circle},
	{ids: "U9", shared: "sessions", test: noCookies},
	{ids: "U10c", shared: "sessions", test: firstSession},
	{ids: "U10d", shared: "sessions", test: answers},
	{ids: "A13383", shared: "sessions", test: fails(callTime, "PROTOCOL")},
	{ids: "U13", shared: "breakers", settings: []string{"lifecycle: {retry_pause: 1s}"}, test: trips},
	{ids: "U13b", shared: "breakers", settings: []string{"supports_parallel_tool_calls: true", "breaker: {open: 6s}", "lifecycle: {retry_pause: 500ms}"}, test: halfOpen},
	{ids: "U16", shared: "down", test: elsewhere},
	{ids: "R6a R6b R6c R6d R6e R6f R6g", shared: "streams of GET", test: fewStreams},
	{ids: "R18", settings: hasty, test: down("connect_timeout of 2s")},

	{ids: "T2a T2b", shared: "TLS", test: down("protocol version not supported")},
	{ids: "T3 T6b T6e", shared: "TLS", test: down("unknown authority")},
	{ids: "T6a T6d", shared: "TLS", test: down("expired or is not yet valid")},
	{ids: "T6c", shared: "TLS", test: down("doesn't contain any IP SANs")},
	{ids: "T7a", shared: "TLS", settings: hasty, test: down("connect_timeout of 2s")},
	{ids: "T7b T7c T7d T7e", shared: "TLS", test: down("server/discover: ")},

	{ids: "T3+cert", shared: "TLS known", settings: []string{"ssl_verify: $CA", "client_cert: $CERT"}, test: serves},
	{ids: "T3+ca", shared: "TLS known", settings: []string{"ssl_verify: $CA"}, test: down("certificate required")},
	{ids: "T3+none", shared: "TLS known", settings: []string{"ssl_verify: $CA", "client_cert: /nonexistent/client.pem"}, test: down("no such file")},
	{ids: "T6e+ca", shared: "TLS known", settings: []string{"ssl_verify: $CA"}, test: serves},
	{ids: "T6e+off T6a+off T6b+off", shared: "TLS known", settings: []string{"ssl_verify: false"}, test: trusts},
	{ids: "T6b+ca", shared: "TLS known", settings: []string{"ssl_verify: $CA"}, test: down("unknown authority")},
	{ids: "T6a+ca T6d+ca", shared: "TLS known", settings: []string{"ssl_verify: $CA"}, test: down("expired or is not yet valid")},
	{ids: "T6c+ca", shared: "TLS known", settings: []string{"ssl_verify: $CA"}, test: down("doesn't contain any IP SANs")},
	{ids: "T2a+off", shared: "TLS known", settings: []string{"ssl_verify: false"}, test: down("protocol version not supported")},
	{ids: "T6e+gone", shared: "TLS known", settings: []string{"ssl_verify: /nonexistent/ca.pem"}, test: down("no such file")},
	{ids: "T8", shared: "TLS known", settings: []string{"ssl_verify: $CA"}, test: redirected},

	{ids: "P1a", shared: "proxies", settings: []string{through, "headers: {Authorization: Bearer " + canary + "}"}, test: untold},
	{ids: "P1b", shared: "proxies", settings: []string{`egress: {proxy: "http://evil:secret@$PROXY"}`}, test: viaProxy},
	{ids: "P1b+wrong", shared: "proxies", settings: []string{`egress: {proxy: "http://evil:` + canary + `@$PROXY"}`}, test: refusedByProxy("407")},
	{ids: "P6a", shared: "proxies", settings: []string{through}, test: refusedByProxy("connection refused")},
	{ids: "P6b", shared: "proxies", settings: []string{through}, test: refusedByProxy("407")},
	{ids: "P6c", shared: "proxies", settings: []string{through}, test: refusedByProxy("502")},
	{ids: "P6d", shared: "proxies", settings: []string{through, "connect_timeout: 2s"}, test: refusedByProxy("connect_timeout of 2s")},
	{ids: "P6e P6f P6g P6h", shared: "proxies", settings: []string{through}, test: refusedByProxy("")},
	{ids: "P6i", shared: "proxies", settings: []string{through}, test: slowProxy},
	{ids: "P6j", shared: "proxies", settings: []string{through}, test: refusedByProxy("403")},
}

// A part is a fault with what becomes of it.
type part struct {
	entry
	test func(*testing.T, *world)
}

// parts are the faults by the world that they are in.
func parts() map[string][]part {
	all := map[string][]part{}
	for _, r := range rows {
		for _, id := range strings.Fields(r.ids) {
			name := cmp.Or(r.shared, id)
			id, how, _ := strings.Cut(id, "+")
			all[name] = append(all[name], part{entry{id, how, r.settings}, r.test})
		}
	}
	return all
}

// TestFaults holds that a server with a fault is what it is by itself alone.
func TestFaults(t *testing.T) {
	withControl(t)
	for name, all := range parts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var entries []entry
			for _, p := range all {
				entries = append(entries, p.entry)
			}
			worlds := newWorlds(t, entries...)
			for i, p := range all {
				t.Run(worlds[i].name, func(t *testing.T) { p.test(t, worlds[i]) })
			}
			unharmed(t, worlds...)
		})
	}
}

// TestRows holds that each row is about faults that there are, and each fault of a
// row.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		for _, id := range strings.Fields(r.ids) {
			fault, _, _ := strings.Cut(id, "+")
			if _, err := evil.Find(fault); err != nil || seen[id] {
				t.Errorf("%s: %v, seen before: %t", id, err, seen[id])
			}
			seen[id], seen[fault] = true, true
		}
	}
	for _, f := range evil.Faults() {
		if !seen[f.ID] {
			t.Errorf("no row is about %s, which %s", f.ID, f.Says)
		}
	}
}

func serves(t *testing.T, w *world) { w.serves(t) }

// answers holds that misbehave is served all the same.
func answers(t *testing.T, w *world) {
	w.serves(t)
	if r := w.call(t, "misbehave", "k"); r.Content() != "here" {
		t.Errorf("got %.600s", r.Body)
	}
	w.serves(t)
	if n := w.bad.Journal.Ran("k"); n != 1 && w.bad.Fault.ID != "U10d" { // U10d refuses the first
		t.Errorf("it ran %d times", n)
	}
}

// fails holds that misbehave fails with one of these codes in time, ran at most
// once, and that the server serves again.
func fails(within time.Duration, codes ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.serves(t)
		w.fails(t, "k", within, codes...)
		w.serves(t)
		if n := w.bad.Journal.Ran("k"); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	}
}

// down holds that the log says why the server is not there.
func down(word string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.logs(t, word)
		w.unlisted(t)
	}
}

// has holds that these tools are listed, and that the server serves.
func has(tools ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.serves(t)
		all := w.listed(t)
		for _, name := range tools {
			if !all.has("mcp_" + w.name + "_" + name) {
				t.Errorf("%s is not listed", name)
			}
		}
	}
}

// quietNoise holds that noise is not repeated in the log.
func quietNoise(t *testing.T, w *world) {
	w.serves(t)
	if n := strings.Count(w.s.Log(), "Welcome"); n > 10 {
		t.Errorf("the log repeats the noise %d times", n)
	}
}

func tired(t *testing.T, w *world) {
	for range 5 {
		w.serves(t)
	}
	w.fails(t, "k", callTime+calmTime, "TIMEOUT")
	w.another(t)
}

// cancels holds that a call which is given up is cancelled, and no other.
func cancels(t *testing.T, w *world) {
	fails(callTime+calmTime, "TIMEOUT")(t, w)
	waitFor(t, "the cancellation", func() bool { return w.bad.Journal.Cancelled() == 1 })
}

// flooded holds that calls are served during a flood of the standard error.
func flooded(t *testing.T, w *world) {
	answers(t, w)
	for range 20 {
		if r := w.call(t, "ping_tool", ""); r.Content() != "pong" {
			t.Fatalf("got %.300s", r.Body)
		}
	}
}

// canaryEnv is in the sidecar's environment and must not be in a child's.
const canaryEnv = "FAULTS_CANARY"

const canary = "canary-that-no-log-shows"

func scrubbed(t *testing.T, w *world) {
	w.serves(t)
	if log := w.s.Log(); strings.Contains(log, canary) || strings.Contains(log, "\x1b]0;") {
		t.Errorf("the log has what the server wrote:\n%s", log)
	}
}

// stuck is a server that reads no more: calls that fill its pipe fail as well. It is
// found dead, and another serves.
func stuck(t *testing.T, w *world) {
	w.serves(t)
	w.fails(t, "k", callTime+calmTime, "TIMEOUT")
	for range 2 {
		w.fails(t, strings.Repeat("x", 300<<10), callTime+patience/2, "TIMEOUT", "UNCERTAIN", "UNREACHABLE")
	}
	w.another(t)
}

// crashLoop holds that the reason is said soon, and that starts become rare: after
// the first attempt, which tries both eras, each has one.
func crashLoop(t *testing.T, w *world) {
	w.logs(t, evil.DeathNote)
	w.logs(t, "status 7")
	if took := time.Since(w.began); took > 5*time.Second {
		t.Errorf("the reason was said after %v", took)
	}
	time.Sleep(callTime)
	most, at := 2, time.Duration(0)
	for pause := 800 * time.Millisecond; at+pause < time.Since(w.began); pause *= 2 {
		at, most = at+pause, most+1
	}
	if n := w.bad.Journal.Starts(); n > most {
		t.Errorf("%d starts in %v, want %d at most", n, time.Since(w.began), most)
	}
	w.unlisted(t)
}

// flapping holds the same of a server that starts well.
func flapping(t *testing.T, w *world) {
	w.serves(t)
	time.Sleep(callTime)
	if n, most := w.bad.Journal.Starts(), 2+int(time.Since(w.began)/time.Second); n > most {
		t.Errorf("%d starts in %v, want %d at most", n, time.Since(w.began), most)
	}
}

// daemonStays ends the daemon itself: it is out of our reach unless we are PID 1. A
// session of its own is how a program says that it wants to stay.
func daemonStays(t *testing.T, w *world) {
	w.serves(t)
	for _, pid := range w.bad.Journal.PIDs()[1:] {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// inherits holds what a child is given.
func inherits(t *testing.T, w *world) {
	t.Helper()
	w.serves(t)
	got := w.call(t, "misbehave", "k").Content()
	for line := range strings.SplitSeq(got, "\n") {
		name, value, _ := strings.Cut(line, "=")
		fd, _, _ := strings.Cut(value, " ")
		switch {
		case name == "FD" && !slices.Contains([]string{"0", "1", "2"}, fd):
			t.Errorf("it has descriptor %s", value)
		case name == "MCP_SIDECAR_BIN" || name == canaryEnv:
			t.Errorf("it has the sidecar's %s", name)
		}
	}
	if !strings.Contains(got, "PATH=") || !strings.Contains(got, "FD=2 ") {
		t.Errorf("it tells too little: %s", got)
	}
}

// undeclared holds that questions which nobody declared are refused and go no further.
func undeclared(t *testing.T, w *world) {
	w.serves(t)
	r := w.call(t, "misbehave", "k")
	if r.Content() != "asked" || len(r.Notes) > 0 {
		t.Errorf("got %.600s", r.Body)
	}
	if got := w.bad.Journal.Answers(); !slices.Equal(got, []string{"-32601", "-32601", "-32601", "-32601"}) {
		t.Errorf("the questions brought %v", got)
	}
}

func flips(t *testing.T, w *world) {
	for range 2 {
		w.serves(t)
		w.fails(t, "k", callTime, "UNCERTAIN")
	}
	w.serves(t)
}

func endless(t *testing.T, w *world) {
	w.serves(t)
	w.logs(t, "stopped at")
	has("page_1")(t, w)
}

func remembersEra(t *testing.T, w *world) {
	w.serves(t)
	if n := w.bad.Journal.Starts(); n != 2 {
		t.Errorf("%d starts, want one for the question and one to stay", n)
	}
}

func relists(t *testing.T, w *world) {
	answers(t, w)
	waitFor(t, "the new tool", func() bool { return w.listed(t).has("mcp_" + w.name + "_" + evil.Grown) })
}

// trusts holds that a certificate nobody checks is spoken of, once.
func trusts(t *testing.T, w *world) {
	w.serves(t)
	line := "server=" + w.name
	n := 0
	for l := range strings.Lines(w.s.Log()) {
		if strings.Contains(l, "is not checked (ssl_verify: false)") && strings.Contains(l, line) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d lines warn of it, want 1", n)
	}
}
