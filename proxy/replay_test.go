package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-sidecar/mcp-sidecar/policy"
	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

// A line is an agent's connection that reads events.
type line struct {
	t    *testing.T
	conn io.Closer
	resp *http.Response
	r    *bufio.Reader
	last string // id of the last event
}

// listenTo sends a request and reads the head of its answer.
func listenTo(t *testing.T, l *pipeListener, raw string) *line {
	t.Helper()
	c := l.dial()
	go io.WriteString(c, raw)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &line{t: t, conn: c, resp: resp, r: bufio.NewReader(resp.Body)}
}

// next returns the data of the next event, or how the stream ended.
func (n *line) next() string {
	data, has := "", false
	for {
		s, err := n.r.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		switch key, val, _ := strings.Cut(strings.TrimSuffix(s, "\n"), ": "); key {
		case "id":
			n.last = val
		case "data":
			data, has = val, true
		case "":
			if has && data != "" {
				return data
			}
			has = false
		}
	}
}

func (n *line) rest() (all []string) {
	for {
		s := n.next()
		if all = append(all, s); !strings.HasPrefix(s, "{") {
			return all
		}
	}
}

func (n *line) hangUp() {
	n.conn.Close()
	synctest.Wait()
}

// resumed is a GET of a session, from an event on if id is not empty.
func resumed(session, id string) string {
	h := "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer " + token + "\r\nMcp-Session-Id: " + session + "\r\n"
	if id != "" {
		h += "Last-Event-ID: " + id + "\r\n"
	}
	return h + "\r\n"
}

// A reel is a server whose call says what the test tells it to.
type reel struct{ frames chan string }

func newReel() *reel { return &reel{make(chan string)} }

// answer notes each frame, until one that is a result.
func (s *reel) answer(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
	for {
		select {
		case f := <-s.frames:
			if strings.HasPrefix(f, "{") {
				return result(f), nil
			}
			c.Notify("notifications/progress", []byte(`{"progressToken":"p","progress":`+f+`}`))
		case <-ctx.Done():
			return upstream.Response{}, ctx.Err()
		}
	}
}

func (s *reel) say(frames ...string) {
	for _, f := range frames {
		s.frames <- f
	}
}

// show is say, and waits for what comes of it.
func (s *reel) show(frames ...string) {
	s.say(frames...)
	synctest.Wait()
}

const slowProgress = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_files_slow","_meta":{"progressToken":"p"}}}`

func progressed(n ...string) (out []string) {
	for _, n := range n {
		out = append(out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":`+n+`}}`)
	}
	return out
}

func answered(id int, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result)
}

func openSession(w *world, version string) *session {
	s, err := w.front.sessions.open(callerFor(w, token), mustView(w), version, capabilities{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// begun is a call in a session that said one thing and goes on.
func begun(t *testing.T, w *world, l *pipeListener, s *session, id int) (*line, *reel) {
	t.Helper()
	r := newReel()
	w.mu.Lock()
	w.answer = r.answer
	w.mu.Unlock()
	go r.say("1")
	c := listenTo(t, l, asCaller(token, fmt.Sprintf(slowProgress, id), "Mcp-Session-Id", s.id))
	if got := c.next(); got != progressed("1")[0] {
		t.Fatalf("got %s", got)
	}
	return c, r
}

// An agent that loses its connection during a call gets the rest: what it missed,
// what comes, and the answer, of this stream only.
func TestReplay(t *testing.T) {
	for _, tt := range []struct {
		name         string
		version      string
		missed, late []string
		wait         time.Duration
		drain        bool
	}{
		{name: "while it runs", version: "2025-11-25", missed: []string{"2", "3"}, late: []string{"4", `{"n":1.10}`}},
		{name: "nothing missed", version: "2025-11-25", late: []string{"4", `{"n":1.10}`}},
		{name: "after the end", version: "2025-11-25", missed: []string{"2", `{"n":1.10}`}},
		{name: "long after", version: "2025-03-26", missed: []string{"2", `{"n":1.10}`}, wait: replayTime - time.Second},
		{name: "old agent", version: "2025-03-26", missed: []string{"2"}, late: []string{`{"n":1.10}`}},
		{name: "while the sidecar drains", version: "2025-11-25", missed: []string{"2"}, late: []string{`{"n":1.10}`}, drain: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			behind(t, 8, func(w *world, l *pipeListener) {
				s := openSession(w, tt.version)
				c, r := begun(t, w, l, s, 5)
				other, r2 := begun(t, w, l, s, 6)
				c.hangUp()
				r.show(tt.missed...)
				go func() {
					time.Sleep(tt.wait)
					r2.say("77")
				}()
				if got := other.next(); got != progressed("77")[0] {
					t.Errorf("the other stream: got %s", got)
				}
				again := listenTo(t, l, resumed(s.id, c.last))
				if tt.drain {
					w.front.Drain()
				}
				go r.say(tt.late...)
				var want []string
				for _, f := range append(tt.missed, tt.late...) {
					if f[0] == '{' {
						want = append(want, answered(5, f))
					} else {
						want = append(want, progressed(f)...)
					}
				}
				if diff := cmp.Diff(append(want, "EOF"), again.rest()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				r2.show(`{}`)
				if diff := cmp.Diff([]string{answered(6, "{}"), "EOF"}, other.rest()); diff != "" {
					t.Errorf("the other stream (-want +got):\n%s", diff)
				}
				if n := w.front.Stats().Strays; n != 0 {
					t.Errorf("%d strays are left", n)
				}
				last := listenTo(t, l, resumed(s.id, again.last))
				if last.resp.StatusCode != http.StatusNoContent {
					t.Errorf("behind the answer: %d", last.resp.StatusCode)
				}
				again.conn.Close()
				other.conn.Close()
				last.conn.Close()
			})
		})
	}
}

// An agent that was primed knows where to go on before the first message, and
// again on each connection.
func TestReplayFromTheStart(t *testing.T) {
	behind(t, 4, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		r := newReel()
		w.answer = r.answer
		c := listenTo(t, l, asCaller(token, fmt.Sprintf(slowProgress, 5), "Mcp-Session-Id", s.id)) // after 30 s of silence
		io.ReadFull(c.r, make([]byte, 8))
		id := s.replay.tag + "-1-0"
		c.hangUp()
		again := listenTo(t, l, resumed(s.id, id))
		prime := make([]byte, len("id: ")+len(id))
		if io.ReadFull(again.r, prime); string(prime) != "id: "+id {
			t.Errorf("got %q", prime)
		}
		again.hangUp()
		third := listenTo(t, l, resumed(s.id, id))
		go r.say("1", `{}`)
		if diff := cmp.Diff(append(progressed("1"), answered(5, "{}"), "EOF"), third.rest()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		third.conn.Close()
	})
}

// A stream has one reader: who comes later takes over, and nothing is told twice.
func TestReplayTakesOver(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		c, r := begun(t, w, l, s, 5)
		second := listenTo(t, l, resumed(s.id, c.last))
		synctest.Wait()
		go r.say("2")
		if got := second.next(); got != progressed("2")[0] {
			t.Errorf("the second got %s", got)
		}
		third := listenTo(t, l, resumed(s.id, second.last))
		go r.say("3", `{}`)
		if diff := cmp.Diff([]string{"EOF"}, second.rest()); diff != "" {
			t.Errorf("the second, then (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(append(progressed("3"), answered(5, "{}"), "EOF"), third.rest()); diff != "" {
			t.Errorf("the third (-want +got):\n%s", diff)
		}
		if got := c.next(); !strings.Contains(got, "EOF") && !strings.Contains(got, "closed") {
			t.Errorf("the first got %s", got)
		}
		for _, n := range []*line{c, second, third} {
			n.conn.Close()
		}
	})
}

// A connection that hangs in a write does not keep its stream from another.
func TestReplayFromAHungConnection(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		c, r := begun(t, w, l, s, 5)
		r.show("2", "3") // nobody reads: the pipe has no buffer
		second := listenTo(t, l, resumed(s.id, c.last))
		start := time.Now()
		go r.say(`{}`)
		if diff := cmp.Diff(append(progressed("2", "3"), answered(5, "{}"), "EOF"), second.rest()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("it took %v", d)
		}
		c.conn.Close()
		second.conn.Close()
	})
}

// An id that names no stream of the session is refused; 404 is for sessions.
func TestReplayRefused(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		s, other := openSession(w, "2025-11-25"), openSession(w, "2025-11-25")
		c, r := begun(t, w, l, s, 5)
		d, r2 := begun(t, w, l, other, 5)
		mine, theirs := c.last, d.last
		c.hangUp()
		d.hangUp()
		for _, tt := range []struct {
			name, session, id string
			want              int
		}{
			{"another session's", s.id, theirs, 400},
			{"words", s.id, "where-was-i", 400},
			{"a number", s.id, "17", 400},
			{"another stream", s.id, s.replay.tag + "-9-1", 400},
			{"ahead", s.id, s.replay.tag + "-1-9", 400},
			{"long", s.id, strings.Repeat("9", 4000), 400},
			{"not a GET stream", s.id, s.replay.tag + "-g1-1", 200}, // begins a new one
			{"unknown session", "nope", mine, 404},
			{"in order", s.id, mine, 200},
		} {
			n := listenTo(t, l, resumed(tt.session, tt.id))
			if n.resp.StatusCode != tt.want {
				t.Errorf("%s: got %d, want %d", tt.name, n.resp.StatusCode, tt.want)
			}
			n.hangUp()
		}
		r.show(`{}`)
		r2.show(`{}`)
		time.Sleep(replayTime + 2*expiryPause)
		n := listenTo(t, l, resumed(s.id, mine))
		if body, _ := io.ReadAll(n.r); n.resp.StatusCode != 400 || !strings.Contains(string(body), "no longer kept") {
			t.Errorf("too late: got %d %s", n.resp.StatusCode, body)
		}
		n.hangUp()
	})
}

// The end of a session ends who reads one of its streams, not the call.
func TestReplaySessionEnds(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		c, r := begun(t, w, l, s, 5)
		c.hangUp()
		again := listenTo(t, l, resumed(s.id, c.last))
		synctest.Wait()
		w.front.sessions.end(s)
		if diff := cmp.Diff([]string{"EOF"}, again.rest()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		again.conn.Close()
		r.show("2", `{}`)
	})
}

// A call that waits for its turn goes on too when its agent can come back.
func TestReplayOfAWaitingCall(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		h := newHanging()
		w.answer = h.answer
		s := openSession(w, "2025-11-25")
		first := listenTo(t, l, asCaller(token, fmt.Sprintf(callSlow, 1), "Mcp-Session-Id", s.id)) // after 30 s
		second := listenTo(t, l, asCaller(token, fmt.Sprintf(callSlow, 2), "Mcp-Session-Id", s.id))
		go first.rest()
		id := s.replay.tag + "-2-0"
		second.hangUp()
		close(h.release)
		synctest.Wait()
		again := listenTo(t, l, resumed(s.id, id))
		if diff := cmp.Diff([]string{answered(2, `{"content":[]}`), "EOF"}, again.rest()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		first.conn.Close()
		again.conn.Close()
	}, func(o *Options) { o.Serial = func(string) bool { return true } })
}

// What was told on a GET stream that broke is told again, and news go on there.
func TestReplayOfNews(t *testing.T) {
	behind(t, 8, func(w *world, l *pipeListener) {
		s := openSession(w, "2025-11-25")
		get := listenTo(t, l, resumed(s.id, ""))
		go w.build("default", "", more("a"), 0)
		if got := get.next(); got != toolsChanged {
			t.Errorf("got %s", got)
		}
		start := get.last[:strings.LastIndex(get.last, "-")] + "-0"
		get.hangUp()
		again := listenTo(t, l, resumed(s.id, start)) // as if it had not come
		time.AfterFunc(time.Second, func() { w.build("default", "", more("b"), 0) })
		for i := range 2 {
			if got := again.next(); got != toolsChanged {
				t.Errorf("%d: got %s", i, got)
			}
		}
		if want := strings.TrimSuffix(start, "0") + "2"; again.last != want {
			t.Errorf("the id is %s, want %s", again.last, want)
		}
		again.hangUp()
		time.Sleep(replayTime + 2*expiryPause)
		late := listenTo(t, l, resumed(s.id, again.last)) // long forgotten: all may have changed
		for i, want := range changes {
			if got := late.next(); !strings.Contains(got, want) {
				t.Errorf("%d: got %s, want %s", i, got, want)
			}
		}
		late.hangUp()
	})
}

// Agents that use the same ids and tokens at the same time hear their own.
func TestEqualTokens(t *testing.T) {
	const n = 4
	w := newWorld(t)
	meet := make(chan struct{}, n)
	all := make(chan struct{})
	w.answer = func(_ context.Context, c *upstream.Call) (upstream.Response, error) {
		if meet <- struct{}{}; len(meet) == n {
			close(all)
		}
		<-all
		for i := range 50 {
			c.Notify("notifications/progress", fmt.Appendf(nil, `{"progressToken":"p","progress":%d,"of":%s}`, i, c.Params))
		}
		return result(fmt.Sprintf(`{"of":%s}`, c.Params)), nil
	}
	got := make([][]string, n)
	var wg sync.WaitGroup
	for i := range n {
		id := w.open("2025-11-25")
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_files_slow","arguments":{"who":%d},"_meta":{"progressToken":"p"}}}`, i)
		wg.Go(func() { got[i] = events(w.post(body, "Mcp-Session-Id", id).body) })
	}
	wg.Wait()
	for i, all := range got {
		if len(all) != 51 {
			t.Errorf("agent %d got %d messages", i, len(all))
		}
		for _, msg := range all {
			if !strings.Contains(msg, fmt.Sprintf(`"who":%d}`, i)) {
				t.Errorf("agent %d got %s", i, msg)
			}
		}
	}
}

// A question that the agent lost with its connection is fetched and answered, also
// one that was asked while it was away.
func TestReplayOfAQuestion(t *testing.T) {
	for _, away := range []bool{false, true} {
		behind(t, 8, func(w *world, l *pipeListener) {
			ask := make(chan struct{})
			w.answer = func(ctx context.Context, c *upstream.Call) (upstream.Response, error) {
				c.Notify("notifications/progress", []byte(`{"progressToken":"p","progress":1}`))
				<-ask
				return asks("roots/list", "{}")(ctx, c)
			}
			s, err := w.front.sessions.open(callerFor(w, token), mustView(w), "2025-11-25", capabilities{answers: policy.AnswerRoots})
			if err != nil {
				t.Fatal(err)
			}
			c := listenTo(t, l, asCaller(token, fmt.Sprintf(slowProgress, 5), "Mcp-Session-Id", s.id))
			c.next()
			if away {
				c.hangUp()
			}
			close(ask)
			synctest.Wait()
			c.hangUp()
			again := listenTo(t, l, resumed(s.id, c.last))
			var q rpc
			msg := again.next()
			if err := json.Unmarshal([]byte(msg), &q); err != nil || q.Method != "roots/list" {
				t.Errorf("got %s", msg)
			}
			said := listenTo(t, l, asCaller(token, `{"jsonrpc":"2.0","id":`+string(q.ID)+`,"result":{"roots":[]}}`, "Mcp-Session-Id", s.id))
			if got := again.rest(); len(got) != 2 || heardIn(t, got[0]) != `{"roots":[]}` {
				t.Errorf("away %t: got %v", away, got)
			}
			said.hangUp()
			again.hangUp()
		}, anything)
	}
}
