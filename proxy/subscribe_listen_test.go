package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func listenBody(id, notifications string) string {
	return modernBody(id, listenMethod, `{"notifications":`+notifications+`}`)
}

// listen opens a subscriptions/listen and returns its stream.
func (w *world) listen(t *testing.T, id, notifications string) *sseReader {
	t.Helper()
	resp, err := http.DefaultClient.Do(w.request("POST", "/mcp", listenBody(id, notifications), modernHeader(listenMethod, "")...))
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("listen: %v %+v", err, resp)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &sseReader{t, resp, bufio.NewReader(resp.Body)}
}

func (s *sseReader) want(what, want string) {
	s.t.Helper()
	if got := s.next(); got != want {
		s.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func metaOf(id string) string {
	return `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
}

func ackOf(id, notifications string) string {
	return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + metaOf(id) + `,"notifications":` + notifications + `}}`
}

func changedNote(kind, id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + kind + `/list_changed","params":{` + metaOf(id) + `}}`
}

func endOf(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{` + metaOf(id) + `,"resultType":"complete"}}`
}

// Two streams of one agent, told apart by their ids: each hears what it asked
// for, until the sidecar drains.
func TestListen(t *testing.T) {
	w, sub := subWorld(t)
	a := w.listen(t, `"a\u0062"`, `{"toolsListChanged":true,"promptsListChanged":false,"taskIds":["x"],"resourceSubscriptions":["file:///a.txt","hidden://x","file:///a.txt"]}`)
	b := w.listen(t, `7`, `{"promptsListChanged":true,"resourcesListChanged":true}`)
	a.want("first", ackOf(`"a\u0062"`, `{"toolsListChanged":true,"resourceSubscriptions":["file:///a.txt"]}`))
	b.want("first", ackOf(`7`, `{"promptsListChanged":true,"resourcesListChanged":true}`))
	if !w.front.budget.unused() {
		t.Error("open streams hold room for messages")
	}
	if n := sub.count("files", uriA); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	w.update("files", "", `{"uri":"file:///a.txt","_meta":{"x":1}}`)
	a.want("update", updatedNote(`{"uri":"file:///a.txt","_meta":{"io.modelcontextprotocol/subscriptionId":"a\u0062","x":1}}`))
	w.logs("files", "emergency", "not for them")
	w.build("default", "", hiding(), 0)
	b.want("resources", changedNote("resources", "7"))
	src := more("b")
	src[0].Listing.Prompts = nil
	w.build("default", "", src, 0)
	a.want("tools", changedNote("tools", `"a\u0062"`))
	b.want("prompts", changedNote("prompts", "7"))
	b.want("resources again", changedNote("resources", "7"))
	w.front.Drain()
	a.want("end", endOf(`"a\u0062"`))
	b.want("end", endOf(`7`))
	a.want("end of stream", "EOF")
	w.nobody(sub)
	if n := len(mustView(w).subs); n != 0 {
		t.Errorf("%d watchers left", n)
	}
}

// Who hangs up is forgotten, and nothing of what was asked remains.
func TestListenHangUp(t *testing.T) {
	w, sub := subWorld(t)
	s := w.listen(t, `1`, `{"toolsListChanged":true,"resourceSubscriptions":["file:///a.txt"]}`)
	s.next()
	s.resp.Body.Close()
	w.nobody(sub)
	until(t, "the view forgets it", func() bool {
		v := mustView(w)
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.subs) == 0
	})
}

func TestListenMistakes(t *testing.T) {
	w, sub := subWorld(t)
	many := make([]string, maxSubscriptions+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"file:///%d"`, i)
	}
	for _, tt := range []struct{ name, params, want string }{
		{"no notifications", `{}`, "subscriptions/listen lacks notifications"},
		{"no object", `{"notifications":[]}`, "subscriptions/listen lacks notifications"},
		{"no boolean", `{"notifications":{"toolsListChanged":1}}`, "toolsListChanged is not a boolean"},
		{"null", `{"notifications":{"resourcesListChanged":null}}`, "resourcesListChanged is not a boolean"},
		{"no array", `{"notifications":{"resourceSubscriptions":{}}}`, "resourceSubscriptions is not an array"},
		{"no strings", `{"notifications":{"resourceSubscriptions":[1]}}`, "resourceSubscriptions holds something that is not a string"},
		{"too many", `{"notifications":{"resourceSubscriptions":[` + strings.Join(many, ",") + `]}}`, "resourceSubscriptions holds more than 256 URIs"},
		{"too long", `{"notifications":{"resourceSubscriptions":["` + strings.Repeat("x", maxURI+1) + `"]}}`, "uri is longer than 8192 bytes"},
	} {
		r := w.modern("1", listenMethod, "", tt.params)
		wantJSON(t, tt.name, r.body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"`+tt.want+`"}}`)
	}
	if r := w.post(listenBody("1", `{}`), modernHeader(listenMethod, "", "Accept", "application/json")...); r.status != 406 {
		t.Errorf("for JSON only: %d %s", r.status, r.body)
	}
	if r := w.post(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}`); code(r.body) != -32601 {
		t.Errorf("of a legacy agent: %s", r.body)
	}
	w.nobody(sub)
}

func TestListenLimits(t *testing.T) {
	var s subscribers
	for range maxListens {
		if err := s.enter("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.enter("a"); err == nil || !strings.Contains(err.Message, "64 open subscriptions/listen of one caller") {
		t.Errorf("got %v", err)
	}
	n := maxListens
	for ; n < maxAllListens; n++ {
		if err := s.enter(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.enter("b"); err == nil || !strings.Contains(err.Message, "1000 open subscriptions/listen of all callers") {
		t.Errorf("got %v", err)
	}
	s.exit("a")
	if err := s.enter("a"); err != nil {
		t.Errorf("after one left: %v", err)
	}
}

// A URI that is missing is waited for as a list is: once.
func TestListenWaits(t *testing.T) {
	var w *world
	waits := 0
	w, sub := subWorld(t, func(o *Options) {
		o.ListWait = func(context.Context, string, upstream.Viewer) {
			waits++
			w.build("default", "", sources(), 0)
		}
	})
	w.build("default", "", hiding(), 0)
	s := w.listen(t, `1`, `{"resourceSubscriptions":["none://1","none://2","file:///a.txt"]}`)
	s.want("first", ackOf(`1`, `{"resourceSubscriptions":["file:///a.txt"]}`))
	if waits != 1 {
		t.Errorf("waited %d times", waits)
	}
	s.resp.Body.Close()
	w.nobody(sub)
}

// A quiet stream is kept open by comments; a storm of changes is told once.
func TestListenHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, l *pipeListener) {
		c := l.dial()
		defer c.Close()
		head := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nAccept: application/json, text/event-stream\r\n"
		io.WriteString(c, strings.Replace(httpRequest(listenBody("1", `{"toolsListChanged":true}`)), "Content-Type", head+"Content-Type", 1))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := make(chan string, 100)
		go func() {
			defer close(lines)
			for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
				if sc.Text() != "" && sc.Text() != "event: message" {
					lines <- sc.Text()
				}
			}
		}()
		<-lines
		start := time.Now()
		if got := <-lines; !strings.HasPrefix(got, ":") || time.Since(start) > heartbeat {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
		for i := range 115 {
			w.build("default", "", more(fmt.Sprintf("tool_%d", i)), 0)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(lines); n != 1 {
			t.Errorf("%d messages of 115 changes", n)
		}
		if got := <-lines; got != "data: "+changedNote("tools", "1") {
			t.Errorf("got %s", got)
		}
		w.front.Drain()
		if got := <-lines; got != "data: "+endOf("1") {
			t.Errorf("got %s", got)
		}
	})
}

// Over stdio a listen ends by its cancellation, without another word, or with the
// input; it holds nothing up.
func TestStdioListen(t *testing.T) {
	w, sub := subWorld(t)
	k := w.talk(t, t.Context())
	say := func(want ...string) {
		t.Helper()
		for _, line := range want {
			if got := k.hear(); got != line {
				t.Errorf("got %s\nwant %s", got, line)
			}
		}
	}
	k.say(listenBody("1", `{"toolsListChanged":true,"resourceSubscriptions":["file:///a.txt"]}`))
	say(ackOf("1", `{"toolsListChanged":true,"resourceSubscriptions":["file:///a.txt"]}`))
	k.say(listenBody("1", `{}`))
	if got := k.hear(); !strings.Contains(got, "in flight") {
		t.Errorf("the same id: %s", got)
	}
	k.say(listenBody(`"x"`, `{"resourceSubscriptions":["file:///a.txt"]}`))
	say(ackOf(`"x"`, `{"resourceSubscriptions":["file:///a.txt"]}`))
	k.say(modernBody("2", listenMethod, `{}`))
	if got := k.hear(); !strings.Contains(got, "lacks notifications") {
		t.Errorf("a mistake: %s", got)
	}
	w.build("default", "", more("a"), 0)
	say(changedNote("tools", "1"))
	k.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	until(t, "the first is released", func() bool { return sub.count("files", uriA) == 1 })
	w.update("files", "", `{"uri":"file:///a.txt"}`)
	say(updatedNote(`{` + metaOf(`"x"`) + `,"uri":"file:///a.txt"}`))
	k.say(listenBody("3", `{"toolsListChanged":true}`))
	go func() { k.hear() }() // it may still be acknowledged
	k.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	until(t, "a cancellation right behind it counts", func() bool {
		w.front.subs.mu.RLock()
		defer w.front.subs.mu.RUnlock()
		return w.front.subs.all == 1
	})
	k.in.Close()
	if err := <-k.done; err != nil {
		t.Error(err)
	}
	w.nobody(sub)
}

func TestStdioListenEndsWithDrain(t *testing.T) {
	w, sub := subWorld(t)
	k := w.talk(t, t.Context())
	k.say(listenBody("1", `{"toolsListChanged":true}`))
	k.hear()
	w.front.Drain()
	if got := k.hear(); got != endOf("1") {
		t.Errorf("got %s", got)
	}
	w.nobody(sub)
	k.in.Close()
	<-k.done
}

func TestStdioSubscribe(t *testing.T) {
	w, sub := subWorld(t)
	k := w.talk(t, t.Context())
	k.say(initialize)
	k.hear()
	k.say(subscribeBody(1, "subscribe", uriA))
	k.hear()
	w.update("files", "", `{"uri":"file:///a.txt"}`)
	if got, want := k.hear(), updatedNote(`{"uri":"file:///a.txt"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	k.in.Close()
	<-k.done
	w.nobody(sub)
}
