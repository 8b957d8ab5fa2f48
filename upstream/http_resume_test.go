package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A pollServer ends the stream of each call behind the first event, and serves
// the rest in parts to who asks for what follows the last one.
type pollServer struct {
	*fakeHTTP
	// parts by Last-Event-ID; "" is the POST's. %s stands for the id of the request.
	parts map[string]string
	// refuse, if it returns a status, does so instead.
	refuse func(lastID string, n int) int
	cut    bool // streams end without their last chunk

	mu    sync.Mutex
	asked []string // Last-Event-ID of each GET that had one
	id    string
}

func newPollServer(t *testing.T, p *pollServer) *pollServer {
	t.Helper()
	f := &fakeHTTP{legacy: true, get: p.serveGet}
	f.call = func(w http.ResponseWriter, _ *http.Request, m rpc) {
		p.mu.Lock()
		p.id = string(m.ID)
		p.mu.Unlock()
		p.send(w, "")
	}
	p.fakeHTTP = newFake(t, f)
	return p
}

func (p *pollServer) serveGet(w http.ResponseWriter, r *http.Request) {
	last := r.Header.Get("Last-Event-Id")
	if last == "" {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, last)
	n := len(p.asked)
	p.mu.Unlock()
	if p.refuse != nil {
		if status := p.refuse(last, n); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	p.send(w, last)
}

func (p *pollServer) send(w http.ResponseWriter, last string) {
	p.mu.Lock()
	text := strings.ReplaceAll(p.parts[last], "%s", p.id)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, text)
	w.(http.Flusher).Flush()
	if p.cut {
		panic(http.ErrAbortHandler)
	}
}

func (p *pollServer) gets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

const (
	primed   = "id: e1\nretry: 100\ndata:\n\n"
	progress = `id: e2` + "\n" + `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}` + "\n\n"
)

// A call goes on where its stream ended, without being sent again (SEP-1699).
func TestHTTPResume(t *testing.T) {
	always := func(status int) func(string, int) int { return func(string, int) int { return status } }
	for _, tt := range []struct {
		name   string
		parts  map[string]string
		refuse func(string, int) int
		cut    bool
		gets   []string
		kind   Kind
		notes  int
	}{
		{name: "once", parts: map[string]string{"": primed, "e1": answerEvent}, gets: []string{"e1"}},
		{name: "twice", parts: map[string]string{"": primed, "e1": progress, "e2": "id: e3\n" + answerEvent}, gets: []string{"e1", "e2"}, notes: 1},
		{name: "no new event", parts: map[string]string{"": primed + progress, "e2": ""}, gets: []string{"e2", "e2", "e2"}, notes: 1,
			refuse: func(_ string, n int) int { return map[int]int{3: 404}[n] }, kind: Uncertain},
		{name: "cut", parts: map[string]string{"": primed + "data: {\"jso", "e1": answerEvent}, cut: true, gets: []string{"e1"}},
		{name: "no event id", parts: map[string]string{"": "retry: 100\ndata:\n\n"}, kind: Uncertain},
		{name: "405", parts: map[string]string{"": primed}, refuse: always(405), gets: []string{"e1"}, kind: Uncertain},
		{name: "404", parts: map[string]string{"": primed}, refuse: always(404), gets: []string{"e1"}, kind: Uncertain},
		{name: "400", parts: map[string]string{"": primed}, refuse: always(400), gets: []string{"e1"}, kind: Uncertain},
		{name: "503 in between", parts: map[string]string{"": primed, "e1": answerEvent}, gets: []string{"e1", "e1"},
			refuse: func(_ string, n int) int { return map[int]int{1: 503}[n] }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaks(t)
			p := newPollServer(t, &pollServer{parts: tt.parts, refuse: tt.refuse, cut: tt.cut})
			c := dialed(t, resolved(t, p.URL, nil), env{})
			notes := 0
			call := toolCall("x")
			call.ProgressToken = []byte(`1`)
			call.Notify = func(string, []byte) { notes++ }
			start := time.Now()
			resp, err := c.Do(t.Context(), call)
			if KindOf(err) != tt.kind || err == nil && string(resp.Result) != `{"ok":1}` {
				t.Fatalf("got %s, %v", resp.Result, err)
			}
			if least := time.Duration(len(tt.gets)) * 100 * time.Millisecond; time.Since(start) < least {
				t.Errorf("took %v, want %v at least", time.Since(start), least)
			}
			if diff := cmp.Diff(tt.gets, p.gets()); diff != "" {
				t.Errorf("GET:\n%s", diff)
			}
			if n := len(p.got("tools/call")); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			if notes != tt.notes {
				t.Errorf("got %d notifications, want %d", notes, tt.notes)
			}
			alive(t, c)
		})
	}
}

// The server may end the stream while it waits for the answer to its question.
func TestHTTPResumeWithQuestion(t *testing.T) {
	leaks(t)
	p := newPollServer(t, &pollServer{parts: map[string]string{
		"":   primed + "id: e2\n" + askingEvent(`1`, "roots/list", `{}`),
		"e2": answerEvent,
	}})
	answered := make(chan struct{})
	p.any = func(_ http.ResponseWriter, _ *http.Request, m rpc) bool {
		if string(m.Result) != "" && string(m.ID) == "1" {
			close(answered)
		}
		return false
	}
	p.refuse = func(string, int) int { <-answered; return 0 }
	c := dialed(t, resolved(t, p.URL, nil), env{})
	if resp, err := c.Do(t.Context(), askedCall("x", echoAsked)); err != nil || string(resp.Result) != `{"ok":1}` {
		t.Fatalf("got %s, %v", resp.Result, err)
	}
}

// Neither the caller's cancel nor the time-out waits for a stream to come back.
func TestHTTPResumeEnds(t *testing.T) {
	leaks(t)
	p := newPollServer(t, &pollServer{parts: map[string]string{"": "id: e1\nretry: 20000\ndata:\n\n"}})
	c := dialed(t, resolved(t, p.URL, &Settings{Timeout: 100 * time.Millisecond}), env{})
	start := time.Now()
	if _, err := c.Do(t.Context(), toolCall("x")); KindOf(err) != Timeout {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, toolCall("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	eventually(t, "the server hears of both", func() bool { return len(p.got(cancelledNote)) == 2 })
}

// A server that ends stream after stream is not asked without end.
func TestHTTPResumeBound(t *testing.T) {
	leaks(t)
	p := newPollServer(t, &pollServer{parts: map[string]string{"": primed}})
	c := dialed(t, resolved(t, p.URL, nil), env{})
	x := exchange{c: c, s: c.session.Load(), call: toolCall("x"), resumes: maxResumes - 1}
	if _, err := x.run(t.Context(), 0); KindOf(err) != Uncertain {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"e1"}, p.gets()); diff != "" {
		t.Errorf("GET:\n%s", diff)
	}
}

func TestResumePause(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		retry, after time.Duration
		lost         int
		want         time.Duration
	}{
		{0, 0, 0, s},
		{100 * time.Millisecond, 0, 0, 100 * time.Millisecond},
		{5 * s, 0, 0, 5 * s},
		{60 * s, 0, 0, 30 * s},
		{100 * time.Millisecond, 0, 1, s},
		{100 * time.Millisecond, 0, 4, 8 * s},
		{s, 7 * s, 1, 7 * s},
		{s, time.Hour, 1, 30 * s},
	} {
		if got := resumePause(tt.retry, tt.after, tt.lost); got != tt.want {
			t.Errorf("%v: got %v", tt, got)
		}
	}
}

// The standing stream is never opened again sooner than its server asked.
func TestListenerWait(t *testing.T) {
	l := listener{retry: 2 * time.Second}
	for range 100 {
		if d := l.wait(listenPause); d != 2*time.Second {
			t.Fatalf("got %v", d)
		}
		if d := l.wait(10 * time.Second); d < 8*time.Second || d > 12*time.Second {
			t.Fatalf("got %v", d)
		}
	}
}
