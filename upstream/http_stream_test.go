package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const answerEvent = `data: {"jsonrpc":"2.0","id":%s,"result":{"ok":1}}` + "\n\n"

func TestHTTPStream(t *testing.T) {
	progress := func(token, n string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":` + n + `,"x":1.50}}` + "\n\n"
	}
	const log = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}` + "\n\n"
	for _, tt := range []struct {
		name   string
		stream string
		kind   Kind
		text   string
		mine   []string // what the call's Notify got
		rest   []string // what the connection's got
		noise  int
	}{
		{name: "answer", stream: answerEvent},
		{name: "CR", stream: strings.ReplaceAll(answerEvent, "\n", "\r")},
		{name: "CRLF and BOM", stream: "\xef\xbb\xbf" + strings.ReplaceAll(answerEvent, "\n", "\r\n")},
		{name: "lines, fields, comments", stream: ": hello\n\nid: 1\nretry: 10\nevent: message\ndata:{\"jsonrpc\":\"2.0\",\ndata\n: x\nfoo: bar\ndata: \"id\":%s,\"result\":{\"ok\":1}}\n\n"},
		{name: "priming event", stream: "id: 1\nretry: 0\ndata:\n\n" + answerEvent},
		{name: "other event", stream: "event: ping\ndata: {}\n\n" + answerEvent, noise: 1},
		{name: "junk", stream: "data: hello\n\ndata: [1\n\ndata: {}\n\n" + answerEvent, noise: 3},
		{name: "second answer", stream: answerEvent + strings.Replace(answerEvent, "ok", "no", 1)},
		{name: "progress", stream: progress("%s", "0.5") + progress("%s", "0.5") + progress("%s", "0.4") + progress("%s", "1") + progress("77", "2") + progress(`"%s"`, "3") + progress("%s", `"4"`) + answerEvent,
			mine: []string{`notifications/progress {"progressToken":"t","progress":0.5,"x":1.50}`, `notifications/progress {"progressToken":"t","progress":1,"x":1.50}`}},
		{name: "log", stream: log + answerEvent, mine: []string{`notifications/message {"level":"info","data":"hi"}`}},
		{name: "lists", stream: `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n" + answerEvent, rest: []string{"notifications/tools/list_changed "}},
		{name: "large log", stream: strings.Replace(log, "hi", strings.Repeat("x", maxNotice), 1) + answerEvent, noise: 1},
		{name: "large progress", stream: strings.Replace(progress("%s", "1"), "1.50", `"`+strings.Repeat("x", maxNotice)+`"`, 1) + answerEvent, noise: 1},
		{name: "large method", stream: `data: {"jsonrpc":"2.0","method":"` + strings.Repeat("x", maxNotice+1) + `"}` + "\n\n" + answerEvent, noise: 1},
		{name: "question with a large id", stream: `data: {"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxQuestionID) + `","method":"ping"}` + "\n\n" + answerEvent, noise: 1},
		{name: "no answer", stream: log, mine: []string{`notifications/message {"level":"info","data":"hi"}`}, kind: Uncertain, text: "the stream ended without an answer"},
		{name: "nothing", stream: "", kind: Uncertain, text: "the stream ended without an answer"},
		{name: "only junk", stream: "data: hello\n\n", kind: Uncertain, text: "(1 events were no JSON-RPC messages)", noise: 1},
		{name: "cut event", stream: answerEvent[:len(answerEvent)-1], kind: Uncertain, text: "without an answer"},
		{name: "other id", stream: `data: {"jsonrpc":"2.0","id":-1,"result":{}}` + "\n\n" + answerEvent, kind: Protocol, text: "answered id -1, not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeHTTP{call: func(w http.ResponseWriter, _ *http.Request, m rpc) { events(w, m)(tt.stream) }}
			both(t, f, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
				var mine, rest []string
				noise := 0
				c.env.notify = func(m string, p []byte) { rest = append(rest, m+" "+string(p)) }
				c.env.noise = func(n int) { noise += n }
				call := toolCall("x")
				call.ProgressToken = []byte(`"t"`)
				call.Notify = func(m string, p []byte) { mine = append(mine, m+" "+string(p)) }
				resp, err := c.Do(t.Context(), call)
				if KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Fatalf("got %v (kind %v), want kind %v, %q", err, KindOf(err), tt.kind, tt.text)
				}
				if err == nil && string(resp.Result) != `{"ok":1}` {
					t.Errorf("got %s", resp.Result)
				}
				if diff := cmp.Diff(tt.mine, mine); diff != "" {
					t.Errorf("call's notifications:\n%s", diff)
				}
				if diff := cmp.Diff(tt.rest, rest); diff != "" {
					t.Errorf("other notifications:\n%s", diff)
				}
				if noise != tt.noise {
					t.Errorf("noise: got %d, want %d", noise, tt.noise)
				}
				alive(t, c)
			})
		})
	}
}

// A legacy server's questions are answered, also while the call runs; a modern
// one may not ask, and only that is counted.
func TestHTTPServerRequests(t *testing.T) {
	f := &fakeHTTP{}
	answers := make(chan rpc, 2)
	f.any = func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.Method == "" && (m.Error != nil || m.Result != nil) {
			answers <- m
		}
		return false
	}
	f.call = func(w http.ResponseWriter, r *http.Request, m rpc) {
		send := events(w, m)
		send(`data: {"jsonrpc":"2.0","id":"a b","method":"sampling/createMessage","params":{}}` + "\n\n")
		send(`data: {"jsonrpc":"2.0","id":7,"method":"ping"}` + "\n\n")
		if r.Header.Get(hdrVersion) != VersionModern {
			got := map[string]string{}
			for range 2 {
				a := <-answers
				got[string(a.ID)] = string(a.Error) + string(a.Result)
			}
			if got["7"] != `{}` || got[`"a b"`] != `{"code":-32601,"message":"this client did not declare sampling"}` {
				t.Errorf("answers: got %v", got)
			}
		}
		send(answerEvent)
	}
	both(t, f, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
		noise := 0
		c.env.noise = func(n int) { noise += n }
		if _, err := c.Do(t.Context(), toolCall("x")); err != nil {
			t.Error(err)
		}
		if want := map[Era]int{Modern: 2}[c.Info().Era]; noise != want {
			t.Errorf("noise: got %d, want %d", noise, want)
		}
	})
}

// The stream behind the answer may stay open: the call does not wait for it.
func TestHTTPOpenStream(t *testing.T) {
	f := &fakeHTTP{call: func(w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, m)(answerEvent)
		<-r.Context().Done()
	}}
	both(t, f, &Settings{MaxConcurrency: 4}, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
		var wg sync.WaitGroup
		for range 30 { // more than there are background places
			wg.Go(func() {
				if resp, err := c.Do(t.Context(), toolCall("x")); err != nil || string(resp.Result) != `{"ok":1}` {
					t.Errorf("got %s, %v", resp.Result, err)
				}
			})
		}
		wg.Wait()
		alive(t, c)
	})
}

// Answers of calls in flight do not share memory.
func TestHTTPConcurrent(t *testing.T) {
	f := &fakeHTTP{call: func(w http.ResponseWriter, _ *http.Request, m rpc) {
		if strings.Contains(m.Body, "stream") {
			events(w, m)(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%%s,\"result\":%q}\n\n", m.Params.Name))
			return
		}
		result(w, m, fmt.Sprintf("%q", m.Params.Name))
	}}
	both(t, f, nil, func(t *testing.T, _ *fakeHTTP, c *httpConn) {
		var mu sync.Mutex
		got := map[string]string{}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 10 {
					name := fmt.Sprintf("%s-%d-%d-%s", []string{"stream", "json"}[j%2], i, j, strings.Repeat("z", i*100))
					resp, err := c.Do(t.Context(), toolCall(name))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got[name] = string(resp.Result)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for name, res := range got {
			if res != fmt.Sprintf("%q", name) {
				t.Fatalf("got %s for %s", res, name)
			}
		}
	})
}
