package proxy

import (
	"fmt"
	"testing"

	"github.com/mcp-sidecar/mcp-sidecar/upstream"
)

func logged(level, data string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":%q}}`, level, data)
}

func (w *world) logs(server, level, data string) {
	w.front.Notify("default", upstream.Origin{Server: server}, "notifications/message", fmt.Appendf(nil, `{"level":%q,"data":%q}`, level, data))
}

// What a server logs outside of calls reaches the sessions that see it and want
// the level, cleaned; the wish for more is passed on once.
func TestLogsOutsideOfCalls(t *testing.T) {
	var wishes []string
	w := newWorld(t, func(o *Options) { o.LogLevel = func(l string) { wishes = append(wishes, l) } })
	id := w.open("2025-11-25")
	s := w.stream(t, id)
	w.logs("github", "debug", "too fine")
	w.logs("github", "warning", "a\u200bb")
	if got, want := s.next(), logged("warning", "ab"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	set := func(level string) {
		t.Helper()
		r := w.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"`+level+`"}}`, "Mcp-Session-Id", id)
		wantJSON(t, "setLevel", r.body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
	set("debug")
	w.logs("github", "debug", "fine")
	if got, want := s.next(), logged("debug", "fine"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	set("error")
	w.logs("github", "warning", "no more")
	w.front.Notify("default", upstream.Origin{Server: "github"}, "notifications/message", []byte(`"broken"`))
	w.front.Notify("default", upstream.Origin{Server: "github"}, "notifications/else", []byte(`{"level":"error"}`))
	w.logs("files", "error", "last")
	if got, want := s.next(), logged("error", "last"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if fmt.Sprint(wishes) != "[debug]" {
		t.Errorf("servers were asked for %v", wishes)
	}
}

// A session on one server's view hears that server only.
func TestLogsStayInTheirView(t *testing.T) {
	w := newWorld(t)
	r := w.send("POST", "/mcp/files", initialize)
	id := r.header.Get("Mcp-Session-Id")
	v, _ := w.keeper.View("default", "files")
	sess := w.front.sessions.find(id, callerOf(w), v)
	w.logs("github", "error", "of another")
	w.logs("files", "error", "mine")
	if n := len(sess.mail.out); n != 1 {
		t.Errorf("%d messages wait, want 1", n)
	}
	for range 2 * waitingLogs {
		w.logs("files", "error", "a flood")
	}
	if n := len(sess.mail.out); n != waitingLogs || w.front.Stats().Dropped == 0 {
		t.Errorf("%d messages wait, %d dropped", n, w.front.Stats().Dropped)
	}
}

func TestLogsOverStdio(t *testing.T) {
	w := newWorld(t)
	k := w.talk(t, t.Context())
	k.say(initialize)
	k.hear()
	w.logs("files", "error", "x")
	if got, want := k.hear(), logged("error", "x"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	k.in.Close()
	<-k.done
}
