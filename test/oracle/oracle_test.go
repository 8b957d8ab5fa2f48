package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/internal/mcptest"
)

func TestMain(m *testing.M) { os.Exit(mcptest.Run(m)) }

const (
	agents   = 1000
	parallel = 48 // agents at work at one moment
	callWait = 2 * time.Minute
)

// calls is how many there are in all.
func calls() int {
	if os.Getenv("MCP_SIDECAR_LONG") != "" {
		return 100_000
	}
	return 10_000
}

// servers are a legacy and a modern one over HTTP, and one over stdio. The
// question holds the number of the call that causes it.
func servers(t *testing.T) string {
	ask := mcptest.Question{Method: "elicitation/create", Params: `{"message":"call $N","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`}
	make := func(versions ...string) *mcptest.Upstream {
		return &mcptest.Upstream{Versions: versions,
			Tools:  []string{`{"name":"echo","inputSchema":{"type":"object"}}`, `{"name":"ask","inputSchema":{"type":"object"}}`},
			Asks:   map[string][][]mcptest.Question{"ask": {{ask}}},
			Delays: map[string]time.Duration{"echo": time.Millisecond},
		}
	}
	command, env := make(mcptest.LegacyVersions...).Command(t)
	c, _ := json.Marshal(command)
	e, _ := json.Marshal(env)
	return fmt.Sprintf(`naming: "{server}_{tool}"
limits: {sessions: 2000}
mcp_servers:
  old: {url: %q, supports_parallel_tool_calls: true, max_concurrency: 256}
  new: {url: %q, supports_parallel_tool_calls: true, max_concurrency: 256}
  pipe: {command: %s, env: %s, supports_parallel_tool_calls: true, max_concurrency: 256}
`, make(mcptest.LegacyVersions...).Start(t), make(mcptest.Modern).Start(t), c, e)
}

// apart gives calls that will be cancelled a connection of their own: net/http
// may tell the next request on a connection that it was cancelled when it was
// the one before.
type apart struct{ shared, alone http.RoundTripper }

type aloneKey struct{}

func (a apart) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(aloneKey{}) != nil {
		return a.alone.RoundTrip(r)
	}
	return a.shared.RoundTrip(r)
}

// A tally counts how calls ended.
type tally struct{ answered, asked, cancelled, refused, wrong atomic.Int64 }

func TestNoneMisrouted(t *testing.T) {
	s := mcptest.StartSidecar(t, servers(t))
	shared := &http.Transport{MaxIdleConnsPerHost: 4 * parallel}
	defer shared.CloseIdleConnections()
	client := &http.Client{Transport: apart{shared: shared, alone: &http.Transport{DisableKeepAlives: true}}}
	var got tally
	var all sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range agents {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			a := newActor(i, s.URL, client, &got)
			a.work(t, calls()/agents)
		})
	}
	all.Wait()
	t.Logf("answered %d, with a question %d, cancelled %d, refused as busy %d", got.answered.Load(), got.asked.Load(), got.cancelled.Load(), got.refused.Load())
	if n := got.wrong.Load(); n > 0 {
		t.Errorf("%d calls were misrouted", n)
	}
	if n := int(got.answered.Load()); n < calls()/2 {
		t.Errorf("only %d of %d calls were answered", n, calls())
	}
}

// An actor is one agent. Its ids are those of all others.
type actor struct {
	*mcptest.Agent
	rnd  *rand.Rand
	got  *tally
	name string

	mu   sync.Mutex
	mine map[string]bool // numbers of its calls in flight
}

func newActor(i int, url string, client *http.Client, got *tally) *actor {
	a := &actor{rnd: rand.New(rand.NewPCG(uint64(i), 7)), got: got, name: fmt.Sprintf("agent-%d", i), mine: map[string]bool{}}
	version := append([]string{mcptest.Modern, mcptest.Modern}, mcptest.LegacyVersions[:2]...)[i%4]
	a.Agent = &mcptest.Agent{URL: url, Version: version, Client: client, Capabilities: `{"elicitation":{}}`, Answer: a.answer}
	return a
}

// answer checks that the question is about one of the actor's own calls.
func (a *actor) answer(method string, params []byte) string {
	fields := strings.Fields(mcptest.Text(params, "message"))
	n := fields[len(fields)-1]
	a.mu.Lock()
	defer a.mu.Unlock()
	if method != "elicitation/create" || !a.mine[n] {
		a.got.wrong.Add(1)
		return `"error":{"code":-32603,"message":"not mine"}`
	}
	return `"result":{"action":"accept","content":{"a":"` + a.name + ` ` + n + `"}}`
}

// work makes n calls, two at a time.
func (a *actor) work(t *testing.T, n int) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := a.Open(ctx); err != nil {
		t.Errorf("%s: %v", a.name, err)
		return
	}
	for i := range n / 2 {
		id := 10 * i // unique in a session, as the protocol demands, and the same for all
		var both sync.WaitGroup
		for j := range 2 {
			p := plan{id: id + j, number: strconv.FormatUint(a.rnd.Uint64()>>12, 10), server: [...]string{"old", "new", "pipe"}[a.rnd.IntN(3)],
				asks: a.rnd.IntN(4) == 0, cancel: a.rnd.IntN(5) == 0, after: time.Duration(a.rnd.IntN(4)) * time.Millisecond}
			if p.asks && p.server == "pipe" {
				p.asks = a.rnd.IntN(4) == 0 // one at a time in each process
			}
			both.Go(func() { a.call(t, p) })
		}
		both.Wait()
	}
	if a.Session != "" {
		a.Delete(ctx)
	}
}

// A plan is what an actor does in one call.
type plan struct {
	id             int
	number, server string
	asks, cancel   bool
	after          time.Duration
}

func (a *actor) call(t *testing.T, p plan) {
	a.mu.Lock()
	a.mine[p.number] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.mine, p.number)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), callWait)
	defer cancel()
	if p.cancel {
		ctx = context.WithValue(ctx, aloneKey{}, true)
		defer time.AfterFunc(p.after, func() { a.giveUp(ctx, p, cancel) }).Stop()
	}
	tool, want := p.server+"_echo", `{\"n\":`+p.number+`}`
	if p.asks {
		tool, want = p.server+"_ask", a.name+" "+p.number
	}
	members := fmt.Sprintf(`"name":%q,"arguments":{"n":%s}`, tool, p.number)
	r, err := a.DoID(ctx, strconv.Itoa(p.id), "tools/call", members)
	if err == nil && mcptest.Text(r.Result, "resultType") == "input_required" {
		r, err = a.DoID(ctx, strconv.Itoa(p.id+5), "tools/call", members+a.Inputs(r.Result))
	}
	a.judge(t, p, r, err, want)
}

// giveUp cancels a call in the way of the agent's era.
func (a *actor) giveUp(ctx context.Context, p plan, cancel context.CancelFunc) {
	if a.Version == mcptest.Modern {
		cancel()
		return
	}
	a.Notify(ctx, "notifications/cancelled", `"requestId":`+strconv.Itoa(p.id))
}

func (a *actor) judge(t *testing.T, p plan, r *mcptest.Reply, err error, want string) {
	switch {
	case err != nil && p.cancel, err == nil && p.cancel && r.Raw == nil:
		a.got.cancelled.Add(1)
	case err != nil:
		a.got.wrong.Add(1)
		t.Errorf("%s %+v: %v", a.name, p, err)
	case strings.Contains(string(r.Raw), "MCPS-BUSY"):
		a.got.refused.Add(1)
	case p.cancel && r.Error != nil:
		a.got.cancelled.Add(1)
	case !strings.Contains(string(r.Raw), want):
		a.got.wrong.Add(1)
		t.Errorf("%s %+v: got %d %.300s, want %s", a.name, p, r.Status, r.Body, want)
	default:
		a.got.answered.Add(1)
		if p.asks {
			a.got.asked.Add(1)
		}
	}
}
