package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/aggregate"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// chatty answers after a progress and four log messages.
func chatty(_ context.Context, c *upstream.Call) (upstream.Response, error) {
	if c.Notify != nil {
		c.Notify("notifications/progress", []byte(`{"progressToken":"p","progress":1}`))
		for _, l := range []string{"debug", "info", "error", "odd"} {
			c.Notify("notifications/message", []byte(`{"level":"`+l+`","data":"`+l+`"}`))
		}
		c.Notify("notifications/tools/list_changed", nil)
		c.Notify("notifications/progress", []byte(`[]`))
	}
	return result("{\n\"content\":\r\n[]}"), nil
}

// events returns the messages in a body of events, without their ids.
func events(body string) (out []string) {
	for e := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if rest, ok := strings.CutPrefix(e, "id: "); ok {
			_, e, _ = strings.Cut(rest, "\n")
		}
		if data, ok := strings.CutPrefix(e, "event: message\ndata: "); ok {
			out = append(out, data)
		} else if !strings.HasPrefix(e, ":") && e != "retry: 1000\ndata: " {
			out = append(out, "not an event: "+e)
		}
	}
	return out
}

func note(level string) string {
	return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":"` + level + `"}}`
}

const (
	progressNote = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`
	lastEvent    = `{"jsonrpc":"2.0","id":5,"result":{ "content":  []}}`
)

func TestNotificationsDuringCall(t *testing.T) {
	w := newWorld(t)
	w.answer = chatty
	session := w.open("2025-11-25")
	w.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`, "Mcp-Session-Id", session)
	legacy := `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"mcp_files_slow","_meta":{"progressToken":"p"}}}`
	modern := func(meta string) string {
		return modernBody("5", "tools/call", `{"name":"mcp_files_slow"}`, meta)
	}
	mh := modernHeader("tools/call", "mcp_files_slow")
	modernEnd := strings.Replace(lastEvent, `"result":{`, `"result":{"resultType":"complete",`, 1)
	for _, tt := range []struct {
		name, body string
		header     []string
		want       []string
	}{
		{"sessionless", legacy, nil, []string{progressNote, note("info"), note("error"), lastEvent}},
		{"session at error", legacy, []string{"Mcp-Session-Id", session}, []string{progressNote, note("error"), lastEvent}},
		{"modern at debug", modern(`,"io.modelcontextprotocol/logLevel":"debug"`), mh, []string{note("debug"), note("info"), note("error"), modernEnd}},
		{"modern with a token", modern(`,"progressToken":"p"`), mh, []string{progressNote, modernEnd}},
	} {
		r := w.post(tt.body, tt.header...)
		if got := events(r.body); strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, strings.Join(got, "\n     "), strings.Join(tt.want, "\n     "))
		}
		if r.header.Get("Content-Type") != "text/event-stream" || r.header.Get("X-Accel-Buffering") != "no" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: header %v", tt.name, r.header)
		}
	}
	r := w.post(legacy, "Accept", "application/json")
	if want := strings.Replace(lastEvent, "{ \"content\":  [", "{\n\"content\":\r\n[", 1); r.body != want {
		t.Errorf("json only: got %q, want %q", r.body, want)
	}
	if r := w.post(modern(""), mh...); r.header.Get("Content-Type") != "application/json" {
		t.Errorf("modern that asks for nothing: %q", r.header.Get("Content-Type"))
	}
	if got := w.seen()[1]; got.Level != "error" || got.Token != `"p"` {
		t.Errorf("the server was asked for level %q with token %q", got.Level, got.Token)
	}
}

// TestSlowReaderLosesNotificationsOnly: the server is never held up (H25).
func TestSlowReaderLosesNotificationsOnly(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.StreamQueue = 4 })
	const n = 20000
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		for i := range n {
			c.Notify("notifications/message", fmt.Appendf(nil, `{"level":"error","data":%d}`, i))
		}
		return result(`{"content":[]}`), nil
	}
	got := events(w.post(fmt.Sprintf(callSlow, 5)).body)
	if last := got[len(got)-1]; last != `{"jsonrpc":"2.0","id":5,"result":{"content":[]}}` {
		t.Errorf("last event %s", last)
	}
	if dropped := w.front.Stats().Dropped; int(dropped)+len(got)-1 != n {
		t.Errorf("%d dropped and %d delivered of %d", dropped, len(got)-1, n)
	}
}

// A sseReader reads events as they come.
type sseReader struct {
	t    *testing.T
	resp *http.Response
	r    *bufio.Reader
}

func (w *world) stream(t *testing.T, session string) *sseReader {
	t.Helper()
	resp, err := http.DefaultClient.Do(w.request("GET", "/mcp", "", "Mcp-Session-Id", session, "Accept", "text/event-stream"))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("stream: %v %+v", err, resp)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &sseReader{t, resp, bufio.NewReader(resp.Body)}
}

func (s *sseReader) next() string {
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "\n" {
			return strings.TrimSuffix(data, "\n")
		}
	}
}

func more(name string) []aggregate.Source {
	src := sources()
	src[0].Listing = listing("read-file", "slow", name)
	src[0].Listing.Prompts = sources()[0].Listing.Prompts
	src[0].Listing.Resources = sources()[0].Listing.Resources
	src[0].Listing.Templates = sources()[0].Listing.Templates
	return src
}

const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// TestListChanged: a session hears of each real change of a list once, also
// when it had no stream at the time.
func TestListChanged(t *testing.T) {
	w := newWorld(t)
	id := w.open("2025-11-25")
	s := w.stream(t, id)
	w.build("default", "", sources(), 0) // nothing new
	w.build("default", "", more("a"), 0)
	if got := s.next(); got != toolsChanged {
		t.Errorf("got %s", got)
	}
	s.resp.Body.Close()
	sess := w.front.sessions.find(id, callerOf(w), mustView(w))
	for sess.streams.Load() != 0 { // the handler must notice
		w.post(pingBody)
	}
	w.build("default", "", more("b"), 0)
	if got := w.stream(t, id).next(); got != toolsChanged {
		t.Errorf("a new stream got %s", got)
	}
}

func TestStreamEnds(t *testing.T) {
	w := newWorld(t)
	a, b := w.open("2025-11-25"), w.open("2025-11-25")
	sa, sb := w.stream(t, a), w.stream(t, b)
	if r := w.send("DELETE", "/mcp", "", "Mcp-Session-Id", a); r.status != 204 {
		t.Fatalf("delete: %d", r.status)
	}
	if got := sa.next(); got != "EOF" {
		t.Errorf("deleted: %s", got)
	}
	w.front.Drain()
	if got := sb.next(); got != "EOF" {
		t.Errorf("drained: %s", got)
	}
	r := w.send("GET", "/mcp", "", "Mcp-Session-Id", b, "Accept", "application/json")
	if r.status != 406 {
		t.Errorf("GET for JSON: %d", r.status)
	}
}
