package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/auth"
	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// byHeader takes the caller's word for who it is.
type byHeader struct{}

func (byHeader) Identify(r *http.Request) (auth.Caller, error) {
	return auth.Caller{ID: "caller " + r.Header.Get("X-Caller")}, nil
}

// A parkWorld is a front on the fake clock, with agents that can answer.
type parkWorld struct {
	*world
	http *http.Client
	stop func()
}

// allOf are the capabilities of an agent that can answer everything.
const allOf = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

func parkBubble(t *testing.T, f func(t *testing.T, w *parkWorld), opts ...option) {
	synctest.Test(t, func(t *testing.T) {
		w := newParkWorld(t, opts...)
		f(t, w)
		w.stop()
		if now, _, _ := w.front.parking.stats(); now != 0 {
			t.Errorf("%d calls are still parked", now)
		}
		g := &w.front.parking
		if g.bytes != 0 || len(g.callers) != 0 || len(g.waiting) != 0 {
			t.Errorf("left over: %d bytes, %d callers, %d calls", g.bytes, len(g.callers), len(g.waiting))
		}
	})
}

func newParkWorld(t *testing.T, opts ...option) *parkWorld {
	w := &world{t: t, keeper: new(Keeper)}
	w.build("default", "", sources(), 0)
	w.build("default/files", "files", sources()[:1], 0)
	askers := map[string]*policy.Asker{}
	for _, s := range []string{"files", "github"} {
		askers[s] = policy.NewAsker(s, policy.Sampling{MaxRPM: 1000}, policy.Elicitation{}, policy.Roots{})
	}
	o := Options{Views: w.keeper, Upstreams: w, Callers: byHeader{}, Version: "1",
		Askers: func(s string) *policy.Asker { return askers[s] }}
	for _, opt := range opts {
		opt(&o)
	}
	w.front = New(o)
	l, srv := newPipeListener(), Server(w.front)
	go srv.Serve(l)
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }}
	return &parkWorld{world: w, http: &http.Client{Transport: tr}, stop: func() {
		w.front.Drain()
		tr.CloseIdleConnections()
		srv.Close()
		time.Sleep(time.Second) // connections close in steps
		synctest.Wait()
	}}
}

// A modernAsk is one request of a modern agent.
type modernAsk struct {
	path, method, name, params, caps, meta, caller string
}

// slowCall is a tools/call of the tool that most tests call.
func slowCall(more string) modernAsk {
	return modernAsk{method: "tools/call", name: "mcp_files_slow", params: `{"name":"mcp_files_slow","arguments":{"b":[1,{"x":"é"}],"a":1.0}` + more + `}`}
}

func (w *parkWorld) request(ctx context.Context, a modernAsk) *http.Request {
	if a.caps == "" {
		a.caps = allOf
	}
	body := strings.Replace(modernBody("1", a.method, a.params, a.meta), `clientCapabilities":{}`, `clientCapabilities":`+a.caps, 1)
	if a.path == "" {
		a.path = "/mcp"
	}
	r, err := http.NewRequestWithContext(ctx, "POST", "http://localhost"+a.path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	h := append(modernHeader(a.method, a.name), "Content-Type", "application/json", "X-Caller", a.caller,
		"Accept", "application/json, text/event-stream")
	for i := 0; i < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	return r
}

// A came is what came of a request.
type came struct {
	status int
	body   string // of the answer alone
	notes  []string
}

// send sends a request and reads its answer; a request that is cut off has none.
func (w *parkWorld) send(ctx context.Context, a modernAsk) came {
	resp, err := w.http.Do(w.request(ctx, a))
	if err != nil {
		if ctx.Err() == nil {
			w.t.Errorf("send: %v", err)
		}
		return came{}
	}
	defer resp.Body.Close()
	out := came{status: resp.StatusCode}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		out.body = string(b)
		return out
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			out.notes = append(out.notes, data)
		}
	}
	if n := len(out.notes); n > 0 {
		out.notes, out.body = out.notes[:n-1], out.notes[n-1]
	}
	return out
}

func (w *parkWorld) run(a modernAsk) came { return w.send(context.Background(), a) }

// A pausedResult is what an agent reads of a result that asks it something.
type pausedResult struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState *string
}

// asks reads an answer that must ask something.
func (w *parkWorld) asks(r came, keys ...string) (p pausedResult) {
	w.t.Helper()
	var m struct{ Result pausedResult }
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || m.Result.ResultType != "input_required" || m.Result.RequestState == nil {
		w.t.Fatalf("want questions, got %d %.600s (%v)", r.status, r.body, err)
	}
	if len(m.Result.InputRequests) != len(keys) {
		w.t.Fatalf("want the questions %v, got %.600s", keys, r.body)
	}
	for _, k := range keys {
		if _, ok := m.Result.InputRequests[k]; !ok {
			w.t.Fatalf("want the questions %v, got %.600s", keys, r.body)
		}
	}
	return m.Result
}

// retry is a with the answers to p.
func (p pausedResult) retry(a modernAsk, responses string) modernAsk {
	more := `,"requestState":"` + *p.RequestState + `"`
	if responses != "" {
		more += `,"inputResponses":` + responses
	}
	a.params = strings.TrimSuffix(a.params, "}") + more + "}"
	return a
}

const (
	formQuestion   = `{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`
	sampleQuestion = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}`
	formAnswer     = `{"action":"accept","content":{"n":9007199254740993}}`
	sampleAnswer   = `{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m"}`
	rootsAnswer    = `{"roots":[{"uri":"file:///w"}]}`
)

// putTo asks about a call as a legacy server does.
func putTo(ctx context.Context, c *upstream.Call, method, params string) (string, error) {
	q := upstream.Question{Server: "files", Method: method}
	if params != "" {
		q.Params = []byte(params)
	}
	out, err := c.Ask(ctx, q)
	if err != nil {
		return "", err
	}
	return string(out), nil
}

// serverAsks is a server that asks in one round after another, and answers with what
// it was told.
func serverAsks(questions ...[2]string) func(context.Context, *upstream.Call) (upstream.Response, error) {
	return func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
		var got []string
		for _, q := range questions {
			a, err := putTo(ctx, c, q[0], q[1])
			if err != nil {
				b, _ := json.Marshal(err.Error())
				a = string(b)
			}
			if ctx.Err() != nil {
				return upstream.Response{}, ctx.Err()
			}
			got = append(got, a)
		}
		return result(`{"content":[],"structuredContent":[` + strings.Join(got, ",") + `]}`), nil
	}
}

// tellsEnd is a server that tells why its context ended.
func tellsEnd(q [2]string, why chan<- error) func(context.Context, *upstream.Call) (upstream.Response, error) {
	return func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
		_, err := putTo(ctx, c, q[0], q[1])
		if ctx.Err() == nil {
			why <- err
			return result(`{"content":[]}`), nil
		}
		why <- ctx.Err()
		return upstream.Response{}, ctx.Err()
	}
}

var formAsked = [2]string{methodElicit, formQuestion}

var errTest = errors.New("a fault of the test's")
