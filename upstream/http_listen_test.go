package upstream

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// heardNotes collects notifications that belong to no call.
func heardNotes(e *env) chan string {
	out := make(chan string, 16)
	e.notify = func(method string, params []byte) { out <- method + " " + string(params) }
	return out
}

func waitNote(t *testing.T, ch chan string) string {
	t.Helper()
	select {
	case s := <-ch:
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was heard")
		return ""
	}
}

// What a legacy server says between calls is heard; its questions are declined;
// a stream that ended is opened again where it stopped.
func TestStandingStream(t *testing.T) {
	leaks(t)
	var opened atomic.Int64
	f := newFake(t, &fakeHTTP{legacy: true, get: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if opened.Add(1) == 1 {
			io.WriteString(w, "retry: 100\nid: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"+
				"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\ndata: junk\n\n")
			return
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":%q}}\n\n",
			r.Header.Get("Accept")+" from "+r.Header.Get("Last-Event-Id"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	var e env
	var noise atomic.Int64
	e.noise = func(n int) { noise.Add(int64(n)) }
	ch := heardNotes(&e)
	c := dialed(t, resolved(t, f.URL, nil), e)
	if got, want := waitNote(t, ch), "notifications/tools/list_changed "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := waitNote(t, ch), `notifications/message {"level":"info","data":"text/event-stream from e1"}`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	alive(t, c)
	if noise.Load() == 0 {
		t.Error("junk was not counted")
	}
	declined := false
	for _, m := range f.got("") {
		declined = declined || m.Error != nil && string(m.ID) == "7"
	}
	if !declined {
		t.Error("the question was not declined")
	}
}

// A server that offers no stream is asked once, and calls do not notice:
// envoyproxy/ai-gateway#1924, Kuadrant/mcp-gateway#1382.
func TestNoStandingStream(t *testing.T) {
	for name, status := range map[string]int{"405": 405, "404": 404, "400": 400, "page": 200, "401": 401} {
		t.Run(name, func(t *testing.T) {
			leaks(t)
			var asked atomic.Int64
			f := newFake(t, &fakeHTTP{legacy: true, get: func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(status)
				io.WriteString(w, "<html>")
			}})
			var e env
			ch := heardNotes(&e)
			c := dialed(t, resolved(t, f.URL, nil), e)
			for range 3 {
				alive(t, c)
			}
			for asked.Load() == 0 {
				alive(t, c)
			}
			time.Sleep(1500 * time.Millisecond) // longer than the first pause
			if n := asked.Load(); n != 1 || len(ch) != 0 {
				t.Errorf("asked %d times, %d notifications", n, len(ch))
			}
			alive(t, c)
		})
	}
}

// A server that ends each stream at once, that says no when it is asked again, or
// whose events have no ids is not asked in a hurry, and nobody downstream hears of
// it: modelcontextprotocol/go-sdk#1175.
func TestStandingStreamEnds(t *testing.T) {
	const note = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"
	for name, tt := range map[string]struct {
		again int // the status from the second time on
		kind  string
		most  int64 // times that it is asked
	}{
		"ends":         {200, "text/event-stream", 3},
		"405 later":    {405, "text/plain", 2},
		"404 later":    {404, "application/json", 2},
		"400 later":    {400, "text/html", 2},
		"page later":   {200, "text/html", 2},
		"503 later":    {503, "text/html", 3},
		"broken later": {200, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			var ids atomic.Int64
			f := newFake(t, &fakeHTTP{legacy: true, get: func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-Id") != "" {
					ids.Add(1)
				}
				switch {
				case asked.Add(1) == 1:
					w.Header().Set("Content-Type", "text/event-stream")
					io.WriteString(w, note)
					return
				case tt.kind == "":
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.again)
			}})
			var e env
			ch := heardNotes(&e)
			c := dialed(t, resolved(t, f.URL, nil), e)
			if got, want := waitNote(t, ch), "notifications/message {}"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				alive(t, c)
			}
			if n := asked.Load(); n < 2 || n > tt.most {
				t.Errorf("asked %d times, want 2 to %d", n, tt.most)
			}
			if len(ch) != 0 || ids.Load() != 0 {
				t.Errorf("heard %d notifications more, resumed %d times without an id", len(ch), ids.Load())
			}
		})
	}
}
